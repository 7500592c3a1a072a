"""A terminal on which a script types, recorded as an asciicast.

The format is version 2 of https://docs.asciinema.org/manual/asciicast/v2/: a header, then one line for each piece of
output, with its time in seconds. The times are those of the recording.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Final

import pyte

from tests.film.terminal_text import without_queries

PACE_S: Final = 0.07
"""The pause between two characters that are typed, in seconds."""
DEADLINE_S: Final = 60.0
"""How long to wait for a text, in seconds."""


class Cast:
    """A recorded terminal. `output` has pairs of a time in seconds since the start, and a text."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, size: tuple[int, int]) -> None:
        """Start a command in a folder on a terminal of so many columns and rows."""
        self.size = size
        self.output: list[tuple[float, str]] = []
        self._pending = b""
        self._terminal, terminal_of_command = pty.openpty()
        fcntl.ioctl(terminal_of_command, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._screen = pyte.Screen(*size)
        self._stream = pyte.Stream(self._screen)
        self._process = subprocess.Popen(
            command,
            stdin=terminal_of_command,
            stdout=terminal_of_command,
            stderr=terminal_of_command,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal_of_command)
        self._start_s = time.monotonic()

    def type(self, text: str) -> None:
        """Type a text as a person does."""
        for character in text:
            os.write(self._terminal, character.encode())
            self.pause(PACE_S)

    def press(self, key: str, pause_s: float = 1.0) -> None:
        """Press a key, and pause, so that a viewer sees what it did."""
        os.write(self._terminal, key.encode())
        self.pause(pause_s)

    def pause(self, seconds: float) -> None:
        """Record for so many seconds."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._record(left_s)

    def wait_for(self, text: str) -> None:
        """Record until the terminal shows a text.

        Raises:
            TimeoutError: it does not show it in time.
        """
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(text in line for line in self._screen.display):
            if time.monotonic() > deadline_s:
                screen_text = "\n".join(self._screen.display)
                raise TimeoutError(f"the terminal never showed {text}:\n{screen_text}")
            self._record(0.1)

    def end(self) -> None:
        """Close the terminal, which ends the command."""
        os.close(self._terminal)
        self._process.wait(DEADLINE_S)

    def write(self, path: Path, title: str) -> None:
        """Write the asciicast."""
        header = {"version": 2, "width": self.size[0], "height": self.size[1], "title": title}
        lines = [header, *([round(seconds, 3), "o", text] for seconds, text in self.output)]
        path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))

    def _record(self, timeout_s: float) -> None:
        if not select.select([self._terminal], [], [], timeout_s)[0]:
            return
        try:
            self._pending += os.read(self._terminal, 1 << 16)
        except OSError:
            return  # the command has ended
        # A character may be incomplete.
        text = self._pending.decode(errors="ignore")
        self._pending = self._pending[len(text.encode()) :]
        if text:
            self.output.append((time.monotonic() - self._start_s, text))
            self._stream.feed(without_queries(text))
