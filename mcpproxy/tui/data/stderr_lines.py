"""Stderr lines: the lines that a server wrote to stderr, a search in them, and the traffic around a line."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise_bytes
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_text import RowText
from mcpproxy.tui.rows.traffic_table import TrafficRows
from mcpproxy.wording import units
from mcpproxy.wording.spans import Span

MAX_LINES_PER_STEP: Final = 300
"""How many lines are searched per step."""
MAX_NEIGHBOURS: Final = 150
"""How many rows are shown before a line, and how many after it."""
MAX_SEARCHED_ROWS: Final = 5000
"""How many rows are searched for rows to show around a line, in each direction."""


def line_text_of(reading: Reading, row: int, limit: int | None = None) -> tuple[str, int] | None:
    """Returns a line's sanitised text and how many bytes before it were not recorded; None if the line is gone.

    Args:
        reading: the capture.
        row: the row of the line.
        limit: the maximum number of characters; None for all.
    """
    item = reading.index.read_item(row)
    if not isinstance(item, Record) or item.rec != "stderr":
        return None
    skipped = item.members.get("skipped")
    # Some loggers pad their lines with spaces; such a line would be marked as cut although only spaces are missing.
    raw = (raw_bytes(item.members) or b"").rstrip()
    return sanitise_bytes(raw, limit), skipped if type(skipped) is int and skipped > 0 else 0


class LogRows(TrafficRows):
    """Table rows: the lines of stderr, which are read from the file when they are drawn."""

    def __init__(self, reading: Reading, ready: Callable[[], None]) -> None:
        """Show all lines of stderr.

        Args:
            reading: the capture.
            ready: called from another thread when rows that were shown as `…` are available.
        """
        super().__init__(reading, ready)
        self.view = reading.stderr_rows

    def _text_of(self, row: int) -> RowText:
        line_text = line_text_of(self.reading, row, 1024)
        if line_text is None:
            return RowText(
                Span(""), (Span("gone: its recorder has deleted this part of the capture", "bad"),), is_wide=True
            )
        text, skipped = line_text
        gap_spans = (Span(f"({units.size(skipped)} before this not recorded) ", "bad"),) if skipped else ()
        return RowText(Span(""), (*gap_spans, Span(text)), is_wide=True)


class LogSearch:
    """A search for the lines that contain all words of a query, step by step."""

    def __init__(self, reading: Reading, words: str) -> None:
        """Start without results.

        Args:
            reading: the capture.
            words: the words, separated by blanks; case is ignored.
        """
        self.words = words
        self.rows = array("I")
        """The matching rows so far, ascending."""
        self.searched_count = 0
        """How many lines it has searched."""
        self._reading = reading
        self._lower_words = words.lower().split()

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        rows = self._reading.stderr_rows[self.searched_count : self.searched_count + MAX_LINES_PER_STEP]
        for row in rows:
            searched_line = line_text_of(self._reading, row)
            if searched_line is not None and all(word in searched_line[0].lower() for word in self._lower_words):
                self.rows.append(row)
        self.searched_count += len(rows)
        return bool(rows)


def rows_around(reading: Reading, row: int) -> tuple[Sequence[int], int]:
    """Returns the rows around a line of stderr, without other such lines, and how many of them are before it."""
    rows = reading.shown_rows
    position = bisect_left(rows, row)
    rows_before = _neighbours(reading, range(position - 1, max(-1, position - 1 - MAX_SEARCHED_ROWS), -1))
    rows_before.reverse()
    rows_after = _neighbours(reading, range(position, min(len(rows), position + MAX_SEARCHED_ROWS)))
    return rows_before + rows_after, len(rows_before)


def _neighbours(reading: Reading, positions: range) -> list[int]:
    """Returns the first `MAX_NEIGHBOURS` of the rows at some positions that are not lines of stderr."""
    rows, index = reading.shown_rows, reading.index
    return list(
        islice((rows[position] for position in positions if index.kind(rows[position]) != "stderr"), MAX_NEIGHBOURS)
    )
