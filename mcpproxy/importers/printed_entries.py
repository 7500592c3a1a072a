"""Entries of logs that end with an object, which may span lines."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.importers.json_text import Nesting
from mcpproxy.importers.log_items import LeftOut
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, Log, is_json

MAX_ENTRY_LINES: Final = 1_000_000
"""Lines over which an object may span."""
_COMPOSED: Final = re.compile(rb"[\w.-]{1,64} +\| ").match
"""What docker compose puts in front of a line: the name of the container."""
_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]{0,32}m").sub
_VERSION: Final = b"jsonrpc"
_CONTINUES: Final = re.compile(rb"[\s}\])]").match


@dataclass
class Entry:
    """An entry that ends with an object."""

    number: int
    """The line in which it begins."""
    before: bytes
    """The line before it, if that ends with no object."""
    prefix: bytes
    """What stands in front of the object, in its line."""
    lines: list[bytes] = field(default_factory=list)
    end: int | None = None
    """The offset in `body` after the object; None if its brackets are not all closed."""

    @property
    def body(self) -> bytes:
        """The object, and what follows it in its last line."""
        return b"\n".join(self.lines)


def printed_entries(log: Log, find: Callable[[bytes], int | None]) -> Iterator[Entry | LeftOut]:
    """Yields the entries of a log in order, and lines that are too long.

    A line continues an object that is not closed if it is indented or begins with a closing bracket, but an object that
    is not a message gives way to one that is.

    Args:
        log: the log.
        find: returns where in a line an object begins; None if the line has none.
    """
    entry: Entry | None = None
    nesting, size, before, is_message = Nesting(), 0, b"", False
    for number, line in log.lines():
        if len(line) > MAX_INPUT_LINE_BYTES:
            yield LeftOut(f"line {number}", f"longer than {MAX_INPUT_LINE_BYTES >> 20} MiB")
            continue
        plain = _COLOURS(b"", line) if b"\x1b" in line else line
        composed = _COMPOSED(plain)
        text = plain[composed.end() if composed else 0 :].rstrip(b"\r\n")
        has_version = _VERSION in text
        is_next = entry is not None and has_version and not is_message and find(text) is not None
        is_full = size + len(text) > MAX_INPUT_LINE_BYTES or (entry is not None and len(entry.lines) == MAX_ENTRY_LINES)
        if entry is not None and _CONTINUES(text) and not is_next and not is_full:
            entry.lines.append(text)
            end = nesting.end(text)
            entry.end = None if end is None else size + end
            size, is_message = size + len(text) + 1, is_message or has_version
        elif entry is not None:
            yield entry
            entry, before = None, b""
        if entry is None:
            start = find(text)
            if start is None:
                before = text
                continue
            entry = Entry(number, before, text[:start], [text[start:]])
            nesting, size, before, is_message = Nesting(), len(text) - start + 1, b"", has_version
            # To parse JSON takes a tenth of the time that it takes to look for its end.
            end = len(text) if is_json(text[start:]) else nesting.end(text, start)
            entry.end = None if end is None else end - start
        if entry.end is not None:
            yield entry
            entry = None
    if entry is not None:
        yield entry
