"""HTTP/1.1 responses: a tap that reads a copy of what the upstream sends and never delays it.

The bytes are forwarded as they were read, regardless of what the tap makes of them. If it cannot follow, it reports
that once, with `Lost`, and then nothing more: a recording that says where it stopped is worth more than one that
guesses.

A response cannot be read by itself: whether it has content depends on the request that it answers. So the tap learns of
each request, and finds the end of every message itself. llhttp, the parser of Node's HTTP clients, reads the heads,
with a new parser for each, as it keeps state beyond a message; it has no way to learn that a response to HEAD has no
content, nor does it report where in a chunk a message ended.

However the input is split, the events are the same except for the boundaries of `ResponseBody`; time is linear in the
bytes, and at most one head, one chunk size or one trailer section is held, each of them bounded.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mcpproxy.wire.framing import Body, Chunks, End, Fields, Malformed

MAX_RESPONSE_HEAD_BYTES: Final = 256 << 10
"""Bytes of a status line and its header lines; generous, as refusing is not the tap's business."""
MAX_AWAITED: Final = 10_000
"""Requests without a response yet; more is not honest pipelining."""


class ResponseHead(NamedTuple):
    """A status line and the header fields."""

    status: int
    reason: bytes
    version: bytes
    """Such as `b"HTTP/1.1"`."""
    headers: Fields
    """Names and values in the order sent, duplicates and case kept; white space around a value is not part of it."""
    informational: bool
    """A 1xx, which another head follows."""


class ResponseBody(NamedTuple):
    """A piece of the content, without chunk framing; content codings are as sent."""

    payload: bytes


class ResponseEnd(NamedTuple):
    """The response is complete."""

    trailers: Fields = Fields()
    by_close: bool = False
    """The end of the connection ended it, so whether more was to follow is unknown."""


class ResponseAborted(NamedTuple):
    """The connection ended in the middle of a response."""

    reason: str


class Switched(NamedTuple):
    """The upstream has accepted an offer to upgrade the connection: what follows is not HTTP, and has no events."""

    size: int
    """The bytes of the same chunk that follow the head."""


class Lost(NamedTuple):
    """The tap can no longer follow. The traffic continues unobserved."""

    reason: str


Event: TypeAlias = ResponseHead | ResponseBody | ResponseEnd | ResponseAborted | Switched | Lost

_HEAD_END: Final = re.compile(rb"\n\r?\n").search
_FIRST: Final = b"HTTP/"
_TOLD_APART: Final = (b"GET", b"HEAD")
_ENOUGH: Final = 3  # bytes before a chunk that may contain the start of a head's end


class _Unfollowable(Exception):
    """The tap cannot follow, for the reason given."""


class ResponseTap:
    """Reads a copy of the upstream's side of a connection."""

    def __init__(self) -> None:
        # For each request without a response yet: GET, HEAD, or empty. An empty deque takes 600 bytes.
        self._asked: list[bytes] = []
        self._lost = ""
        self._deaf = False
        self._may_switch = False
        """Whether the last request offers to upgrade the connection."""
        self._has_switched = False
        self._events: list[Event] = []
        self._begin()

    def _begin(self) -> None:
        """Wait for the next head."""
        self._head = bytearray()
        self._left = 0
        self._chunks: Chunks | None = None
        self._step: Callable[[bytes, int], int] = self._in_head

    def expect(self, method: bytes, *, offers_upgrade: bool = False) -> None:
        """Note a request that has been forwarded, before its response can arrive."""
        if self._deaf:
            return
        self._may_switch = offers_upgrade
        self._asked.append(method if method in _TOLD_APART else b"")
        if len(self._asked) > MAX_AWAITED:
            self._lost = f"more than {MAX_AWAITED} requests wait for a response"
            self._asked.clear()

    def feed(self, data: bytes) -> list[Event]:
        """Returns the events that a chunk of the stream completes; none after `Lost`."""
        at = 0
        while at < len(data):
            at = self._advance(data, at)
        events, self._events = self._events, []
        return events

    def feed_some(self, data: bytes, at: int) -> tuple[list[Event], int]:
        """Like `feed`, from a position on, but stops after the first head or response that ends.

        Returns:
            The events, and the position of the first unread byte.
        """
        at = self._advance(data, at)
        events, self._events = self._events, []
        return events, at

    def _advance(self, data: bytes, at: int) -> int:
        if self._deaf:
            return len(data)
        try:
            if self._lost:
                raise _Unfollowable(self._lost)
            return self._step(data, at)
        except _Unfollowable as lost:
            self._die()
            self._events.append(Lost(str(lost)))
            return len(data)

    def close(self) -> list[Event]:
        """Returns the events that the end of the stream causes; none if it came between two responses."""
        if self._deaf:
            return []
        events: list[Event] = []
        if self._step == self._until_close:
            events.append(ResponseEnd(by_close=True))
        elif self.under_way:
            part = "head" if self._head else "content"
            events.append(ResponseAborted(f"the connection ended in the {part} of a response"))
        self._die()
        return events

    @property
    def in_head(self) -> bool:
        """Whether the next byte would be one of a head, as far as the tap can follow."""
        return not self._deaf and self._step == self._in_head

    @property
    def awaited(self) -> int:
        """How many responses have still to begin, or to complete their heads."""
        return len(self._asked)

    @property
    def awaits_head(self) -> bool:
        """Whether the next response would be one to HEAD."""
        return bool(self._asked) and self._asked[0] == b"HEAD"

    @property
    def awaits_get(self) -> bool:
        """Whether the next head would answer a GET."""
        return bool(self._asked) and self._asked[0] == b"GET"

    @property
    def under_way(self) -> bool:
        """Whether a response has begun and is not complete."""
        return self._step != self._in_head or bool(self._head)

    def _die(self) -> None:
        self._deaf = True
        self._asked.clear()
        self._begin()

    def _in_head(self, data: bytes, at: int) -> int:
        """Look for the end of a head; a parser must see nothing after it."""
        if not self._head:
            if data[at] in b"\r\n":
                return at + 1  # some servers send a surplus empty line after a body
            if not self._asked:
                raise _Unfollowable("the upstream sent what no request asked for")
        before = len(self._head)
        if before:
            # At most once per call, so copying a chunk here costs no more than receiving it.
            self._head += data[at : at + MAX_RESPONSE_HEAD_BYTES + 1 - before]
            self._judge_start(bytes(self._head[: len(_FIRST)]))
            end = _HEAD_END(self._head, max(0, before - _ENOUGH))
            stop = end.end() if end else len(self._head)
        else:
            self._judge_start(data[at : at + len(_FIRST)])
            end = _HEAD_END(data, at, at + MAX_RESPONSE_HEAD_BYTES + 1)
            stop = (end.end() if end else min(len(data), at + MAX_RESPONSE_HEAD_BYTES + 1)) - at
            self._head += data[at : at + stop]
        if stop > MAX_RESPONSE_HEAD_BYTES:
            raise _Unfollowable(f"a response head is longer than {MAX_RESPONSE_HEAD_BYTES} bytes")
        if end:
            raw = bytes(self._head[:stop])
            self._head.clear()
            self._complete(raw)
            if self._has_switched:
                self._die()
                self._events.append(Switched(len(data) - (at + stop - before)))
                return len(data)
        return at + stop - before

    @staticmethod
    def _judge_start(start: bytes) -> None:
        if not _FIRST.startswith(start):
            raise _Unfollowable("the upstream sent something other than HTTP/1")

    def _complete(self, raw: bytes) -> None:
        """Read a head, and turn to what follows it (RFC 9112, 6.3)."""
        head = _read(raw)
        self._events.append(head)
        if head.status == 101:
            if not self._may_switch or len(self._asked) != 1:
                raise _Unfollowable("the upstream switched protocols")
            self._has_switched = True
            return
        if head.informational:
            return
        if self._asked.pop(0) == b"HEAD" or head.status in (204, 304):
            self._events.append(ResponseEnd())
            return
        # The last of each, if a server sends several.
        coding = next(reversed(head.headers.values_of(b"transfer-encoding")), None)
        length = next(reversed(head.headers.values_of(b"content-length")), None)
        if coding is not None and coding.lower().rpartition(b",")[2].strip(b" \t") == b"chunked":
            self._chunks = Chunks()
            self._step = self._in_chunks
        elif coding is not None or length is None:
            self._step = self._until_close
        elif int(length):
            self._left = int(length)
            self._step = self._in_content
        else:
            self._events.append(ResponseEnd())

    def _in_content(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._events.append(ResponseBody(piece))
        if not self._left:
            self._events.append(ResponseEnd())
            self._begin()
        return at + len(piece)

    def _in_chunks(self, data: bytes, at: int) -> int:
        assert self._chunks
        events: list[Body | End] = []
        try:
            at = self._chunks.feed(data, at, events.append)
        except Malformed as bad:
            raise _Unfollowable(f"a response in chunks cannot be read: {bad.reason}") from None
        finally:
            for event in events:
                if isinstance(event, Body) and event.payload:
                    self._events.append(ResponseBody(event.payload))
                elif isinstance(event, End):
                    self._events.append(ResponseEnd(event.trailers))
                    self._begin()
        return at

    def _until_close(self, data: bytes, at: int) -> int:
        self._events.append(ResponseBody(data[at:]))
        return len(data)


class _HeadReading:
    """The callbacks of llhttp while it reads a head."""

    def __init__(self) -> None:
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_status(self, reason: bytes) -> None:
        self.reason = reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def _read(raw: bytes) -> ResponseHead:
    """Parses a head, from the status line to the empty line."""
    reading = _HeadReading()
    parser = HttpResponseParser(reading)
    try:
        parser.feed_data(raw)
    except (HttpParserError, HttpParserUpgrade) as problem:
        # A 101 makes it stop after the head, in one of two ways.
        if not reading.complete:
            raise _Unfollowable(f"a response head cannot be read: {problem}") from None
    status = parser.get_status_code()
    if not reading.complete or status < 100:
        raise _Unfollowable("a response head cannot be read")
    version, _, _ = raw.partition(b" ")
    return ResponseHead(status, reading.reason, version, Fields(reading.headers), status < 200)
