"""Captures made by hand for the tests of playback: a record per millisecond, numbered from 0."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import pytest

from analysis.playback.matching import Matching
from analysis.playback.script import Script
from captures.record import members, seal
from captures.verdict import Direction
from tests.captures.samples import frame, header

MS = 1_000_000


class Recording:
    """Collects the lines of a capture."""

    def __init__(self, transport: str = "stdio", **more: Any) -> None:
        self.lines: list[bytes] = []
        self._responses: dict[int, dict[str, Any]] = {}
        self.add("header", header(transport=transport, **more))

    def add(self, rec: str, middle: bytes) -> int:
        """Add a record; return its number."""
        seq = len(self.lines)
        self.lines.append(seal(seq, seq * MS, rec, middle))
        return seq

    def record(self, rec: str, **values: Any) -> int:
        return self.add(rec, members(**values))

    def raw(self, direction: Direction, raw: bytes, **how: Any) -> int:
        return self.add("frame", frame(direction, raw, **how))

    def client(self, exchange: int | None = None, **message: Any) -> int:
        how = {} if exchange is None else {"exchange": exchange, "conn": 1, "unit": "http_body", "delim": b""}
        return self.raw("c2s", _json(message), **how)

    def server(self, exchange: int | None = None, event_id: str | None = None, **message: Any) -> int:
        how = {} if exchange is None else {"exchange": exchange, "conn": 1, "unit": "sse_event", "delim": b""}
        return self.raw("s2c", _json(message), event_id=event_id, **how)

    def call(self, id_: int, name: str = "search", exchange: int | None = None, **params: Any) -> int:
        return self.client(exchange, id=id_, method="tools/call", params={"name": name, **params})

    def handshake(self) -> Self:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
        self.client(id=0, method="initialize", params=hello)
        answer = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        self.server(id=0, result=answer)
        self.client(method="notifications/initialized")
        return self

    def http(self, exchange: int, method: str = "POST", **fields: str) -> int:
        """Record the head of an HTTP request."""
        request = {"method": method, "target": "/mcp", "headers": _fields(fields)}
        return self.record("exchange", conn=1, exchange=exchange, stage="request", request=request)

    def answer(self, exchange: int, status: int = 200, **fields: str) -> int:
        """Record the head of an HTTP response."""
        self._responses[exchange] = response = {"status": status, "reason": "", "headers": _fields(fields)}
        return self.record("exchange", conn=1, exchange=exchange, stage="response", response=response)

    def end(self, exchange: int, by: str = "complete", **more: Any) -> int:
        """Record the end of an HTTP exchange, with its response so far."""
        response = self._responses.get(exchange)
        return self.record("exchange", conn=1, exchange=exchange, stage="end", response=response, ended_by=by, **more)

    def closed(self) -> Self:
        """End the recording, as its client did."""
        self.record("close", ending="client")
        return self

    def write(self, folder: Path, name: str = "made.mcpcap") -> Path:
        path = folder / name
        path.write_bytes(b"".join(self.lines))
        return path

    def script(self, folder: Path, matching: Matching = Matching()) -> Script:  # noqa: B008 - it cannot change
        """The complete script of what was recorded."""
        return grown(self.write(folder), matching)


_OPENED: Final[list[Script]] = []


@pytest.fixture(autouse=True)
def closed_scripts() -> Iterator[None]:
    """Close the scripts that a test has opened."""
    yield
    while _OPENED:
        _OPENED.pop().close()


def grown(path: Path, matching: Matching = Matching(), step: int = 1_000) -> Script:  # noqa: B008 - it cannot change
    """The complete script of a capture."""
    script = Script(path, matching)
    _OPENED.append(script)
    while script.grow(step):
        pass
    return script


def key_of(method: str, params: Any = None, name: str = "") -> str:
    return Matching().key_of(method, name, params)


def _json(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _fields(fields: dict[str, str]) -> list[list[str]]:
    return [[name.replace("_", "-"), value] for name, value in fields.items()]
