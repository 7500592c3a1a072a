"""The parser of every command but `run`: its errors are one line on stderr, as all of ours are.

What a command prints, its help included, comes after its arguments were read. So stdout is made ready here.
"""

import argparse
from typing import Any, NoReturn

from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.output import set_up
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

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options; from here on stdout takes all that will be printed."""
        set_up("text")
        options = super().parse_args(args, namespace)
        set_up(getattr(options, "format", "text"))
        return options

    def error(self, message: str) -> NoReturn:
        """End with one line about what is wrong, where argparse would print its usage, too."""
        raise SystemExit(fail(f"{sanitise(message)}; see {self.prog} --help", Exit.USAGE))
