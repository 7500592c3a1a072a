"""Reads untrusted logs without seeking, line by line or as one JSON text, with limits. Errors say what was expected."""

import codecs
import contextlib
import io
import json
import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from orjson import JSONDecodeError, JSONEncodeError, dumps, loads

from captures.paths import safe_name
from mcpproxy.importers.json_text import end_of_value

MAX_INPUT_LINE_BYTES: Final = 64 << 20
"""The length of a line. A longer line is skipped."""
TOO_LONG: Final = f"longer than {MAX_INPUT_LINE_BYTES >> 20} MiB"
"""The error for such a line."""
MAX_EXPORT_BYTES: Final = 32 << 20
"""The length of a log that is parsed as one JSON text. Small objects take twenty times as much memory when parsed."""
MAX_HEAD_BYTES: Final = 1 << 20
"""The length of the beginning of a log by which its form is recognised."""
_PIECE: Final = 1 << 20
_NOT_JSON: Final = re.compile(rb"\{\s*+[^\s\"}]").match
_ARRAY: Final = re.compile(rb"\s*\[\s*(?=\{)").match
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class InvalidLine(Exception):
    """A line is invalid. The text says what was expected, and follows `line N: ` in the message."""


class Log:
    """A log to import. A byte order mark is removed, and UTF-16 becomes UTF-8."""

    def __init__(self, file: BinaryIO, file_name: str, folder_name: str = "") -> None:
        """`file_name` is the last part of its path, `folder_name` the one before that; both are empty for stdin."""
        self.file_name, self.folder_name = file_name, folder_name
        self.name = safe_name(Path(file_name).stem) if file_name else "stdin"
        """The default name of its conversations."""
        self.file: BinaryIO = io.BufferedReader(_DecodedFile(file), _PIECE)
        """The whole content, which can be read once."""
        head = b""
        while len(head) < MAX_HEAD_BYTES and (piece := self.file.read(MAX_HEAD_BYTES - len(head))):
            head += piece
        self.head = head
        """At most the first MiB."""
        self.file = io.BufferedReader(_ChainedFile(head, self.file), _PIECE)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields the lines that are not blank, with their numbers from 1; see `read_lines`."""
        return numbered_lines(read_lines(self.file))


class _DecodedFile(io.RawIOBase):
    """The content of a file as UTF-8, if it begins with a byte order mark; otherwise unchanged."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        start = b""
        while len(start) < len(codecs.BOM_UTF8) and (piece := file.read(len(codecs.BOM_UTF8) - len(start))):
            start += piece
        mark, encoding = next(((bom, name) for bom, name in _BOMS if start.startswith(bom)), (b"", ""))
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding.startswith("utf-16") else None
        self._unread = self._utf8(start[len(mark) :], is_last=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._unread:
            piece = self._file.read(_PIECE)
            self._unread = self._utf8(piece, is_last=not piece)
            if not piece:
                break
        count = min(len(buffer), len(self._unread))
        buffer[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count

    def _utf8(self, piece: bytes, *, is_last: bool) -> bytes:
        return piece if self._decoder is None else self._decoder.decode(piece, is_last).encode("utf-8", "replace")


class _ChainedFile(io.RawIOBase):
    """Bytes that have been read, followed by the rest of their file."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = memoryview(head), file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._head[: len(buffer)] or memoryview(self._file.read(len(buffer)))
        self._head = self._head[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def first_lines(head: bytes, count: int = 1) -> list[bytes]:
    """Returns the first lines of a head that are not blank. The last one may be cut at the end of the head."""
    return [line for _, line in islice(numbered_lines(io.BytesIO(head)), count)]


def first_object(head: bytes) -> dict[str, Any]:
    """Returns the object in the first line of a head; empty if there is none, or it is longer than the head."""
    try:
        return object_of(next(iter(first_lines(head)), b""))
    except InvalidLine:
        return {}


def first_element(head: bytes) -> dict[str, Any]:
    """Returns the first object of a JSON array; empty if the head has none, or the object is longer than the head."""
    start = _ARRAY(head)
    end = None if start is None else end_of_value(head, start.end())
    try:
        return {} if start is None or end is None else object_of(head[start.end() : end])
    except InvalidLine:
        return {}


def whole_json(log: Log, advice: str, max_bytes: int = MAX_EXPORT_BYTES) -> Any:
    """Parse a log as one JSON text.

    Args:
        log: the log.
        advice: what to do if the log is too long, such as `export fewer entries`.
        max_bytes: the greatest length of the log.

    Raises:
        InvalidLine: the log is too long, or not JSON.
    """
    text = log.file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise InvalidLine(f"longer than {max_bytes >> 20} MiB; {advice}")
    try:
        return loads(text)
    except JSONDecodeError as error:
        raise InvalidLine(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def consume_entries(entries: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yields the entries of a list with their numbers from 0, and removes each from the list to free its memory."""
    for number, entry in enumerate(entries):
        entries[number] = None
        yield number, entry


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a file. It cuts lines above `MAX_INPUT_LINE_BYTES` after one more byte."""
    while line := file.readline(MAX_INPUT_LINE_BYTES + 1):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(_PIECE)):
            pass


def numbered_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            yield number, line


def cannot_be_json(text: bytes) -> bool:
    """Whether a text is an object whose first name is not in double quotes, so that a JSON parser is sure to fail."""
    return _NOT_JSON(text) is not None


def is_json(text: bytes) -> bool:
    """Whether a text is JSON."""
    if cannot_be_json(text):
        return False
    try:
        loads(text)
    except JSONDecodeError:
        return False
    return True


def object_of(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object.

    Raises:
        InvalidLine: the line is too long, or is not a JSON object.
    """
    if len(line) > MAX_INPUT_LINE_BYTES:
        raise InvalidLine(TOO_LONG)
    try:
        value = loads(line)
    except JSONDecodeError as error:
        raise InvalidLine(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(value, dict):
        raise InvalidLine("expected a JSON object")
    return value


def required_object(value: object, expected: str) -> dict[str, Any]:
    """Returns a parsed value that must be an object.

    Args:
        value: the value.
        expected: what is missing if it is not, for the error message.

    Raises:
        InvalidLine: it is not an object.
    """
    if not isinstance(value, dict):
        raise InvalidLine(f"expected {expected}")
    return value


def json_of(value: Any) -> bytes:
    """Returns a parsed value as JSON.

    Raises:
        InvalidLine: the value is nested too deeply.
    """
    with contextlib.suppress(JSONEncodeError):
        return dumps(value)
    # The slower encoder also writes large integers, halves of surrogate pairs, and more than 254 levels of nesting.
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except RecursionError:
        raise InvalidLine("nested too deeply") from None


def raw_of(values: dict[str, Any]) -> bytes:
    """Returns the exact bytes in `raw_b64`, or else in `raw`.

    Raises:
        InvalidLine: both are missing or invalid.
    """
    raw, encoded = values.get("raw"), values.get("raw_b64")
    if encoded is not None:
        try:
            return a2b_base64(encoded, strict_mode=True)
        except (ValueError, TypeError):
            raise InvalidLine("expected base64 in `raw_b64`") from None
    if not isinstance(raw, str):
        raise InvalidLine("expected text in `raw`, or base64 in `raw_b64`")
    return raw.encode()
