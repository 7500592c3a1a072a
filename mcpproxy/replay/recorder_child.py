"""The child process that records a replay: `mcpproxy run` or `mcpproxy serve`, in front of the server."""

import contextlib
import io
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, Final

from mcpproxy.relay.stdio import GRACE_S, MAX_IGNORED_SIGNAL_S, MAX_UNREAD_S

RECORDER: Final = (sys.executable, "-P", "-m", "mcpproxy")
_TETHERED_RECORDER: Final = (sys.executable, "-P", "-m", "mcpproxy.replay.tethered")
"""Ends with its stdin, as `run` does by itself."""
_END_TIMEOUT_S: Final = 5.0
"""How long the child may take to end after its stdin has ended."""
_SIGNAL_TIMEOUT_S: Final = MAX_IGNORED_SIGNAL_S + GRACE_S + MAX_UNREAD_S + GRACE_S + _END_TIMEOUT_S
"""How long it may take after a signal: all that it does itself to end a server, so that the capture is whole."""
_MAX_LINES: Final = 5
_MAX_LINE_BYTES: Final = 4 << 10


class RecorderChild:
    """A running recorder. Ctrl-C does not reach it: the code that starts it must end it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Start mcpproxy with these arguments.

        Raises:
            OSError: it cannot be started.
        """
        self._process = subprocess.Popen(
            [*(_TETHERED_RECORDER if arguments[0] == "serve" else RECORDER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert isinstance(self._process.stdin, io.BufferedWriter)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # Without a buffer, it can be closed while a thread waits until the server reads.
        self.stdin: io.RawIOBase = self._process.stdin.detach()
        self.stdout: IO[bytes] = self._process.stdout
        self._stderr: IO[bytes] = self._process.stderr
        self._last_lines: deque[bytes] = deque(maxlen=_MAX_LINES)
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()

    def _read_stderr(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._stderr:
            for line in iter(lambda: self._stderr.readline(_MAX_LINE_BYTES), b""):
                if line.strip():
                    self._last_lines.append(line.strip())

    @property
    def last_lines(self) -> list[bytes]:
        """The last lines on stderr, of the recorder and of the server. Untrusted."""
        return list(self._last_lines)

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs; minus the number of the signal that ended it."""
        return self._process.poll()

    def await_end(self, timeout_s: float) -> None:
        """Wait until it has ended and its stderr was read, but for each at most a time in seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._stderr_reader.join(timeout_s)

    def end(self, signals: Sequence[int] = (0, signal.SIGTERM, signal.SIGKILL)) -> int:
        """End the child, and return its exit status.

        Args:
            signals: what is sent one after the other until it has ended, each with some time to react; 0 for nothing
                but the end of its stdin.
        """
        with contextlib.suppress(OSError, ValueError):
            self.stdin.close()
        for number in signals:
            if number:
                self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_SIGNAL_TIMEOUT_S if number else _END_TIMEOUT_S)
                break
        self._process.wait()
        self._stderr_reader.join(_END_TIMEOUT_S)
        return self._process.returncode
