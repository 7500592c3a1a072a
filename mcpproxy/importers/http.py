"""Converts HTTP exchanges logged as heads and bodies into the records that `serve` would have written.

The code for live traffic decides which bodies are kept, and how they are split. But three things differ. No URL was
given, so the server's paths are inferred from the traffic. Nothing is redacted, as the imported data is in plain text
already. And nothing can lead past a recorder that was not there, so there are no flags.
"""

import re
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast

from orjson import dumps

from captures.loss import PendingRecord
from mcpproxy.importers.source import InvalidLine
from mcpproxy.recorder.exchange import SNIFFED, ExchangeRecorder
from mcpproxy.recorder.oauth_legs import AnnouncedLegs
from mcpproxy.wire.framing import Fields, Malformed, field_of
from mcpproxy.wire.http1 import MAX_REQUEST_HEAD_BYTES, Head
from mcpproxy.wire.response import ResponseHead

if TYPE_CHECKING:
    from mcpproxy.recorder.http import ConnectionRecorder

_HEAD_END: Final = re.compile(rb"\r?\n\r?\n").search
_REQUEST: Final = re.compile(rb"(\S+) (\S+) (HTTP/[0-9](?:\.[0-9])?)").fullmatch
_STATUS: Final = re.compile(rb"(HTTP/[0-9](?:\.[0-9])?) ([1-9][0-9][0-9])(?: (.*))?").fullmatch
_WELL_KNOWN: Final = b"/.well-known/"
_STREAM: Final = b"text/event-stream"
MAX_CONTENT_LENGTH_DIGITS: Final = 20
_UNSEEN: Final = ResponseHead(200, b"", b"HTTP/1.1", Fields([(b"content-type", _STREAM)]), False)
"""Stands in for the head of a stream that was open before the log began."""


def request_of(raw: bytes) -> tuple[Head, bytes]:
    """Parses a request's head and content.

    Raises:
        InvalidLine: it has no head.
    """
    start, fields, head, body = _parts(raw)
    match = _REQUEST(start)
    if not match:
        raise InvalidLine("expected `METHOD TARGET HTTP/1.1` in the first line of a request")
    return Head(match[1], match[2], match[3], fields, None, head), body


def response_of(raw: bytes) -> tuple[ResponseHead, bytes]:
    """Parses a response's head and content.

    Raises:
        InvalidLine: it has no head.
    """
    start, fields, _, body = _parts(raw)
    match = _STATUS(start)
    if not match:
        raise InvalidLine("expected `HTTP/1.1 STATUS REASON` in the first line of a response")
    status = int(match[2])
    return ResponseHead(status, match[3] or b"", match[1], fields, status < 200), body


def _parts(raw: bytes) -> tuple[bytes, Fields, bytes, bytes]:
    """First line, header fields, the raw head, and what follows it."""
    end = _HEAD_END(raw, 0, MAX_REQUEST_HEAD_BYTES)
    if not end:
        raise InvalidLine(
            f"expected a head that ends in an empty line, CR LF CR LF, within {MAX_REQUEST_HEAD_BYTES:,} bytes"
        )
    start, *lines = [line.removesuffix(b"\r") for line in raw[: end.start()].split(b"\n")]
    try:
        return start, Fields([field_of(line) for line in lines]), raw[: end.end()], raw[end.end() :]
    except Malformed as bad:
        raise InvalidLine(f"{bad.reason}: expected `name: value`") from None


def is_metadata(head: Head) -> bool:
    """Whether a request asks for a document that describes the server."""
    return head.target.startswith(_WELL_KNOWN)


def speaks_mcp(head: Head, body: bytes) -> bool:
    """Whether a request goes to the server's endpoint, judged by the request alone."""
    if is_metadata(head):
        return False
    return SNIFFED in body or any(_STREAM in value.lower() for value in head.headers.values_of(b"accept"))


def path_of(head: Head) -> bytes:
    """The target of a request without its query."""
    return head.target.partition(b"?")[0]


class Exchanges:
    """The exchanges of one conversation so far. The caller numbers them, and the numbers need not be in order.

    Each method returns the records of what happened at `at_ns`.
    """

    def __init__(self, endpoints: set[bytes]) -> None:
        """`endpoints` are the paths that serve MCP; empty if unknown."""
        self.at_ns = 0
        self.endpoints = endpoints
        self.counts = _Counts()
        self._connections = 0
        self._of_peer: dict[str, _Connection] = {}
        self._exchanges: dict[int, _Exchange] = {}

    def request(
        self, number: int, head: Head, body: bytes, peer: str, *, lacks_body: bool = False
    ) -> list[PendingRecord]:
        """A whole request arrived from a client, whose address is empty if unknown.

        `lacks_body`: whether it had a body that the log does not hold.
        """
        exchange = self._exchange(number, peer)
        if lacks_body:
            exchange.missing.append("request")
        exchange.is_request_open = True
        exchange.begin_request(head)
        _finish(exchange.add_to_request(body) if body else None)
        exchange.end_request()
        return exchange.connection.taken()

    def response(
        self, number: int, head: ResponseHead, body: bytes, *, complete: bool, lacks_body: bool = False
    ) -> list[PendingRecord]:
        """A whole response, or the head of one that continues; `lacks_body` as for a request."""
        exchange = self._exchange(number)
        if lacks_body and "response" not in exchange.missing:
            exchange.missing.append("response")
        if head.informational:
            return []
        exchange.begin_response(head)
        _finish(exchange.add_to_response(body) if body else None)
        if complete:
            exchange.end("complete", None)
        else:
            exchange.record_response()
        return exchange.connection.taken()

    def more(self, number: int, data: bytes) -> list[PendingRecord]:
        """A piece of a response that continues."""
        exchange = self._exchange(number)
        exchange.go_on(data)
        return exchange.connection.taken()

    def end(self, number: int, by: str, *, is_cut: bool = False) -> list[PendingRecord]:
        """The connection, or the stream, was closed by `client` or `server`.

        A response without an announced length is complete when the server closes, unless `is_cut`: how it was
        transferred showed that its end was missing.
        """
        exchange = self._exchange(number)
        if exchange.is_over:
            return []
        is_cut = is_cut or exchange.is_cut
        exchange.end("complete" if by == "server" and exchange.is_begun and not is_cut else by, None)
        return exchange.connection.taken()

    def rest(self) -> list[tuple[int, PendingRecord]]:
        """The unfinished bodies, each with the number of its exchange."""
        entries = []
        for number, exchange in self._exchanges.items():
            exchange.connection.at_ns = self.at_ns
            exchange.break_off()
            entries += [(number, entry) for entry in exchange.connection.taken()]
        return entries

    def totals(self) -> dict[str, object]:
        """The counts for the close record."""
        counts = self.counts
        return {side: {"frames": counts.frames[side], "bytes": counts.bytes[side]} for side in counts.frames}

    def _exchange(self, number: int, peer: str = "") -> "_Exchange":
        exchange = self._exchanges.get(number)
        if exchange is None:
            connection = self._of_peer.get(peer) if peer else None
            if connection is None:
                self._connections += 1
                connection = _Connection(self, self._connections, peer)
                if peer:
                    self._of_peer[peer] = connection
            connection.at_ns = self.at_ns
            exchange = self._exchanges[number] = _Exchange(connection, number)
        exchange.connection.at_ns = self.at_ns
        return exchange


class _Counts:
    """What an exchange needs from its recorder."""

    def __init__(self) -> None:
        self.frames = {"c2s": 0, "s2c": 0}
        self.bytes = {"c2s": 0, "s2c": 0}
        self.mcp_places: set[bytes | str] = set()
        self.oauth_legs = AnnouncedLegs()
        self.secret_hash = None
        self.is_public = False
        self.on_exchange_end = None

    def redacted(self, fields: Fields) -> bytes:
        """A header list as JSON, in plain text."""
        return dumps([[_text(name), _text(value)] for name, value in fields])

    def clean(self, target: bytes) -> str:
        """A target, in plain text."""
        return _text(target)

    def clean_document(self, document: dict[str, Any]) -> bytes:
        """A document, in plain text."""
        return dumps(document)

    def is_own(self, _address: str) -> bool:
        """Whether an address is at the server: its host is not known for certain, and its path is enough."""
        return True

    def address(self, target: bytes) -> str:
        """A target as a URI, whose host is not known for certain."""
        return "http://host" + target.decode("latin-1")

    def hash(self, uri: bytes) -> str:
        """The key of a URI: only path and query, as clients name the same host in several ways."""
        _, _, rest = uri.partition(b"://")
        return blake2b(rest.partition(b"/")[2], digest_size=8).hexdigest()

    def uri_key(self, target: bytes) -> str:
        """The key of a request's URI."""
        return self.hash(self.address(target).encode())


class _Connection:
    """What an exchange needs from its connection."""

    def __init__(self, exchanges: Exchanges, number: int, peer: str) -> None:
        self.exchanges = exchanges
        self.recorder = exchanges.counts
        self.number = number
        self.peer = peer
        self.believes_proxies = False
        self.at_ns = 0
        self.entries: list[PendingRecord] = []

    def taken(self) -> list[PendingRecord]:
        """Returns the collected records."""
        entries, self.entries = self.entries, []
        return entries


class _Exchange(ExchangeRecorder):
    """An exchange that may have begun before the log did, from a client that may be unknown."""

    def __init__(self, connection: _Connection, number: int) -> None:
        # It needs only what the two classes above provide.
        super().__init__(cast("ConnectionRecorder", connection), number)
        self.connection = connection
        self.is_request_open = False
        self.is_over = False
        self._times = {}
        if not connection.peer:
            self._request = b""

    @property
    def is_begun(self) -> bool:
        """Whether a response has begun."""
        return self._received is not None

    @property
    def is_cut(self) -> bool:
        """Whether less of the response has arrived than its head announces."""
        head, received = self._response_head, self._received
        if head is None or received is None:
            return False
        announced = b"".join(head.headers.values_of(b"content-length")[:1])
        return announced.isdigit() and len(announced) < MAX_CONTENT_LENGTH_DIGITS and received.size < int(announced)

    def begin_request(self, head: Head) -> None:
        """The request's head."""
        self._times["request_head"] = self.connection.at_ns
        super().begin_request(head)

    def go_on(self, data: bytes) -> None:
        """More of the response; if its head was not logged, it is a stream."""
        if self._received is None:
            # What follows is read as if that head had arrived, but it is not recorded.
            self.begin_response(_UNSEEN)
            self.connection.entries.clear()
            self._response = b""
            del self._times["response_head"]
        _finish(self.add_to_response(data))

    def break_off(self) -> None:
        """The log ended. A stream may have continued, so its end is not recorded."""
        if self._received is not None and not self._received.is_stream:
            self._received.end(whole=False)

    def end(self, by: str, error: str | None) -> None:
        """The exchange has ended. If neither head was seen, only the end of its stream is recorded."""
        self.is_over = True
        if self._sent is not None or self._response:
            super().end(by, error)
        elif self._received is not None:
            self._received.end(whole=False, ended_by=by)

    def is_endpoint(self) -> bool:
        """Whether the path of the request serves MCP."""
        endpoints = self.connection.exchanges.endpoints
        return not endpoints or not self._target or self._target.partition(b"?")[0] in endpoints

    def store_address(self, text: str) -> bool:
        """The same, but never for a POST, whose key is that of its own target."""
        return self.uri_key is None and super().store_address(text)

    def flag(self, name: str, where: str) -> None:
        """Ignored: nothing can lead past a recorder that was not there."""


def _finish(work: Iterator[None] | None) -> None:
    """Decode at once what has arrived: nothing here waits for it."""
    deque(work or (), maxlen=0)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
