"""Reads log entries that end with an object, which may span lines."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.importers.json_text import Nesting
from mcpproxy.importers.log_items import LeftOut, left_out_if_too_long
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, Log, is_json

MAX_ENTRY_LINES: Final = 1_000_000
"""Lines of one object."""
_CONTAINER_NAME: Final = re.compile(rb"[\w.-]{1,64} +\| ").match
"""Matches the name of the container, which docker compose writes before each line."""
_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]{0,32}m").sub
_VERSION: Final = b"jsonrpc"
_CONTINUATION: Final = re.compile(rb"[\s}\])]").match


@dataclass
class PrintedEntry:
    """An entry that ends with an object."""

    number: int
    """The number of the line in which it begins."""
    before: bytes
    """The line before it, unless that ends with an object."""
    prefix: bytes
    """The text before the object, in its line."""
    lines: list[bytes] = field(default_factory=list)
    end: int | None = None
    """The offset in `body` after the object; None if not all its brackets are closed, or this was not checked."""

    @property
    def body(self) -> bytes:
        """The object, and the text after it in its last line."""
        return b"\n".join(self.lines)


def printed_entries(log: Log, find: Callable[[bytes], int | None]) -> Iterator[PrintedEntry | LeftOut]:
    """Yields the entries of a log in order, and reports lines that are too long.

    A line continues an open object if it is indented or begins with a closing bracket. But if the open object is not a
    message, and a message begins in the line, the line begins a new entry.

    Args:
        log: the log.
        find: returns the offset of an object in a line, or None if the line has none.
    """
    builder: _EntryBuilder | None = None
    previous_line = b""
    for number, line in log.lines():
        if left_out := left_out_if_too_long(number, line):
            yield left_out
            continue
        text = _plain(line)
        is_continuation = builder is not None and builder.try_append(text, find)
        if builder is not None and not is_continuation:
            yield builder.entry
            builder, previous_line = None, b""
        if builder is None:
            start = find(text)
            if start is None:
                previous_line = text
                continue
            builder, previous_line = _EntryBuilder(number, previous_line, text, start), b""
        if builder.entry.end is not None:
            yield builder.entry
            builder = None
    if builder is not None:
        yield builder.entry


class _EntryBuilder:
    """An entry that more lines may continue."""

    def __init__(self, number: int, before: bytes, text: bytes, start: int) -> None:
        """`text` is the first line of the entry, and `start` the offset of the object in it."""
        body = text[start:]
        # Parsing JSON takes a tenth of the time of a search for its end, and most entries need only this.
        self.entry = PrintedEntry(number, before, text[:start], [body], len(body) if is_json(body) else None)
        self._nesting: Nesting | None = None
        self._size = len(body) + 1
        self._has_version = _VERSION in body

    def try_append(self, text: bytes, find: Callable[[bytes], int | None]) -> bool:
        """Add the next line if it continues the object; returns whether it does."""
        if not _CONTINUATION(text):
            return False
        if self._nesting is None:
            self._nesting = Nesting()
            self.entry.end = self._nesting.find_end(self.entry.lines[0])
        has_version = _VERSION in text
        begins_message = has_version and not self._has_version and find(text) is not None
        is_full = self._size + len(text) > MAX_INPUT_LINE_BYTES or len(self.entry.lines) == MAX_ENTRY_LINES
        if self.entry.end is not None or begins_message or is_full:
            return False
        end = self._nesting.find_end(text)
        self.entry.end = None if end is None else self._size + end
        self.entry.lines.append(text)
        self._size += len(text) + 1
        self._has_version |= has_version
        return True


def _plain(line: bytes) -> bytes:
    """Returns a line without colours and the name of a container."""
    plain_line = _COLOURS(b"", line) if b"\x1b" in line else line
    match = _CONTAINER_NAME(plain_line)
    return plain_line[match.end() if match else 0 :].rstrip(b"\r\n")
