"""HTTP/1.1 requests: chunks in, heads and bodies out, and nothing that two servers could read in two ways.

This is the only reader of requests in the relay. It decides where a message ends for the bytes that go upstream and
for the record alike, so the two cannot disagree. Request smuggling lives on the disagreement with a third reader, the
server: whatever RFC 9112 leaves open, forgives or forbids is refused here, and no byte of a head, of a chunk size or
of a trailer section is handed out before all of it has been judged. What is let through is forwarded as it was sent.

Any cutting of the input gives the same events but for the borders of `Body`; time is linear in the bytes, and what
waits is never more than one head, one chunk size or one trailer section, each of them bounded.

Dot segments (`/a/../b`) and percent-encodings pass untouched: there is one upstream, whatever its paths say, so they
lead nowhere else, and to normalise them would change what the server sees.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

MAX_HEAD: Final = 64 << 10
"""Bytes of a request line and its header lines, line ends included."""
MAX_TARGET: Final = 16 << 10
"""Bytes of a request target."""
MAX_FIELDS: Final = 100
"""Header lines of a request, and trailer lines of any message."""
MAX_CHUNK_LINE: Final = 256
"""Bytes of a chunk size with its extensions."""
MAX_EXTENSIONS: Final = 16 << 10
"""Bytes by which the chunk extensions of a message may exceed its content; beyond, they are only there to cost."""
MAX_TRAILERS: Final = 16 << 10
"""Bytes of a trailer section."""

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names and values in the order sent, doubles and case kept; white space around a value is not of the value."""


class Head(NamedTuple):
    """A request line and the header fields."""

    method: bytes
    target: bytes
    """As sent: it begins with a slash, or is `*`."""
    version: bytes
    """`b"HTTP/1.1"` or `b"HTTP/1.0"`."""
    headers: Fields
    length: int | None
    """Bytes of content that follow; None where they come in chunks."""
    wire: bytes
    """The bytes as sent, up to and with the empty line."""


class Body(NamedTuple):
    """A piece of the content."""

    wire: bytes
    """The bytes to forward, chunk framing included; whole lines of framing only."""
    payload: bytes
    """The content in them; may be empty."""


class End(NamedTuple):
    """The message is complete."""

    wire: bytes
    """The last chunk and the trailer section; empty where the content was not chunked."""
    trailers: Fields = ()


class Refusal(NamedTuple):
    """The message must not be forwarded any further, and nothing after it can be read."""

    status: int
    """What to answer."""
    reason: str
    """Why, in words of ours only."""


Event: TypeAlias = Head | Body | End | Refusal


class Malformed(Exception):
    """What was read cannot be a message that all readers take alike."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


_CHARACTER: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"  # of a token
_EXTENSION: Final = rb";" + _CHARACTER + rb"++(?:=(?:" + _CHARACTER + rb'++|"[\t !#-\[\]-~]*+"))?'

_BREAK: Final = re.compile(rb"[\r\n]").search
_TOKEN: Final = re.compile(_CHARACTER + rb"+").fullmatch
_NOT_IN_VALUE: Final = re.compile(rb"[^\t\x20-\x7e\x80-\xff]").search
_NOT_IN_TARGET: Final = re.compile(rb"[^\x21-\x7e]|[#\\]").search
_VERSION: Final = re.compile(rb"HTTP/[0-9]\.[0-9]").fullmatch
_AUTHORITY: Final = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?").fullmatch
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}").fullmatch  # below 2**63, the least that servers count to
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})((?:" + _EXTENSION + rb")*+)").fullmatch
# Good lines that lie in one chunk, as nearly all do, at a third of the cost; what these do not match is judged by the
# slow way, which says why. Possessive, so that a value of 60,000 spaces is read once.
_PLAIN_FIELD: Final = re.compile(rb"(" + _CHARACTER + rb"++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)\r\n").match
_PLAIN_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"host"})
"""What decides where a message ends and who gets it."""
_NOTED: Final = _FRAMING | {b"connection", b"upgrade"}
_NOT_IN_TRAILERS: Final = _NOTED | {b"expect", b"keep-alive", b"proxy-connection", b"te", b"trailer"}

_OF_ONE_HOP: Final = frozenset({b"proxy-connection", b"upgrade", b"http2-settings"})

_OLDEST: Final = b"HTTP/1.0"
_NEWEST: Final = b"HTTP/1.1"
_TLS_HANDSHAKE: Final = 0x16
_AROUND_TARGET: Final = 64  # bytes for a method and a version


class Lines:
    """Lines that end in CRLF, from chunks that are cut anywhere."""

    def __init__(self) -> None:
        self.pending: Final = bytearray()
        """The line that has begun; its CR too, where LF is still to come."""

    def take(self, data: bytes, at: int, limit: int, too_long: Callable[[], Malformed]) -> tuple[bytes | None, int]:
        """The line that is to be found at a place, and the place after it.

        What is wrong with a line is told as soon as its bytes show it, so it is told alike however they are cut.

        Args:
            data: what one read returned.
            at: where in it to begin.
            limit: bytes that a line may have, CRLF apart.
            too_long: what is wrong with a longer one.

        Returns:
            The line without its CRLF, or None when the data ended first, with the place where reading stopped.

        Raises:
            Malformed: CR or LF stands alone, or the line is too long.
        """
        pending = self.pending
        if pending.endswith(b"\r"):
            if data[at] != 0x0A:
                raise _bare_return()
            line = bytes(pending[:-1])
            pending.clear()
            return line, at + 1
        room = limit + 2 - len(pending)
        found = _BREAK(data, at, at + room)
        stop = found.start() if found else min(at + room, len(data))
        if len(pending) + stop - at > limit:
            raise too_long()
        if not found or (stop + 1 == len(data) and data[stop] == 0x0D):
            pending += data[at:]
            return None, len(data)
        if data[stop] == 0x0A:
            raise Malformed("a line ends in LF without CR")
        if data[stop + 1] != 0x0A:
            raise _bare_return()
        line = bytes(pending) + data[at:stop]
        pending.clear()
        return line, stop + 2


class Chunks:
    """A body in chunks, for one message.

    Attributes:
        done: whether the empty line after the trailers has been read.
    """

    def __init__(self, forbidden: frozenset[bytes] = frozenset()) -> None:
        """Begin before the first chunk size.

        Args:
            forbidden: lower-case names that no trailer may have.
        """
        self.done = False
        self._forbidden = forbidden
        self._lines = Lines()
        self._left = 0  # bytes of the chunk still to come
        self._in_data = False  # or in the CRLF behind it
        self._excess = 0  # bytes of extensions beyond those of content
        self._tail = bytearray()  # the last chunk and the trailers so far; not empty from the last chunk on
        self._trailers: list[tuple[bytes, bytes]] = []

    def feed(self, data: bytes, at: int, events: list[Event]) -> int:
        """Read on, to the end of the body or of what there is.

        Args:
            data: what one read returned.
            at: where in it to begin.
            events: where one `Body`, and the `End`, are put.

        Returns:
            The place where reading stopped.

        Raises:
            Malformed: with what was good before it in `events`.
        """
        held = bytes(self._lines.pending)
        begin = sound = at
        payload: list[bytes] = []
        try:
            while at < len(data) and not self.done:
                if self._left:
                    piece = data[at : at + self._left]
                    payload.append(piece)
                    self._left -= len(piece)
                    at += len(piece)
                else:
                    at = self._line(data, at)
                if not self._tail and not self._lines.pending:
                    sound = at
        finally:
            if sound > begin:
                events.append(Body(held + data[begin:sound], b"".join(payload)))
        if self.done:
            events.append(End(bytes(self._tail), tuple(self._trailers)))
        return at

    def _line(self, data: bytes, at: int) -> int:
        """Read what is not content: a size, the CRLF behind a chunk, or a trailer."""
        if self._tail:
            return self._trailer(data, at)
        if self._in_data:
            if not self._lines.pending and data.startswith(b"\r\n", at):
                self._in_data = False
                return at + 2
            line, at = self._lines.take(data, at, 0, lambda: Malformed("no CRLF where a chunk should end"))
            self._in_data = line is None
            return at
        if not self._lines.pending and (plain := _PLAIN_CHUNK(data, at)):
            self._size(plain[1], b"")
            return plain.end()
        line, at = self._lines.take(data, at, MAX_CHUNK_LINE, lambda: Malformed("a chunk size line is too long"))
        if line is not None:
            sized = _CHUNK_LINE(line)
            if not sized:
                raise Malformed(
                    "a chunk size is no hexadecimal number of up to 15 digits, or what follows it no extension"
                )
            self._size(sized[1], sized[2])
        return at

    def _size(self, digits: bytes, extensions: bytes) -> None:
        self._left = int(digits, 16)
        self._in_data = self._left > 0
        self._excess = max(0, self._excess + len(extensions) - self._left)
        if self._excess > MAX_EXTENSIONS:
            raise Malformed("the chunk extensions are too long")
        if not self._left:
            self._tail += b"%b%b\r\n" % (digits, extensions)

    def _trailer(self, data: bytes, at: int) -> int:
        line, at = self._lines.take(data, at, MAX_TRAILERS - 2 - len(self._tail), _trailers_too_long)
        if line is None:
            return at
        self._tail += line + b"\r\n"
        if not line:
            self.done = True
            return at
        if len(self._trailers) == MAX_FIELDS:
            raise _trailers_too_long()
        name, value = _field(line)
        if name.lower() in self._forbidden:
            raise Malformed("a trailer is a field that only a head may hold")
        self._trailers.append((name, value))
        return at


class RequestSplitter:
    """Cuts the client's side of a connection into requests."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._events: list[Event] = []
        self._refused = False
        self._begin()

    def _begin(self) -> None:
        """Wait for the next request line."""
        self._head: list[bytes] = []
        self._size = 0
        self._blank = False  # whether the one empty line that may stand before a request line was there
        self._fields: list[tuple[bytes, bytes]] = []
        self._noted: dict[bytes, list[bytes]] = {}
        self._left = 0
        self._chunks: Chunks | None = None
        self._step: Callable[[bytes, int], int] = self._in_request_line

    def feed(self, data: bytes) -> list[Event]:
        """The events that a chunk of the stream completes; none any more after a `Refusal`."""
        at = 0
        try:
            while at < len(data) and not self._refused:
                at = self._step(data, at)
        except Malformed as found:
            self._refused = True
            self._begin()
            self._lines.pending.clear()
            self._events.append(Refusal(found.status, found.reason))
        events, self._events = self._events, []  # a quiet connection holds no body
        return events

    @property
    def in_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return bool(self._head or self._lines.pending)

    @property
    def under_way(self) -> bool:
        """Whether a message has begun and is not complete."""
        return self.in_head or self._left > 0 or self._chunks is not None

    def _in_request_line(self, data: bytes, at: int) -> int:
        """Read a request line, or the one empty line that may stand before it (RFC 9112, 2.2)."""
        if data[at] == _TLS_HANDSHAKE and not self._lines.pending:
            raise Malformed("TLS is not spoken here: use http, not https, to reach this proxy")
        line, at = self._lines.take(data, at, MAX_TARGET + _AROUND_TARGET, _target_too_long)
        if line:
            _judge_request_line(line)
            self._head.append(line + b"\r\n")
            self._size = len(line) + 2
            self._step = self._in_fields
        elif line is not None:
            if self._blank:
                raise Malformed("empty lines stand before a request line")
            self._blank = True
        return at

    def _in_fields(self, data: bytes, at: int) -> int:
        """Read header lines, and the empty line behind them."""
        while at < len(data):
            room = MAX_HEAD - self._size
            if not self._lines.pending and (plain := _PLAIN_FIELD(data, at, at + room)):
                line = plain[0]
                at = plain.end()
                self._field(plain[1], plain[2].rstrip(b" \t"), line)
            else:
                found, at = self._lines.take(data, at, room - 2, _head_too_long)
                if found is None:
                    break
                line = found + b"\r\n"
                if found:
                    self._field(*_field(found), found)
            self._head.append(line)
            self._size += len(line)
            if line == b"\r\n":
                self._complete()
                break
        return at

    def _field(self, name: bytes, value: bytes, line: bytes) -> None:
        if len(self._fields) == MAX_FIELDS:
            raise _head_too_long()
        lower = name.lower()
        if lower in _NOTED:
            if lower in _FRAMING and b"\t" in line:
                # llhttp, for one, does not take `chunked` with a tab behind it for chunked.
                raise Malformed("a tab stands in a framing field")
            self._noted.setdefault(lower, []).append(value)
        elif b"_" in lower and lower.replace(b"_", b"-") in _FRAMING:
            # Gateways in the CGI tradition take `Content_Length` for `Content-Length`.
            raise Malformed("a header name passes for a framing field where _ and - are the same")
        self._fields.append((name, value))

    def _complete(self) -> None:
        """Judge a head as a whole, and turn to its body."""
        method, target, version = self._head[0][:-2].split(b" ")
        _judge_host(self._noted.get(b"host", []), version)
        _judge_connection(self._noted)
        length = _content_length(self._noted, version)
        self._events.append(Head(method, target, version, tuple(self._fields), length, b"".join(self._head)))
        self._begin()
        if length is None:
            self._chunks = Chunks(_NOT_IN_TRAILERS)
            self._step = self._in_chunks
        elif length:
            self._left = length
            self._step = self._in_content
        else:
            self._events.append(End(b""))

    def _in_content(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._events.append(Body(piece, piece))
        if not self._left:
            self._events.append(End(b""))
            self._begin()
        return at + len(piece)

    def _in_chunks(self, data: bytes, at: int) -> int:
        assert self._chunks
        at = self._chunks.feed(data, at, self._events)
        if self._chunks.done:
            self._begin()
        return at


def forwarded(head: Head, host: bytes) -> bytes:
    """A head for the upstream: as sent, but for the value of Host and without what is between the client and us alone.

    Connection and Keep-Alive stay: each connection of a client has one to the upstream of its own, so what they say of
    the one holds for the other.
    """
    request_line, *lines = head.wire.split(b"\r\n")[:-2]
    kept = [request_line]
    for line, (name, value) in zip(lines, head.headers, strict=True):
        lower = name.lower()
        if lower == b"host":
            kept.append(line[: len(name)] + line[len(name) :].replace(value, host))
        elif lower not in _OF_ONE_HOP:
            kept.append(line)
    return b"\r\n".join((*kept, b"", b""))


def _judge_request_line(line: bytes) -> None:
    words = line.split(b" ")
    if len(words) != 3 or not all(words):
        raise Malformed("a request line is a method, a target and a version with one space between them")
    method, target, version = words
    if not _TOKEN(method):
        raise Malformed("the method holds a character that no method may hold")
    if not _VERSION(version):
        raise Malformed("the request line does not end in an HTTP version")
    if method == b"PRI" and version == b"HTTP/2.0":
        raise Malformed("HTTP/2 is not spoken here: speak HTTP/1.1", 505)
    if version not in (_NEWEST, _OLDEST):
        raise Malformed("this version of HTTP is not spoken here: speak HTTP/1.1", 505)
    if method == b"CONNECT":
        raise Malformed("CONNECT is not served: there is one upstream, fixed at the start", 501)
    _judge_target(target, method)


def _judge_target(target: bytes, method: bytes) -> None:
    """Only what names a path of the one upstream, or in OPTIONS the upstream itself (RFC 9112, 3.2)."""
    if len(target) > MAX_TARGET:
        raise _target_too_long()
    if target == b"*":
        if method != b"OPTIONS":
            raise Malformed("the target * is for OPTIONS alone")
        return
    if not target.startswith(b"/"):
        raise Malformed(
            "the target is a whole URL: give the path, there is one upstream, fixed at the start"
            if b"://" in target
            else "the target does not begin with a slash"
        )
    if target.startswith(b"//"):
        raise Malformed("the target begins with two slashes, which some servers take for the name of a host")
    if _NOT_IN_TARGET(target):
        # Not for form's sake: Python's http.server splits the request line at the bytes 85 and A0, too.
        raise Malformed("the target holds a control character, #, \\ or a byte outside ASCII")


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Name and value of a header or trailer line."""
    if line.startswith((b" ", b"\t")):
        raise Malformed("a header line begins with white space")
    name, colon, value = line.partition(b":")
    if not colon:
        raise Malformed("a header line has no colon")
    if not _TOKEN(name):
        raise Malformed(
            "white space stands before the colon of a header line"
            if name.endswith((b" ", b"\t"))
            else "a header name is empty or holds a character that no name may hold"
        )
    if _NOT_IN_VALUE(value):
        raise Malformed("a header value holds a control character")
    return name, value.strip(b" \t")


def _judge_host(hosts: list[bytes], version: bytes) -> None:
    if len(hosts) > 1:
        raise Malformed("there is more than one Host")
    if not hosts:
        if version == _NEWEST:
            raise Malformed("there is no Host")
    elif not _AUTHORITY(hosts[0]):
        raise Malformed("Host is not the name or address of one host, with or without a port")


def _judge_connection(noted: dict[bytes, list[bytes]]) -> None:
    options = {option.strip(b" \t").lower() for value in noted.get(b"connection", []) for option in value.split(b",")}
    if options & _FRAMING:
        # The next proxy would take the field out, and read another message than this one.
        raise Malformed("Connection names a framing field")
    wanted = {word.strip(b" \t").lower() for value in noted.get(b"upgrade", []) for word in value.split(b",")}
    # An upgrade to h2c is an offer that may be passed over (RFC 9110, 7.8), and Java's client makes it unasked.
    if b"upgrade" in options and wanted - {b"h2c"}:
        raise Malformed("upgrades, such as to WebSocket, are not relayed: ask without Upgrade", 501)


def _content_length(noted: dict[bytes, list[bytes]], version: bytes) -> int | None:
    """Bytes of content; None where it comes in chunks (RFC 9112, 6.3, without its second chances)."""
    lengths = noted.get(b"content-length", [])
    if codings := noted.get(b"transfer-encoding"):
        if lengths:
            raise Malformed("there are both Content-Length and Transfer-Encoding")
        if version == _OLDEST:
            raise Malformed("there is Transfer-Encoding in HTTP/1.0")
        if len(codings) > 1:
            raise Malformed("there is more than one Transfer-Encoding")
        _judge_coding(codings[0].lower())
        return None
    if len(lengths) > 1:
        raise Malformed("there is more than one Content-Length")
    if lengths and not _LENGTH(lengths[0]):
        raise Malformed("Content-Length is not one plain decimal number of up to 18 digits")
    return int(lengths[0]) if lengths else 0


def _judge_coding(coding: bytes) -> None:
    if coding == b"chunked":
        return
    names = {name.strip(b" \t") for name in coding.split(b",")}
    if names == {b"chunked"} or not all(map(_TOKEN, names)):
        raise Malformed("Transfer-Encoding is not one plain chunked")
    raise Malformed("only the transfer coding chunked is relayed", 501)


def _bare_return() -> Malformed:
    return Malformed("CR stands without LF")


def _target_too_long() -> Malformed:
    return Malformed(f"the request target is longer than {MAX_TARGET} bytes", 414)


def _head_too_long() -> Malformed:
    return Malformed(f"the request head has more than {MAX_HEAD} bytes or {MAX_FIELDS} lines", 431)


def _trailers_too_long() -> Malformed:
    return Malformed(f"the trailers have more than {MAX_TRAILERS} bytes or {MAX_FIELDS} lines", 431)
