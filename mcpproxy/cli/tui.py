"""Show sessions in the terminal, live and recorded: every session of every server, with its traffic.

It only reads captures, so opening, closing or killing it never affects a session.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from captures.listing import find_captures
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import (
    ALL_CAPTURES,
    NOTHING_YET,
    CaptureScope,
    add_captures,
    check_names,
    present_captures,
    scope_of,
)
from mcpproxy.sanitise import sanitise

if TYPE_CHECKING:
    from mcpproxy.clients.overview import RoutedServer

DEMO_END_TIMEOUT_S: Final = 30
"""How long the demo may take to end; it waits for its server."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `tui`."""
    parser = Parser("tui", __doc__)
    parser.epilog = (
        "Colours of rows and keys of your own: colours.toml and keys.toml in ~/.config/mcpproxy; `?` shows how."
    )
    add_captures(parser, every=True, stdin=False)
    parser.add_argument("--demo", action="store_true", help="show a bundled session, played as if it were live")
    return parser


def run(arguments: list[str]) -> int:
    """Show captures until the user leaves; returns 2 if there is no terminal, or after a fault of the screens."""
    options = parser().parse_args(arguments)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        return fail("tui needs a terminal; `mcpproxy show` prints a session, `mcpproxy ls` lists them")
    if os.environ.get("TERM") == "dumb":
        return fail("this terminal (TERM=dumb) cannot draw screens; `mcpproxy show` prints a session")
    if "-" in options.capture:
        return fail("tui cannot read a capture from stdin; `mcpproxy show -` prints it")
    if options.demo:
        return fail("--demo plays its own captures; leave out the others") if options.capture else _show_demo()
    return _show(options.capture, scope_of(options, every=True))


def _show_demo() -> int:
    """Show demo sessions while they are recorded, and delete them at the end."""
    with tempfile.TemporaryDirectory(prefix="mcpproxy-demo-", ignore_cleanup_errors=True) as folder:
        # The player ends when its stdin is closed, even if this process is killed, and then removes the directory.
        player = subprocess.Popen(
            [sys.executable, "-P", "-m", "mcpproxy.demo.play", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return _run_app(lambda: find_captures(Path(folder)), "The demo is about to begin …\n")
        finally:
            assert player.stdin is not None
            player.stdin.close()
            try:
                player.wait(DEMO_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                player.kill()
                player.wait()


def _show(arguments: list[str], scope: CaptureScope) -> int:
    """Show the captures that the arguments name, including those that begin later; returns the exit code."""
    check_names(arguments)

    def current_captures() -> list[Path]:
        return present_captures(arguments, scope)

    captures = current_captures()
    empty_text = _empty_text(arguments, scope)
    if arguments and not captures:
        return _run_app(current_captures, empty_text)
    if arguments:
        return _run_app(current_captures, empty_text, captures[0] if len(captures) == 1 else None)
    from mcpproxy.clients.overview import routed_servers

    return _run_app(current_captures, empty_text, routed=routed_servers)


def _empty_text(arguments: list[str], scope: CaptureScope) -> str:
    """Return why no session is listed, and how many a wider scope would list."""
    names, next_text = ", ".join(map(sanitise, arguments)), "The next one will be listed here when it begins.\n"
    count = len(present_captures(arguments, ALL_CAPTURES)) if arguments or scope.is_narrowed else 0
    if count and scope.is_narrowed:
        command = " ".join(["mcpproxy tui", *map(sanitise, arguments)])
        of_names = f" of {names}" if names else ""
        return f"No session{of_names} {scope.requirement}; {count:,} recorded: {command}\n{next_text}"
    if arguments and not count:
        others = len(present_captures([], ALL_CAPTURES))
        others_text = f"; {others:,} of others recorded: mcpproxy tui" if others else "."
        return f"There is no capture of {names} yet{others_text}\n{next_text}"
    return NOTHING_YET + "or watch one from here:      mcpproxy tui --demo\n"


def _run_app(
    find: Callable[[], list[Path]],
    nothing: str,
    first: Path | None = None,
    routed: "Callable[[], Sequence[RoutedServer]] | None" = None,
) -> int:
    # Loading Textual takes a quarter of a second; other commands should not wait for it.
    import asyncio

    if not os.environ.get("NO_COLOR"):
        # An empty value permits colours (no-color.org), but Textual would then use none.
        os.environ.pop("NO_COLOR", None)
    from mcpproxy.tui.app import TuiApp
    from mcpproxy.tui.shutdown import EXIT_CODES, end_by_signal, exit_on_signals

    app = TuiApp(find, nothing, first, routed)

    async def run_app() -> None:
        with exit_on_signals(lambda code: app.exit(return_code=code)):
            await app.run_async()

    asyncio.run(run_app())
    if app.fault is not None:
        return fail(f"tui ended because of a fault of its own ({app.fault}); no session is affected")
    code = app.return_code or 0
    if code in EXIT_CODES:
        # If the terminal has been closed, Python could not flush buffered output, and would exit with 120.
        with open(os.devnull, "wb") as null:
            for stream in (1, 2):
                os.dup2(null.fileno(), stream)
        end_by_signal(code)
    return code if code == 0 or code in EXIT_CODES else int(Exit.USAGE)
