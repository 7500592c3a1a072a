"""Exports the HTTP exchanges of a capture as HAR 1.2, which browsers and HTTP debuggers read.

The body of an event stream is reassembled from its events. HAR has no member for the times of messages, so they are in
the member `_mcp` of each entry. Values that the recorder has replaced with hashes stay replaced, and cookies are listed
only in the headers. Bodies are decoded, as HAR requires: a `Content-Encoding` in the headers describes only the
transfer.

Format: http://www.softwareishard.com/blog/har-12-spec/
"""

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import orjson

from analysis.conversation.fold import Fold
from analysis.filter import Filter, facts_of
from analysis.reading import Step
from captures.frame import Frame
from captures.record import Record
from mcpproxy import __version__
from mcpproxy.wording.units import utc

MAX_EXPORTED_BODY_BYTES: Final = 16 << 20
"""The maximum number of bytes of a body that are exported; a comment then says that the rest was left out."""
MAX_HELD_BODY_BYTES: Final = 256 << 20
"""The maximum total size of the bodies of all unfinished exchanges."""
MAX_OPEN_EXCHANGES: Final = 15_000
"""The maximum number of open exchanges; beyond it, the oldest is exported unfinished."""
COPY_CHUNK_BYTES: Final = 1 << 20
_CLIENT_GAVE_UP: Final = "the client closed it before the response"
_UNKNOWN_TIME: Final = "1970-01-01T00:00:00.000000Z"


class HarEntry(NamedTuple):
    """One entry of a HAR file."""

    start_ns: int
    """When the request began, in nanoseconds since 1970."""
    text: bytes
    """The entry as JSON."""


class HarEntryBuilder:
    """Builds the entries of one capture. An entry is complete when its exchange has ended."""

    def __init__(self, capture: str, fold: Fold, selection: Filter | None = None) -> None:
        """Start without entries.

        Args:
            capture: the id of the capture.
            fold: the state of the conversation, which each step updates.
            selection: matches a message of each selected exchange; None selects all.
        """
        self.lost_request_count = 0
        """The number of exchanges that were left out because the record of their request is lost."""
        self.truncated_body_count = 0
        """The number of bodies that were exported only in part because they were too long."""
        self._capture, self._selection = capture, selection
        self._fold = fold
        self._held_bytes = 0
        self._open_exchanges: OrderedDict[int, _OpenExchange] = OrderedDict()

    @property
    def is_http(self) -> bool:
        """Whether the capture was recorded over HTTP."""
        return self._fold.transport == "http"

    def on_step(self, step: Step) -> list[HarEntry]:
        """Process the next step; returns the entries that it completes. The last step completes all open entries."""
        item = step.item
        for context in step.messages:
            number = context.message.frames[0].exchange
            if self._selection is not None and number is not None and self._selection.matches(facts_of(context)):
                self._find_or_open(number).is_selected = True
        if isinstance(item, Frame):
            if item.exchange is not None:
                self._add_frame(item, self._find_or_open(item.exchange))
        elif isinstance(item, Record) and item.rec == "exchange":
            number = item.members.get("exchange")
            if type(number) is int:
                exchange = self._find_or_open(number)
                exchange.keep_start(item.t_ns)
                exchange.members |= item.members
                if item.members.get("stage") == "end":
                    exchange.is_unanswered = any(call.response is None for call in step.changed)
                    return self._close(number)
        if step.end is not None:
            return [entry for number in list(self._open_exchanges) for entry in self._close(number)]
        if len(self._open_exchanges) > MAX_OPEN_EXCHANGES:
            return self._close(next(iter(self._open_exchanges)))
        return []

    def _find_or_open(self, number: int) -> "_OpenExchange":
        exchange = self._open_exchanges.get(number)
        if exchange is None:
            exchange = self._open_exchanges[number] = _OpenExchange(number)
        return exchange

    def _add_frame(self, frame: Frame, exchange: "_OpenExchange") -> None:
        exchange.keep_start(frame.t_ns)
        exchange.messages.append((frame.t_ns, _describe_frame(frame)))
        body = exchange.bodies[frame.dir]
        body_bytes = exchange.reassemble_event(frame) if frame.unit == "sse_event" else frame.raw
        if (
            body.size + len(body_bytes) > MAX_EXPORTED_BODY_BYTES
            or self._held_bytes + len(body_bytes) > MAX_HELD_BODY_BYTES
        ):
            body.is_truncated = True
            return
        body.pieces.append(body_bytes)
        body.size += len(body_bytes)
        self._held_bytes += len(body_bytes)

    def _close(self, number: int) -> list[HarEntry]:
        exchange = self._open_exchanges.pop(number)
        self._held_bytes -= sum(body.size for body in exchange.bodies.values())
        if self._selection is not None and not exchange.is_selected:
            return []
        if not isinstance(exchange.members.get("request"), dict):
            self.lost_request_count += 1
            return []
        self.truncated_body_count += sum(body.is_truncated for body in exchange.bodies.values())
        return [self._build_entry(exchange)]

    def _build_entry(self, exchange: "_OpenExchange") -> HarEntry:
        members, request = exchange.members, exchange.members["request"]
        # A stream that the client opened with GET has a body even without events: it is empty, but open for some time.
        has_body = (
            bool(exchange.bodies["s2c"].pieces)
            or _size_or_unknown(members.get("response_size")) > 0
            or (request.get("method") == "GET" and _is_stream(members.get("response")))
        )
        phases = _PhaseTimes(members.get("times"), exchange.first_record_ns, has_body=has_body)
        start_ns = (self._fold.wall_ns or 0) + phases.start_ns
        http = self._fold.exchanges.get(exchange.number)
        session = http.session if http is not None else None
        ended_by, error = _string_member(members, "ended_by") or None, _string_member(members, "error")
        if ended_by == "client" and http is not None:
            if exchange.is_unanswered or http.status is None:
                error = error or _CLIENT_GAVE_UP
            elif http.last_answer is not None:
                ended_by = "complete"  # the client closed a stream after it had received all responses
        entry = {
            "startedDateTime": _iso_time(start_ns),
            "time": phases.send + phases.wait + phases.receive,
            "request": _har_request(request, exchange, self._origin(request)),
            "response": _har_response(members, exchange),
            "cache": {},
            "timings": {
                **dict.fromkeys(("blocked", "dns", "connect", "ssl"), -1),
                "send": phases.send,
                "wait": phases.wait,
                "receive": phases.receive,
            },
            "connection": str(members.get("conn", "")),
            "_mcp": {
                "capture": self._capture,
                "exchange": exchange.number,
                "session": None if session is None else session.number,
                "revision": None if session is None else session.revision,
                "peer": _string_member(members, "peer") or None,
                "endedBy": ended_by,
                "notStored": members.get("body_hash") or None,
                "messages": [
                    {**message, "time": (t_ns - phases.start_ns) / 1e6} for t_ns, message in exchange.messages
                ],
            },
            **({"_error": error} if error else {}),
        }
        return HarEntry(start_ns, json_bytes(entry))

    def _origin(self, request: dict[str, Any]) -> str:
        """Return the scheme, host and port of the server itself or, if unknown, the host that the client named."""
        with suppress(ValueError):
            parts = urlsplit(self._fold.exchanges.upstream)
            if parts.scheme and parts.netloc:
                return f"{parts.scheme}://{parts.netloc}"
        host = next((value for name, value in _header_pairs(request.get("headers")) if name.lower() == "host"), "host")
        return f"http://{host}"


class _ExportedBody:
    """The exported part of a request or response body."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.is_truncated = False


class _OpenExchange:
    """An HTTP exchange that is not complete yet."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.members: dict[str, Any] = {}
        self.messages: list[tuple[int, dict[str, Any]]] = []
        """The timestamp and description of each frame."""
        self.bodies = {"c2s": _ExportedBody(), "s2c": _ExportedBody()}
        self.is_selected = False
        self.is_unanswered = False
        """Whether the exchange ended without a response to one of its requests."""
        self.first_record_ns = -1
        """The timestamp of its first record; -1 before that record."""
        self._event_id: str | None = None

    def keep_start(self, t_ns: int) -> None:
        """Keep the time of the first record; later calls change nothing."""
        if self.first_record_ns < 0:
            self.first_record_ns = t_ns

    def reassemble_event(self, frame: Frame) -> bytes:
        """Return an event as a server sends it (HTML, 9.2.5), without comments, which are not recorded."""
        fields = []
        if frame.event is not None:
            fields.append(f"event: {frame.event}".encode("utf-8", "replace"))
        if frame.event_id is not None and (frame.event_id != self._event_id or frame.id_again):
            fields.append(f"id: {frame.event_id}".encode("utf-8", "replace"))
        self._event_id = frame.event_id
        fields += [b"data: " + line for line in frame.raw.split(b"\n")]
        return b"\n".join(fields) + b"\n\n"


class _PhaseTimes:
    """When an exchange began, and how long its phases took, in milliseconds."""

    def __init__(self, times: object, first_record_ns: int, *, has_body: bool) -> None:
        """Compute the phases from the recorded times.

        Args:
            times: the member `times` of the exchange's record.
            first_record_ns: the timestamp of the exchange's first record, in case the time of its request is unknown.
            has_body: whether the response has a body; without one, all time after the request counts as waiting.
        """
        stamps_by_name = times if isinstance(times, dict) else {}
        request_head, *phase_ends = (_stamp_or_none(stamps_by_name.get(name)) for name in _PHASE_STAMPS)
        self.start_ns = first_record_ns if request_head is None else request_head
        durations_ms, previous_ns = [], self.start_ns
        for stamp in phase_ends:
            end_ns = previous_ns if stamp is None else max(previous_ns, stamp)
            durations_ms.append((end_ns - previous_ns) / 1e6)
            previous_ns = end_ns
        self.send, wait, receive = durations_ms
        self.wait, self.receive = (wait, receive) if has_body else (wait + receive, 0.0)


_PHASE_STAMPS: Final = ("request_head", "request_end", "response_head", "response_end")


def _stamp_or_none(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _describe_frame(frame: Frame) -> dict[str, Any]:
    verdict = frame.verdict
    description: dict[str, Any] = {"frame": frame.seq, "dir": frame.dir, "kind": verdict.kind, "size": len(frame.raw)}
    if verdict.method is not None:
        description["method"] = verdict.method
    if verdict.id is not None:
        description["id"] = verdict.id.decode("utf-8", "replace")
    if frame.event_id is not None:
        description["eventId"] = frame.event_id
    return description


def _har_request(request: dict[str, Any], exchange: _OpenExchange, origin: str) -> dict[str, Any]:
    target = _string_member(request, "target")
    url = target if target.startswith(("http://", "https://")) else origin + target
    headers, body = _header_pairs(request.get("headers")), exchange.bodies["c2s"]
    post_data: dict[str, Any] = {}
    if body.pieces:
        mime_type = _header_value(headers, "content-type") or "application/json"
        # HAR has no `encoding` for request bodies, so bytes that are not UTF-8 are escaped and cannot be restored.
        text = b"\n".join(body.pieces).decode("utf-8", "backslashreplace")
        post_data["postData"] = {"mimeType": mime_type, "text": text, **_truncation_comment(body)}
    return {
        "method": _string_member(request, "method"),
        "url": url,
        "httpVersion": _string_member(request, "version") or "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "queryString": [
            {"name": name, "value": value}
            for name, value in parse_qsl(target.partition("?")[2], keep_blank_values=True)
        ],
        **post_data,
        "headersSize": -1,
        "bodySize": _size_or_unknown(exchange.members.get("request_size")),
    }


def _har_response(members: dict[str, Any], exchange: _OpenExchange) -> dict[str, Any]:
    response = members.get("response")
    head = response if isinstance(response, dict) else {}
    headers, body = _header_pairs(head.get("headers")), exchange.bodies["s2c"]
    content: dict[str, Any] = {
        "size": body.size,
        "mimeType": _header_value(headers, "content-type") or "",
        **_truncation_comment(body),
    }
    recorded_endpoints = members.get("endpoints")
    endpoints = (
        [address for address in recorded_endpoints if isinstance(address, str)]
        if isinstance(recorded_endpoints, list)
        else []
    )
    # The first event of the older transport is not a frame. Its address was recorded without secrets.
    endpoint_events = [f"event: endpoint\ndata: {address}\n\n".encode("utf-8", "replace") for address in endpoints]
    if body.pieces or endpoint_events:
        body_bytes = b"".join([*endpoint_events, *body.pieces])
        content["size"] = len(body_bytes)
        try:
            content["text"] = body_bytes.decode()
        except UnicodeDecodeError:
            content |= {"text": b64encode(body_bytes).decode(), "encoding": "base64"}
    elif text := _string_member(members, "metadata") or _string_member(members, "response_text"):
        content |= {"text": text, "size": len(text.encode("utf-8", "replace"))}
    elif isinstance(members.get("body_hash"), dict) and "response" in members["body_hash"]:
        content["comment"] = "not stored in the capture; _mcp.notStored has its size"
    status = head.get("status")
    return {
        "status": status if type(status) is int else 0,
        "statusText": _string_member(head, "reason"),
        "httpVersion": _string_member(head, "version") or "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "content": content,
        "redirectURL": _header_value(headers, "location") or "",
        "headersSize": -1,
        "bodySize": _size_or_unknown(members.get("response_size")),
        **({"_byMcpproxy": True} if head.get("by") == "proxy" else {}),
    }


def _truncation_comment(body: _ExportedBody) -> dict[str, str]:
    return {"comment": f"only the beginning: {body.size} bytes"} if body.is_truncated else {}


def _is_stream(response: object) -> bool:
    headers = _header_pairs(response.get("headers")) if isinstance(response, dict) else []
    return any(name.lower() == "content-type" and "text/event-stream" in value.lower() for name, value in headers)


def _header_pairs(headers: object) -> list[tuple[str, str]]:
    fields = headers if isinstance(headers, list) else []
    return [
        (field[0], field[1])
        for field in fields
        if isinstance(field, list) and len(field) == 2 and isinstance(field[0], str) and isinstance(field[1], str)
    ]


def _header_value(headers: list[tuple[str, str]], lower_name: str) -> str | None:
    return next((value for name, value in headers if name.lower() == lower_name), None)


def _string_member(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _size_or_unknown(value: object) -> int:
    return value if type(value) is int and value >= 0 else -1


def _iso_time(t_ns: int) -> str:
    try:
        return f"{utc(t_ns)[:26]}Z"  # microseconds, because some readers do not accept nine digits
    except (ValueError, OverflowError, OSError):
        return _UNKNOWN_TIME


def json_bytes(value: object) -> bytes:
    """Return a value as JSON, even if a text in it is not valid Unicode."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        import json

        return json.dumps(value).encode()  # lone surrogates become escapes


class HarFile:
    """A HAR file. Entries are added as they end, and written in the order of their start, as the format requires."""

    def __init__(self, spool: BinaryIO) -> None:
        """Create a file without entries.

        Args:
            spool: an empty private file, which stores the entries until they are written in order.
        """
        self._spool = spool
        self._spooled_entries: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._spooled_entries)

    def add(self, entry: HarEntry) -> None:
        """Add an entry."""
        self._spooled_entries.append((entry.start_ns, self._spool.tell(), len(entry.text)))
        self._spool.write(entry.text)

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole file, piece by piece."""
        creator = {"name": "mcpproxy", "version": __version__}
        opening_json = orjson.dumps({"log": {"version": "1.2", "creator": creator, "entries": []}})
        yield opening_json.removesuffix(b"]}}")
        separator = b"\n"
        for _, offset, size in sorted(self._spooled_entries):
            yield separator
            separator = b",\n"
            self._spool.seek(offset)
            while size:
                piece = self._spool.read(min(size, COPY_CHUNK_BYTES))
                size -= len(piece)
                yield piece
        yield b"\n]}}\n"
