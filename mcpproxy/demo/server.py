"""A small, real MCP server on stdio, for the demo and for tests; it needs only the standard library.

    python -P -m mcpproxy.demo.server [--faulty]

It serves both eras on one connection, each request in its own era: the handshake revisions from `initialize` on, and
the modern revision by each request's `_meta`. Its tools, resources and prompt are in `notebook`.

With `--faulty` it commits the faults of the table in `faults`, each once. Without the option, it keeps every rule that
an observer can check, and interoperates with the official SDK.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from analysis.protocol.error_codes import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from mcpproxy.demo import notebook
from mcpproxy.demo.call import (
    CAPABILITIES_KEY,
    HANDSHAKE_REVISIONS,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    MODERN_REVISIONS,
    SERVER_INFO_KEY,
    VERSION_KEY,
    Call,
    CancelledError,
    Json,
    RefusalError,
    decode,
    encode,
    is_id,
)
from mcpproxy.demo.faults import FAULTS

Method: TypeAlias = Callable[[Call], Json]
"""Returns the result of a call; raises RefusalError for an error response, CancelledError for no response."""

Deliver: TypeAlias = Callable[[Call, Json], None]
"""Delivers the response to a call."""

SERVER_INFO: Final = {"name": "mcpproxy-demo", "version": "1.0.0"}
INSTRUCTIONS: Final = "A notebook with three notes, and tools to try things out on."
BATCH_REVISION: Final = "2025-03-26"
"""The only revision that has batches."""

_CAPABILITIES: Final[Json] = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}


def initialize(call: Call) -> Json:
    """`initialize`: agrees on the requested revision if it is supported, else on the newest that has a handshake."""
    requested_revision = call.required_text("protocolVersion")
    revision = requested_revision if requested_revision in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
    call.connection.revision, call.connection.level = revision, "info"
    result = {"protocolVersion": revision, "capabilities": _CAPABILITIES, "serverInfo": SERVER_INFO}
    return result if revision == HANDSHAKE_REVISIONS[0] else {**result, "instructions": INSTRUCTIONS}


def discover(_: Call) -> Json:
    """`server/discover`."""
    return {"supportedVersions": list(MODERN_REVISIONS), "capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}


def set_level(call: Call) -> Json:
    """`logging/setLevel`."""
    level = call.required_text("level")
    if level not in LOG_LEVELS:
        raise RefusalError(INVALID_PARAMS, f"unknown level: {level}")
    call.connection.level = level
    return {}


def ping(_: Call) -> Json:
    """`ping`."""
    return {}


_SHARED_METHODS: Final[dict[str, Method]] = {
    "tools/list": notebook.list_tools,
    "tools/call": notebook.call_tool,
    "resources/list": notebook.list_resources,
    "resources/templates/list": notebook.list_templates,
    "resources/read": notebook.read_resource,
    "prompts/list": notebook.list_prompts,
    "prompts/get": notebook.get_prompt,
}
_HANDSHAKE_METHODS: Final = {**_SHARED_METHODS, "initialize": initialize, "ping": ping, "logging/setLevel": set_level}
_MODERN_METHODS: Final = {**_SHARED_METHODS, "server/discover": discover}
_CACHEABLE_METHODS: Final = {*_MODERN_METHODS} - {"tools/call", "prompts/get"}


def _envelope_problem(message: object) -> str | None:
    if not isinstance(message, dict):
        return "a message is an object"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "method" not in message:
        return None if "result" in message or "error" in message else "neither a request nor an answer"
    if not isinstance(message["method"], str):
        return "method must be a string"
    if "id" in message and not is_id(message["id"]):
        return "id must be a string or an integer"
    return None


def _error_response(id_: object, error: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id_ if is_id(id_) else None, "error": error}


class Server:
    """One connection: lines in, lines out."""

    revision: str | None = None
    level: str = LOG_LEVELS[1]

    def __init__(self, write: Callable[[bytes], None], *, faulty: bool = False) -> None:
        """Start serving a connection.

        Args:
            write: receives whole lines; called by several threads, one at a time.
            faulty: whether to commit the faults.
        """
        self._write = write
        self._lock = threading.Lock()
        self._faults = dict(FAULTS) if faulty else {}
        self._open_calls: dict[tuple[type, str | int], Call] = {}
        self._threads: list[threading.Thread] = []

    def receive(self, line: bytes) -> None:
        """Process one line, without its LF."""
        try:
            message = decode(line)
        except ValueError:
            self._send([_error_response(None, {"code": PARSE_ERROR, "message": "this is not JSON in UTF-8"})])
            return
        if isinstance(message, list) and message and self.revision == BATCH_REVISION:
            self._on_batch(message)
        else:
            self._on_message(message)

    def close(self) -> None:
        """Cancel the open calls, because the client has closed its side, and wait for their threads."""
        for call in list(self._open_calls.values()):
            call.cancelled.set()
        for thread in self._threads:
            thread.join()

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._send([{"jsonrpc": "2.0", "method": method, "params": params}])

    def _send(self, messages: list[Any]) -> None:
        lines = b"".join(message if isinstance(message, bytes) else encode(message) for message in messages)
        with self._lock:
            self._write(lines)

    def _on_batch(self, messages: list[Any]) -> None:
        answers: list[Json] = []
        for message in messages:
            call = self._open_call(message, answers.append)
            if call:
                self._serve(call, lambda _, answer: answers.append(answer))
        if answers:
            self._send([answers])

    def _on_message(self, message: object) -> None:
        call = self._open_call(message, lambda error: self._send([error]))
        if call and call.method == "tools/call" and notebook.is_slow(call):
            thread = threading.Thread(target=self._serve_in_thread, args=(call,))
            self._threads.append(thread)
            thread.start()
        elif call:
            self._serve(call, self._send_response)

    def _open_call(self, message: object, refuse: Callable[[Json], None]) -> Call | None:
        """Returns the call, if the message is a request; everything else is handled here."""
        if problem := _envelope_problem(message):
            message_id = message.get("id") if isinstance(message, dict) else None
            refuse(_error_response(message_id, {"code": INVALID_REQUEST, "message": problem}))
            return None
        assert isinstance(message, dict)
        if "method" not in message:
            return None  # a response, although this server sends no requests
        if "id" not in message:
            self._on_notification(message)
            return None
        call = Call(self, message)
        self._open_calls[call.key] = call
        return call

    def _on_notification(self, message: Json) -> None:
        params = message.get("params")
        if message["method"] == "notifications/cancelled" and isinstance(params, dict):
            request_id = params.get("requestId")
            call = self._open_calls.get((type(request_id), request_id)) if isinstance(request_id, str | int) else None
            if call:
                call.cancelled.set()

    def _serve_in_thread(self, call: Call) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._serve(call, self._send_response)

    def _serve(self, call: Call, deliver: Deliver) -> None:
        try:
            answer: Json = {"jsonrpc": "2.0", "id": call.id, "result": self._result_of(call)}
        except RefusalError as refusal:
            answer = _error_response(call.id, refusal.error)
        except CancelledError:
            return
        finally:
            self._open_calls.pop(call.key, None)
        if not call.cancelled.is_set():
            deliver(call, answer)

    def _result_of(self, call: Call) -> Json:
        if not call.is_well_formed:
            raise RefusalError(INVALID_PARAMS, "params must be an object")
        call.revision = self._revision_of(call)
        is_modern = call.revision in MODERN_REVISIONS
        method = (_MODERN_METHODS if is_modern else _HANDSHAKE_METHODS).get(call.method)
        if method is None:
            raise RefusalError(METHOD_NOT_FOUND, f"unknown method: {call.method}")
        result = method(call)
        if not is_modern:
            return result
        hints = {"ttlMs": 0, "cacheScope": "private"} if call.method in _CACHEABLE_METHODS else {}
        return {"resultType": "complete", **result, **hints, "_meta": {SERVER_INFO_KEY: SERVER_INFO}}

    def _revision_of(self, call: Call) -> str:
        """The revision that a request names; a request that names none belongs to the session, if there is one."""
        revision = call.meta.get(VERSION_KEY)
        is_unversioned = revision is None and call.method != "server/discover"
        if is_unversioned and (self.revision is not None or call.method in {"initialize", "ping"}):
            return self.revision or ""
        if not isinstance(revision, str) or not isinstance(call.meta.get(CAPABILITIES_KEY), dict):
            raise RefusalError(INVALID_PARAMS, f"no session, and _meta lacks {VERSION_KEY} or {CAPABILITIES_KEY}")
        if revision not in MODERN_REVISIONS:
            data = {"supported": list(MODERN_REVISIONS), "requested": revision}
            raise RefusalError(UNSUPPORTED_VERSION, f"unsupported revision: {revision}", data)
        if call.meta.get(LOG_LEVEL_KEY, LOG_LEVELS[0]) not in LOG_LEVELS:
            raise RefusalError(INVALID_PARAMS, f"unknown level in {LOG_LEVEL_KEY}")
        return revision

    def _send_response(self, call: Call, answer: Json) -> None:
        fault = self._faults.pop(call.fault_key, None) if "result" in answer else None
        if fault is None:
            self._send([answer])
            return
        if fault.stderr:
            os.write(2, fault.stderr)
        self._send(fault.lines(answer))


def _write_all(line: bytes) -> None:
    remaining = memoryview(line)
    while remaining:
        remaining = remaining[os.write(1, remaining) :]


def main(arguments: list[str]) -> int:
    """Serve stdin to its end."""
    if arguments not in ([], ["--faulty"]):
        sys.stderr.write("usage: python -P -m mcpproxy.demo.server [--faulty]\n")
        return 2
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = Server(_write_all, faulty=bool(arguments))
    try:
        for line in sys.stdin.buffer:
            server.receive(line.removesuffix(b"\n"))
    except BrokenPipeError:
        return 0
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
