"""Record a bundled MCP server that misbehaves on purpose, and show what happened.

A small scripted client and a small real server talk through `mcpproxy run`, first with a handshake, then in the
revision that has none. The server makes a handful of mistakes, so that the recording has something to show. Nothing
leaves this machine.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from captures.file import choose_path
from captures.paths import captures_root
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.demo.client import SilentError, converse
from mcpproxy.demo.faults import FAULTS
from mcpproxy.sanitise import sanitise

NAME: Final = "demo"
"""The server name of the capture."""

_EXIT_CODES: Final = {int(Exit.CANNOT_CREATE): Exit.CANNOT_CREATE}


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `demo`."""
    parser = Parser("demo", __doc__)
    parser.add_argument(
        "--capture", metavar="DIR", help="record to a new file in DIR (default: where `mcpproxy run` records)"
    )
    return parser


def run(arguments: list[str]) -> int:
    """Record the conversation, show it, and suggest what to try next.

    Raises:
        CaptureError: there is no directory for the capture.
    """
    directory = parser().parse_args(arguments).capture
    path = _new_capture(directory)
    status, problem = _record(path)
    if problem:
        return fail(f"the demo could not be recorded: {problem}", _EXIT_CODES.get(status, Exit.USAGE))
    from mcpproxy.cli import show

    exit_code = show.run([str(path)])
    sys.stdout.flush()
    sys.stderr.write(_closing_text(path, is_kept_elsewhere=directory is not None))
    return exit_code


def _new_capture(directory: str | None) -> Path:
    folder = None if directory is None else os.path.join(directory, "")
    default = "" if folder is not None else os.path.join(captures_root(), NAME)
    return Path(choose_path(folder, default, time.time_ns())).absolute()


def _record(path: Path) -> tuple[int, str | None]:
    """Have the client talk to the faulty server through `mcpproxy run`; returns the exit status and any problem."""
    python = [sys.executable, "-P", "-m"]
    recorder = [*python, "mcpproxy", "run", "--name", NAME, "--capture", str(path)]
    with tempfile.TemporaryFile() as stderr:
        try:
            status = converse([*recorder, "--", *python, "mcpproxy.demo.server", "--faulty"], stderr)
            problem = f"the recorder ended with {status}" if status else None
        except (SilentError, OSError) as error:
            status, problem = int(Exit.USAGE), str(error)
        stderr.seek(0)
        stderr_text = stderr.read(65536).decode("utf-8", "replace").strip()
    return status, f"{problem}: {sanitise(stderr_text, 400)}" if problem and stderr_text else problem


def _closing_text(path: Path, *, is_kept_elsewhere: bool) -> str:
    path_text = sanitise(str(path), 4096)
    program = sanitise(_own_command(), 4096)
    capture_word = sanitise(shlex.quote(str(path)), 4096) if is_kept_elsewhere else NAME
    install_hint = (
        "" if _is_installed() else "\nClients will start mcpproxy from where it is, so install it first: pipx install ."
    )
    faults = "\n".join(f"  {number}: {fault.description}" for number, fault in FAULTS.items())
    return f"""
What the server did on purpose, in answer to
{faults}

The capture is {path_text}
Try next:
  {program} tui {capture_word}
  {program} check {capture_word}
  {program} stats {capture_word}
  {program} show --json {capture_word}
  {program} verify {capture_word}
  {program} install    to record the servers of your own MCP clients{install_hint}
"""


def _is_installed() -> bool:
    """Whether this program is permanently installed: not in the virtual environment of a checkout."""
    return not Path(sys.prefix).with_name("pyproject.toml").exists()


def _own_command() -> str:
    """Return the command that starts this program: plain `mcpproxy` only if that is the same program in the PATH."""
    argv0, path_program = sys.argv[0], shutil.which("mcpproxy")
    if os.path.basename(argv0) == "__main__.py":
        return "mcpproxy" if path_program else shlex.join([sys.executable, "-m", "mcpproxy"])
    is_same = path_program is not None and os.path.exists(argv0) and os.path.samefile(path_program, argv0)
    return "mcpproxy" if is_same else shlex.quote(argv0)
