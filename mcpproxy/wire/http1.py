"""Parses HTTP/1.1 requests into heads and bodies, and refuses anything that two servers could interpret differently.

This is the only parser of requests in the relay. It decides where a message ends both for the bytes that go upstream
and for the record, so the two cannot disagree. Request smuggling exploits disagreement with a third parser, the
server's. So anything that RFC 9112 leaves open, tolerates or forbids is refused here, and no byte of a head, of a chunk
size or of a trailer section is returned before all of it has been checked. Accepted bytes are forwarded as they were
sent.

The events do not depend on how the input is split, except for the boundaries of `Body`. The time is linear in the
number of bytes. At most one head, one chunk size or one trailer section is held, and the size of each is limited.

A request that offers to upgrade the connection (RFC 9110, 7.8) is accepted only if the splitter is created for that.
Nothing after it is parsed before the server has responded, because if the server accepts, the rest is no longer HTTP.

Dot segments (`/a/../b`) and percent-encodings pass unchanged: with a single upstream, no path can lead elsewhere, and
normalising it would change what the server sees.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from mcpproxy.wire.framing import (
    MAX_FIELDS,
    TOKEN,
    Body,
    ChunkedBodyReader,
    Fields,
    LineReader,
    Malformed,
    MessageEnd,
    parse_field,
)

MAX_REQUEST_HEAD_BYTES: Final = 64 << 10
"""The maximum size of a request line and its header lines, line ends included."""
MAX_TARGET_BYTES: Final = 16 << 10
"""The maximum length of a request target."""


class RequestHead(NamedTuple):
    """A request line and the header fields."""

    method: bytes
    target: bytes
    """The target as sent, which begins with a slash or is `*`."""
    version: bytes
    """`b"HTTP/1.1"` or `b"HTTP/1.0"`."""
    headers: Fields
    content_length: int | None
    """The number of bytes of content that follow; None if they are chunked."""
    wire: bytes
    """The bytes as sent, up to and including the empty line."""
    offers_upgrade: bool = False
    """Whether the request offers to upgrade the connection to another protocol."""


class Refusal(NamedTuple):
    """The rest of the message must not be forwarded, and nothing after it can be parsed."""

    status: int
    """The status of the response to send."""
    reason: str
    """The reason, without any text from the request."""
    method: bytes = b""
    """The method of the request; empty if the request line itself is at fault."""


RequestEvent: TypeAlias = RequestHead | Body | MessageEnd | Refusal


_NOT_IN_TARGET: Final = re.compile(rb"[^\x21-\x7e]|[#\\]").search
_VERSION: Final = re.compile(rb"HTTP/[0-9]\.[0-9]").fullmatch
_AUTHORITY: Final = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?").fullmatch
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}").fullmatch  # below 2**63, which every server can count to
# These patterns match valid heads within one chunk, which nearly all are, at a fifth of the cost. Other heads go
# through the slow path, which gives the reason for a refusal. The quantifiers are possessive, so a value of 60,000
# spaces is read only once. Names with underscores and values with tabs do not match, because they need a closer look.
_PLAIN_NAME: Final = rb"([!#$%&'*+.^`|~0-9A-Za-z-]++)"
_PLAIN_VALUE: Final = rb": *+([\x20-\x7e\x80-\xff]*+)\r\n"
_PLAIN_HEAD: Final = re.compile(rb"([!-~ ]++)\r\n((?:" + _PLAIN_NAME + _PLAIN_VALUE + rb")*+)\r\n").match
_PLAIN_FIELDS: Final = re.compile(_PLAIN_NAME + _PLAIN_VALUE).findall

_HOST_LINE: Final = re.compile(rb"(?i)\r\nhost:[ \t]*+").search

_FRAMING_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"host"})
"""The fields that decide where a message ends and which server receives it."""
_CONNECTION_FIELDS: Final = _FRAMING_FIELDS | {b"connection", b"upgrade"}
_FORBIDDEN_TRAILERS: Final = _CONNECTION_FIELDS | {b"expect", b"keep-alive", b"proxy-connection", b"te", b"trailer"}

_HOP_FIELDS: Final = frozenset({b"proxy-connection", b"upgrade", b"http2-settings"})

_OLDEST_VERSION: Final = b"HTTP/1.0"
_NEWEST_VERSION: Final = b"HTTP/1.1"
_TLS_HANDSHAKE: Final = 0x16
_MAX_METHOD_AND_VERSION_BYTES: Final = 64  # the maximum number of bytes for the method and the version


class _HeadDraft:
    """A head that is read line by line."""

    __slots__ = ("fields", "lines", "size")

    def __init__(self, request_line: bytes) -> None:
        self.lines = [request_line + b"\r\n"]
        """The lines so far, with their line ends."""
        self.size = len(self.lines[0])
        self.fields: list[tuple[bytes, bytes]] = []


class RequestSplitter:
    """Splits the client's side of a connection into requests."""

    __slots__ = (
        "_accepts_upgrades",
        "_chunks",
        "_draft",
        "_events",
        "_has_read_empty_line",
        "_has_refused",
        "_lines",
        "_missing_bytes",
        "_offers_upgrade",
        "_read_step",
        "_request_line",
        "_unread",
        "awaits_response",
    )

    def __init__(self, *, accepts_upgrades: bool = False) -> None:
        """Create a splitter for a new connection.

        Args:
            accepts_upgrades: whether requests may offer to upgrade the connection; otherwise, offers of h2c, which a
                server may ignore, are ignored, and all others are refused.
        """
        self._accepts_upgrades = accepts_upgrades
        self._lines = LineReader()
        self._events: list[RequestEvent] = []
        self._has_refused = False
        self.awaits_response = False
        """Whether parsing must wait until the server has responded to an offer to upgrade."""
        self._unread = bytearray()
        """The bytes that have arrived since the offer."""
        self._offers_upgrade = False
        self._begin()

    def _begin(self) -> None:
        """Prepare for the next request line."""
        self._request_line = b""  # of a head that has begun and is not complete
        self._draft: _HeadDraft | None = None
        self._has_read_empty_line = False  # whether the one empty line allowed before a request line has been read
        self._missing_bytes = 0
        self._chunks: ChunkedBodyReader | None = None
        self._read_step: Callable[[RequestSplitter, bytes, int], int] = RequestSplitter._read_request_line

    def feed(self, data: bytes) -> list[RequestEvent]:
        """Returns the events that a chunk of the stream completes, and none after a `Refusal`."""
        position = 0
        try:
            while position < len(data) and not self._has_refused and not self.awaits_response:
                position = self._read_step(self, data, position)
        except Malformed as error:
            self._has_refused = True
            method = self._request_line.partition(b" ")[0]
            self._begin()
            self._lines.pending.clear()
            self._events.append(Refusal(error.status, error.reason, method))
        if self.awaits_response:
            self._unread += data[position:]
        events, self._events = self._events, []  # so that an idle connection keeps no body in memory
        return events

    def decline_upgrade(self) -> list[RequestEvent]:
        """Continue with HTTP, because the server declined the offer; returns the events that have arrived since."""
        self.awaits_response = False
        unread_data, self._unread = bytes(self._unread), bytearray()
        return self.feed(unread_data)

    def take_unread(self) -> bytes:
        """Returns the bytes since the offer, which are not HTTP, because the server has upgraded the connection."""
        unread_data, self._unread = bytes(self._unread), bytearray()
        return unread_data

    @property
    def unread_bytes(self) -> int:
        """The number of bytes that have arrived since an offer to which the server has not responded yet."""
        return len(self._unread)

    @property
    def is_in_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return bool(self._request_line or self._lines.pending)

    @property
    def is_in_message(self) -> bool:
        """Whether a message has begun and is not complete."""
        return self.is_in_head or self._missing_bytes > 0 or self._chunks is not None

    def _read_request_line(self, data: bytes, position: int) -> int:
        """Read a request line, or the one empty line that is allowed before it (RFC 9112, 2.2)."""
        if data[position] == _TLS_HANDSHAKE and not self._lines.pending:
            raise Malformed("this proxy does not accept TLS; use http, not https")
        if not self._lines.pending and (match := _PLAIN_HEAD(data, position, position + MAX_REQUEST_HEAD_BYTES)):
            line, header_lines = match[1], match[2]
            fields = Fields(_PLAIN_FIELDS(header_lines))
            if (
                len(line) <= MAX_TARGET_BYTES + _MAX_METHOD_AND_VERSION_BYTES
                and len(fields) <= MAX_FIELDS
                and b" \r\n" not in header_lines
            ):
                _judge_request_line(line)
                self._request_line = line
                self._complete_head(line, fields, match[0])
                return match.end()
        line, position = self._lines.read_line(
            data, position, MAX_TARGET_BYTES + _MAX_METHOD_AND_VERSION_BYTES, _target_too_long_error
        )
        if line:
            _judge_request_line(line)
            self._request_line, self._draft = line, _HeadDraft(line)
            self._read_step = RequestSplitter._read_fields
        elif line is not None:
            if self._has_read_empty_line:
                raise Malformed("a request line is preceded by several empty lines")
            self._has_read_empty_line = True
        return position

    def _read_fields(self, data: bytes, position: int) -> int:
        """Read header lines, and the empty line after them."""
        draft = self._draft
        assert draft is not None
        while position < len(data):
            line, position = self._lines.read_line(
                data, position, MAX_REQUEST_HEAD_BYTES - draft.size - 2, _head_too_long_error
            )
            if line is None:
                break
            draft.lines.append(line + b"\r\n")
            draft.size += len(line) + 2
            if not line:
                self._complete_head(self._request_line, Fields(draft.fields), b"".join(draft.lines))
                break
            _add_field(draft.fields, *parse_field(line), line)
        return position

    def _complete_head(self, line: bytes, fields: Fields, wire: bytes) -> None:
        """Check a head as a whole, and prepare for its body."""
        method, target, version = line.split(b" ")
        values_by_name = fields.values_by_name
        _judge_host(values_by_name.get(b"host", []), version)
        offered_protocols = (
            _offered_upgrades(values_by_name, version) if b"connection" in values_by_name else frozenset()
        )
        if offered_protocols and not self._accepts_upgrades:
            # An offer of h2c can be ignored (RFC 9110, 7.8), and Java's client makes one by default.
            if offered_protocols - {b"h2c"}:
                raise Malformed(
                    "upgrades, such as to WebSocket, are not relayed; send the request without Upgrade", 501
                )
            offered_protocols = frozenset()
        length = _content_length(values_by_name, version)
        self._events.append(
            RequestHead(method, target, version, fields, length, wire, offers_upgrade=bool(offered_protocols))
        )
        self._begin()
        self._offers_upgrade = bool(offered_protocols)
        if length is None:
            self._chunks = ChunkedBodyReader(_FORBIDDEN_TRAILERS)
            self._read_step = RequestSplitter._read_chunks
        elif length:
            self._missing_bytes = length
            self._read_step = RequestSplitter._read_content
        else:
            self._events.append(MessageEnd(b""))
            self._end_message()

    def _read_content(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._missing_bytes]
        self._missing_bytes -= len(piece)
        self._events.append(Body(piece, piece))
        if not self._missing_bytes:
            self._events.append(MessageEnd(b""))
            self._end_message()
        return position + len(piece)

    def _read_chunks(self, data: bytes, position: int) -> int:
        assert self._chunks
        position = self._chunks.feed(data, position, self._events.append)
        if self._chunks.is_done:
            self._end_message()
        return position

    def _end_message(self) -> None:
        self.awaits_response, self._offers_upgrade = self._offers_upgrade, False
        self._begin()


def _add_field(fields: list[tuple[bytes, bytes]], name: bytes, value: bytes, line: bytes) -> None:
    if len(fields) == MAX_FIELDS:
        raise _head_too_long_error()
    lower_name = name.lower()
    if lower_name in _FRAMING_FIELDS and b"\t" in line:
        # llhttp, for example, does not recognise `chunked` if a tab follows it.
        raise Malformed("a framing field contains a tab")
    if b"_" in lower_name and lower_name.replace(b"_", b"-") in _FRAMING_FIELDS:
        # Gateways in the CGI tradition treat `Content_Length` as `Content-Length`.
        raise Malformed("a header name would be read as a framing field by servers that treat _ as -")
    fields.append((name, value))


def forwarded_head(head: RequestHead, host: bytes) -> bytes:
    """Returns the head for the upstream: as sent, except for the value of Host, and without fields that end here.

    Connection and Keep-Alive stay, because each client connection has its own upstream connection, to which they apply
    as well.
    """
    values_by_name, wire = head.headers.values_by_name, head.wire
    if not _HOP_FIELDS.isdisjoint(values_by_name):
        request_line, *lines = wire.split(b"\r\n")[:-2]
        forwarded_lines = [line for line in lines if line.partition(b":")[0].lower() not in _HOP_FIELDS]
        wire = b"\r\n".join((request_line, *forwarded_lines, b"", b""))
    if host_line := _HOST_LINE(wire):
        wire = wire[: host_line.end()] + host + wire[host_line.end() + len(values_by_name[b"host"][0]) :]
    return wire


def _judge_request_line(line: bytes) -> None:
    words = line.split(b" ")
    if len(words) != 3 or not all(words):
        raise Malformed("a request line is a method, a target and a version with one space between them")
    method, target, version = words
    if not TOKEN(method):
        raise Malformed("the method contains an invalid character")
    if not _VERSION(version):
        raise Malformed("the request line does not end in an HTTP version")
    if method == b"PRI" and version == b"HTTP/2.0":
        raise Malformed("HTTP/2 is not supported; use HTTP/1.1", 505)
    if version not in (_NEWEST_VERSION, _OLDEST_VERSION):
        raise Malformed("this version of HTTP is not supported; use HTTP/1.1", 505)
    if method == b"CONNECT":
        raise Malformed("CONNECT is not supported, because the upstream is fixed", 501)
    _judge_target(target, method)


def _judge_target(target: bytes, method: bytes) -> None:
    """Accept only a path on the upstream or, in OPTIONS, the upstream itself (RFC 9112, 3.2)."""
    if len(target) > MAX_TARGET_BYTES:
        raise _target_too_long_error()
    if target == b"*":
        if method != b"OPTIONS":
            raise Malformed("the target * is allowed only with OPTIONS")
        return
    if not target.startswith(b"/"):
        raise Malformed(
            "the target is a whole URL; send only the path, because the upstream is fixed"
            if b"://" in target
            else "the target does not begin with a slash"
        )
    if target.startswith(b"//"):
        raise Malformed("the target begins with two slashes, after which some servers expect a host name")
    if _NOT_IN_TARGET(target):
        # Such bytes matter: Python's http.server splits the request line at the bytes 85 and A0, too.
        raise Malformed("the target contains a control character, #, \\ or a non-ASCII byte")


def _judge_host(hosts: list[bytes], version: bytes) -> None:
    if len(hosts) > 1:
        raise Malformed("the request has more than one Host")
    if not hosts:
        if version == _NEWEST_VERSION:
            raise Malformed("the request has no Host")
    elif not _AUTHORITY(hosts[0]):
        raise Malformed("Host is not the name or address of one host, with or without a port")


def _offered_upgrades(values_by_name: dict[bytes, list[bytes]], version: bytes) -> frozenset[bytes]:
    """Check the fields that concern the connection; returns the protocols to which it offers to upgrade."""
    options = {
        option.strip(b" \t").lower() for value in values_by_name.get(b"connection", []) for option in value.split(b",")
    }
    if options & _FRAMING_FIELDS:
        # The next proxy would remove the framing field, and so interpret the message differently.
        raise Malformed("Connection names a framing field")
    if b"upgrade" not in options or version != _NEWEST_VERSION:  # HTTP/1.0 has no upgrades
        return frozenset()
    return frozenset(
        word.strip(b" \t").lower() for value in values_by_name.get(b"upgrade", []) for word in value.split(b",")
    )


def _content_length(values_by_name: dict[bytes, list[bytes]], version: bytes) -> int | None:
    """Returns the number of bytes of content, or None if it is chunked (RFC 9112, 6.3, without its exceptions)."""
    lengths = values_by_name.get(b"content-length", [])
    if codings := values_by_name.get(b"transfer-encoding"):
        if lengths:
            raise Malformed("the request has both Content-Length and Transfer-Encoding")
        if version == _OLDEST_VERSION:
            raise Malformed("an HTTP/1.0 request has Transfer-Encoding")
        if len(codings) > 1:
            raise Malformed("the request has more than one Transfer-Encoding")
        _judge_coding(codings[0].lower())
        return None
    if len(lengths) > 1:
        raise Malformed("the request has more than one Content-Length")
    if lengths and not _LENGTH(lengths[0]):
        raise Malformed("Content-Length is not a decimal number of up to 18 digits")
    return int(lengths[0]) if lengths else 0


def _judge_coding(coding: bytes) -> None:
    if coding == b"chunked":
        return
    coding_names = {name.strip(b" \t") for name in coding.split(b",")}
    if coding_names == {b"chunked"} or not all(map(TOKEN, coding_names)):
        raise Malformed("Transfer-Encoding is not exactly `chunked`")
    raise Malformed("only the transfer coding chunked is relayed", 501)


def _target_too_long_error() -> Malformed:
    return Malformed(f"the request target is longer than {MAX_TARGET_BYTES} bytes", 414)


def _head_too_long_error() -> Malformed:
    return Malformed(f"the request head has more than {MAX_REQUEST_HEAD_BYTES} bytes or {MAX_FIELDS} lines", 431)
