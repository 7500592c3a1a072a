"""HAR 1.2: the HTTP exchanges of a capture, as browsers and HTTP debuggers read them.

An event stream is the text of its body, reassembled from its events; the member `_mcp` of an entry says when each
message crossed, for which HAR has no place. Values that the recorder has replaced with hashes stay replaced; cookies
are only in the headers. Bodies are decoded, as HAR requires, so a `Content-Encoding` in the headers describes the
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
"""Bytes of a body that are exported; the rest of a longer one is left out, and a comment says so."""
HELD: Final = 256 << 20
"""The most bytes of unfinished bodies, over all exchanges."""
MAX_OPEN_EXCHANGES: Final = 15_000
"""The most unfinished exchanges; beyond that, the oldest is written as it is."""
COPY: Final = 1 << 20
_GAVE_UP: Final = "the client closed it before the response"
_NO_TIME: Final = "1970-01-01T00:00:00.000000Z"


class HarEntry(NamedTuple):
    """One entry of a HAR file."""

    start_ns: int
    """When its request began, in nanoseconds since 1970."""
    text: bytes
    """JSON."""


class Entries:
    """The entries of one capture, each once its exchange has ended."""

    def __init__(self, capture: str, fold: Fold, only: Filter | None = None) -> None:
        """Start without entries.

        Args:
            capture: the id of the capture.
            fold: the state of the conversation, as its reading keeps it.
            only: selects exchanges in which it matches a message; None for all.
        """
        self.headless = 0
        """Exchanges left out because the record of their request is lost."""
        self.cut = 0
        """Bodies that were too long."""
        self._capture, self._only = capture, only
        self._fold = fold
        self._held = 0
        self._open: OrderedDict[int, _Exchange] = OrderedDict()

    @property
    def is_http(self) -> bool:
        """Whether the capture is one of HTTP."""
        return self._fold.transport == "http"

    def on_step(self, step: Step) -> list[HarEntry]:
        """Process the next step; returns the entries that it completes. The last step completes those that are open."""
        item = step.item
        for context in step.messages:
            number = context.message.frames[0].exchange
            if self._only is not None and number is not None and self._only.matches(facts_of(context)):
                self._of(number).is_selected = True
        if isinstance(item, Frame):
            if item.exchange is not None:
                self._take_frame(item, self._of(item.exchange))
        elif isinstance(item, Record) and item.rec == "exchange":
            number = item.members.get("exchange")
            if type(number) is int:
                exchange = self._of(number)
                exchange.begin(item.t_ns)
                exchange.members |= item.members
                if item.members.get("stage") == "end":
                    exchange.is_unanswered = any(call.response is None for call in step.changed)
                    return self._closed(number)
        if step.end is not None:
            return [entry for number in list(self._open) for entry in self._closed(number)]
        if len(self._open) > MAX_OPEN_EXCHANGES:
            return self._closed(next(iter(self._open)))
        return []

    def _of(self, number: int) -> "_Exchange":
        exchange = self._open.get(number)
        if exchange is None:
            exchange = self._open[number] = _Exchange(number)
        return exchange

    def _take_frame(self, frame: Frame, exchange: "_Exchange") -> None:
        exchange.begin(frame.t_ns)
        exchange.messages.append((frame.t_ns, _message(frame)))
        body = exchange.bodies[frame.dir]
        written = exchange.event_text(frame) if frame.unit == "sse_event" else frame.raw
        if body.size + len(written) > MAX_EXPORTED_BODY_BYTES or self._held + len(written) > HELD:
            body.is_cut = True
            return
        body.pieces.append(written)
        body.size += len(written)
        self._held += len(written)

    def _closed(self, number: int) -> list[HarEntry]:
        exchange = self._open.pop(number)
        self._held -= sum(body.size for body in exchange.bodies.values())
        if self._only is not None and not exchange.is_selected:
            return []
        if not isinstance(exchange.members.get("request"), dict):
            self.headless += 1
            return []
        self.cut += sum(body.is_cut for body in exchange.bodies.values())
        return [self._entry(exchange)]

    def _entry(self, exchange: "_Exchange") -> HarEntry:
        members, request = exchange.members, exchange.members["request"]
        # A stream of the client's own has a body even without events: it is empty, but open for some time.
        has_body = (
            bool(exchange.bodies["s2c"].pieces)
            or _count(members.get("response_size")) > 0
            or (request.get("method") == "GET" and _is_stream(members.get("response")))
        )
        times = _Times(members.get("times"), exchange.begun_ns, has_body=has_body)
        start_ns = (self._fold.wall_ns or 0) + times.begun_ns
        known = self._fold.exchanges.known(exchange.number)
        session = known.session if known is not None else None
        ended_by, error = _string(members, "ended_by") or None, _string(members, "error")
        if ended_by == "client" and known is not None:
            if exchange.is_unanswered or known.status is None:
                error = error or _GAVE_UP
            elif known.settled is not None:
                ended_by = "complete"  # it closed a stream that had delivered all it wanted
        entry = {
            "startedDateTime": _date(start_ns),
            "time": times.send + times.wait + times.receive,
            "request": _request(request, exchange, self._origin(request)),
            "response": _response(members, exchange),
            "cache": {},
            "timings": {
                **dict.fromkeys(("blocked", "dns", "connect", "ssl"), -1),
                "send": times.send,
                "wait": times.wait,
                "receive": times.receive,
            },
            "connection": str(members.get("conn", "")),
            "_mcp": {
                "capture": self._capture,
                "exchange": exchange.number,
                "session": None if session is None else session.number,
                "revision": None if session is None else session.revision,
                "peer": _string(members, "peer") or None,
                "endedBy": ended_by,
                "notStored": members.get("body_hash") or None,
                "messages": [{**message, "time": (t_ns - times.begun_ns) / 1e6} for t_ns, message in exchange.messages],
            },
            **({"_error": error} if error else {}),
        }
        return HarEntry(start_ns, dumped(entry))

    def _origin(self, request: dict[str, Any]) -> str:
        """Scheme, host and port of the server itself; where they are unknown, of what the client named."""
        with suppress(ValueError):
            parts = urlsplit(self._fold.exchanges.upstream)
            if parts.scheme and parts.netloc:
                return f"{parts.scheme}://{parts.netloc}"
        host = next((value for name, value in _pairs(request.get("headers")) if name.lower() == "host"), "host")
        return f"http://{host}"


class _Body:
    """The bytes of one direction."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.is_cut = False


class _Exchange:
    """An exchange in progress."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.members: dict[str, Any] = {}
        self.messages: list[tuple[int, dict[str, Any]]] = []
        """Stamp and description of each frame."""
        self.bodies = {"c2s": _Body(), "s2c": _Body()}
        self.is_selected = False
        self.is_unanswered = False
        """Whether it ended without the response to one of its requests."""
        self.begun_ns = -1
        """Stamp of its first record."""
        self._event_id: str | None = None

    def begin(self, t_ns: int) -> None:
        """Note the stamp of its first record."""
        if self.begun_ns < 0:
            self.begun_ns = t_ns

    def event_text(self, frame: Frame) -> bytes:
        """An event as a server sends it (HTML, 9.2.5); comments and the spelling of its fields are not recorded."""
        fields = []
        if frame.event is not None:
            fields.append(f"event: {frame.event}".encode("utf-8", "replace"))
        if frame.event_id is not None and (frame.event_id != self._event_id or frame.id_again):
            fields.append(f"id: {frame.event_id}".encode("utf-8", "replace"))
        self._event_id = frame.event_id
        fields += [b"data: " + line for line in frame.raw.split(b"\n")]
        return b"\n".join(fields) + b"\n\n"


class _Times:
    """When an exchange began, and its phases in milliseconds."""

    def __init__(self, times: object, begun_ns: int, *, has_body: bool) -> None:
        """Read the recorded times.

        Args:
            times: the member of the exchange's record.
            begun_ns: the stamp of its first record, in case the request's own is unknown.
            has_body: whether a response has a body; if not, the whole time was spent waiting.
        """
        known = times if isinstance(times, dict) else {}
        head, *later = (_stamp(known.get(name)) for name in _PHASES)
        self.begun_ns = begun_ns if head is None else head
        phases, before = [], self.begun_ns
        for stamp in later:
            now = before if stamp is None else max(before, stamp)
            phases.append((now - before) / 1e6)
            before = now
        self.send, wait, receive = phases
        self.wait, self.receive = (wait, receive) if has_body else (wait + receive, 0.0)


_PHASES: Final = ("request_head", "request_end", "response_head", "response_end")


def _stamp(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _message(frame: Frame) -> dict[str, Any]:
    verdict = frame.verdict
    described: dict[str, Any] = {"frame": frame.seq, "dir": frame.dir, "kind": verdict.kind, "size": len(frame.raw)}
    if verdict.method is not None:
        described["method"] = verdict.method
    if verdict.id is not None:
        described["id"] = verdict.id.decode("utf-8", "replace")
    if frame.event_id is not None:
        described["eventId"] = frame.event_id
    return described


def _request(request: dict[str, Any], exchange: _Exchange, origin: str) -> dict[str, Any]:
    target = _string(request, "target")
    url = target if target.startswith(("http://", "https://")) else origin + target
    headers, body = _pairs(request.get("headers")), exchange.bodies["c2s"]
    posted: dict[str, Any] = {}
    if body.pieces:
        kind = _value(headers, "content-type") or "application/json"
        # HAR has no encoding for request bodies; bytes that are not UTF-8 are escaped, and cannot be restored.
        text = b"\n".join(body.pieces).decode("utf-8", "backslashreplace")
        posted["postData"] = {"mimeType": kind, "text": text, **_cut(body)}
    return {
        "method": _string(request, "method"),
        "url": url,
        "httpVersion": _string(request, "version") or "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "queryString": [
            {"name": name, "value": value}
            for name, value in parse_qsl(target.partition("?")[2], keep_blank_values=True)
        ],
        **posted,
        "headersSize": -1,
        "bodySize": _count(exchange.members.get("request_size")),
    }


def _response(members: dict[str, Any], exchange: _Exchange) -> dict[str, Any]:
    response = members.get("response")
    known = response if isinstance(response, dict) else {}
    headers, body = _pairs(known.get("headers")), exchange.bodies["s2c"]
    content: dict[str, Any] = {"size": body.size, "mimeType": _value(headers, "content-type") or "", **_cut(body)}
    announced = members.get("endpoints")
    endpoints = [address for address in announced if isinstance(address, str)] if isinstance(announced, list) else []
    # The older transport's first event, which is not a frame; its address has been cleaned of secrets.
    pieces = [f"event: endpoint\ndata: {address}\n\n".encode("utf-8", "replace") for address in endpoints]
    if body.pieces or pieces:
        raw = b"".join([*pieces, *body.pieces])
        content["size"] = len(raw)
        try:
            content["text"] = raw.decode()
        except UnicodeDecodeError:
            content |= {"text": b64encode(raw).decode(), "encoding": "base64"}
    elif document := _string(members, "metadata") or _string(members, "response_text"):
        content |= {"text": document, "size": len(document.encode("utf-8", "replace"))}
    elif isinstance(members.get("body_hash"), dict) and "response" in members["body_hash"]:
        content["comment"] = "not stored in the capture; _mcp.notStored has its size and hash"
    status = known.get("status")
    return {
        "status": status if type(status) is int else 0,
        "statusText": _string(known, "reason"),
        "httpVersion": _string(known, "version") or "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "content": content,
        "redirectURL": _value(headers, "location") or "",
        "headersSize": -1,
        "bodySize": _count(members.get("response_size")),
        **({"_byMcpproxy": True} if known.get("by") == "proxy" else {}),
    }


def _cut(body: _Body) -> dict[str, str]:
    return {"comment": f"only the beginning: {body.size} bytes"} if body.is_cut else {}


def _is_stream(response: object) -> bool:
    headers = _pairs(response.get("headers")) if isinstance(response, dict) else []
    return any(name.lower() == "content-type" and "text/event-stream" in value.lower() for name, value in headers)


def _pairs(headers: object) -> list[tuple[str, str]]:
    rows = headers if isinstance(headers, list) else []
    return [
        (row[0], row[1])
        for row in rows
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str)
    ]


def _value(headers: list[tuple[str, str]], wanted: str) -> str | None:
    return next((value for name, value in headers if name.lower() == wanted), None)


def _string(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else -1


def _date(t_ns: int) -> str:
    try:
        return f"{utc(t_ns)[:26]}Z"  # microseconds: not every reader takes nine digits
    except (ValueError, OverflowError, OSError):
        return _NO_TIME


def dumped(value: object) -> bytes:
    """A value as JSON, regardless of what text a capture has put into it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        import json

        return json.dumps(value).encode()  # lone surrogates become escapes


class HarFile:
    """Sorts entries by their beginning, as a HAR file requires; they arrive in the order of their ends."""

    def __init__(self, spool: BinaryIO) -> None:
        """`spool` is an empty private file, which stores the entries until then."""
        self._spool = spool
        self._places: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._places)

    def add(self, entry: HarEntry) -> None:
        """Add an entry."""
        self._places.append((entry.start_ns, self._spool.tell(), len(entry.text)))
        self._spool.write(entry.text)

    def pieces(self) -> Iterator[bytes]:
        """The whole file, piece by piece."""
        creator = {"name": "mcpproxy", "version": __version__}
        head = orjson.dumps({"log": {"version": "1.2", "creator": creator, "entries": []}})
        yield head.removesuffix(b"]}}")
        before = b"\n"
        for _, offset, size in sorted(self._places):
            yield before
            before = b",\n"
            self._spool.seek(offset)
            while size:
                piece = self._spool.read(min(size, COPY))
                size -= len(piece)
                yield piece
        yield b"\n]}}\n"
