"""Counted scans: scans that also count how many of the rows that they select are errors or have findings.

The thread of the scan counts, with a pause after each count that is long compared with the time it took. Rows that are
only added are counted once.
"""

import time
from array import array
from typing import Final

from analysis.filter import Filter
from mcpproxy.tui.data.call_selection import SelectedCalls
from mcpproxy.tui.data.columns import BAD, NONE
from mcpproxy.tui.data.findings import SelectedFindings
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.scan import Scan

COUNT_INTERVAL_S: Final = 0.1
"""The minimum pause between two counts, in seconds."""
PAUSE_FACTOR: Final = 10
"""The minimum pause between two counts, as a multiple of the time that the last one took."""
_GOOD_MARKS: Final = bytes(range(BAD))


class CountedScan(Scan):
    """One filter over one capture, with counts of the rows that it selects."""

    def __init__(self, reading: Reading, row_filter: Filter, marks: "dict[int, str]") -> None:
        """Start without a selection; the arguments are those of `Scan`."""
        super().__init__(reading, row_filter, marks)
        self.error_count = 0
        """How many responses in the selected rows are errors, of a tool or of JSON-RPC."""
        self.findings = SelectedFindings()
        """The findings in the selected rows."""
        self.calls: SelectedCalls | None = None
        """The calls of the selected rows, while exchanges are listed; None while rows are."""
        self._counted_reading = reading
        self._counted_rows = array("I")
        self._counted_findings = 0
        self._next_count_s = 0.0

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        is_busy = super().step()
        if self.calls is not None:
            is_busy = self.calls.follow(self, is_busy=is_busy)
        began_s = time.monotonic()
        if began_s < self._next_count_s or not self._count():
            return is_busy
        self._next_count_s = began_s + max(COUNT_INTERVAL_S, PAUSE_FACTOR * (time.monotonic() - began_s))
        return True

    def select_calls(self) -> SelectedCalls:
        """Select the calls of the rows, too; the thread, which must not run meanwhile, adds those of many rows."""
        if self.calls is None:
            self.calls = SelectedCalls(self._counted_reading)
            self.calls.follow(self, is_busy=False)
        return self.calls

    def _count(self) -> bool:
        """Count the selected rows; returns whether they or their findings have changed since the last count."""
        rows, findings = self.rows[:], self._counted_reading.findings
        known_rows, finding_count = self._counted_rows, len(findings)
        has_new_findings = finding_count != self._counted_findings
        if not has_new_findings and rows == known_rows:
            return False
        self._counted_rows, self._counted_findings = rows, finding_count
        if rows[: len(known_rows)] == known_rows:
            self.error_count += self._errors_in(rows[len(known_rows) :])
        else:
            self.error_count = self._errors_in(rows)
        self.findings = findings.serious_in(rows)
        return True

    def _errors_in(self, rows: "array[int]") -> int:
        columns, responses = self._counted_reading.columns, self._counted_reading.calls.response
        marks = bytes(map(columns.marks.__getitem__, rows))
        if not marks.translate(None, _GOOD_MARKS):
            return 0
        bad_rows = [row for row, mark in zip(rows, marks, strict=True) if mark & BAD]
        return sum(columns.call_of[row] != NONE and responses[columns.call_of[row]] == row for row in bad_rows)
