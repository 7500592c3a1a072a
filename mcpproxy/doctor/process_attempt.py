"""Starts a server that has a command, through the recorder, speaks to it as a client would, and ends it.

The few messages are written here and not by the official SDK: it is not among mcpproxy's dependencies (it brings a
dozen more packages), and it hides what doctor looks for, such as lines on stdout that are not messages and the time of
the first byte.
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
from analysis.protocol.revisions import MODERN, REVISIONS
from captures.paths import SUFFIX
from mcpproxy import __version__

HELLO: Final[dict[str, Any]] = {
    "protocolVersion": REVISIONS[MODERN - 1],
    "capabilities": {},
    "clientInfo": {"name": "mcpproxy-doctor", "version": __version__},
}
"""The params of `initialize`, in the newest revision that has one."""

CANNOT_CREATE: Final = 73
"""The exit status of a recorder that could not create its capture."""
STDERR_LINES: Final = 5
NOISE_LINES: Final = 5
"""How many lines on stdout that are not messages are kept."""
_LINE: Final = 16 << 20
_TEXT: Final = 1000
"""How much of a line is kept for display, in bytes or characters."""
_STDERR_LINE: Final = 4096
_LINES: Final = 100
_END_S: Final = 5.0
"""How long a server may take to end once its stdin is closed; then it gets TERM, and KILL after as long again."""


_running: Final[set[subprocess.Popen[bytes]]] = set()
interrupted: Final = threading.Event()
"""Set when no more servers may be started."""


@dataclass(slots=True)
class Attempt:
    """The outcome of one start."""

    launch_error: str = ""
    """Why the recorder could not start it."""
    cannot_record: str = ""
    """Why the recorder could not create its capture, and started nothing."""
    first_byte_s: float | None = None
    """Seconds from the start to the first byte on stdout."""
    initialize_s: float | None = None
    """Seconds from the start to the answer to `initialize`."""
    list_s: float | None = None
    """Seconds from the start to the answer to `tools/list`, or to that of `initialize` if it has no tools."""
    result: dict[str, Any] | None = None
    """The result of `initialize`."""
    tools: int | None = None
    error: str = ""
    """The text of an error response."""
    noise: list[str] = field(default_factory=list)
    """Lines on stdout that are not messages."""
    is_closed: bool = False
    """Whether it closed its stdout, and kept running."""
    status: int | None = None
    """The exit status, if it ended by itself."""
    stderr: list[str] = field(default_factory=list)
    """Its last lines on stderr."""


def attempt(
    recorder: Sequence[str], words: Sequence[str], variables: dict[str, str], folder: Path, limit_s: float
) -> Attempt:
    """Start a server, speak to it, and end it with all that it started.

    Args:
        recorder: the command of mcpproxy.
        words: the server's command.
        variables: its environment.
        folder: where it starts.
        limit_s: how long it may take to answer, in seconds.
    """
    try:
        folder_of_captures = tempfile.TemporaryDirectory(prefix="mcpproxy-doctor-")
    except OSError as error:
        return Attempt(cannot_record=f"cannot create a temporary directory: {error.strerror or error}")
    seen = Attempt()
    with folder_of_captures as captures:
        command = [*recorder, "run", "--capture", f"{captures}{os.sep}", "--", *words]
        began = time.monotonic()
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
            seen.launch_error = error.strerror or str(error)
            return seen
        _running.add(process)
        if interrupted.is_set():
            process.terminate()
        try:
            _talk(process, seen, began, limit_s)
        finally:
            _end(process)
            _running.discard(process)
        # A server may end with the same status, but then there is a capture of it.
        if seen.status == CANNOT_CREATE and not any(name.endswith(SUFFIX) for name in os.listdir(captures)):
            seen.cannot_record = "; ".join(line.removeprefix("mcpproxy: ") for line in seen.stderr)
    return seen


def end_all() -> None:
    """Terminate all running servers, so that the threads that speak to them end, too."""
    interrupted.set()
    for process in list(_running):
        with contextlib.suppress(OSError):
            process.terminate()


class _Reader:
    """Reads stdout line by line, and the end of stderr, in threads."""

    def __init__(self, process: subprocess.Popen[bytes], seen: Attempt, began: float) -> None:
        self.lines: queue.Queue[bytes | None] = queue.Queue(_LINES)
        self.is_done = False
        self._seen = seen
        self._began = began
        assert process.stdout is not None
        assert process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._stdout, process.stdout), daemon=True),
            threading.Thread(target=self._read, args=(self._stderr, process.stderr), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, reading: Callable[[IO[bytes]], None], stream: IO[bytes]) -> None:
        # The stream may be closed in the meantime.
        with contextlib.suppress(OSError, ValueError):
            reading(stream)

    def _stdout(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(_LINE), b""):
            if self._seen.first_byte_s is None:
                self._seen.first_byte_s = time.monotonic() - self._began
            if not self._put(line):
                return
        self._put(None)

    def _put(self, line: bytes | None) -> bool:
        """Queue a line, blocking a server that prints without end; returns False once no more lines are wanted."""
        while not self.is_done:
            with contextlib.suppress(queue.Full):
                self.lines.put(line, timeout=0.1)
                return True
        return False

    def _stderr(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(_STDERR_LINE), b""):
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._seen.stderr = [*self._seen.stderr, text[:_TEXT]][-STDERR_LINES:]

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(1.0)


def _talk(process: subprocess.Popen[bytes], seen: Attempt, began: float, limit_s: float) -> None:
    reader = _Reader(process, seen, began)
    until = began + limit_s
    answer = _ask(process, reader, seen, until, 1, "initialize", HELLO)
    if answer is not None:
        seen.initialize_s = seen.list_s = time.monotonic() - began
        result = answer.get("result")
        if isinstance(result, dict) and result.get("protocolVersion") in REVISIONS:
            seen.result = result
            _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"}, until)
            _list(process, reader, seen, until, began)
        else:
            seen.error = _error_text(answer)
    if process.poll() is not None or answer is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            seen.status = process.wait(0.2 if answer is None and time.monotonic() >= until else 2.0)
        seen.is_closed = seen.status is None and time.monotonic() < until
    reader.is_done = True
    if seen.status is not None:
        reader.wait()


def _list(process: subprocess.Popen[bytes], reader: _Reader, seen: Attempt, until: float, began: float) -> None:
    capabilities = (seen.result or {}).get("capabilities")
    if not isinstance(capabilities, dict) or "tools" not in capabilities:
        return
    answer = _ask(process, reader, seen, until, 2, "tools/list", {})
    if answer is None:
        seen.error = "tools/list was not answered"
        return
    seen.list_s = time.monotonic() - began
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list):
        seen.tools = len(tools)
    else:
        seen.error = f"tools/list: {_error_text(answer)}"


def _ask(
    process: subprocess.Popen[bytes],
    reader: _Reader,
    seen: Attempt,
    until: float,
    number: int,
    method: str,
    params: dict[str, Any],
) -> dict[str, Any] | None:
    """The response to a request, or None if none came in time."""
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, until)
    while (left := until - time.monotonic()) > 0:
        try:
            line = reader.lines.get(timeout=left)
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
            if len(seen.noise) < NOISE_LINES:
                seen.noise.append(line[:_TEXT].decode("utf-8", "replace").strip())
        elif message.get("id") == number and "method" not in message:
            return message
        elif "method" in message and "id" in message:
            refusal = {"code": METHOD_NOT_FOUND, "message": "not supported"}
            _send(process, {"jsonrpc": "2.0", "id": message["id"], "error": refusal})
    return None


def _send(process: subprocess.Popen[bytes], message: dict[str, Any], until: float = 0.0) -> None:
    """Send a message; if the server does not read, wait no longer than a deadline, then drop the message."""
    assert process.stdin is not None
    data, fd = json.dumps(message).encode() + b"\n", process.stdin.fileno()
    if len(data) > select.PIPE_BUF:
        return  # it would be a response to an id that is longer than a page
    # A pipe accepts so few bytes either as a whole or not at all.
    with contextlib.suppress(OSError, ValueError):
        os.set_blocking(fd, False)
        while True:
            try:
                os.write(fd, data)
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0:
                    return
                select.select([], [fd], [], left)
            else:
                return


def _error_text(answer: dict[str, Any]) -> str:
    error = answer.get("error")
    if isinstance(error, dict):
        return f"{str(error.get('message', ''))[:_TEXT]} ({str(error.get('code', 'no code'))[:_TEXT]})"
    return f"unexpected result: {json.dumps(answer.get('result'))[:200]}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its stdin, then terminate it: the recorder's guard ends the processes that the server has started."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    for signal_number in (0, signal.SIGTERM, signal.SIGKILL):
        if signal_number:
            process.send_signal(signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            break
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
