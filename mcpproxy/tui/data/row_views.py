"""Row views: all rows of a list except some, without a copy of the list."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from mcpproxy.tui.on_demand import OnDemand


class ExcludedRows:
    """The places of a growing list that a view leaves out."""

    def __init__(self) -> None:
        self.column = array("I")
        """For each place left out: how many remaining places are before it; ascending."""

    def __len__(self) -> int:
        return len(self.column)

    def add(self, place: int) -> None:
        """Leave out a place after all those left out so far; call it before the list reaches that place."""
        self.column.append(place - len(self.column))

    def before(self, place: int) -> int:
        """How many places before this one are left out."""
        low, high = 0, len(self.column)
        while low < high:
            middle = (low + high) // 2
            if self.column[middle] + middle < place:
                low = middle + 1
            else:
                high = middle
        return low

    def __iter__(self) -> Iterator[int]:
        return (before + number for number, before in enumerate(self.column))

    def place(self, number: int) -> int:
        """The place of the `number`-th remaining item, counted from 0."""
        return number + bisect_right(self.column, number)


class FilteredRows(OnDemand[int]):
    """A growing list of ascending rows, without some of its places."""

    def __init__(self, rows: Sequence[int], left: ExcludedRows) -> None:
        self._rows, self._left = rows, left

    def __len__(self) -> int:
        count = len(self._rows)
        return count - self._left.before(count)

    def item(self, at: int) -> int:
        """The row at a place."""
        return self._rows[self._left.place(at)]

    def __iter__(self) -> Iterator[int]:
        start, count = 0, len(self._rows)
        for place in self._left:
            if place >= count:
                break
            yield from self._rows[start:place]
            start = place + 1
        yield from self._rows[start:count]

    def index(self, value: int, start: int = 0, stop: int | None = None) -> int:
        """The place of a row."""
        at = bisect_left(self, value, start, len(self) if stop is None else stop)
        if at < len(self) and self[at] == value:
            return at
        raise ValueError(value)
