"""The mock on stdio: reads lines from stdin, and writes what is due to stdout, and recorded stderr to stderr.

stdout is the protocol: nothing else is ever written there. For a client that writes much without reading, answers are
buffered; beyond the limit, nothing more is read until the client reads.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from analysis.playback.script import Script
from analysis.playback.single_line import as_single_line
from captures.limits import MAX_READER_JUDGED_BYTES
from mcpproxy.mock.conversation import PATIENCE_NS, Conversation
from mcpproxy.mock.errors import http_failure_response
from mcpproxy.mock.outgoing import Outgoing
from mcpproxy.mock.usage import Usage
from mcpproxy.wire.lines import LineSplitter

MAX_BUFFERED_BYTES: Final = 32 << 20
"""While more waits for the client to read, nothing more is read from it."""
MAX_UNSENT_BYTES: Final = 1 << 20
"""While more waits for the client to read, the conversation is not asked for more."""
_CHUNK_BYTES: Final = 64 << 10
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_HANG_UP: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class StdioEnd(Enum):
    """Why a mock on stdio has ended."""

    CLIENT = "client"
    """The client closed its side."""
    SERVER = "server"
    """The recorded server had ended by itself here."""


class StdioMock:
    """One client on stdio."""

    def __init__(
        self,
        script: Script,
        usage: Usage,
        begin_conversation: Callable[[Callable[[], None]], Conversation],
        on_complete: Callable[[], None],
    ) -> None:
        """Begin a conversation.

        Args:
            script: its script, which `run` lets grow.
            usage: counts what cannot be sent.
            begin_conversation: returns the conversation; called with a function that makes the mock look at it again,
                in any thread.
            on_complete: called once when the script has been read to its end.
        """
        self._script, self._usage, self._on_complete = script, usage, on_complete
        self._has_completed = False
        self._splitter = LineSplitter(MAX_READER_JUDGED_BYTES)
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._has_stdin = True
        self._is_woken = False
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._conversation = begin_conversation(self._wake)

    def run(self) -> StdioEnd:
        """Serve until either side ends; returns which one did.

        Raises:
            CaptureError: the capture cannot be read, or no longer.
        """
        if not self._script.is_complete:
            self._script.grow_in_thread(self._wake)
        try:
            return self._loop()
        except BrokenPipeError:
            return StdioEnd.CLIENT
        finally:
            self._conversation.close()

    def _wake(self) -> None:
        """Make the loop look at the conversation again; called in other threads."""
        if not self._is_woken:
            self._is_woken = True
            os.write(self._wake_writer, b"w")

    def _loop(self) -> StdioEnd:
        conversation = self._conversation
        while True:
            self._notice_completion()
            now_ns = time.monotonic_ns()
            self._put_due(now_ns if self._has_stdin else now_ns + PATIENCE_NS)
            self._write()
            if not self._unsent:
                if conversation.has_server_ended:
                    return StdioEnd.SERVER
                if not self._has_stdin and not conversation.is_reading_on and conversation.next_due_ns != 0:
                    return StdioEnd.CLIENT
            self._wait(now_ns)

    def _notice_completion(self) -> None:
        if self._script.is_complete and not self._has_completed:
            self._has_completed = True
            self._on_complete()

    # ---- writing

    def _put_due(self, now_ns: int) -> None:
        while self._unsent_bytes <= MAX_UNSENT_BYTES:
            outgoing = self._conversation.due(now_ns)
            if not outgoing:
                return
            for unit in outgoing:
                self._put(unit)

    def _put(self, unit: Outgoing) -> None:
        if unit.is_stderr:
            write_stderr_line(unit.raw)
            return
        if unit.event is not None:
            return
        raw = unit.raw
        if unit.failed_id:
            raw = http_failure_response(unit.failed_id, unit.http)
        if not raw and (unit.ends_request or unit.is_priming):
            return
        line = as_single_line(raw)
        if line is None:
            self._usage.unsendable_count += 1
            return
        self._unsent.append(memoryview(line + b"\n"))
        self._unsent_bytes += len(line) + 1

    def _write(self) -> None:
        """Write as much as the client takes without waiting."""
        while self._unsent and self._is_writable():
            first = self._unsent[0]
            # A pipe that is writable takes PIPE_BUF bytes at once; more could block.
            written = os.write(_STDOUT, first[: select.PIPE_BUF])
            self._unsent_bytes -= written
            if written == len(first):
                self._unsent.popleft()
            else:
                self._unsent[0] = first[written:]

    def _is_writable(self) -> bool:
        poll = select.poll()
        poll.register(_STDOUT, select.POLLOUT)
        return bool(poll.poll(0))

    # ---- reading

    def _wait(self, now_ns: int) -> None:
        """Wait until something can be read or written, or is due; take what was read."""
        poll = select.poll()
        is_reading = self._unsent_bytes <= MAX_BUFFERED_BYTES and self._conversation.pending_bytes <= MAX_BUFFERED_BYTES
        if self._has_stdin and is_reading:
            poll.register(_STDIN, select.POLLIN)
        if self._unsent:
            poll.register(_STDOUT, select.POLLOUT)
        poll.register(self._wake_reader, select.POLLIN)
        for descriptor, _ in poll.poll(self._timeout_ms(now_ns)):
            if descriptor == _STDIN:
                self._read()
            elif descriptor == self._wake_reader:
                self._is_woken = False
                os.read(self._wake_reader, _CHUNK_BYTES)

    def _timeout_ms(self, now_ns: int) -> float | None:
        due_ns = self._conversation.next_due_ns if self._unsent_bytes <= MAX_UNSENT_BYTES else None
        return None if due_ns is None else max(0.0, (due_ns - now_ns) / 1e6)

    def _read(self) -> None:
        chunk = os.read(_STDIN, _CHUNK_BYTES)
        now_ns = time.monotonic_ns()
        if not chunk:
            self._has_stdin = False
            pieces = self._splitter.finish()
        else:
            lines = self._splitter.feed_complete(chunk)
            if lines is not None:
                for line in lines:
                    self._receive(line, now_ns)
                return
            pieces = self._splitter.feed(chunk)
        for piece in pieces:
            if piece.part_number == 0:
                self._receive(piece.raw, now_ns)
            elif piece.part_number == 1:
                self._conversation.refuse_giant()

    def _receive(self, line: bytes, now_ns: int) -> None:
        if line and not line.isspace():
            self._conversation.receive(line, now_ns)


def write_stderr_line(line: bytes) -> None:
    """Write a line that the recorded server wrote to stderr; escaped if a terminal shows it."""
    if os.isatty(_STDERR):
        from mcpproxy.sanitise import sanitise

        line = sanitise(line.decode("utf-8", "replace"), None).encode("utf-8", "backslashreplace")
    try:
        os.write(_STDERR, line + b"\n")
    except OSError:
        return
