"""Replays to a server that has a command: lines to and from the recorder in front of it."""

import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import IO, Final

from analysis.playback.incoming import MAX_MESSAGE_BYTES
from analysis.playback.single_line import as_single_line
from mcpproxy.replay.arrivals import Arrival, Arrivals
from mcpproxy.replay.conversation import Outgoing
from mcpproxy.replay.recorder_child import RecorderChild

_LINE_BYTES: Final = MAX_MESSAGE_BYTES + 1
"""How much of a line is kept."""
_WRITE_TIMEOUT_S: Final = 1.0
"""How long the server may take to read what waits at the end."""
_MAX_WAITING: Final = 256
"""The maximum number of units that wait until the server reads them."""


class StdioTransport:
    """The pipes of a server."""

    def __init__(self, command: Sequence[str], capture: str, name: str, limit: int | None = None) -> None:
        """Start a server through a recorder.

        Args:
            command: the server's command.
            capture: the path of the new capture.
            name: the server's name in it.
            limit: what the server may send, see `Arrivals`.

        Raises:
            OSError: the recorder cannot be started.
        """
        self.child = RecorderChild(["run", f"--capture={capture}", f"--name={name}", "--", *command])
        self._arrivals = Arrivals(limit)
        self._outbox: queue.Queue[bytes | None] = queue.Queue()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """Whether more can be sent now."""
        return self._outbox.qsize() < _MAX_WAITING

    def send(self, outgoing: Outgoing) -> str | None:
        """Send a unit of bytes as a line, behind those that wait; returns why it cannot be sent, or None."""
        line = as_single_line(outgoing.raw)
        if line is None:
            return "a line break in bytes that are not JSON would end the line"
        if line or outgoing.abandoned is None:
            self._outbox.put(line + b"\n")
        return None

    def next_arrival(self, timeout_s: float) -> Arrival | None:
        """Return what has come from the server, or None if nothing comes within a time in seconds."""
        return self._arrivals.get(timeout_s)

    def close(self) -> int:
        """Close the server's stdin, wait until it has ended, and return its exit status."""
        self._outbox.put(None)
        self._arrivals.close()
        self._writer.join(_WRITE_TIMEOUT_S)
        return self.child.end()

    def _write(self) -> None:
        # The server may have ended, or closed its stdin.
        with contextlib.suppress(OSError, ValueError):
            while (raw := self._outbox.get()) is not None:
                while raw:
                    raw = raw[self.child.stdin.write(raw) :]

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.child.stdout:
            _read_lines(self.child.stdout, self._arrivals)
        self._arrivals.put(Arrival(reason="the server closed its stdout", is_end=True))


def _read_lines(stream: IO[bytes], arrivals: Arrivals) -> None:
    is_oversized = False
    for line in iter(lambda: stream.readline(_LINE_BYTES), b""):
        is_whole = line.endswith(b"\n")
        if is_whole and not is_oversized:
            arrivals.put(Arrival(line[:-1]))
        else:
            arrivals.drop(line)
        # If nobody needs more, the rest is read all the same, so that a full pipe does not stop the recorder.
        if arrivals.is_excessive:
            return
        is_oversized = not is_whole
