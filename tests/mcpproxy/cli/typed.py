"""Commands as typed: a process each, with nothing of the user's own captures."""

import atexit
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, cast

from tests.harness import ROOT
from tests.warm import Forks

DEADLINE_S = 600
"""For hangs only: on a busy machine, a command that takes seconds takes minutes."""
LOADED_LATE: Final = frozenset({"run", "serve", "tui"})
"""Commands whose start is a part of what they promise."""


@cache
def _forks() -> Forks:
    made = Forks()
    atexit.register(made.close)
    return made


def _environment(changes: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCPPROXY_", "XDG_"))}
    return {**kept, "COLUMNS": "80", "LC_ALL": "C.UTF-8", **changes}


def mcpproxy(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """One command, run to its end, in a process that has loaded it already, where that can make no difference."""
    if LOADED_LATE.intersection(arguments[:1]) or any(
        name.startswith(("PYTHON", "LC_", "LANG")) and name != "PYTHONIOENCODING" for name in environment
    ):
        return cold(*arguments, stdin=stdin, cwd=cwd, **environment)
    return _forks().run(arguments, stdin, cwd, _environment(environment), DEADLINE_S)


def python(
    code: str, *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """Python code, run to its end in a process that has loaded the program; `sys.argv[1:]` are the arguments."""
    return _forks().run(arguments, b"", cwd or ROOT, _environment(environment), DEADLINE_S, code)


def program_of_forks() -> str:
    """The text of a program for shells that stands for `mcpproxy`."""
    return _forks().program()


def printed(*arguments: str, cwd: Path, environment: dict[str, str]) -> tuple[int, bytes]:
    """The exit code of a command in this environment, and what it prints to stdout and stderr together."""
    out, prints = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        pid = _forks().begin(arguments, (nothing, prints, prints), cwd, environment)
    finally:
        for stream in (nothing, prints):
            os.close(stream)
    with open(out, "rb") as file:
        output = file.read()
    return _forks().end(DEADLINE_S, pid), output


def cold(
    *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """One command, run to its end, that starts as it does for a user."""
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy", *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=_environment(environment),
        timeout=DEADLINE_S,
    )


def complaints(done: "subprocess.CompletedProcess[bytes]") -> bytes:
    """What a command has said on stderr beside which captures it reads."""
    return b"".join(line for line in done.stderr.splitlines(True) if not line.startswith(b"mcpproxy: reading "))


AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command that its terminal interrupts at Ctrl-C."""


class Started(subprocess.Popen[bytes]):
    """A command that runs in a process that has loaded it already."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        environment: dict[str, str],
        terminal: int | None = None,
        cwd: Path | None = None,
        code: str = "",
    ) -> None:
        """`terminal` is its controlling terminal, in place of pipes; `code` of Python runs in place of the command."""
        self.args = [*map(str, arguments)]
        self.returncode = cast("int", None)
        self.stdin = self.stdout = self.stderr = None
        if terminal is not None:
            self.pid = _forks().begin(arguments, (terminal,) * 3, cwd, environment, AT_A_TERMINAL)
            return
        (out, prints), (errors, complains) = os.pipe(), os.pipe()
        self.stdout, self.stderr = open(out, "rb"), open(errors, "rb")  # noqa: SIM115 - as of any Popen
        streams = (os.open(os.devnull, os.O_RDONLY), prints, complains)
        try:
            self.pid = _forks().begin(arguments, streams, cwd, environment, code)
        finally:
            for stream in streams:
                os.close(stream)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        with suppress(TimeoutError):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = DEADLINE_S) -> int:
        """Wait for its end."""
        if cast("int | None", self.returncode) is None:
            self.returncode = _forks().end(DEADLINE_S if timeout is None else timeout, self.pid)
        return self.returncode

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:  # noqa: A002
        """All that it prints from now on."""
        assert input is None
        assert self.stdout is not None
        assert self.stderr is not None
        with ThreadPoolExecutor(1) as pool:
            errors = pool.submit(self.stderr.read)
            output = self.stdout.read()
            self.wait(timeout)
            return output, errors.result()

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def __exit__(self, *_: object) -> None:
        self.wait()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def __del__(self) -> None:
        """It is waited for where it was started."""


@contextmanager
def started(*arguments: str | Path, code: str = "", **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One command, or `code` of Python in its place, that runs while the block does, and not longer."""
    if arguments[0] in LOADED_LATE:
        made = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(environment),
        )
    else:
        made = Started(arguments, _environment(environment), code=code)
    with made as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(
    *arguments: str, columns: int = 80, cwd: Path | None = None, typed: bytes = b"", **environment: str
) -> bytes:
    """All that a command sends to a terminal of so many columns, on which something is typed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = _environment({"TERM": "xterm", "NO_COLOR": "", "COLUMNS": str(columns), **environment})
    pid = _forks().begin(arguments, (theirs, theirs, theirs), cwd, variables)
    os.close(theirs)
    os.write(ours, typed)
    output = b""
    try:
        while True:
            output += os.read(ours, 65536)
    except OSError:
        _forks().end(DEADLINE_S, pid)
    finally:
        os.close(ours)
    return output
