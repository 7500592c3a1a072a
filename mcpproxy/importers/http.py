"""Converts HTTP exchanges logged as heads and bodies into the records that `serve` would have written.

The code for live traffic decides which bodies are kept, and how they are split. Three things differ. The URL of the
server is unknown, so its paths are inferred from the traffic. Nothing is redacted, because the log is already in plain
text. And there are no flags: they warn of addresses that bypass the recorder, and there was no recorder.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

from orjson import dumps

from captures.addresses import escaped_text
from captures.loss import PendingRecord
from mcpproxy.importers.source import InvalidLine
from mcpproxy.recorder.body_recorder import JSONRPC_NAME
from mcpproxy.recorder.exchange import ExchangeRecorder
from mcpproxy.recorder.oauth_legs import WELL_KNOWN, AnnouncedLegs
from mcpproxy.wire.framing import Fields, Malformed, parse_field
from mcpproxy.wire.http1 import MAX_REQUEST_HEAD_BYTES, RequestHead
from mcpproxy.wire.response import ResponseHead

_HEAD_END: Final = re.compile(rb"\r?\n\r?\n").search
_REQUEST: Final = re.compile(rb"(\S+) (\S+) (HTTP/[0-9](?:\.[0-9])?)").fullmatch
_STATUS: Final = re.compile(rb"(HTTP/[0-9](?:\.[0-9])?) ([1-9][0-9][0-9])(?: (.*))?").fullmatch
_STREAM: Final = b"text/event-stream"
MAX_CONTENT_LENGTH_DIGITS: Final = 20
_UNLOGGED_STREAM_HEAD: Final = ResponseHead(200, b"", b"HTTP/1.1", Fields([(b"content-type", _STREAM)]), False)
"""Replaces the head of a stream that was open before the log began."""


def request_of(raw: bytes) -> tuple[RequestHead, bytes]:
    """Parse a request; returns its head and content.

    Raises:
        InvalidLine: the request has no valid head.
    """
    start, fields, head, body = _parts(raw)
    match = _REQUEST(start)
    if not match:
        raise InvalidLine("expected `METHOD TARGET HTTP/1.1` in the first line of a request")
    return RequestHead(match[1], match[2], match[3], fields, None, head), body


def response_of(raw: bytes) -> tuple[ResponseHead, bytes]:
    """Parse a response; returns its head and content.

    Raises:
        InvalidLine: the response has no valid head.
    """
    start, fields, _, body = _parts(raw)
    match = _STATUS(start)
    if not match:
        raise InvalidLine("expected `HTTP/1.1 STATUS REASON` in the first line of a response")
    status = int(match[2])
    return ResponseHead(status, match[3] or b"", match[1], fields, status < 200), body


def _parts(raw: bytes) -> tuple[bytes, Fields, bytes, bytes]:
    """Returns the first line, the header fields, the raw head, and the content after it."""
    end = _HEAD_END(raw, 0, MAX_REQUEST_HEAD_BYTES)
    if not end:
        raise InvalidLine(
            f"expected a head that ends in an empty line, CR LF CR LF, within {MAX_REQUEST_HEAD_BYTES:,} bytes"
        )
    start, *lines = [line.removesuffix(b"\r") for line in raw[: end.start()].split(b"\n")]
    try:
        return start, Fields([parse_field(line) for line in lines]), raw[: end.end()], raw[end.end() :]
    except Malformed as error:
        raise InvalidLine(f"{error.reason}: expected `name: value`") from None


def is_metadata(head: RequestHead) -> bool:
    """Whether a request asks for a document that describes the server."""
    return head.target.startswith(WELL_KNOWN)


def speaks_mcp(head: RequestHead, body: bytes) -> bool:
    """Whether a request goes to the server's endpoint, judging by the request alone."""
    if is_metadata(head):
        return False
    return JSONRPC_NAME in body or any(_STREAM in value.lower() for value in head.headers.values_of(b"accept"))


def path_of(head: RequestHead) -> bytes:
    """Returns the target of a request without its query."""
    return head.target.partition(b"?")[0]


class Exchanges:
    """The exchanges of one conversation so far. The caller numbers them, and the numbers need not be in order.

    Each method for an event returns its records, with the time `at_ns`.
    """

    def __init__(self, endpoints: set[bytes]) -> None:
        """`endpoints` are the paths at which the server speaks MCP; empty if unknown."""
        self.at_ns = 0
        self._recording = _PlainRecording(endpoints)
        self._connections = 0
        self._connections_by_peer: dict[str, _Connection] = {}
        self._exchanges: dict[int, _Exchange] = {}

    def add_request(
        self, number: int, head: RequestHead, body: bytes, peer: str, *, lacks_body: bool = False
    ) -> list[PendingRecord]:
        """Add a whole request; returns its records.

        Args:
            number: the number of the exchange.
            head: the head of the request.
            body: its content.
            peer: the address of the client; empty if unknown.
            lacks_body: whether the request had a body that the log does not contain.
        """
        exchange = self._exchange(number, peer)
        if lacks_body:
            exchange.missing.append("request")
        exchange.is_request_open = True
        exchange.begin_request(head)
        _decode_now(exchange.add_to_request(body) if body else None)
        exchange.end_request()
        return exchange.log_connection.take_records()

    def add_response(
        self, number: int, head: ResponseHead, body: bytes, *, complete: bool, lacks_body: bool = False
    ) -> list[PendingRecord]:
        """Add a whole response, or, unless `complete`, the beginning of one; returns its records.

        `lacks_body` has the same meaning as for a request.
        """
        exchange = self._exchange(number)
        if lacks_body and "response" not in exchange.missing:
            exchange.missing.append("response")
        if head.is_informational:
            return []
        exchange.begin_response(head)
        _decode_now(exchange.add_to_response(body) if body else None)
        if complete:
            exchange.end("complete", None)
        else:
            exchange.record_response()
        return exchange.log_connection.take_records()

    def add_piece(self, number: int, data: bytes) -> list[PendingRecord]:
        """Add the next piece of a response; returns its records."""
        exchange = self._exchange(number)
        exchange.add_piece(data)
        return exchange.log_connection.take_records()

    def end_exchange(self, number: int, by: str, *, is_cut: bool = False) -> list[PendingRecord]:
        """End an exchange whose connection or stream `client` or `server` closed; returns the records.

        A response whose length was not announced is complete when the server closes the connection, unless `is_cut` is
        true because the transfer showed that the end was missing.
        """
        exchange = self._exchange(number)
        if exchange.is_over:
            return []
        is_cut = is_cut or exchange.is_cut
        exchange.end("complete" if by == "server" and exchange.has_response and not is_cut else by, None)
        return exchange.log_connection.take_records()

    def finish(self) -> list[tuple[int, PendingRecord]]:
        """End all unfinished bodies; returns their records, each with the number of its exchange."""
        records = []
        for number, exchange in self._exchanges.items():
            exchange.log_connection.at_ns = self.at_ns
            exchange.end_body()
            records += [(number, record) for record in exchange.log_connection.take_records()]
        return records

    def totals(self) -> dict[str, object]:
        """Returns the counts for the close record."""
        frame_counts, byte_counts = self._recording.frame_counts, self._recording.byte_counts
        return {side: {"frames": frame_counts[side], "bytes": byte_counts[side]} for side in frame_counts}

    def _exchange(self, number: int, peer: str = "") -> "_Exchange":
        exchange = self._exchanges.get(number)
        if exchange is None:
            connection = self._connections_by_peer.get(peer) if peer else None
            if connection is None:
                self._connections += 1
                connection = _Connection(self._recording, self._connections, peer)
                if peer:
                    self._connections_by_peer[peer] = connection
            connection.at_ns = self.at_ns
            exchange = self._exchanges[number] = _Exchange(connection, number)
        exchange.log_connection.at_ns = self.at_ns
        return exchange


class _PlainRecording:
    """What imported exchanges share, in place of a recorder: it counts frames and redacts nothing."""

    def __init__(self, endpoints: set[bytes]) -> None:
        self._endpoints = endpoints
        self.frame_counts = {"c2s": 0, "s2c": 0}
        self.byte_counts = {"c2s": 0, "s2c": 0}
        self.mcp_places: set[bytes | str] = set()
        self.oauth_legs = AnnouncedLegs()
        self.secret_hash = None
        self.is_public = False
        self.bypass_detector = None  # there was no recorder to bypass
        self.on_exchange_end = None

    def redacted_fields(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Returns a header list as JSON, in plain text."""
        return dumps([[escaped_text(name), escaped_text(value)] for name, value in fields])

    def clean_address(self, target: bytes) -> str:
        """Returns a target, in plain text."""
        return escaped_text(target)

    def clean_document(self, document: dict[str, Any]) -> bytes:
        """Returns a document as JSON, in plain text."""
        return dumps(document)

    def is_endpoint(self, target: bytes) -> bool:
        """Returns whether the path of a request, if that is known, is one at which the server speaks MCP."""
        return not self._endpoints or not target or target.partition(b"?")[0] in self._endpoints

    def is_own(self, _address: str) -> bool:
        """Returns True for any address: the host is not known for certain, so only paths are compared."""
        return True

    def address(self, target: bytes) -> str:
        """Returns a target as a URI with a placeholder for the host, which is not known for certain."""
        return "http://host" + target.decode("latin-1")

    def hash(self, uri: bytes) -> str:
        """Returns the key of a URI. It covers only path and query, as clients write the same host in several ways."""
        _, _, address = uri.partition(b"://")
        return blake2b(address.partition(b"/")[2], digest_size=8).hexdigest()

    def uri_key(self, target: bytes) -> str:
        """Returns the key of a request's URI."""
        return self.hash(self.address(target).encode())

    def on_verdict_fault(self, _error: Exception) -> None:
        """Does nothing, because the record of the frame says that it lacks a verdict."""


class _Connection:
    """The connection of imported exchanges, which collects their records."""

    def __init__(self, recording: _PlainRecording, number: int, peer: str) -> None:
        self.recorder = recording
        self.number = number
        self.peer = peer
        self.trusts_peer = False
        self.at_ns = 0
        self.entries: list[PendingRecord] = []

    def take_records(self) -> list[PendingRecord]:
        """Returns the collected records, and removes them."""
        records, self.entries = self.entries, []
        return records


class _Exchange(ExchangeRecorder):
    """Records an exchange that may have begun before the log, and whose client may be unknown."""

    def __init__(self, connection: _Connection, number: int) -> None:
        super().__init__(connection, number)
        self.log_connection = connection
        self.is_request_open = False
        self.is_over = False
        self._times = {}
        if not connection.peer:
            self._request_members = b""

    @property
    def has_response(self) -> bool:
        """Whether the response has begun."""
        return self._response_body is not None

    @property
    def is_cut(self) -> bool:
        """Whether less of the response has arrived than its head announced."""
        head, received = self._response_head, self._response_body
        if head is None or received is None:
            return False
        announced_length = b"".join(head.headers.values_of(b"content-length")[:1])
        return (
            announced_length.isdigit()
            and len(announced_length) < MAX_CONTENT_LENGTH_DIGITS
            and received.size < int(announced_length)
        )

    def begin_request(self, head: RequestHead) -> None:
        """Begin the exchange with the head of its request."""
        self._times["request_head"] = self.connection.at_ns
        super().begin_request(head)

    def add_piece(self, data: bytes) -> None:
        """Add the next piece of the response, which is a stream if its head was not logged."""
        if self._response_body is None:
            # The stream is read as if this head had arrived, but the head is not recorded.
            self.begin_response(_UNLOGGED_STREAM_HEAD)
            self.connection.entries.clear()
            self._response_members = b""
            del self._times["response_head"]
        _decode_now(self.add_to_response(data))

    def end_body(self) -> None:
        """End a body at the end of the log. A stream may have continued, so its end is not recorded."""
        if self._response_body is not None and not self._response_body.is_stream:
            self._response_body.end_body(whole=False)

    def end(self, by: str, error: str | None) -> None:
        """End the exchange. If the log has neither of its heads, only the end of its stream is recorded."""
        self.is_over = True
        if self._request_body is not None or self._response_members:
            super().end(by, error)
        elif self._response_body is not None:
            self._response_body.end_body(whole=False, ended_by=by)

    def store_first_address(self, text: str) -> bool:
        """Store an address as for live traffic, but never for a POST, whose key is that of its own target."""
        return self.uri_key is None and super().store_first_address(text)


def _decode_now(decoder: Iterator[None] | None) -> None:
    """Run a decoder to its end at once, because no live traffic waits for it."""
    deque(decoder or (), maxlen=0)
