"""Scan: the rows that a filter selects. A thread searches for them while the rows selected so far are shown.

It tests only rows that the worker has interpreted, with the facts in the `Reading`. Only if the filter needs more, such
as a text, does it read the file again. A filter may depend on the outcome of a request: if the outcome becomes known
after the request was tested, the request is tested again.

A filter on findings waits for the rules. Rules may report a finding late, in a row that was tested long ago. Such a row
is read and tested again.

Only messages and marked rows are tested: a filter on marks selects any row that has one. A filter on failures also
selects logins that did not succeed, each with the leg that failed.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Container
from itertools import chain
from typing import Final

from analysis.filter import Filter
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from captures.tail import Tail
from mcpproxy.tui.data.columns import CONTINUED
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_facts import COLUMN_KEYS, column_facts, facts_in, login_facts

STEP_BYTES: Final = 16 << 10
"""How many bytes are read per step: a few milliseconds."""
MAX_RETESTS_PER_STEP: Final = 200
"""How many rows are tested again per step."""
MAX_TESTS_PER_STEP: Final = 500
"""How many rows are tested per step without reading the file."""
OUTCOME_KEYS: Final = frozenset({"latency", "has:answer", "has:error", "has:failure"})
"""The keys of `Filter.keys` for which a request has to wait for its outcome."""
_ALL_NUMBERS: Final = range(1 << 64)
"""A container of all numbers."""


class Scan:
    """One filter over one capture."""

    def __init__(self, reading: Reading, row_filter: Filter, marks: Container[int] = frozenset()) -> None:
        """Start without a selection.

        Args:
            reading: the capture, and the positions of its rows.
            row_filter: the filter.
            marks: the numbers of the records that are marked.
        """
        self.row_filter = row_filter
        self._is_on_marks = "has:mark" in row_filter.keys
        self._marks = marks if self._is_on_marks else frozenset()
        self.rows = array("I")
        """The selected rows, ascending."""
        self.frame_count = 0
        """How many frames have been scanned."""
        self.login_count = self.login_row_count = 0
        """How many logins that did not succeed have been selected, and how many rows they have."""
        self.has_ended = False
        """Whether everything has been scanned, and nothing will follow."""
        self._login_rows: set[int] | None = set() if "has:failure" in row_filter.keys else None
        """The rows of logins that did not succeed, as far as they are known; None if the filter is not on failures."""
        self._reading = reading
        self._tail = None if row_filter.keys.keys() <= COLUMN_KEYS else Tail(reading.path)
        """The reader of the file, if the filter needs more than the columns."""
        self._row = 0
        self._untested: deque[Frame | Record | Damage] = deque()
        """Entries that have been read, and wait for the worker or the rules."""
        self._is_read = False
        self._findings = reading.findings
        self._needs_outcomes = not row_filter.keys.keys().isdisjoint(OUTCOME_KEYS)
        # Rows are tested with the facts known at that time; a row is tested again only if more becomes known later.
        self._settled_count, self._changed_count, self._late_count = (
            len(reading.calls.settled),
            len(reading.columns.changed_rows),
            0,
        )

    @property
    def scanned_count(self) -> int:
        """How many rows have been scanned."""
        return self._row

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the worker or the rules."""
        return bool(self._untested) or (self._tail is None and self._row < len(self._reading.index))

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        if self.has_ended:
            return False
        is_busy = self._step_columns() if self._tail is None else self._step_file(self._tail)
        is_all_interpreted = self._reading.has_ended
        is_behind = self._retest_changed()
        if self.row_filter.needs_findings:
            is_behind = self._retest_late() or is_behind
        if self._is_read or not is_busy:
            is_behind = self._retest_logins() or is_behind
        is_tested = self._is_read and is_all_interpreted and not (self._untested or is_behind)
        self.has_ended = is_tested and not self._may_get_findings()
        return is_busy or is_behind

    def close(self) -> None:
        """Close the file."""
        if self._tail is not None:
            self._tail.close()
        self.has_ended = True

    def _step_columns(self) -> bool:
        start, reading = self._row, self._reading
        end = min(start + MAX_TESTS_PER_STEP, reading.interpreted_count, len(reading.index))
        while self._row < end and self._can_test():
            if not reading.columns.marks[self._row] & CONTINUED:
                self._test_columns(self._row)
            self.frame_count += reading.index.is_frame(self._row)
            self._row += 1
        self._is_read = reading.has_ended and self._row == min(reading.interpreted_count, len(reading.index))
        return self._row > start

    def _test_columns(self, row: int) -> None:
        facts = column_facts(self._reading, row)
        if facts is not None:
            self._update_selection(row, is_selected=self.row_filter.matches(facts))
        elif self._reading.index.is_frame(row):
            self._test_row(row, self._reading.index.read_item(row))

    def _step_file(self, tail: Tail) -> bool:
        is_busy = False
        if not (self._untested or self._is_read):
            items = tail.assembled_step(STEP_BYTES)
            self._untested.extend(entry for _, entry in items if entry is not None)
            self._is_read = tail.has_ended
            is_busy = bool(items) or not tail.is_at_end
        while self._untested and self._can_test():
            self._test_entry(self._untested.popleft())
            is_busy = True
        return is_busy

    def _test_entry(self, entry: Frame | Record | Damage) -> None:
        row = self._row
        if row >= self._reading.max_rows:
            return
        if not self._reading.is_continued(row):
            self._test_row(row, entry)
        self.frame_count += isinstance(entry, Frame)
        self._row += 1

    def _test_row(self, row: int, entry: Frame | Record | Damage | None) -> None:
        """Test a row, and its other lines if it spans lines; select or drop each."""
        all_facts = facts_in(self._reading, row, entry, self._marks)
        if self._login_rows and row in self._login_rows:
            all_facts = chain(all_facts, [login_facts(self._reading, row, self._marks)])
        self._update_selection(row, is_selected=any(map(self.row_filter.matches, all_facts)))
        for line in self._reading.continued_rows(row):
            # The first line represents all lines of the message, but a marked line is selected by itself.
            seq = self._reading.index.entry(line).seq
            is_marked = self._is_on_marks and seq in self._marks
            facts = facts_in(self._reading, row, entry, _ALL_NUMBERS) if is_marked else ()
            self._update_selection(line, is_selected=any(map(self.row_filter.matches, facts)))

    def _test_again(self, row: int) -> None:
        if row < self._row:
            if self._tail is None:
                self._test_columns(row)
            else:
                self._test_row(row, self._reading.index.read_item(row))

    def _can_test(self) -> bool:
        """Whether everything that the filter needs for the next row is known, except late findings."""
        reading, row = self._reading, self._row
        if row >= min(reading.interpreted_count, len(reading.index)):
            # The scan reads the file by itself; index and worker may lag behind it, or may have reached their limit.
            return row >= reading.max_rows
        return not self.row_filter.needs_findings or row < self._findings.checked_count or not self._may_get_findings()

    # ---- rows to be tested again

    def _retest_changed(self) -> bool:
        """Test requests again whose outcome has become known, and lines that turned out to be one message."""
        reading, start = self._reading, (self._settled_count, self._changed_count)
        changed_rows = reading.columns.changed_rows
        settled_calls = reading.calls.settled
        if self._needs_outcomes:
            while self._settled_count < min(len(settled_calls), start[0] + MAX_RETESTS_PER_STEP):
                self._test_again(reading.calls.request[settled_calls[self._settled_count]])
                self._settled_count += 1
        while self._changed_count < min(len(changed_rows), start[1] + MAX_RETESTS_PER_STEP):
            self._test_again(changed_rows[self._changed_count])
            self._changed_count += 1
        return (self._settled_count, self._changed_count) != start

    def _may_get_findings(self) -> bool:
        """Whether rows that have been tested may get more findings."""
        if not self.row_filter.needs_findings:
            return False
        findings = self._findings
        return self._late_count < len(findings.late_rows) or not (findings.has_ended or findings.trouble)

    def _retest_late(self) -> bool:
        """Test rows again that got findings after they had been tested."""
        late_rows, start = self._findings.late_rows, self._late_count
        while self._late_count < min(len(late_rows), start + MAX_RETESTS_PER_STEP):
            row = late_rows[self._late_count]
            if row >= min(self._row, self._reading.interpreted_count):
                break
            self._late_count += 1
            self._test_again(row)
        return self._late_count > start

    def _retest_logins(self) -> bool:
        """Select the rows of logins that turned out not to succeed; returns whether there are others than before."""
        previous_rows = self._login_rows
        if previous_rows is None:
            return False
        rows = self._reading.logins.wrong_rows()
        if rows == previous_rows:
            return False
        self._login_rows = rows
        selected_rows = {row for row in rows if self.row_filter.matches(login_facts(self._reading, row, self._marks))}
        for row in previous_rows | rows:
            self._update_selection(row, is_selected=row in selected_rows)
        self.login_row_count = len(selected_rows)
        self.login_count = sum(self._reading.logins.login_headed_by(row) is not None for row in selected_rows)
        return True

    def _update_selection(self, row: int, *, is_selected: bool) -> None:
        """Add a row to the selection, or remove it."""
        rows = self.rows
        if not rows or rows[-1] < row:
            if is_selected:
                rows.append(row)
            return
        index = bisect_left(rows, row)
        if is_selected and rows[index] != row:
            rows.insert(index, row)
        elif not is_selected and rows[index] == row:
            rows.pop(index)
