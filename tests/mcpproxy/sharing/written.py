"""Captures of a few messages, for tests of sharing."""

import json
from typing import Any

from captures.exact_judge import judge_exactly
from captures.record import frame_members, members, seal
from captures.verdict import Direction

CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
SERVER = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}, "resources": {}}}
HEADER: dict[str, Any] = {
    "format": 1,
    "capture": "ab" * 16,
    "segment": 1,
    "transport": "stdio",
    "name": "srv",
    "observed_start": True,
    "wall_ns": 1_700_000_000_000_000_000,
    "redactions": [],
}


def written(messages: list[tuple[str, Any]], **header: Any) -> list[bytes]:
    """The lines of a capture: a handshake, and messages, each with its direction; bytes are frames as they are."""
    opening: list[tuple[str, Any]] = [
        ("c2s", {"id": 1, "method": "initialize", "params": CLIENT}),
        ("s2c", {"id": 1, "result": {**SERVER, "serverInfo": {"name": "s", "version": "1"}}}),
        ("c2s", {"method": "notifications/initialized"}),
    ]
    middles = [("header", members(**{**HEADER, **header}))]
    for direction, message in [*opening, *messages]:
        raw = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        side: Direction = "s2c" if direction == "s2c" else "c2s"
        middles.append(("frame", frame_members(side, raw, judge_exactly(raw, side))))
    middles.append(("close", members(ending="client", totals={})))
    return [seal(seq, seq * 1_000_000_000, rec, middle) for seq, (rec, middle) in enumerate(middles)]
