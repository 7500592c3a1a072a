"""HTTP exchanges as other tools log them: whole, with the times of a few moments. Turns them into conversations.

A browser's log holds much besides MCP. A server is an origin to which JSON-RPC is posted; of its exchanges,
those at the paths that speak MCP are kept, and those for documents that describe it (`/.well-known/`). Everything else
is skipped and counted.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from orjson import JSONDecodeError, loads

from mcpproxy.importers.capture_lines import MAX_NS
from mcpproxy.importers.case import Case, Step, Transport
from mcpproxy.importers.http import is_metadata, path_of, speaks_mcp
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.opening import can_open_conversation
from mcpproxy.importers.source import InvalidLine
from mcpproxy.recorder.exchange import SNIFFED
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.http1 import Head
from mcpproxy.wire.response import ResponseHead
from mcpproxy.wording.counts import count_text

EndedBy = Literal["complete", "client", "server", "error", "proxy"]
"""How an exchange ended: `ended_by` of its record."""
MAX_IMPORTED_HEAD_BYTES: Final = 512 << 10
"""Bytes of a head. Two such heads fit into a record, whatever escapes their characters need."""
MAX_ORIGIN_CHARS: Final = 1024
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}").fullmatch
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_STREAM: Final = b"text/event-stream"


class StreamEvent(NamedTuple):
    """A piece of an event stream."""

    at_ns: int | None
    """When it arrived, in nanoseconds since 1970; None if the log does not say."""
    raw: bytes


@dataclass(slots=True)
class LoggedExchange:
    """One exchange in a log. Times are nanoseconds since 1970."""

    place: str
    """Where in the log it is, to name it in errors: `entry 3`."""
    begun_ns: int
    answered_ns: int
    """When the head of the response arrived."""
    ended_ns: int
    url: str
    method: bytes
    version: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes
    status: int
    """0 if there was no response."""
    reason: bytes
    answer_fields: list[tuple[bytes, bytes]]
    answer: bytes
    peer: str = ""
    """The address of the client; empty if unknown."""
    events: list[StreamEvent] = field(default_factory=list)
    """The events of a stream, if the log has them separately."""
    lacks_body: bool = False
    """Whether the request had a body that the log does not hold."""
    lacks_answer: bool = False
    """The same for the response."""
    is_time_exact: bool = True
    """False if the log has no time for it, so that it has that of another exchange."""
    ended_by: EndedBy = "complete"
    """Who ended the exchange, if it was not complete and the log says so."""

    @property
    def is_stream(self) -> bool:
        """Whether an event stream answered it."""
        return any(name.lower() == b"content-type" and _STREAM in value.lower() for name, value in self.answer_fields)

    @property
    def head(self) -> Head:
        """The head of the request."""
        fields = Fields(_clean(self.fields))
        target = _target(self.url)
        lines = [b"%b %b %b" % (self.method, target, self.version), *(b"%b: %b" % pair for pair in fields), b"", b""]
        return Head(self.method, target, self.version, fields, None, b"\r\n".join(lines))

    @property
    def answer_head(self) -> ResponseHead:
        """The head of the response."""
        return ResponseHead(self.status, self.reason, self.version, Fields(_clean(self.answer_fields)), False)


class UnreadableExchange(NamedTuple):
    """An exchange in a log that cannot be read."""

    place: str
    reason: str
    """What is wrong or expected there."""
    url: str
    """Its URL; empty if unknown."""


def items_of(log: Iterable[LoggedExchange | UnreadableExchange], others: int = 0) -> Iterator[Case | LeftOut | Remark]:
    """Yields a case for each server in a log, and what was left out.

    Args:
        log: the exchanges, in any order.
        others: how many entries of the log are not HTTP.

    Raises:
        InvalidLine: there is no server.
    """
    exchanges, unreadable = _sorted_out(log)
    kept: dict[str, list[LoggedExchange]] = {origin: [] for origin in map(_spoken_at, exchanges) if origin}
    paths: dict[str, set[bytes]] = {origin: set() for origin in kept}
    for logged in exchanges:
        head, origin = logged.head, _origin(logged.url)
        if origin in kept and speaks_mcp(head, logged.body):
            paths[origin].add(path_of(head))
    for logged in sorted(exchanges, key=lambda logged: logged.begun_ns):
        head, origin = logged.head, _origin(logged.url)
        if origin in kept and (is_metadata(head) or path_of(head) in paths[origin]):
            kept[origin].append(logged)
        else:
            others += 1
    if not kept:
        first = next((f"{entry.place}: {entry.reason}" for entry in unreadable), "")
        raise InvalidLine(first or "it contains no HTTP exchange with an MCP server")
    for entry in unreadable:
        if entry.url and _origin(entry.url) and _origin(entry.url) not in kept:
            others += 1
        else:
            yield LeftOut(entry.place, entry.reason, _host(_origin(entry.url)))
    yield from (_case(origin, own) for origin, own in kept.items())
    if others:
        yield Remark(f"skipped {count_text(others, 'other exchange')}: not with an MCP server")
    taken = [logged for own in kept.values() for logged in own]
    untimed = sum(
        logged.is_stream and bool(logged.answer) and all(event.at_ns is None for event in logged.events)
        for logged in taken
    )
    if untimed:
        streams = count_text(untimed, "event stream")
        yield Remark(f"no event times in {streams}: each event gets the time at which its stream ended")


def _sorted_out(
    log: Iterable[LoggedExchange | UnreadableExchange],
) -> tuple[list[LoggedExchange], list[UnreadableExchange]]:
    """The exchanges of a log that fit into a capture, and those that do not or cannot be read."""
    exchanges: list[LoggedExchange] = []
    unreadable: list[UnreadableExchange] = []
    for entry in log:
        if isinstance(entry, UnreadableExchange):
            unreadable.append(entry)
        elif problem := _size_problem(entry):
            unreadable.append(UnreadableExchange(entry.place, problem, entry.url))
        else:
            exchanges.append(entry)
    return exchanges, unreadable


def _size_problem(logged: LoggedExchange) -> str:
    """What is too large in an exchange; empty if it fits into a capture."""
    for name, start, fields in (
        ("request", len(_target(logged.url)), logged.fields),
        ("response", len(logged.reason), logged.answer_fields),
    ):
        size = start + sum(len(field) + len(value) + len(b'["",""],') for field, value in fields)
        if size > MAX_IMPORTED_HEAD_BYTES:
            return f"the head of the {name} has {size:,} bytes; a capture holds {MAX_IMPORTED_HEAD_BYTES:,}"
    return ""


def checked_time(value: object, name: str, unit_ns: int) -> int:
    """A time in a log, in nanoseconds.

    Raises:
        InvalidLine: it is not a time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_NS / unit_ns:
        raise InvalidLine(f"expected a number of {name}")
    return round(value * unit_ns)


def checked_token(value: bytes) -> bytes:
    """The method of a request.

    Raises:
        InvalidLine: it is not a valid method.
    """
    if not _TOKEN(value):
        raise InvalidLine("expected an HTTP method")
    return value


def is_web(url: str) -> bool:
    """Whether a URL is one of HTTP, and can be parsed; browsers' logs also hold `blob:`, `data:` and the like."""
    return _origin(url) != ""


def looks_like_web(url: str) -> bool:
    """Whether a URL claims to be one of HTTP."""
    return url[:6].lower().startswith(("http:", "https:"))


def _spoken_at(logged: LoggedExchange) -> str:
    """The origin of an exchange whose request is JSON-RPC, or seems to be if its body is missing; empty for others."""
    if logged.lacks_body and logged.method == b"POST" and speaks_mcp(logged.head, b""):
        return _origin(logged.url)
    if logged.method != b"POST" or SNIFFED not in logged.body:
        return ""
    try:
        read = loads(logged.body)
    except JSONDecodeError:
        return ""
    first = read[0] if isinstance(read, list) and read else read
    return _origin(logged.url) if isinstance(first, dict) and "jsonrpc" in first else ""


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    is_web_address = parts.scheme in ("http", "https") and 0 < len(parts.netloc) <= MAX_ORIGIN_CHARS
    return f"{parts.scheme}://{parts.netloc}" if is_web_address else ""


def _target(url: str) -> bytes:
    parts = urlsplit(url)
    return (parts.path or "/").encode() + (b"?" + parts.query.encode() if parts.query else b"")


def _clean(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The fields with valid names: HTTP/2 has others, such as `:path`."""
    return [(name, value.strip()) for name, value in fields if _TOKEN(name)]


def _case(origin: str, exchanges: list[LoggedExchange]) -> Case:
    start_ns = min(logged.begun_ns for logged in exchanges)
    steps = [
        step if logged.is_time_exact else step._replace(is_time_exact=False)
        for number, logged in enumerate(exchanges, 1)
        for step in _steps(logged, number, start_ns)
    ]
    steps.sort(key=lambda step: step.t_ns)
    is_older = any(logged.method == b"GET" and b"event: endpoint" in logged.answer[:4096] for logged in exchanges)
    transport: Transport = "legacy-sse" if is_older else "http"
    spoken = [logged.body for logged in exchanges if SNIFFED in logged.body]
    observed_start = bool(spoken) and can_open_conversation(spoken[0])
    return Case(1, _host(origin), transport, observed_start, tuple(steps), {}, start_ns)


def _host(origin: str) -> str:
    return urlsplit(origin).netloc.rpartition("@")[2]


def _steps(logged: LoggedExchange, number: int, start_ns: int) -> list[Step]:
    begun_ns = logged.begun_ns - start_ns
    answered_ns = max(begun_ns, logged.answered_ns - start_ns)
    ended_ns = max(answered_ns, logged.ended_ns - start_ns)
    request = Step(begun_ns, "req", "c2s", logged.body, exchange=number, head=logged.head, peer=logged.peer)
    request = request._replace(lacks_body=logged.lacks_body)
    if not logged.status:
        return [request, _end(logged, ended_ns, number)]
    head = logged.answer_head
    if not logged.is_stream and logged.ended_by != "complete":
        begun = Step(answered_ns, "head", "s2c", logged.answer, exchange=number, head=head)
        return [request, begun._replace(lacks_body=logged.lacks_answer), _end(logged, ended_ns, number)]
    if not logged.is_stream:
        answer = Step(ended_ns, "res", "s2c", logged.answer, exchange=number, head=head)
        return [request, answer._replace(lacks_body=logged.lacks_answer)]
    begun = Step(answered_ns, "head", "s2c", exchange=number, head=head, lacks_body=logged.lacks_answer)
    steps = [request, begun]
    at_ns = answered_ns
    events = logged.events or _cut(logged.answer)
    for event in events:
        logged_ns = ended_ns if event.at_ns is None else event.at_ns - start_ns
        at_ns = min(max(at_ns, logged_ns), max(ended_ns, at_ns))
        # A response that is sent as a stream usually ends it, so that is when it came; with GET, the client ends it.
        is_exact = at_ns == logged_ns if event.at_ns is not None else event is events[-1] and logged.method == b"POST"
        steps.append(Step(at_ns, "sse", "s2c", event.raw, exchange=number, is_time_exact=is_exact))
    return [*steps, _end(logged, max(ended_ns, at_ns), number)]


def _end(logged: LoggedExchange, at_ns: int, number: int) -> Step:
    by = "server" if logged.ended_by in ("complete", "error") else logged.ended_by
    is_cut = logged.ended_by != "complete"
    return Step(at_ns, "end", "c2s" if by == "client" else "s2c", exchange=number, by=by, is_cut=is_cut)


def _cut(body: bytes) -> list[StreamEvent]:
    """The events of a stream, each with the empty line that ends it."""
    events, start = [], 0
    for end in _EVENT_END.finditer(body):
        events.append(StreamEvent(None, body[start : end.end()]))
        start = end.end()
    return [*events, StreamEvent(None, body[start:])] if start < len(body) else events
