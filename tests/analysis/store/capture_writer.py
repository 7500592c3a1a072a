"""Handwritten captures for the tests of tables and views: only the given messages, at the given times."""

import json
from pathlib import Path
from typing import Any

from captures.envelope import judge
from captures.record import frame_members, members, seal
from captures.verdict import Direction

MS = 1_000_000
DAY = 86_400_000 * MS
OPENED = 1_795_000_000_000_000_000
"""The wall-clock time at which the first capture opens."""


class CaptureWriter:
    """Writes one capture. Times are in milliseconds since it opened."""

    def __init__(self, path: Path, name: str, number: int = 0, wall_ns: int = OPENED, **header: Any) -> None:
        self.path = path
        self.capture = f"{number:032x}"
        self._seq = 0
        self._last = 0.0
        self._lines: list[bytes] = []
        given = {"format": 1, "capture": self.capture, "segment": 1, "transport": "stdio", "observed_start": True}
        self.record(0, "header", **{**given, "name": name, "wall_ns": wall_ns, **header})

    def record(self, at_ms: float, rec: str, **more: Any) -> int:
        """Write a record; returns its number."""
        return self._add(at_ms, rec, members(**more))

    def raw(self, at_ms: float, direction: Direction, raw: bytes, *, time_is_exact: bool = True) -> int:
        """Write a frame."""
        middle = frame_members(direction, raw, judge(raw, direction), time_is_exact=time_is_exact)
        return self._add(at_ms, "frame", middle)

    def say(self, at_ms: float, direction: Direction, **message: Any) -> int:
        """Write a frame with a message."""
        return self.raw(at_ms, direction, json.dumps({"jsonrpc": "2.0", **message}).encode())

    def ask(self, at_ms: float, id_: object, method: str, **params: Any) -> int:
        """Write a request of the client."""
        return self.say(at_ms, "c2s", id=id_, method=method, params=params)

    def call(self, at_ms: float, id_: object, name: str, **arguments: Any) -> int:
        """Write a tool call."""
        return self.ask(at_ms, id_, "tools/call", name=name, arguments=arguments)

    def answer(self, at_ms: float, id_: object, **result: Any) -> int:
        """Write a result."""
        return self.say(at_ms, "s2c", id=id_, result=result)

    def fail(self, at_ms: float, id_: object, text: str) -> int:
        """Write a tool error."""
        return self.answer(at_ms, id_, content=[{"type": "text", "text": text}], isError=True)

    def refuse(self, at_ms: float, id_: object, code: int, text: str) -> int:
        """Write an error response."""
        return self.say(at_ms, "s2c", id=id_, error={"code": code, "message": text})

    def handshake(self, at_ms: float = 0, version: str = "1.0", name: str = "weather") -> None:
        """Write a handshake: `initialize` is answered after 10 ms, and the client is ready 5 ms later."""
        self.ask(
            at_ms,
            0,
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "c", "version": "1"},
        )
        info = {"name": name, "version": version}
        self.answer(at_ms + 10, 0, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=info)
        self.say(at_ms + 15, "c2s", method="notifications/initialized")

    def close(self, at_ms: float | None = None, ending: str = "client") -> Path:
        """Write the capture to its file; returns its path."""
        self.record(self._last if at_ms is None else at_ms, "close", ending=ending, status=0)
        self.path.write_bytes(b"".join(self._lines))
        return self.path

    def _add(self, at_ms: float, rec: str, middle: bytes) -> int:
        assert at_ms >= self._last
        self._last = at_ms
        self._lines.append(seal(self._seq, round(at_ms * MS), rec, middle))
        self._seq += 1
        return self._seq - 1
