"""The rows that a filter selects in a live capture, with the requests that wait for a response first."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, overload

MAX_FIRST_ROWS: Final = 1000
"""How many waiting requests come first; later ones are listed as in the capture."""


class WaitingFirstRows(Sequence[int]):
    """Selected rows in another order: waiting requests, the oldest on top, then all others as in the capture.

    The selection changes while it is read, so this is a copy of it, which `renew` brings up to date.
    """

    def __init__(self, selected_rows: Sequence[int]) -> None:
        """Start without rows.

        Args:
            selected_rows: the selected rows, ascending; a thread adds and removes rows.
        """
        self._selected_rows = selected_rows
        self._rows = array("I")

    def renew(self, waiting_rows: Iterable[int]) -> None:
        """Copy the selection as it is now.

        Args:
            waiting_rows: the rows of all waiting requests, ascending.
        """
        selected = array("I", self._selected_rows[:])
        positions = []
        for row in islice(waiting_rows, MAX_FIRST_ROWS):
            position = bisect_left(selected, row)
            if position < len(selected) and selected[position] == row:
                positions.append(position)
        rows = array("I", (selected[position] for position in positions))
        start = 0
        for position in positions:
            rows += selected[start:position]
            start = position + 1
        self._rows = rows + selected[start:]

    def line_of(self, row: int) -> int | None:
        """Returns the position of a row, or None if it is not selected."""
        try:
            return self._rows.index(row)
        except ValueError:
            return None

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> "array[int]": ...
    def __getitem__(self, position: "int | slice") -> "int | array[int]":
        return self._rows[position]
