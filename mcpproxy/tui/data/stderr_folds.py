"""Stderr folds: the rows of the traffic, with each long run of lines of stderr in one row, or unfolded.

A server may write a traceback of a hundred lines for one failed call. A run is folded into the row of its first line.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_views import ExcludedRows, FilteredRows

MIN_FOLDED_LINES: Final = 4
"""How many lines without another row in between are folded."""


class StderrFolds:
    """The rows to list. One thread uses it."""

    def __init__(self, reading: Reading) -> None:
        """Start with nothing folded; `grow` folds."""
        self._lines, self._base = reading.stderr_rows, reading.folded_rows
        self._excluded = ExcludedRows()
        self.rows: Sequence[int] = FilteredRows(self._base, self._excluded)
        """The rows to list, ascending."""
        self._firsts = array("I")
        """The first lines of the runs, ascending."""
        self._counts = array("I")
        """How many lines each run has."""
        self._unfolded: set[int] = set()
        """The first lines of the runs that the user has unfolded."""
        self._position = 0
        """The position of the line with which the last run begins, long or not."""

    def __bool__(self) -> bool:
        """Whether there is a run."""
        return bool(self._firsts)

    def first_line_of(self, row: int) -> int | None:
        """The first line of the run to which a row belongs, if it does."""
        run = bisect_right(self._firsts, row) - 1
        return self._firsts[run] if run >= 0 and row < self._firsts[run] + self._counts[run] else None

    def is_unfolded(self, first_line: int) -> bool:
        """Whether a run is unfolded."""
        return first_line in self._unfolded

    def folded_count(self, row: int) -> int:
        """How many lines a row stands for; 0 if it is not the row of a folded run."""
        run = bisect_left(self._firsts, row)
        is_folded = run < len(self._firsts) and self._firsts[run] == row and row not in self._unfolded
        return self._counts[run] if is_folded else 0

    def fold(self, first_line: int, *, is_unfolded: bool) -> None:
        """Fold or unfold a run."""
        if is_unfolded:
            self._unfolded.add(first_line)
        else:
            self._unfolded.discard(first_line)
        self._excluded.clear()
        for run in range(len(self._firsts)):
            self._exclude(run, 1)

    def reveal(self, row: int) -> None:
        """Unfold the run to which a row belongs, unless the row is its first line."""
        first_line = self.first_line_of(row)
        if first_line not in (None, row) and first_line not in self._unfolded:
            self.fold(first_line, is_unfolded=True)

    def grow(self) -> None:
        """Fold new lines."""
        lines = self._lines
        # Lines are known before they have a row.
        end = bisect_right(lines, self._base[-1]) if self._base else 0
        while self._position < end:
            first_line, count = lines[self._position], self._length_of_run(end)
            is_known = bool(self._firsts) and self._firsts[-1] == first_line
            if count >= MIN_FOLDED_LINES:
                known_count = self._counts[-1] if is_known else 1
                if is_known:
                    self._counts[-1] = count
                else:
                    self._firsts.append(first_line)
                    self._counts.append(count)
                self._exclude(len(self._firsts) - 1, known_count)
            if self._position + count == end:
                return  # it may get more lines
            self._position += count

    def _length_of_run(self, end: int) -> int:
        """Returns how many lines follow each other from the last position on."""
        lines, start, step = self._lines, self._position, 1
        while start + step < end and lines[start + step] - lines[start] == step:
            step *= 2
        low, high = start + step // 2, min(start + step, end) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if lines[middle] - lines[start] == middle - start:
                low = middle
            else:
                high = middle - 1
        return low - start + 1

    def _exclude(self, run: int, listed_count: int) -> None:
        """Leave out the lines of a run after the first ones, unless it is unfolded."""
        first_line = self._firsts[run]
        if first_line not in self._unfolded:
            position = self._base.position_of(first_line) + listed_count
            self._excluded.add_run(position, self._counts[run] - listed_count)
