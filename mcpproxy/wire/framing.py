"""Parses the parts of HTTP/1.1 requests and responses: lines, fields, and chunked bodies (RFC 9112).

Parsing is strict, because the bytes are forwarded to a server that may interpret them differently. The result does not
depend on how the input is split, except for the boundaries of `Body`. At most one line is held, and its length is
limited.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_FIELDS: Final = 100
"""The maximum number of header lines of a request, and of trailer lines of any message."""
MAX_CHUNK_LINE_BYTES: Final = 256
"""The maximum length of a chunk size with its extensions."""
MAX_EXTENSION_BYTES: Final = 16 << 10
"""The maximum by which a message's chunk extensions may exceed its content; more would only waste resources."""
MAX_TRAILER_BYTES: Final = 16 << 10
"""The maximum size of a trailer section."""

_TOKEN_CHAR: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"  # of a token
# A value may be quoted, with quoted pairs in it (RFC 9112, 7.1.1; RFC 9110, 5.6.4). Its content is ASCII without line
# ends, so a reader that ignores quotes finds the same size before it and the same end after it.
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~]++|\\[\t -~])*+"'
_EXTENSION: Final = rb";" + _TOKEN_CHAR + rb"++(?:=(?:" + _TOKEN_CHAR + rb"++|" + _QUOTED + rb"))?"
_LINE_BREAK: Final = re.compile(rb"[\r\n]").search
TOKEN: Final = re.compile(_TOKEN_CHAR + rb"+").fullmatch
_NOT_IN_VALUE: Final = re.compile(rb"[^\t\x20-\x7e\x80-\xff]").search
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})((?:" + _EXTENSION + rb")*+)").fullmatch
_PLAIN_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match


class Fields(tuple[tuple[bytes, bytes], ...]):  # noqa: SLOT001 - a tuple subclass cannot have nonempty slots
    """Names and values in the order sent, with duplicates and case preserved, but without white space around values."""

    def __init__(self, _: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.values_by_name: Final[dict[bytes, list[bytes]]] = {}
        """The values of each field, by its name in lower case."""
        for name, value in self:
            lower_name = name.lower()
            if lower_name in self.values_by_name:
                self.values_by_name[lower_name].append(value)
            else:
                self.values_by_name[lower_name] = [value]

    def values_of(self, name: bytes) -> list[bytes]:
        """Returns all values of a field, by its name in lower case."""
        return self.values_by_name.get(name, [])

    @property
    def media_type(self) -> bytes:
        """The media type of the content, in lower case, without parameters; empty if there is none."""
        values = self.values_by_name.get(b"content-type")
        return values[0].partition(b";")[0].strip().lower() if values else b""


class Body(NamedTuple):
    """A piece of the content."""

    wire: bytes
    """The bytes to forward, chunk framing included, of which every line is complete."""
    payload: bytes
    """The content of these bytes; may be empty."""


class MessageEnd(NamedTuple):
    """The message is complete."""

    wire: bytes
    """The last chunk and the trailer section; empty if the content was not chunked."""
    trailers: Fields = Fields()
    has_extensions: bool = False
    """Whether chunks have extensions."""


class Malformed(Exception):
    """The input is not a message that all readers interpret alike."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class LineReader:
    """Reads lines that end in CRLF from chunks that may be split anywhere."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: Final = bytearray()
        """The unfinished line, with its CR if only the LF is missing."""

    def read_line(
        self, data: bytes, position: int, limit: int, too_long_error: Callable[[], Malformed]
    ) -> tuple[bytes | None, int]:
        """Read the line at a position; returns it and the position after it.

        An error in a line is reported as soon as its bytes show it, so the report does not depend on how they are
        split.

        Args:
            data: the bytes that one read returned.
            position: where to begin in the data.
            limit: the maximum length of a line in bytes, without CRLF.
            too_long_error: returns the error for a longer line.

        Returns:
            The line without its CRLF, or None if the data ended first, with the position at which reading stopped.

        Raises:
            Malformed: CR or LF occurs alone, or the line is too long.
        """
        pending = self.pending
        if pending.endswith(b"\r"):
            if data[position] != 0x0A:
                raise _bare_cr_error()
            line = bytes(pending[:-1])
            pending.clear()
            return line, position + 1
        max_bytes = limit + 2 - len(pending)
        line_end = _LINE_BREAK(data, position, position + max_bytes)
        stop = line_end.start() if line_end else min(position + max_bytes, len(data))
        if len(pending) + stop - position > limit:
            raise too_long_error()
        if not line_end or (stop + 1 == len(data) and data[stop] == 0x0D):
            pending += data[position:]
            return None, len(data)
        if data[stop] == 0x0A:
            raise Malformed("a line ends in LF without CR")
        if data[stop + 1] != 0x0A:
            raise _bare_cr_error()
        line = bytes(pending) + data[position:stop]
        pending.clear()
        return line, stop + 2


class ChunkedBodyReader:
    """Reads the chunked body of one message.

    Attributes:
        is_done: whether the empty line after the trailers has been read.
    """

    __slots__ = (
        "_excess",
        "_forbidden_trailers",
        "_has_extensions",
        "_is_in_data",
        "_lines",
        "_missing_bytes",
        "_tail",
        "_trailers",
        "is_done",
    )

    def __init__(self, forbidden: frozenset[bytes] = frozenset()) -> None:
        """Start before the first chunk size.

        Args:
            forbidden: the names of fields that must not be trailers, in lower case.
        """
        self.is_done = False
        self._forbidden_trailers = forbidden
        self._lines = LineReader()
        self._missing_bytes = 0  # the number of bytes still missing from the chunk
        self._is_in_data = False  # whether the next byte is in the data of a chunk, or in the CRLF after it
        self._has_extensions = False
        self._excess = 0  # the number of extension bytes beyond those of content
        self._tail = b""  # the last chunk and the trailers so far; empty until the last chunk begins
        self._trailers: tuple[tuple[bytes, bytes], ...] = ()

    def feed(self, data: bytes, position: int, emit: "Callable[[Body | MessageEnd], object]") -> int:
        """Read up to the end of the body or of the data.

        Args:
            data: the bytes that one read returned.
            position: where to begin in the data.
            emit: called with at most one `Body`, and with the `MessageEnd`.

        Returns:
            The position at which reading stopped.

        Raises:
            Malformed: the body is malformed; the valid part before the error has been emitted.
        """
        held_bytes = bytes(self._lines.pending)
        start = valid_end = position
        payload: list[bytes] = []
        try:
            while position < len(data) and not self.is_done:
                if self._missing_bytes:
                    piece = data[position : position + self._missing_bytes]
                    payload.append(piece)
                    self._missing_bytes -= len(piece)
                    position += len(piece)
                else:
                    position = self._read_framing(data, position)
                if not self._tail and not self._lines.pending:
                    valid_end = position
        finally:
            if valid_end > start:
                emit(Body(held_bytes + data[start:valid_end], b"".join(payload)))
        if self.is_done:
            emit(MessageEnd(self._tail, Fields(self._trailers), self._has_extensions))
        return position

    def _read_framing(self, data: bytes, position: int) -> int:
        """Read a line that is not content: a chunk size, the CRLF after a chunk, or a trailer."""
        if self._tail:
            return self._read_trailer(data, position)
        if self._is_in_data:
            if not self._lines.pending and data.startswith(b"\r\n", position):
                self._is_in_data = False
                return position + 2
            line, position = self._lines.read_line(
                data, position, 0, lambda: Malformed("no CRLF where a chunk should end")
            )
            self._is_in_data = line is None
            return position
        if not self._lines.pending and (match := _PLAIN_CHUNK(data, position)):
            self._begin_chunk(match[1], b"")
            return match.end()
        line, position = self._lines.read_line(
            data, position, MAX_CHUNK_LINE_BYTES, lambda: Malformed("a chunk size line is too long")
        )
        if line is not None:
            size_match = _CHUNK_LINE(line)
            if not size_match:
                raise Malformed(
                    "a chunk size is not a hexadecimal number of up to 15 digits, or is followed by something "
                    "other than an extension"
                )
            self._begin_chunk(size_match[1], size_match[2])
        return position

    def _begin_chunk(self, digits: bytes, extensions: bytes) -> None:
        self._missing_bytes = int(digits, 16)
        self._is_in_data = self._missing_bytes > 0
        self._has_extensions = self._has_extensions or bool(extensions)
        self._excess = max(0, self._excess + len(extensions) - self._missing_bytes)
        if self._excess > MAX_EXTENSION_BYTES:
            raise Malformed("the chunk extensions are too long")
        if not self._missing_bytes:
            self._tail += b"%b%b\r\n" % (digits, extensions)

    def _read_trailer(self, data: bytes, position: int) -> int:
        line, position = self._lines.read_line(
            data, position, MAX_TRAILER_BYTES - 2 - len(self._tail), _trailers_too_long_error
        )
        if line is None:
            return position
        self._tail += line + b"\r\n"
        if not line:
            self.is_done = True
            return position
        if len(self._trailers) == MAX_FIELDS:
            raise _trailers_too_long_error()
        name, value = parse_field(line)
        if name.lower() in self._forbidden_trailers:
            raise Malformed("a trailer contains a field that is allowed only in a head")
        self._trailers += ((name, value),)
        return position


def parse_field(line: bytes) -> tuple[bytes, bytes]:
    """Returns the name and the value of a header or trailer line."""
    if line.startswith((b" ", b"\t")):
        raise Malformed("a header line begins with white space")
    name, colon, value = line.partition(b":")
    if not colon:
        raise Malformed("a header line has no colon")
    if not TOKEN(name):
        raise Malformed(
            "a header line has white space before its colon"
            if name.endswith((b" ", b"\t"))
            else "a header name is empty or contains an invalid character"
        )
    if _NOT_IN_VALUE(value):
        raise Malformed("a header value contains a control character")
    return name, value.strip(b" \t")


def _bare_cr_error() -> Malformed:
    return Malformed("CR is not followed by LF")


def _trailers_too_long_error() -> Malformed:
    return Malformed(f"the trailers have more than {MAX_TRAILER_BYTES} bytes or {MAX_FIELDS} lines", 431)
