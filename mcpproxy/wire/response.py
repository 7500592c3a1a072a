"""Parses a copy of the HTTP/1.1 responses that the upstream sends, without delaying them.

The bytes are forwarded as they were read, no matter how the tap interprets them. If the tap cannot parse them, it
reports that once, with `ParsingLost`, and then nothing more: a recording that says where it stopped is worth more than
one that guesses.

A response cannot be parsed alone, because whether it has content depends on its request. So the tap is informed of each
request, and finds the end of every message itself. llhttp, the parser of Node's HTTP clients, parses the heads. Each
head needs a new parser, because llhttp keeps state after a message. It cannot be informed that a response to HEAD has
no content, and does not report the position in a chunk at which a message ended.

The events do not depend on how the input is split, except for the boundaries of `ResponseBody`. The time is linear in
the number of bytes. At most one head, one chunk size or one trailer section is held, and the size of each is limited.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mcpproxy.wire.framing import Body, ChunkedBodyReader, Fields, Malformed, MessageEnd

MAX_RESPONSE_HEAD_BYTES: Final = 256 << 10
"""The maximum size of a status line and its header lines, generous because the tap must not refuse anything."""
MAX_AWAITED_RESPONSES: Final = 10_000
"""The maximum number of requests without a response; no honest client pipelines more."""


class ResponseHead(NamedTuple):
    """A status line and the header fields."""

    status: int
    reason: bytes
    version: bytes
    """The version, such as `b"HTTP/1.1"`."""
    headers: Fields
    is_informational: bool
    """Whether the status is 1xx, so that another head follows."""


class ResponseBody(NamedTuple):
    """A piece of the content, without chunk framing, but with content codings as sent."""

    payload: bytes


class ResponseEnd(NamedTuple):
    """The response is complete."""

    trailers: Fields = Fields()
    is_by_close: bool = False
    """Whether the end of the connection ended the response, so it is unknown whether the response is complete."""


class ResponseAborted(NamedTuple):
    """The connection ended in the middle of a response."""

    reason: str


class ProtocolSwitch(NamedTuple):
    """The upstream has accepted an offer to upgrade the connection; the rest is not HTTP, and has no events."""

    size: int
    """The number of bytes after the head in the same chunk."""


class ParsingLost(NamedTuple):
    """The tap can no longer parse the responses; the traffic continues unobserved."""

    reason: str


Event: TypeAlias = ResponseHead | ResponseBody | ResponseEnd | ResponseAborted | ProtocolSwitch | ParsingLost

_HEAD_END: Final = re.compile(rb"\n\r?\n").search
_HTTP_PREFIX: Final = b"HTTP/"
_RELEVANT_METHODS: Final = (b"GET", b"HEAD")
_HEAD_END_OVERLAP_BYTES: Final = 3  # the number of bytes before a chunk in which the end of a head may begin


class _Unfollowable(Exception):
    """The tap cannot parse the responses any further; the text says why."""


class ResponseTap:
    """Parses a copy of the upstream's side of a connection."""

    __slots__ = (
        "_awaited_methods",
        "_chunks",
        "_events",
        "_has_stopped",
        "_has_switched",
        "_head",
        "_lost_reason",
        "_may_switch",
        "_missing_bytes",
        "_read_step",
    )

    def __init__(self) -> None:
        # GET, HEAD or empty for each request without a response. An empty deque takes 600 bytes.
        self._awaited_methods: list[bytes] = []
        self._lost_reason = ""
        self._has_stopped = False
        self._may_switch = False
        """Whether the last request offers to upgrade the connection."""
        self._has_switched = False
        self._events: list[Event] = []
        self._begin()

    def _begin(self) -> None:
        """Prepare for the next head."""
        self._head = bytearray()
        self._missing_bytes = 0
        self._chunks: ChunkedBodyReader | None = None
        self._read_step: Callable[[ResponseTap, bytes, int], int] = ResponseTap._read_head

    def expect_response(self, method: bytes, *, offers_upgrade: bool = False) -> None:
        """Register a request that is being forwarded, before its response can arrive."""
        if self._has_stopped:
            return
        self._may_switch = offers_upgrade
        self._awaited_methods.append(method if method in _RELEVANT_METHODS else b"")
        if len(self._awaited_methods) > MAX_AWAITED_RESPONSES:
            self._lost_reason = f"more than {MAX_AWAITED_RESPONSES} requests wait for a response"
            self._awaited_methods.clear()

    def feed(self, data: bytes) -> list[Event]:
        """Returns the events that a chunk of the stream completes, and none after `ParsingLost`."""
        position = 0
        while position < len(data):
            position = self._advance(data, position)
        events, self._events = self._events, []
        return events

    def feed_some(self, data: bytes, position: int) -> tuple[list[Event], int]:
        """Parse like `feed`, but from a position on, and at most to the end of the first head or response.

        Returns:
            The events, and the position of the first unread byte.
        """
        position = self._advance(data, position)
        events, self._events = self._events, []
        return events, position

    def _advance(self, data: bytes, position: int) -> int:
        if self._has_stopped:
            return len(data)
        try:
            if self._lost_reason:
                raise _Unfollowable(self._lost_reason)
            return self._read_step(self, data, position)
        except _Unfollowable as error:
            self._stop()
            self._events.append(ParsingLost(str(error)))
            return len(data)

    def finish(self) -> list[Event]:
        """Returns the events that the end of the stream causes, and none if it came between two responses."""
        if self._has_stopped:
            return []
        events: list[Event] = []
        if self._read_step is ResponseTap._read_until_close:
            events.append(ResponseEnd(is_by_close=True))
        elif self.is_in_response:
            part_name = "head" if self._head else "content"
            events.append(ResponseAborted(f"the connection ended in the {part_name} of a response"))
        self._stop()
        return events

    @property
    def is_in_head(self) -> bool:
        """Whether the next byte belongs to a head, as far as the tap can parse the responses."""
        return not self._has_stopped and self._read_step is ResponseTap._read_head

    @property
    def awaited_count(self) -> int:
        """The number of responses that have not begun yet, or whose heads are not complete."""
        return len(self._awaited_methods)

    @property
    def awaits_head(self) -> bool:
        """Whether the next response answers a HEAD."""
        return bool(self._awaited_methods) and self._awaited_methods[0] == b"HEAD"

    @property
    def awaits_get(self) -> bool:
        """Whether the next response answers a GET."""
        return bool(self._awaited_methods) and self._awaited_methods[0] == b"GET"

    @property
    def is_in_response(self) -> bool:
        """Whether a response has begun and is not complete."""
        return self._read_step is not ResponseTap._read_head or bool(self._head)

    def _stop(self) -> None:
        self._has_stopped = True
        self._awaited_methods.clear()
        self._begin()

    def _read_head(self, data: bytes, position: int) -> int:
        """Look for the end of a head, because the parser must not see anything after it."""
        if not self._head:
            if data[position] in b"\r\n":
                return position + 1  # some servers send a surplus empty line after a body
            if not self._awaited_methods:
                raise _Unfollowable("the upstream sent data that answers no request")
        held_size = len(self._head)
        if held_size:
            # This happens at most once per call, so copying a chunk here costs no more than receiving it.
            self._head += data[position : position + MAX_RESPONSE_HEAD_BYTES + 1 - held_size]
            self._judge_start(bytes(self._head[: len(_HTTP_PREFIX)]))
            head_end = _HEAD_END(self._head, max(0, held_size - _HEAD_END_OVERLAP_BYTES))
            stop = head_end.end() if head_end else len(self._head)
        else:
            self._judge_start(data[position : position + len(_HTTP_PREFIX)])
            head_end = _HEAD_END(data, position, position + MAX_RESPONSE_HEAD_BYTES + 1)
            stop = (head_end.end() if head_end else min(len(data), position + MAX_RESPONSE_HEAD_BYTES + 1)) - position
            self._head += data[position : position + stop]
        if stop > MAX_RESPONSE_HEAD_BYTES:
            raise _Unfollowable(f"a response head is longer than {MAX_RESPONSE_HEAD_BYTES} bytes")
        if head_end:
            raw = bytes(self._head[:stop])
            self._head.clear()
            self._complete_head(raw)
            if self._has_switched:
                self._stop()
                self._events.append(ProtocolSwitch(len(data) - (position + stop - held_size)))
                return len(data)
        return position + stop - held_size

    @staticmethod
    def _judge_start(start: bytes) -> None:
        if not _HTTP_PREFIX.startswith(start):
            raise _Unfollowable("the upstream sent something other than HTTP/1")

    def _complete_head(self, raw: bytes) -> None:
        """Parse a head, and prepare for the content after it (RFC 9112, 6.3)."""
        head = _parse_head(raw)
        self._events.append(head)
        if head.status == 101:
            if not self._may_switch or len(self._awaited_methods) != 1:
                raise _Unfollowable("the upstream switched protocols")
            self._has_switched = True
            return
        if head.is_informational:
            return
        if self._awaited_methods.pop(0) == b"HEAD" or head.status in (204, 304):
            self._events.append(ResponseEnd())
            return
        # If a server sends several of these fields, the last one counts.
        coding = next(reversed(head.headers.values_of(b"transfer-encoding")), None)
        length = next(reversed(head.headers.values_of(b"content-length")), None)
        if coding is not None and coding.lower().rpartition(b",")[2].strip(b" \t") == b"chunked":
            self._chunks = ChunkedBodyReader()
            self._read_step = ResponseTap._read_chunks
        elif coding is not None or length is None:
            self._read_step = ResponseTap._read_until_close
        elif int(length):
            self._missing_bytes = int(length)
            self._read_step = ResponseTap._read_content
        else:
            self._events.append(ResponseEnd())

    def _read_content(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._missing_bytes]
        self._missing_bytes -= len(piece)
        self._events.append(ResponseBody(piece))
        if not self._missing_bytes:
            self._events.append(ResponseEnd())
            self._begin()
        return position + len(piece)

    def _read_chunks(self, data: bytes, position: int) -> int:
        assert self._chunks
        events: list[Body | MessageEnd] = []
        try:
            position = self._chunks.feed(data, position, events.append)
        except Malformed as error:
            raise _Unfollowable(f"a response in chunks cannot be read: {error.reason}") from None
        finally:
            for event in events:
                if isinstance(event, Body) and event.payload:
                    self._events.append(ResponseBody(event.payload))
                elif isinstance(event, MessageEnd):
                    self._events.append(ResponseEnd(event.trailers))
                    self._begin()
        return position

    def _read_until_close(self, data: bytes, position: int) -> int:
        self._events.append(ResponseBody(data[position:]))
        return len(data)


class _HeadCallbacks:
    """The callbacks of llhttp while it parses a head."""

    def __init__(self) -> None:
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_status(self, reason: bytes) -> None:
        self.reason = reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def _parse_head(raw: bytes) -> ResponseHead:
    """Parse a head, from the status line to the empty line."""
    reading = _HeadCallbacks()
    parser = HttpResponseParser(reading)
    try:
        parser.feed_data(raw)
    except (HttpParserError, HttpParserUpgrade) as error:
        # After the head of a 101, the parser raises one of these two exceptions.
        if not reading.is_complete:
            raise _Unfollowable(f"a response head cannot be read: {error}") from None
    status = parser.get_status_code()
    if not reading.is_complete or status < 100:
        raise _Unfollowable("a response head cannot be read")
    version, _, _ = raw.partition(b" ")
    return ResponseHead(status, reading.reason, version, Fields(reading.headers), status < 200)
