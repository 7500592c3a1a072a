"""A terminal on which `mcpproxy tui` runs as a user starts it, and the bytes that it received."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte

from tests.mcpproxy.tui.warm_workers import CAN_ADOPT, Forked

DEADLINE_S = 200.0
# What may reach the terminal: text, and the sequences with which Textual draws.
ALLOWED = re.compile(
    rb"\x1b(?:\[[0-9;:?<>=]*[A-Za-z$]|\[\?[0-9;]*\$p|\([B0]|[=>78cM])"  # colours, positions, modes
    rb"|\x1b\]22;[a-z]+\x07"  # the shape of the pointer
)


PROGRAM = (sys.executable, "-P", "-m", "mcpproxy")


class Terminal:
    """`mcpproxy tui` on a terminal that remembers every byte."""

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str],
        size: tuple[int, int],
        program: tuple[str, ...] = PROGRAM,
        *,
        start: type[subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> None:
        columns, rows = size
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.heard = b""
        self._unseen = 0
        """The position in `heard` up to which the screen shows it."""
        command = [*program, "tui", *arguments]
        self.process = start(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        self._theirs = theirs

    def after(self) -> Any:
        """The modes of the terminal now."""
        return termios.tcgetattr(self._theirs)

    @property
    def screen(self) -> pyte.Screen:
        """What the terminal shows; drawing takes a microsecond per byte, so it is done on demand."""
        # pyte knows neither colons in SGR nor queries, and prints what it does not know. A sequence may be incomplete.
        found = re.search(rb"\x1b(?:\[[^a-zA-Z]*)?\Z", self.heard[self._unseen :])
        end = len(self.heard) if found is None else self._unseen + found.start()
        drawn, self._unseen = self.heard[self._unseen : end], end
        self._stream.feed(
            re.sub(rb"\x1b\[[?>=<][0-9;]*[a-zA-Z]|\x1b\[[0-9;?]*\$p|\x1b\[[>=<][^a-zA-Z]*[a-zA-Z]", b"", drawn)
        )
        return self._screen

    def pass_over(self) -> None:
        """Skip what has been received, for example before another screen, which is drawn in full."""
        self._unseen = len(self.heard)

    def text(self) -> str:
        # Half of a wide character is an empty cell, on which pyte's own `display` fails. Textual may have drawn over
        # the other half, because it considers a flag wider than pyte does.
        screen = self.screen
        columns, rows = range(screen.columns), range(screen.lines)
        return "\n".join("".join(screen.buffer[y][x].data for x in columns) for y in rows)

    def listen(self, wait_s: float = 0.05) -> None:
        """Read what has arrived, until nothing more arrives for a while."""
        end = time.monotonic() + 2
        while time.monotonic() < end and select.select([self.ours], [], [], wait_s)[0]:
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                return
            if not chunk:
                return
            self.heard += chunk

    def until(self, condition: Callable[[], object], what: str = "it") -> None:
        end = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited for {what} in vain; the screen:\n{self.text()}\n{self.heard[-2000:]!r}")
            self.listen()

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())
        self.listen(0.2)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)


def starting() -> type[subprocess.Popen[bytes]]:
    """The class that starts the program: by a fork of a process that has loaded it, if the system supports that."""
    return Forked if CAN_ADOPT else subprocess.Popen


@contextmanager
def terminal(
    home: Path,
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    more: dict[str, str] | None = None,
    is_cold: bool = False,
) -> Iterator[Terminal]:
    """Run `mcpproxy tui` on a terminal, forked from a process that has loaded it, or as a user starts it."""
    root = str(Path(__file__).parents[3])
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": root}
    environment |= {"LC_ALL": "C.UTF-8", **(more or {})}
    made = Terminal(list(arguments), environment, size, start=subprocess.Popen if is_cold else starting())
    try:
        yield made
    finally:
        made.close()


def acts(heard: bytes) -> list[str]:
    """The parts of the output that are neither plain text nor Textual's drawing sequences."""
    rest = ALLOWED.sub(b"", heard)
    text = rest.decode("utf-8", "backslashreplace")
    odd = {char for char in text if not char.isprintable() and char not in "\r\n\x0f\x0e\x08\u3000"}
    return sorted({text[max(0, at - 20) : at + 20] for at, char in enumerate(text) if char in odd})


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    return [child for child, parent in pairs if parent == pid]


def is_running(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state != "" and not state.startswith("Z")
