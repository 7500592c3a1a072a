"""Turns the HTTP exchanges that other tools log into conversations.

A log has whole exchanges, with few times. A browser's log contains much other traffic than MCP. An origin that receives
JSON-RPC by POST counts as a server. Its exchanges are imported if they are at a path that speaks MCP, fetch a document
that describes it (`/.well-known/`), or are legs of a login. All other exchanges are skipped and counted.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from orjson import JSONDecodeError, loads

from mcpproxy.importers.capture_lines import MAX_STAMP_NS
from mcpproxy.importers.case import Case, Step, Transport
from mcpproxy.importers.http import is_metadata, path_of, speaks_mcp
from mcpproxy.importers.leg_finder import LegFinder
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.opening import can_open_conversation
from mcpproxy.importers.source import InvalidLine
from mcpproxy.recorder.body_recorder import JSONRPC_NAME
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead
from mcpproxy.wording.counts import count_text

EndedBy = Literal["complete", "client", "server", "error", "proxy"]
"""How an exchange ended: the `ended_by` of its record."""
MAX_IMPORTED_HEAD_BYTES: Final = 512 << 10
"""The length of a head. Two such heads fit into a record, regardless of the escapes that their characters need."""
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
    """The position of the exchange in the log, for error messages: `entry 3`."""
    start_ns: int
    response_ns: int
    """When the head of the response arrived."""
    end_ns: int
    url: str
    method: bytes
    version: bytes
    fields: list[tuple[bytes, bytes]]
    request_body: bytes
    status: int
    """0 if there was no response."""
    reason: bytes
    response_fields: list[tuple[bytes, bytes]]
    response_body: bytes
    peer: str = ""
    """The address of the client; empty if unknown."""
    events: list[StreamEvent] = field(default_factory=list)
    """The events of a stream, if the log has them separately."""
    lacks_request_body: bool = False
    """Whether the request had a body that the log does not contain."""
    lacks_response_body: bool = False
    """Whether the response had a body that the log does not contain."""
    is_time_exact: bool = True
    """False if the log has no time for this exchange, so that the time of another one is used."""
    ended_by: EndedBy = "complete"
    """What ended the exchange, if it was not complete and the log says so."""

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return any(name.lower() == b"content-type" and _STREAM in value.lower() for name, value in self.response_fields)

    @property
    def request_head(self) -> RequestHead:
        """The head of the request."""
        fields = Fields(_valid_fields(self.fields))
        target = _target(self.url)
        lines = [b"%b %b %b" % (self.method, target, self.version), *(b"%b: %b" % pair for pair in fields), b"", b""]
        return RequestHead(self.method, target, self.version, fields, None, b"\r\n".join(lines))

    @property
    def response_head(self) -> ResponseHead:
        """The head of the response."""
        return ResponseHead(self.status, self.reason, self.version, Fields(_valid_fields(self.response_fields)), False)


class UnreadableExchange(NamedTuple):
    """An exchange in a log that cannot be imported."""

    place: str
    reason: str
    """What is wrong with it, or what was expected."""
    url: str
    """Empty if unknown."""


def items_of(
    log: Iterable[LoggedExchange | UnreadableExchange], other_count: int = 0
) -> Iterator[Case | LeftOut | Remark]:
    """Yields a case for each server in a log, and a report of everything that was left out.

    Args:
        log: the exchanges, in any order.
        other_count: the number of entries in the log that are not HTTP.

    Raises:
        InvalidLine: the log has no exchange with an MCP server.
    """
    exchanges, unreadable_exchanges = _split_importable(log)
    exchanges_by_origin: dict[str, list[LoggedExchange]] = {
        origin: [] for origin in map(_mcp_origin, exchanges) if origin
    }
    paths: dict[str, set[bytes]] = {origin: set() for origin in exchanges_by_origin}
    for exchange in exchanges:
        head, origin = exchange.request_head, _origin(exchange.url)
        if origin in exchanges_by_origin and speaks_mcp(head, exchange.request_body):
            paths[origin].add(path_of(head))
    leg_finders = {origin: LegFinder() for origin in exchanges_by_origin}
    for exchange in sorted(exchanges, key=lambda exchange: exchange.start_ns):
        head, origin = exchange.request_head, _origin(exchange.url)
        if origin in exchanges_by_origin and (
            is_metadata(head)
            or path_of(head) in paths[origin]
            or leg_finders[origin].is_leg(head, exchange.request_body, exchange.response_head)
        ):
            leg_finders[origin].read_metadata(head, exchange.response_body)
            exchanges_by_origin[origin].append(exchange)
        else:
            other_count += 1
    if not exchanges_by_origin:
        first_problem = next((f"{entry.place}: {entry.reason}" for entry in unreadable_exchanges), "")
        raise InvalidLine(first_problem or "it contains no HTTP exchange with an MCP server")
    for entry in unreadable_exchanges:
        if entry.url and _origin(entry.url) and _origin(entry.url) not in exchanges_by_origin:
            other_count += 1
        else:
            yield LeftOut(entry.place, entry.reason, _host(_origin(entry.url)))
    yield from (_case(origin, server_exchanges) for origin, server_exchanges in exchanges_by_origin.items())
    if other_count:
        verb = "is" if other_count == 1 else "are"
        yield Remark(f"skipped {count_text(other_count, 'exchange')} that {verb} not with an MCP server")
    imported_exchanges = [
        exchange for server_exchanges in exchanges_by_origin.values() for exchange in server_exchanges
    ]
    untimed_count = sum(
        exchange.is_stream and bool(exchange.response_body) and all(event.at_ns is None for event in exchange.events)
        for exchange in imported_exchanges
    )
    if untimed_count:
        streams = count_text(untimed_count, "event stream")
        yield Remark(f"no event times in {streams}: each event gets the time at which its stream ended")


def _split_importable(
    exchanges_in_log: Iterable[LoggedExchange | UnreadableExchange],
) -> tuple[list[LoggedExchange], list[UnreadableExchange]]:
    """Returns the exchanges that can be imported, and those that are too large or cannot be read."""
    exchanges: list[LoggedExchange] = []
    unreadable_exchanges: list[UnreadableExchange] = []
    for entry in exchanges_in_log:
        if isinstance(entry, UnreadableExchange):
            unreadable_exchanges.append(entry)
        elif problem := _size_problem(entry):
            unreadable_exchanges.append(UnreadableExchange(entry.place, problem, entry.url))
        else:
            exchanges.append(entry)
    return exchanges, unreadable_exchanges


def _size_problem(exchange: LoggedExchange) -> str:
    """Returns a sentence about what is too large in an exchange; empty if it fits into a capture."""
    for name, start_size, fields in (
        ("request", len(_target(exchange.url)), exchange.fields),
        ("response", len(exchange.reason), exchange.response_fields),
    ):
        size = start_size + sum(len(field) + len(value) + len(b'["",""],') for field, value in fields)
        if size > MAX_IMPORTED_HEAD_BYTES:
            return f"the head of the {name} has {size:,} bytes; the limit is {MAX_IMPORTED_HEAD_BYTES:,}"
    return ""


def checked_time(value: object, name: str, unit_ns: int) -> int:
    """Returns a time from a log in nanoseconds.

    Raises:
        InvalidLine: the value is not a time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_STAMP_NS / unit_ns:
        raise InvalidLine(f"expected a number of {name}")
    return round(value * unit_ns)


def checked_method(value: bytes) -> bytes:
    """Returns the method of a request unchanged.

    Raises:
        InvalidLine: the value is not a valid method.
    """
    if not _TOKEN(value):
        raise InvalidLine("expected an HTTP method")
    return value


def is_http_url(url: str) -> bool:
    """Whether a URL is a valid HTTP URL. Browsers' logs also contain `blob:`, `data:` and similar URLs."""
    return _origin(url) != ""


def looks_like_http_url(url: str) -> bool:
    """Whether a URL begins as an HTTP URL does; it may be invalid."""
    return url[:6].lower().startswith(("http:", "https:"))


def _mcp_origin(exchange: LoggedExchange) -> str:
    """Returns the origin of an exchange if its request is JSON-RPC, or seems to be but has no body; or else empty."""
    if exchange.lacks_request_body and exchange.method == b"POST" and speaks_mcp(exchange.request_head, b""):
        return _origin(exchange.url)
    if exchange.method != b"POST" or JSONRPC_NAME not in exchange.request_body:
        return ""
    try:
        value = loads(exchange.request_body)
    except JSONDecodeError:
        return ""
    first_message = value[0] if isinstance(value, list) and value else value
    return _origin(exchange.url) if isinstance(first_message, dict) and "jsonrpc" in first_message else ""


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


def _valid_fields(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Returns the fields with valid names. HTTP/2 has others, such as `:path`."""
    return [(name, value.strip()) for name, value in fields if _TOKEN(name)]


def _case(origin: str, exchanges: list[LoggedExchange]) -> Case:
    start_ns = min(exchange.start_ns for exchange in exchanges)
    steps = [
        step if exchange.is_time_exact else step._replace(is_time_exact=False)
        for number, exchange in enumerate(exchanges, 1)
        for step in _steps(exchange, number, start_ns)
    ]
    steps.sort(key=lambda step: step.t_ns)
    is_legacy = any(
        exchange.method == b"GET" and b"event: endpoint" in exchange.response_body[:4096] for exchange in exchanges
    )
    transport: Transport = "legacy-sse" if is_legacy else "http"
    jsonrpc_bodies = [exchange.request_body for exchange in exchanges if JSONRPC_NAME in exchange.request_body]
    observed_start = bool(jsonrpc_bodies) and can_open_conversation(jsonrpc_bodies[0])
    return Case(1, _host(origin), transport, observed_start, tuple(steps), {}, start_ns)


def _host(origin: str) -> str:
    return urlsplit(origin).netloc.rpartition("@")[2]


def _steps(exchange: LoggedExchange, number: int, start_ns: int) -> list[Step]:
    request_ns = exchange.start_ns - start_ns
    response_ns = max(request_ns, exchange.response_ns - start_ns)
    end_ns = max(response_ns, exchange.end_ns - start_ns)
    request = Step(
        request_ns, "req", "c2s", exchange.request_body, exchange=number, head=exchange.request_head, peer=exchange.peer
    )
    request = request._replace(lacks_body=exchange.lacks_request_body)
    if not exchange.status:
        return [request, _end_step(exchange, end_ns, number)]
    head = exchange.response_head
    if not exchange.is_stream and exchange.ended_by != "complete":
        head_step = Step(response_ns, "head", "s2c", exchange.response_body, exchange=number, head=head)
        return [
            request,
            head_step._replace(lacks_body=exchange.lacks_response_body),
            _end_step(exchange, end_ns, number),
        ]
    if not exchange.is_stream:
        response = Step(end_ns, "res", "s2c", exchange.response_body, exchange=number, head=head)
        return [request, response._replace(lacks_body=exchange.lacks_response_body)]
    head_step = Step(response_ns, "head", "s2c", exchange=number, head=head, lacks_body=exchange.lacks_response_body)
    steps = [request, head_step]
    at_ns = response_ns
    events = exchange.events or _split_events(exchange.response_body)
    for event in events:
        logged_ns = end_ns if event.at_ns is None else event.at_ns - start_ns
        at_ns = min(max(at_ns, logged_ns), max(end_ns, at_ns))
        # The response to a POST usually ends its stream, so it came at that time. With GET, the client ends the stream.
        is_exact = at_ns == logged_ns if event.at_ns is not None else event is events[-1] and exchange.method == b"POST"
        steps.append(Step(at_ns, "sse", "s2c", event.raw, exchange=number, is_time_exact=is_exact))
    return [*steps, _end_step(exchange, max(end_ns, at_ns), number)]


def _end_step(exchange: LoggedExchange, at_ns: int, number: int) -> Step:
    ended_by = "server" if exchange.ended_by in ("complete", "error") else exchange.ended_by
    is_cut = exchange.ended_by != "complete"
    return Step(
        at_ns, "end", "c2s" if ended_by == "client" else "s2c", exchange=number, ended_by=ended_by, is_cut=is_cut
    )


def _split_events(body: bytes) -> list[StreamEvent]:
    """Split a stream into its events, each with the empty line that ends it."""
    events, start = [], 0
    for match in _EVENT_END.finditer(body):
        events.append(StreamEvent(None, body[start : match.end()]))
        start = match.end()
    return [*events, StreamEvent(None, body[start:])] if start < len(body) else events
