"""Child processes that run one of our modules: how to start them, talk to them over two pipes, and end them.

`PythonChild` is the parent's end; `take_pipes` and `write_all` are for the child's. Every child reads from its stdin
and ends when that does, so none outlives its parent, however the parent ends. What the messages look like is up to the
two modules that exchange them; `send` and `lines` serve those that use lines of JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_BOOT: Final = (
    "import sys; from importlib import import_module; "
    "name = sys.argv[1]; sys.path[:] = sys.argv[2:]; import_module(name).main()"
)
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables that some interpreters need to start."""
_PIECE: Final = 1 << 16
"""Bytes of one read."""


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PythonChild:
    """A process that runs `main()` of a module, in a process group of its own: Ctrl-C on a terminal is for us.

    Its modules come from where ours do, and from nowhere else. It inherits no descriptor but its pipes, and its stderr
    is discarded: it would be drawn across the screen.
    """

    def __init__(self, module: str, *, bare: bool = False) -> None:
        """Start it.

        Args:
            module: its full name.
            bare: give it no environment and no working directory of ours.

        Raises:
            OSError: the system cannot start a process.
        """
        ours = str(Path(__file__).parents[1])
        places = [ours, *(os.path.abspath(place) for place in sys.path if place)]
        # glibc reserves 64 MiB of address space for each thread that allocates, unless it is told not to.
        alone = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"MALLOC_ARENA_MAX": "2"}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, module, *dict.fromkeys(places)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/" if bare else None,
            env=alone if bare else None,
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._owner = os.getpid()
        self._start_of_line = bytearray()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def stdin(self) -> int:
        """The descriptor that it reads from.

        Raises:
            ValueError: it is closed.
        """
        return self._stdin.fileno()

    @property
    def stdout(self) -> int:
        """The descriptor that it writes to.

        Raises:
            ValueError: it is closed.
        """
        return self._stdout.fileno()

    @property
    def is_ours(self) -> bool:
        """Whether this process started it, and not one that we were forked from."""
        return self._owner == os.getpid()

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def send(self, message: object) -> None:
        """Write a message as a line of JSON.

        Raises:
            OSError: it has ended.
            ValueError: its stdin is closed.
        """
        # Not orjson: a path may hold bytes that are not UTF-8.
        write_all(self.stdin, json.dumps(message).encode() + b"\n")

    def close_stdin(self) -> None:
        """Tell it that nothing more will come."""
        with suppress(OSError):
            self._stdin.close()

    def read_lines(self, longest: int) -> list[bytes] | None:
        """Wait for output once; the lines that are complete now, without line ends, or None at the end.

        Args:
            longest: bytes of a line.

        Raises:
            ValueError: a line is longer, or its stdout is closed.
        """
        data = os.read(self.stdout, _PIECE)
        if not data:
            return None
        start, newline, _ = data.rpartition(b"\n")
        if not newline:
            self._start_of_line += data
            lines = []
        else:
            lines = bytes(self._start_of_line + start).split(b"\n")
            self._start_of_line = bytearray(data[len(start) + 1 :])
        if len(self._start_of_line) > longest:
            raise ValueError(f"a line of more than {longest} bytes")
        return lines

    def lines(self, longest: int) -> Iterator[bytes]:
        """Its output by lines, until it ends; then the pipe is closed. Raises what `read_lines` raises."""
        with self._stdout:
            while (lines := self.read_lines(longest)) is not None:
                yield from lines

    def kill(self) -> None:
        """Kill it, whatever it is doing; its pipes stay open."""
        self._process.kill()

    def wait(self) -> int:
        """Wait until it has ended; its exit status, or the negative number of the signal that killed it."""
        return self._process.wait()

    def end(self) -> None:
        """Kill it and wait for it. Its output can still be read: another thread may be doing that."""
        self.kill()
        self.wait()
        self.close_stdin()

    def close(self) -> None:
        """Kill it, close its pipes, and wait for it; a child of the process that we were forked from is left alone."""
        if self.is_ours:
            self.end()
            self._stdout.close()


def take_pipes() -> tuple[int, int]:
    """In a child: its stdin and stdout under other numbers.

    Whatever a library prints then goes nowhere, and so does not look like a message; and no code that opens the
    standard streams by name reads what the parent sends.
    """
    requests, answers, nowhere = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    return requests, answers


def write_all(fd: int, data: bytes) -> None:
    """Write all of some bytes to a descriptor that blocks.

    Raises:
        OSError: there is no reader, or the disk is full.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
