"""Row views: a list of rows without some of them, and without a copy of the list."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from mcpproxy.tui.on_demand import OnDemandSequence


class ExcludedRows:
    """The positions in a growing list that a view leaves out."""

    def __init__(self) -> None:
        self.column = array("I")
        """For each position left out: how many remaining positions are before it; ascending."""

    def __len__(self) -> int:
        return len(self.column)

    def add(self, position: int) -> None:
        """Leave out a position after all others left out so far; call this before the list reaches it."""
        self.column.append(position - len(self.column))

    def add_run(self, position: int, count: int) -> None:
        """Leave out this position and those after it, `count` in all, after all others left out so far."""
        self.column.extend(array("I", [position - len(self.column)]) * count)

    def clear(self) -> None:
        """Leave out nothing."""
        del self.column[:]

    def count_before(self, position: int) -> int:
        """How many positions before this one are left out."""
        low, high = 0, len(self.column)
        while low < high:
            middle = (low + high) // 2
            if self.column[middle] + middle < position:
                low = middle + 1
            else:
                high = middle
        return low

    def __iter__(self) -> Iterator[int]:
        return (remaining + excluded for excluded, remaining in enumerate(self.column))

    def position_of(self, number: int) -> int:
        """The position of the `number`-th remaining item, counted from 0."""
        return number + bisect_right(self.column, number)


class FilteredRows(OnDemandSequence[int]):
    """A growing list of ascending rows, without the excluded positions."""

    def __init__(self, rows: Sequence[int], excluded: ExcludedRows) -> None:
        self._rows, self._excluded = rows, excluded

    def __len__(self) -> int:
        count = len(self._rows)
        return count - self._excluded.count_before(count)

    def item(self, at: int) -> int:
        """The row at a position."""
        return self._rows[self._excluded.position_of(at)]

    def __iter__(self) -> Iterator[int]:
        start, count = 0, len(self._rows)
        for position in self._excluded:
            if position >= count:
                break
            yield from self._rows[start:position]
            start = position + 1
        yield from self._rows[start:count]

    def position_of(self, row: int) -> int:
        """The position of a row, or that of the first row after it. This is faster than a bisection of the view."""
        position = bisect_left(self._rows, row)
        return position - self._excluded.count_before(position)

    def index(self, value: int, start: int = 0, stop: int | None = None) -> int:
        """The position of a row."""
        position = bisect_left(self, value, start, len(self) if stop is None else stop)
        if position < len(self) and self[position] == value:
            return position
        raise ValueError(value)
