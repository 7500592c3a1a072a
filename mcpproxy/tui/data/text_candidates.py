"""Text candidates: the rows that may contain a text, found in the bytes of the file before anything is parsed.

A row whose message is in one line of the file is a candidate if the line may contain the text
(`TextSearch.candidate_lines`). All other rows are candidates: giant frames, and messages that span lines or share one.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

import orjson

from analysis.filter.text_search import TextSearch
from mcpproxy.tui.data.columns import UNUSUAL
from mcpproxy.tui.data.reading import Reading

STEP_BYTES: Final = 1 << 20
"""About how many bytes are searched at a time: a few milliseconds, unless one line is longer."""
_UNUSUAL_MARKS: Final = bytes(mark & UNUSUAL for mark in range(256))


class Candidate(NamedTuple):
    """A row that may contain a text."""

    row: int
    raw: bytes | None
    """The bytes of its message; None if the row must be read."""


class CandidateRows(NamedTuple):
    """The candidates in a range of rows."""

    end: int
    """The end of the range."""
    candidates: Sequence[Candidate]
    """The candidates, ascending."""


def find_candidates(reading: Reading, first: int, limit: int, search: TextSearch) -> CandidateRows:
    """Search some rows.

    Args:
        reading: the capture.
        first: the first row.
        limit: the end of the rows that may be searched.
        search: the text.
    """
    index = reading.index
    end = index.end_of_lines(first, limit, STEP_BYTES)
    text, places = index.lines(first, end)
    unclear_rows = {*index.giant_entries(first, end), *_unusual_rows(reading, first, end)}
    candidates = [Candidate(row, None) for row in unclear_rows]
    for position, line_end in _lines_of(search, text, places):
        row = first + position
        if row not in unclear_rows and index.is_frame(row):
            candidates.append(Candidate(row, _raw_of(text[places[position] : line_end])))
    if unclear_rows:
        candidates.sort()
    return CandidateRows(end, candidates)


def _unusual_rows(reading: Reading, first: int, end: int) -> Iterator[int]:
    """Yields the rows whose messages are not simply those in their lines."""
    marks = bytes(reading.columns.marks[first:end]).translate(_UNUSUAL_MARKS)
    return compress(range(first, end), marks) if any(marks) else iter(())


def _lines_of(search: TextSearch, text: bytes, places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields position and end of the entries whose lines may contain the text."""
    for start, end in search.candidate_lines(text):
        position = bisect_left(places, start)
        # After damage, a record may begin within a line, and several may share one.
        while position < len(places) and places[position] <= end:
            yield position, end
            position += 1


def _raw_of(line: bytes) -> bytes | None:
    """Returns the bytes of the message in the line of a frame; None if the line needs a closer look."""
    try:
        values: dict[str, Any] = orjson.loads(line)
    except ValueError:
        return None
    raw = values.get("raw")
    return raw.encode() if type(raw) is str and "parts" not in values else None
