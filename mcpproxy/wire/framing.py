"""The parts of HTTP/1.1 requests and responses: lines, fields, and chunked bodies (RFC 9112).

Reading is strict, because what passes here goes on to a server that may read it differently. However the input is
split, the result is the same except for the boundaries of `Body`; at most one line is held, bounded.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_FIELDS: Final = 100
"""Header lines of a request, and trailer lines of any message."""
MAX_CHUNK_LINE_BYTES: Final = 256
"""Bytes of a chunk size with its extensions."""
MAX_EXTENSION_BYTES: Final = 16 << 10
"""Bytes by which a message's chunk extensions may exceed its content; more would only waste resources."""
MAX_TRAILER_BYTES: Final = 16 << 10
"""Bytes of a trailer section."""

_CHARACTER: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"  # of a token
# A value may be quoted, with quoted pairs in it (RFC 9112, 7.1.1; RFC 9110, 5.6.4). Its content is ASCII without line
# ends, so a reader that ignores quotes finds the same size before it and the same end after it.
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~]++|\\[\t -~])*+"'
_EXTENSION: Final = rb";" + _CHARACTER + rb"++(?:=(?:" + _CHARACTER + rb"++|" + _QUOTED + rb"))?"
_BREAK: Final = re.compile(rb"[\r\n]").search
TOKEN: Final = re.compile(_CHARACTER + rb"+").fullmatch
_NOT_IN_VALUE: Final = re.compile(rb"[^\t\x20-\x7e\x80-\xff]").search
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})((?:" + _EXTENSION + rb")*+)").fullmatch
_PLAIN_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n").match


class Fields(tuple[tuple[bytes, bytes], ...]):  # noqa: SLOT001 - a tuple subclass cannot have nonempty slots
    """Names and values in the order sent, duplicates and case kept; white space around a value is not part of it."""

    def __init__(self, _: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.named: Final[dict[bytes, list[bytes]]] = {}
        """The values of each name, which is in lower case."""
        for name, value in self:
            lower = name.lower()
            if lower in self.named:
                self.named[lower].append(value)
            else:
                self.named[lower] = [value]

    def values_of(self, name: bytes) -> list[bytes]:
        """All values of a field, by its name in lower case."""
        return self.named.get(name, [])

    @property
    def media_type(self) -> bytes:
        """The media type of the content, in lower case, without parameters; empty if there is none."""
        values = self.named.get(b"content-type")
        return values[0].partition(b";")[0].strip().lower() if values else b""


class Body(NamedTuple):
    """A piece of the content."""

    wire: bytes
    """The bytes to forward, chunk framing included; whole lines of framing only."""
    payload: bytes
    """The content in them; may be empty."""


class End(NamedTuple):
    """The message is complete."""

    wire: bytes
    """The last chunk and the trailer section; empty if the content was not chunked."""
    trailers: Fields = Fields()


class Malformed(Exception):
    """The input cannot be a message that all readers interpret alike."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class Lines:
    """Lines that end in CRLF, from chunks that are split anywhere."""

    def __init__(self) -> None:
        self.pending: Final = bytearray()
        """The unfinished line, with its CR if only the LF is missing."""

    def read_line(
        self, data: bytes, at: int, limit: int, too_long: Callable[[], Malformed]
    ) -> tuple[bytes | None, int]:
        """Read the line at a position; returns it and the position after it.

        An error in a line is reported as soon as its bytes show it, so the report does not depend on how they are
        split.

        Args:
            data: what one read returned.
            at: where in it to begin.
            limit: bytes that a line may have, not counting CRLF.
            too_long: makes the error for a longer line.

        Returns:
            The line without its CRLF, or None if the data ended first, with the position where reading stopped.

        Raises:
            Malformed: CR or LF occurs alone, or the line is too long.
        """
        pending = self.pending
        if pending.endswith(b"\r"):
            if data[at] != 0x0A:
                raise _bare_return()
            line = bytes(pending[:-1])
            pending.clear()
            return line, at + 1
        room = limit + 2 - len(pending)
        line_end = _BREAK(data, at, at + room)
        stop = line_end.start() if line_end else min(at + room, len(data))
        if len(pending) + stop - at > limit:
            raise too_long()
        if not line_end or (stop + 1 == len(data) and data[stop] == 0x0D):
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
        """Start before the first chunk size.

        Args:
            forbidden: lower-case names not allowed in trailers.
        """
        self.done = False
        self._forbidden = forbidden
        self._lines = Lines()
        self._left = 0  # bytes of the chunk still to come
        self._in_data = False  # or in the CRLF after it
        self._excess = 0  # bytes of extensions beyond those of content
        self._tail = bytearray()  # the last chunk and the trailers so far; not empty from the last chunk on
        self._trailers: list[tuple[bytes, bytes]] = []

    def feed(self, data: bytes, at: int, emit: "Callable[[Body | End], object]") -> int:
        """Read up to the end of the body or of the data.

        Args:
            data: what one read returned.
            at: where in it to begin.
            emit: called with at most one `Body`, and with the `End`.

        Returns:
            The position where reading stopped.

        Raises:
            Malformed: after the valid part before it has been emitted.
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
                emit(Body(held + data[begin:sound], b"".join(payload)))
        if self.done:
            emit(End(bytes(self._tail), Fields(self._trailers)))
        return at

    def _line(self, data: bytes, at: int) -> int:
        """Read what is not content: a size, the CRLF after a chunk, or a trailer."""
        if self._tail:
            return self._trailer(data, at)
        if self._in_data:
            if not self._lines.pending and data.startswith(b"\r\n", at):
                self._in_data = False
                return at + 2
            line, at = self._lines.read_line(data, at, 0, lambda: Malformed("no CRLF where a chunk should end"))
            self._in_data = line is None
            return at
        if not self._lines.pending and (plain := _PLAIN_CHUNK(data, at)):
            self._size(plain[1], b"")
            return plain.end()
        line, at = self._lines.read_line(
            data, at, MAX_CHUNK_LINE_BYTES, lambda: Malformed("a chunk size line is too long")
        )
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
        if self._excess > MAX_EXTENSION_BYTES:
            raise Malformed("the chunk extensions are too long")
        if not self._left:
            self._tail += b"%b%b\r\n" % (digits, extensions)

    def _trailer(self, data: bytes, at: int) -> int:
        line, at = self._lines.read_line(data, at, MAX_TRAILER_BYTES - 2 - len(self._tail), _trailers_too_long)
        if line is None:
            return at
        self._tail += line + b"\r\n"
        if not line:
            self.done = True
            return at
        if len(self._trailers) == MAX_FIELDS:
            raise _trailers_too_long()
        name, value = field_of(line)
        if name.lower() in self._forbidden:
            raise Malformed("a trailer is a field that only a head may hold")
        self._trailers.append((name, value))
        return at


def field_of(line: bytes) -> tuple[bytes, bytes]:
    """Name and value of a header or trailer line."""
    if line.startswith((b" ", b"\t")):
        raise Malformed("a header line begins with white space")
    name, colon, value = line.partition(b":")
    if not colon:
        raise Malformed("a header line has no colon")
    if not TOKEN(name):
        raise Malformed(
            "white space stands before the colon of a header line"
            if name.endswith((b" ", b"\t"))
            else "a header name is empty or holds a character that no name may hold"
        )
    if _NOT_IN_VALUE(value):
        raise Malformed("a header value holds a control character")
    return name, value.strip(b" \t")


def _bare_return() -> Malformed:
    return Malformed("CR stands without LF")


def _trailers_too_long() -> Malformed:
    return Malformed(f"the trailers have more than {MAX_TRAILER_BYTES} bytes or {MAX_FIELDS} lines", 431)
