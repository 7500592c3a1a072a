"""Look at sessions in the terminal, as they happen and afterwards: every session of every server, and its traffic.

It reads the captures and nothing else: open it, close it or kill it at any time, no session notices.
"""

import argparse
import os
import sys
from pathlib import Path

from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import NOTHING_YET, all_captures, selected


def parser() -> argparse.ArgumentParser:
    """The arguments of `tui`."""
    made = Parser("tui", __doc__)
    made.add_argument(
        "capture", nargs="*", help="captures, folders or server names (default: all captures of this user)"
    )
    return made


def run(arguments: list[str]) -> int:
    """Show captures until the user has seen enough; 2 where there is no terminal to show them on."""
    options = parser().parse_args(arguments)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        return fail("tui needs a terminal; `mcpproxy show` prints a session, `mcpproxy ls` lists them")
    if os.environ.get("TERM") == "dumb":
        return fail("this terminal (TERM=dumb) can draw no screen; `mcpproxy show` prints a session")
    if "-" in options.capture:
        return fail("tui reads captures that are files, and not from stdin; `mcpproxy show -` prints one")
    with selected(options.capture, newest_only=False) as paths:
        return _show(paths if options.capture else None)


def _show(paths: list[Path] | None) -> int:
    """Show some captures, or all there are and will be."""
    # Textual takes a quarter of a second to load: only those pay that look.
    from mcpproxy.tui.app import TheApp

    named = paths or []
    app = TheApp(all_captures if paths is None else lambda: named, NOTHING_YET, named[0] if len(named) == 1 else None)
    app.run()
    return int(Exit.FINE) if app.return_code == 0 else int(Exit.USAGE)
