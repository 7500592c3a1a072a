"""The parser of every command but `run`: its errors are one line on stderr, as all of ours are."""

import argparse
from typing import NoReturn

from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.sanitise import sanitise


class Parser(argparse.ArgumentParser):
    """Arguments of one command. Options are never guessed from their first letters: a later one would change them."""

    def __init__(self, command: str, description: str | None) -> None:
        """A parser without arguments yet; `description` is the module's own."""
        super().__init__(
            f"mcpproxy {command}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """End with one line about what is wrong, where argparse would print its usage, too."""
        raise SystemExit(fail(f"{sanitise(message)}; see {self.prog} --help", Exit.USAGE))
