"""Call selections: the calls that a filter selects, for figures that are limited to them, and to list their exchanges.

A call is selected if the row of its request or of its response is. The rows come from a `Scan`, which finds more of
them while the capture grows, and selects or drops rows again when an outcome or a finding becomes known late. A thread
calls `step`; nothing is opened or read before that.
"""

import time
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from analysis.filter import Filter
from mcpproxy.marks import MarkError, Marks
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.data.sorted_rows import insert_row
from mcpproxy.tui.on_demand import OnDemandSequence

APPLY_INTERVAL_S: Final = 0.1
"""The seconds between two looks at the rows of a scan that is still searching."""
MAX_ROWS_PER_LOOK: Final = 10_000
"""How many new rows are looked at together: some milliseconds."""
MAX_SINGLE_CHANGES: Final = 1000
"""How many calls at most are inserted into the list, or removed from it, one by one."""


class SelectedCalls:
    """The calls whose request or response is in selected rows. One thread calls `follow`; others read the rest."""

    def __init__(self, reading: Reading) -> None:
        """Start without calls."""
        self.calls = array("I")
        """The selected calls, ascending. Calls are only appended; for other changes the list is replaced as a whole."""
        self.joined = array("I")
        """The selected calls in the order in which they were selected, since the generation began."""
        self.generation = 0
        """How often calls have left the selection, so that figures must be counted again."""
        self._reading = reading
        self._known_rows = array("I")
        """The rows that were selected at the last look."""
        self._row_counts = bytearray()
        """By call: how many of its rows are selected."""
        self._looked_s = 0.0

    def __len__(self) -> int:
        return len(self.calls)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number < len(self._row_counts) and self._row_counts[number] > 0

    def follow(self, scan: Scan, *, is_busy: bool) -> bool:
        """Select the calls of the rows that a scan selects by now; returns whether there is more to do.

        Args:
            scan: the scan, always the same.
            is_busy: whether it has work left: then its rows are not looked at each time.
        """
        has_left_over = len(scan.rows) > len(self._known_rows) + MAX_ROWS_PER_LOOK
        if not is_busy or has_left_over or time.monotonic() - self._looked_s >= APPLY_INTERVAL_S:
            is_busy = self._look(scan.rows) or is_busy
            self._looked_s = time.monotonic()
        return is_busy

    def _look(self, current_rows: "array[int]") -> bool:
        """Select and drop calls by the rows that have changed since the last look; returns whether any have.

        Rows that were left over because there are many new ones are looked at next time.
        """
        known_rows = self._known_rows
        rows = current_rows[: len(known_rows) + MAX_ROWS_PER_LOOK]
        if rows == known_rows:
            return False
        self._known_rows = rows
        left_rows, joined_rows = row_changes(known_rows, rows)
        counts = self._row_counts
        counts.extend(bytes(max(0, len(self._reading.calls) - len(counts))))
        joined = set[int]()
        for row in joined_rows:
            for number in self._calls_of(row):
                if not counts[number]:
                    joined.add(number)
                counts[number] += 1
        left = set[int]()
        for row in left_rows:
            for number in self._calls_of(row):
                counts[number] -= counts[number] > 0
                if not counts[number]:
                    left.add(number)
        self._change(sorted(joined - left), left - joined)
        return True

    def _calls_of(self, row: int) -> set[int]:
        """Returns the calls whose request or response is in a row."""
        calls = self._reading.calls
        numbers = {message.call for message in self._reading.columns.unusual_messages(row)}
        numbers.add(self._reading.columns.call_of[row])
        return {number for number in numbers - {NONE} if row in (calls.request[number], calls.response[number])}

    def _change(self, joined: list[int], left: set[int]) -> None:
        """Add calls to the selection, and remove others."""
        if left:
            self.calls = _without(self.calls, left)
        if joined and self.calls and joined[0] < self.calls[-1]:
            self.calls = _with(self.calls, joined)
        else:
            self.calls.extend(joined)
        if left:
            self.joined = self.calls[:]
            self.generation += 1
        else:
            self.joined.extend(joined)


class RequestRows(OnDemandSequence[int]):
    """The rows of the requests of selected calls, ascending, as they were at the last call of `renew`, or more."""

    def __init__(self, selected: SelectedCalls, request_rows: Sequence[int]) -> None:
        """Start with what is selected now.

        Args:
            selected: the calls.
            request_rows: the rows of the requests of all calls.
        """
        self._selected, self._request_rows = selected, request_rows
        self._calls = selected.calls

    def renew(self) -> None:
        """Show what is selected now."""
        self._calls = self._selected.calls

    def __len__(self) -> int:
        return len(self._calls)

    def item(self, at: int) -> int:
        """The row of a request."""
        return self._request_rows[self._calls[at]]


class CallSelection(SelectedCalls):
    """The calls of a capture that a filter selects. One thread calls `step`; others read the rest."""

    def __init__(self, reading: Reading, row_filter: Filter) -> None:
        """Start without a selection.

        Args:
            reading: the capture.
            row_filter: the filter.
        """
        super().__init__(reading)
        self.row_filter = row_filter
        self.is_searching = True
        """Whether there may be more calls already."""
        self._scan: Scan | None = None

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet.

        Raises:
            CaptureError, OSError: the capture cannot be read.
        """
        if self._scan is None:
            self._scan = Scan(self._reading, self.row_filter, self._load_marks())
        is_busy = self.follow(self._scan, is_busy=self._scan.step())
        self.is_searching = is_busy or self._scan.is_waiting
        return is_busy

    def close(self) -> None:
        """Close the file."""
        if self._scan is not None:
            self._scan.close()

    def _load_marks(self) -> dict[int, str]:
        if "has:mark" not in self.row_filter.keys:
            return {}
        id_ = self._reading.index.header.members.get("capture")
        marks = Marks(self._reading.path, id_ if isinstance(id_, str) else "")
        try:
            marks.load()
        except MarkError:
            return {}  # the traffic has said so
        return marks.notes


def row_changes(before: "array[int]", after: "array[int]") -> tuple[Iterable[int], Iterable[int]]:
    """Returns which rows have left an ascending list, and which have joined it.

    Most changes are near the end of a list, so only what follows the first difference is compared row by row.
    """
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    if low == len(before):
        return (), after[low:]
    old_rows, new_rows = set(before[low:]), set(after[low:])
    return old_rows - new_rows, sorted(new_rows - old_rows)


def _with(calls: "array[int]", joined: list[int]) -> "array[int]":
    if len(joined) > MAX_SINGLE_CHANGES:
        return array("I", sorted({*calls, *joined}))
    changed = calls[:]
    for number in joined:
        insert_row(changed, number)
    return changed


def _without(calls: "array[int]", left: set[int]) -> "array[int]":
    return array("I", (number for number in calls if number not in left))
