"""Runs commands as typed: each in its own process, without access to the user's captures."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.harness import ROOT
from tests.warm import DEADLINE_S, Started, forks

LOADED_LATE: Final = frozenset({"run", "serve", "tui"})
"""Commands whose start-up is part of what they promise."""


def surroundings(changes: dict[str, str]) -> dict[str, str]:
    """Returns the environment of a command: that of the tests without mcpproxy's variables, plus these changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCPPROXY_", "XDG_"))}
    return {**kept, "COLUMNS": "80", "LC_ALL": "C.UTF-8", **changes}


def mcpproxy(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end, in a process that has loaded it already if that can make no difference."""
    if LOADED_LATE.intersection(arguments[:1]) or any(
        name.startswith(("PYTHON", "LC_", "LANG")) and name != "PYTHONIOENCODING" for name in environment
    ):
        return cold(*arguments, stdin=stdin, cwd=cwd, **environment)
    return forks().run(arguments, stdin, cwd, surroundings(environment), DEADLINE_S)


def python(
    code: str, *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run Python code to its end in a process that has loaded the program; `sys.argv[1:]` are the arguments."""
    return forks().run(arguments, b"", cwd or ROOT, surroundings(environment), DEADLINE_S, code)


def program_of_forks() -> str:
    """Returns the text of a program that stands in for `mcpproxy` in shells."""
    return forks().program()


def printed(*arguments: str, cwd: Path, environment: dict[str, str]) -> tuple[int, bytes]:
    """Run a command in this environment; returns its exit code, and its stdout and stderr together."""
    out, prints = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        pid = forks().begin(arguments, (nothing, prints, prints), cwd, environment)
    finally:
        for stream in (nothing, prints):
            os.close(stream)
    with open(out, "rb") as file:
        output = file.read()
    return forks().end(DEADLINE_S, pid), output


def cold(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end; it starts as it does for a user."""
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy", *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=surroundings(environment),
        timeout=DEADLINE_S,
    )


def complaints(done: "subprocess.CompletedProcess[bytes]") -> bytes:
    """Returns what a command wrote to stderr, except which captures it reads."""
    return b"".join(line for line in done.stderr.splitlines(True) if not line.startswith(b"mcpproxy: reading "))


@contextmanager
def started(*arguments: str | Path, code: str = "", **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command, or Python `code` in its place, while the block runs."""
    if arguments[0] in LOADED_LATE:
        made = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=surroundings(environment),
        )
    else:
        made = Started(arguments, surroundings(environment), code=code)
    with made as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(
    *arguments: str, columns: int = 80, cwd: Path | None = None, typed: bytes = b"", **environment: str
) -> bytes:
    """Run a command on a terminal of that many columns, type something, and return the output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = surroundings({"TERM": "xterm", "NO_COLOR": "", "COLUMNS": str(columns), **environment})
    pid = forks().begin(arguments, (theirs, theirs, theirs), cwd, variables)
    os.close(theirs)
    os.write(ours, typed)
    output = b""
    try:
        while True:
            output += os.read(ours, 65536)
    except OSError:
        forks().end(DEADLINE_S, pid)
    finally:
        os.close(ours)
    return output
