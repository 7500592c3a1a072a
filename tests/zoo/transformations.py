"""Changes recorded conversations in ways that must not matter, as the suite does with its corpus."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from captures.frame import Frame
from captures.reader import Capture, assembled_items
from captures.record import Record
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.traces import check, findings_of
from tests.analysis.transformations import TRANSFORMATIONS, FrameLine, blamed, blames

_OF_THE_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Header fields that describe a body as transferred; a trace has it decoded and complete."""
_LONGEST = 4 << 20
"""The size limit in bytes of a capture: larger ones reveal no more, and take long."""


def judged_otherwise(capture: Path) -> list[str]:
    """What is reported differently about an HTTP capture as a trace or once changed, one line each.

    Captures over stdio, and those of more than 4 MiB, are skipped.
    """
    case = retold(capture) if capture.stat().st_size <= _LONGEST else None
    if case is None or not case.members["frames"]:
        return []
    as_recorded = blamed(findings_of(capture))
    told = [f"told as a trace: {rule}, {who}" for rule, who in sorted(blames(check(case)) ^ as_recorded)]
    return told + [f"{change}: {what}" for change, apply in TRANSFORMATIONS.items() for what in apply(case)]


def retold(capture: Path) -> Case | None:
    """The conversation of a capture as a trace; None if it is not over HTTP."""
    items = [item for item in assembled_items(Capture(capture)) if isinstance(item, Frame | Record)]
    header = next(item for item in items if isinstance(item, Record))
    if header.members.get("transport") != "http":
        return None
    told = {
        "name": capture.stem,
        "transport": "legacy-sse" if any(_announced(item) for item in items) else "http",
        "start_observed": header.members.get("observed_start") is True,
        "frames": list(_Teller(items).frames()),
    }
    (case,) = cases([json.dumps(told).encode()])
    assert isinstance(case, Case), (capture, case)
    return case


def _announced(item: Frame | Record) -> bool:
    """Whether the server announces its address for messages in this item, as on the older transport."""
    return isinstance(item, Record) and "endpoints" in item.members


class _Teller:
    """Converts the records of a capture to frames of a trace."""

    def __init__(self, items: Sequence[Frame | Record]) -> None:
        self._items = items
        self._of: dict[tuple[object, str], list[Frame]] = {}
        """The frames of each exchange, by direction."""
        self._told: set[tuple[object, str]] = set()
        """The HTTP messages whose head has already been converted."""
        for item in items:
            if isinstance(item, Frame):
                self._of.setdefault((item.exchange, item.dir), []).append(item)

    def frames(self) -> Iterator[FrameLine]:
        """The frames of the trace, in the order of the records."""
        for item in self._items:
            at = {"t": item.t_ns / 1e6}
            if isinstance(item, Frame):
                if item.unit == "sse_event":
                    yield {"dir": "s2c", "k": "sse", "x": item.exchange, "raw": _event(item), **at}
            elif item.rec == "exchange":
                yield from ({**frame, **at} for frame in self._exchange(item.members))

    def _exchange(self, members: dict[str, Any]) -> Iterator[FrameLine]:
        number, request, response = members["exchange"], members.get("request"), members.get("response")
        if isinstance(request, dict) and "method" in request and self._is_new(number, "c2s"):
            start = f"{request['method']} {request['target']} HTTP/1.1"
            body = self._body(number, "c2s", members)
            peer = {"peer": members["peer"]} if "peer" in members else {}
            yield {"dir": "c2s", "k": "req", "x": number, **peer, **_message(start, request, body)}
        if "endpoints" in members and self._is_new(number, "endpoint"):
            yield {
                "dir": "s2c",
                "k": "sse",
                "x": number,
                "raw": f"event: endpoint\ndata: {members['endpoints'][0]}\n\n",
            }
        is_over, is_whole = members["stage"] == "end", members.get("ended_by") == "complete"
        if isinstance(response, dict) and "headers" in response and self._is_new(number, "s2c"):
            start = f"HTTP/1.1 {response['status']} {response['reason']}"
            is_stream = members["stage"] == "response" and "text/event-stream" in str(response["headers"])
            if not is_stream and not is_over:
                self._told.discard((number, "s2c"))  # its body is still to come
                return
            body = "" if is_stream else self._body(number, "s2c", members)
            kind = "res" if is_over and is_whole else "head"
            yield {"dir": "s2c", "k": kind, "x": number, **_message(start, response, body, is_cut=kind == "head")}
            if kind == "res":
                return
        if is_over:
            by = "c2s" if members.get("ended_by") == "client" else "s2c"
            yield {"dir": by, "k": "end", "x": number, "raw": "", "cut": not is_whole}

    def _is_new(self, number: object, direction: str) -> bool:
        is_new = (number, direction) not in self._told
        self._told.add((number, direction))
        return is_new

    def _body(self, number: object, direction: str, members: dict[str, Any]) -> str | None:
        """The body of an HTTP message; None if the capture lacks it."""
        frames = [frame for frame in self._of.get((number, direction), ()) if frame.unit == "http_body"]
        if frames:
            return frames[0].raw.decode("utf-8", "replace")
        if direction == "s2c" and "response_text" in members:
            return str(members["response_text"])
        size = members.get("request_size" if direction == "c2s" else "response_size")
        return None if size else ""


def _message(start: str, of: dict[str, Any], body: str | None, *, is_cut: bool = False) -> FrameLine:
    kept = [
        f"{name}: {value}"
        for name, value in of["headers"]
        if name.lower() not in _OF_THE_TRANSFER or (is_cut and name.lower() == "content-length")
    ]
    head = "\r\n".join((start, *kept, "", ""))
    return {"raw": head + (body or ""), **({"body": False} if body is None else {})}


def _event(frame: Frame) -> str:
    lines = [f"event: {frame.event}"] if frame.event is not None else []
    lines += [f"id: {frame.event_id}"] if frame.event_id is not None else []
    text = frame.raw.decode("utf-8", "replace")
    return "\n".join((*lines, *(f"data: {line}" for line in text.split("\n")), "", ""))
