"""Starts a server that has a command, through the recorder, speaks to it as a client would, and ends it.

This module writes the few messages itself instead of using the official SDK, which would add a dozen dependencies, and
which hides what doctor looks for, such as lines on stdout that are not messages and the time of the first byte.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from analysis.protocol.error_codes import METHOD_NOT_FOUND
from analysis.protocol.revisions import FIRST_MODERN_RANK, REVISIONS
from captures.paths import SUFFIX
from mcpproxy import __version__

INITIALIZE_PARAMS: Final[dict[str, Any]] = {
    "protocolVersion": REVISIONS[FIRST_MODERN_RANK - 1],
    "capabilities": {},
    "clientInfo": {"name": "mcpproxy-doctor", "version": __version__},
}
"""The params of `initialize`, in the newest revision that has this method."""

CANNOT_CREATE: Final = 73
"""The exit status of a recorder that could not create its capture."""
MAX_STDERR_LINES: Final = 5
MAX_NOISE_LINES: Final = 5
"""The maximum number of lines on stdout that are kept because they are not messages."""
_MAX_LINE_BYTES: Final = 16 << 20
_MAX_TEXT_CHARS: Final = 1000
"""The maximum length of a text that is kept for display, in bytes or characters."""
_MAX_STDERR_LINE_BYTES: Final = 4096
_MAX_QUEUED_LINES: Final = 100
_END_TIMEOUT_S: Final = 5.0
"""How long a server may take to end after its stdin is closed, and again after SIGTERM; then it gets SIGKILL."""


_running_processes: Final[set[subprocess.Popen[bytes]]] = set()
interruption: Final = threading.Event()
"""Set when no more servers may be started."""


@dataclass(slots=True)
class ProcessAttempt:
    """The outcome of starting a server and speaking to it."""

    launch_error: str = ""
    """Why the recorder could not be started."""
    cannot_record: str = ""
    """Why the recorder could not create its capture, and therefore started nothing."""
    first_byte_s: float | None = None
    """The time from the start to the first byte on stdout, in seconds."""
    initialize_s: float | None = None
    """The time from the start to the response to `initialize`, in seconds."""
    list_s: float | None = None
    """The time from the start to the response to `tools/list` or, for a server without tools, to `initialize`."""
    result: dict[str, Any] | None = None
    """The result of `initialize`."""
    tools: int | None = None
    error: str = ""
    """The text of an error response."""
    noise_lines: list[str] = field(default_factory=list)
    """Lines on stdout that are not messages."""
    is_closed: bool = False
    """Whether the server closed its stdout but kept running."""
    status: int | None = None
    """The exit status, if the server ended by itself."""
    stderr: list[str] = field(default_factory=list)
    """The last lines on stderr."""


def attempt_command(
    recorder: Sequence[str], words: Sequence[str], variables: dict[str, str], folder: Path, limit_s: float
) -> ProcessAttempt:
    """Start a server, speak to it, and end it together with all processes that it started.

    Args:
        recorder: the command of mcpproxy.
        words: the server's command.
        variables: the server's environment.
        folder: the directory in which the server starts.
        limit_s: how long the server may take to answer, in seconds.
    """
    try:
        capture_folder = tempfile.TemporaryDirectory(prefix="mcpproxy-doctor-")
    except OSError as error:
        return ProcessAttempt(cannot_record=f"cannot create a temporary directory: {error.strerror or error}")
    outcome = ProcessAttempt()
    with capture_folder as folder_name:
        command = [*recorder, "run", "--capture", f"{folder_name}{os.sep}", "--", *words]
        start_s = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=variables,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            outcome.launch_error = error.strerror or str(error)
            return outcome
        _running_processes.add(process)
        if interruption.is_set():
            process.terminate()
        try:
            _converse(process, outcome, start_s, limit_s)
        finally:
            _end_process(process)
            _running_processes.discard(process)
        # A server may exit with the same status, but then there is a capture.
        if outcome.status == CANNOT_CREATE and not any(name.endswith(SUFFIX) for name in os.listdir(folder_name)):
            outcome.cannot_record = "; ".join(line.removeprefix("mcpproxy: ") for line in outcome.stderr)
    return outcome


def terminate_all() -> None:
    """Terminate all running servers, which ends the threads that speak to them."""
    interruption.set()
    for process in list(_running_processes):
        with contextlib.suppress(OSError):
            process.terminate()


class _OutputReader:
    """Reads stdout line by line, and the end of stderr, in threads."""

    def __init__(self, process: subprocess.Popen[bytes], seen: ProcessAttempt, began: float) -> None:
        self.lines: queue.Queue[bytes | None] = queue.Queue(_MAX_QUEUED_LINES)
        self.is_done = False
        self._outcome = seen
        self._start_s = began
        assert process.stdout is not None
        assert process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._read_stdout, process.stdout), daemon=True),
            threading.Thread(target=self._read, args=(self._read_stderr, process.stderr), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, read_stream: Callable[[IO[bytes]], None], stream: IO[bytes]) -> None:
        # Another thread may close the stream.
        with contextlib.suppress(OSError, ValueError):
            read_stream(stream)

    def _read_stdout(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(_MAX_LINE_BYTES), b""):
            if self._outcome.first_byte_s is None:
                self._outcome.first_byte_s = time.monotonic() - self._start_s
            if not self._put(line):
                return
        self._put(None)

    def _put(self, line: bytes | None) -> bool:
        """Queue a line, blocking a server that prints without end; returns False if no more lines are needed."""
        while not self.is_done:
            with contextlib.suppress(queue.Full):
                self.lines.put(line, timeout=0.1)
                return True
        return False

    def _read_stderr(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(_MAX_STDERR_LINE_BYTES), b""):
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._outcome.stderr = [*self._outcome.stderr, text[:_MAX_TEXT_CHARS]][-MAX_STDERR_LINES:]

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(1.0)


def _converse(process: subprocess.Popen[bytes], outcome: ProcessAttempt, start_s: float, limit_s: float) -> None:
    reader = _OutputReader(process, outcome, start_s)
    deadline_s = start_s + limit_s
    answer = _request(process, reader, outcome, deadline_s, 1, "initialize", INITIALIZE_PARAMS)
    if answer is not None:
        outcome.initialize_s = outcome.list_s = time.monotonic() - start_s
        result = answer.get("result")
        if isinstance(result, dict) and result.get("protocolVersion") in REVISIONS:
            outcome.result = result
            _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"}, deadline_s)
            _list_tools(process, reader, outcome, deadline_s, start_s)
        else:
            outcome.error = _error_text(answer)
    if process.poll() is not None or answer is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            outcome.status = process.wait(0.2 if answer is None and time.monotonic() >= deadline_s else 2.0)
        outcome.is_closed = outcome.status is None and time.monotonic() < deadline_s
    reader.is_done = True
    if outcome.status is not None:
        reader.wait()


def _list_tools(
    process: subprocess.Popen[bytes], reader: _OutputReader, outcome: ProcessAttempt, deadline_s: float, start_s: float
) -> None:
    capabilities = (outcome.result or {}).get("capabilities")
    if not isinstance(capabilities, dict) or "tools" not in capabilities:
        return
    answer = _request(process, reader, outcome, deadline_s, 2, "tools/list", {})
    if answer is None:
        outcome.error = "tools/list was not answered"
        return
    outcome.list_s = time.monotonic() - start_s
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list):
        outcome.tools = len(tools)
    else:
        outcome.error = f"tools/list: {_error_text(answer)}"


def _request(
    process: subprocess.Popen[bytes],
    reader: _OutputReader,
    outcome: ProcessAttempt,
    deadline_s: float,
    number: int,
    method: str,
    params: dict[str, Any],
) -> dict[str, Any] | None:
    """Send a request; returns the response, or None if there was none in time."""
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, deadline_s)
    while (remaining_s := deadline_s - time.monotonic()) > 0:
        try:
            line = reader.lines.get(timeout=remaining_s)
        except queue.Empty:
            return None
        if line is None:
            return None
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            if len(outcome.noise_lines) < MAX_NOISE_LINES:
                outcome.noise_lines.append(line[:_MAX_TEXT_CHARS].decode("utf-8", "replace").strip())
        elif message.get("id") == number and "method" not in message:
            return message
        elif "method" in message and "id" in message:
            refusal = {"code": METHOD_NOT_FOUND, "message": "not supported"}
            _send(process, {"jsonrpc": "2.0", "id": message["id"], "error": refusal})
    return None


def _send(process: subprocess.Popen[bytes], message: dict[str, Any], deadline_s: float = 0.0) -> None:
    """Send a message; if the server does not read it before the deadline, drop the message."""
    assert process.stdin is not None
    data, fd = json.dumps(message).encode() + b"\n", process.stdin.fileno()
    if len(data) > select.PIPE_BUF:
        return  # only a response to a request with an id longer than a page is that long
    # A pipe accepts so few bytes either completely or not at all.
    with contextlib.suppress(OSError, ValueError):
        os.set_blocking(fd, False)
        while True:
            try:
                os.write(fd, data)
            except BlockingIOError:
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0:
                    return
                select.select([], [fd], [], remaining_s)
            else:
                return


def _error_text(answer: dict[str, Any]) -> str:
    error = answer.get("error")
    if isinstance(error, dict):
        return (
            f"{str(error.get('message', ''))[:_MAX_TEXT_CHARS]} ({str(error.get('code', 'no code'))[:_MAX_TEXT_CHARS]})"
        )
    return f"unexpected result: {json.dumps(answer.get('result'))[:200]}"


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Close the server's stdin, then terminate the recorder; its guard ends the processes that the server started."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    for signal_number in (0, signal.SIGTERM, signal.SIGKILL):
        if signal_number:
            process.send_signal(signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_TIMEOUT_S)
            break
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
