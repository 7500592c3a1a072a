"""Builds traces over HTTP step by step, with several clients and connections at once."""

import json
from typing import Any

from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases

VERSION = "2025-06-18"
SERVED = {
    "protocolVersion": VERSION,
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "demo", "version": "2.1.0"},
}
ASKED = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "host", "version": "1.0.0"}}


def request(id_: int, method: str, **params: Any) -> dict[str, Any]:
    """A request; it has no `params` if none are given."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, **({"params": params} if params else {})}


def notification(method: str, **params: Any) -> dict[str, Any]:
    """A notification; it has no `params` if none are given."""
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def result(id_: int, **members: Any) -> dict[str, Any]:
    """A successful response."""
    return {"jsonrpc": "2.0", "id": id_, "result": members}


class HttpTrace:
    """Collects the frames of a trace, in the form that docs/commands/import.md shows."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self._exchanges = 0

    def post(
        self, body: object = None, *, peer: str = "", session: str = "", method: str = "POST", path: str = "/mcp"
    ) -> int:
        """Add a POST; returns its exchange's number. `peer`, the client's address, identifies the connection."""
        self._exchanges += 1
        fields = {
            "Host": "127.0.0.1:8000",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        if session:
            fields["Mcp-Session-Id"] = session
        if not isinstance(body, dict) or body.get("method") != "initialize":
            fields["MCP-Protocol-Version"] = VERSION
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        raw = f"{method} {path} HTTP/1.1\r\n{head}\r\n{'' if body is None else json.dumps(body)}"
        frame = {"dir": "c2s", "k": "req", "x": self._exchanges, "raw": raw}
        self.frames.append(frame | ({"peer": peer} if peer else {}))
        return self._exchanges

    def answer(self, exchange: int, body: object = None, *, status: str = "200 OK", **fields: str) -> None:
        """Add a complete response; its body, if any, is JSON."""
        own = {} if body is None else {"Content-Type": "application/json"}
        self.frames.append({"dir": "s2c", "k": "res", "x": exchange, "raw": _head(status, own | fields) + _text(body)})

    def stream(self, exchange: int) -> None:
        """Add the head of a streamed response."""
        head = _head("200 OK", {"Content-Type": "text/event-stream"})
        self.frames.append({"dir": "s2c", "k": "head", "x": exchange, "raw": head})

    def event(self, exchange: int, body: object) -> None:
        """Add a message to a stream."""
        raw = f"event: message\ndata: {json.dumps(body)}\n\n"
        self.frames.append({"dir": "s2c", "k": "sse", "x": exchange, "raw": raw})

    def end(self, exchange: int, by: str = "s2c") -> None:
        """Add the end of a stream."""
        self.frames.append({"dir": by, "k": "end", "x": exchange, "raw": ""})

    def case(self) -> Case:
        """These frames as a case."""
        told = {"name": "made", "version": VERSION, "transport": "http", "start_observed": True, "frames": self.frames}
        (made,) = cases([json.dumps(told).encode()])
        assert isinstance(made, Case), made
        return made


def _head(status: str, fields: dict[str, str]) -> str:
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{named}\r\n"


def _text(body: object) -> str:
    return "" if body is None else body if isinstance(body, str) else json.dumps(body)
