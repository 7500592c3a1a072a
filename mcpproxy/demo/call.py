"""An open request, the ways it can end, and the protocol terms that all parts of the demo server share."""

import json
import threading
from typing import Any, Final, Protocol, TypeAlias

from analysis.protocol.error_codes import INVALID_PARAMS

Json: TypeAlias = dict[str, Any]

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_REVISIONS: Final = ("2026-07-28",)

META_PREFIX: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = META_PREFIX + "protocolVersion"
CAPABILITIES_KEY: Final = META_PREFIX + "clientCapabilities"
LOG_LEVEL_KEY: Final = META_PREFIX + "logLevel"
SERVER_INFO_KEY: Final = META_PREFIX + "serverInfo"

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def encode(message: object) -> bytes:
    """Returns a message as one line: compact, non-ASCII text unescaped, LF at the end."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A lone surrogate that the client sent: only its escape can be sent back.
        text = json.dumps(message, separators=(",", ":")).encode()
    return text + b"\n"


def decode(line: bytes) -> Any:
    """Parse a line as JSON.

    Raises:
        ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(line.decode(), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def is_id(value: object) -> bool:
    """Whether a value can be an id or a progress token: a string or an integer (MCP, basic/index)."""
    return isinstance(value, str | int) and not isinstance(value, bool)


class RefusalError(Exception):
    """The request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})


class ToolError(Exception):
    """The tool failed, and the model should read why: a result with `isError`."""


class CancelledError(Exception):
    """The client no longer wants the response."""


class Connection(Protocol):
    """The part of the server that a call may use."""

    revision: str | None
    """The revision agreed in the handshake; None before it."""
    level: str
    """The level of the least severe log messages that a handshake client gets."""

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""


class Call:
    """A request while it is open."""

    def __init__(self, connection: Connection, request: Json) -> None:
        self.connection = connection
        self.id: str | int = request["id"]
        self.method: str = request["method"]
        params = request.get("params", {})
        self.is_well_formed = isinstance(params, dict)
        """Whether the params are an object; otherwise they are treated as empty."""
        self.params: Json = params if isinstance(params, dict) else {}
        self.revision = ""
        """The revision in which the request is served; empty for a handshake request outside a session."""
        self.cancelled = threading.Event()

    @property
    def key(self) -> tuple[type, str | int]:
        """A key that distinguishes the request from others: 7 and "7" are two ids."""
        return type(self.id), self.id

    @property
    def meta(self) -> Json:
        """The `_meta` of the request, or an empty object if there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def fault_key(self) -> str:
        """The key of the request in the table of faults: its method and, for a tool call, the tool."""
        return f"{self.method} {self.params.get('name')}" if self.method == "tools/call" else self.method

    def required_text(self, name: str) -> str:
        """Returns a required string in the params.

        Raises:
            RefusalError: it is missing, or not a string.
        """
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RefusalError(INVALID_PARAMS, f"{name} is missing or not a string")
        return value

    def send_progress(self, done: int, total: int) -> None:
        """Send a progress notification, if the client asked for progress."""
        token = self.meta.get("progressToken")
        if is_id(token):
            params: Json = {"progressToken": token, "progress": done, "total": total}
            if self.revision != HANDSHAKE_REVISIONS[0]:
                params["message"] = f"step {done} of {total}"
            self.connection.notify("notifications/progress", params)

    def send_log(self, level: str, data: str) -> None:
        """Send a log message, if the client wants this level; in the modern era, each request names a level."""
        min_level = self.meta.get(LOG_LEVEL_KEY) if self.revision in MODERN_REVISIONS else self.connection.level
        if min_level is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(min_level):
            self.connection.notify("notifications/message", {"level": level, "logger": "notebook", "data": data})
