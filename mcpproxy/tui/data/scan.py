"""Scan: the rows that a filter selects. A thread searches for them while the rows selected so far are shown.

It tests only rows that the worker has interpreted, with the facts in the `Reading`. If they are all that the filter
needs, many rows are tested at once (`column_tests.py`). If every row that it selects contains a text, only rows that
may contain that text are parsed (`text_candidates.py`). For most other filters, the whole file is read again. A filter
may depend on the outcome of a request: if the outcome becomes known after the request was tested, the request is tested
again.

A filter on findings waits for the rules. Rules may report a finding late, in a row that was tested long ago. Such a row
is read and tested again.

Only messages and marked rows are tested: a filter on marks selects any row that has one. A filter on failures also
selects logins that did not succeed, each with the leg that failed.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Container
from itertools import chain, compress
from typing import Final

from analysis.filter import Filter
from analysis.filter.text_search import TextSearch
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from captures.tail import Tail
from mcpproxy.tui.data.column_tests import SELECTED, UNCLEAR, ColumnTests
from mcpproxy.tui.data.columns import NONE, UNUSUAL
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_facts import COLUMN_KEYS, RowFacts, column_facts, facts_in, login_facts
from mcpproxy.tui.data.text_candidates import Candidate, find_candidates

STEP_BYTES: Final = 16 << 10
"""How many bytes are read per step: a few milliseconds."""
MAX_RETESTS_PER_STEP: Final = 200
"""How many rows are tested again per step."""
MAX_TESTS_PER_STEP: Final = 8192
"""How many rows are tested per step by their columns: a few milliseconds."""
MIN_TESTS_PER_STEP: Final = 500
"""How many rows are tested in the first step."""
MAX_READS_PER_STEP: Final = 100
"""How many rows are read per step."""
MAX_CANDIDATES_PER_STEP: Final = 500
"""How many rows that may contain a text are tested per step, unless they must be read."""
OUTCOME_KEYS: Final = frozenset({"latency", "has:answer", "has:error", "has:failure", "has:waiting"})
"""The keys of `Filter.keys` for which a request has to wait for its outcome."""
ANY_TEXT: Final = TextSearch("", is_literal=True)
"""The text that every row contains."""
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
        has_columns = row_filter.keys.keys() <= COLUMN_KEYS
        self._column_tests = ColumnTests(reading, row_filter) if has_columns else None
        """The tests of the columns, if they are all that the filter needs."""
        self._has_column_facts = row_filter.keys.keys() <= COLUMN_KEYS | {"text"}
        is_textual = not (has_columns or self._is_on_marks) and (bool(row_filter.texts) or self._has_column_facts)
        texts = row_filter.texts or (ANY_TEXT,)
        self._text = max(texts, key=lambda search: len(search.text)) if is_textual else None
        """A text that all selected rows contain; None if the whole file must be read."""
        self._candidates: deque[Candidate] = deque()
        """Rows that may contain the text, and have not been tested."""
        self._searched_end = 0
        """The end of the rows that have been searched for the text."""
        self._tail = None if has_columns or is_textual else Tail(reading.path)
        """The reader of the file, if all of it is read again."""
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
        is_busy = self._step_file(self._tail) if self._tail is not None else self._step_rows()
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

    def _step_rows(self) -> bool:
        start, reading = self._row, self._reading
        limit = self._testable_end
        if self._column_tests is not None and start < limit:
            # The first rows come after the shortest step.
            step_rows = min(max(start, MIN_TESTS_PER_STEP), MAX_TESTS_PER_STEP)
            self._step_columns(self._column_tests, min(limit, start + step_rows))
        elif self._text is not None and start < limit:
            self._step_text(self._text, limit)
        self._is_read = reading.has_ended and self._row == min(reading.interpreted_count, len(reading.index))
        return self._row > start

    @property
    def _testable_end(self) -> int:
        """The end of the rows for which everything is known that the filter needs, except late findings."""
        end = min(self._reading.interpreted_count, len(self._reading.index))
        return min(end, self._findings.checked_count) if self._may_get_findings() else end

    def _step_columns(self, tests: ColumnTests, end: int) -> None:
        """Test the rows up to `end` by their columns, or fewer if many must be read."""
        start = self._row
        results = tests.results(start, end)
        if UNCLEAR not in results:
            self.rows.extend(compress(range(start, end), results))
            self._pass_to(end)
            return
        read_count = 0
        for row, result in enumerate(results, start):
            if result == UNCLEAR:
                if read_count == MAX_READS_PER_STEP:
                    end = row
                    break
                read_count += 1
                self._read_and_test(row)
            elif result == SELECTED:
                self._update_selection(row, is_selected=True)
        self._pass_to(end)

    def _pass_to(self, end: int) -> None:
        """Count the rows up to `end` as scanned."""
        classes = self._reading.index.frame_classes(self._row, end)
        self.frame_count += len(classes) - classes.count(0)
        self._row = end

    def _read_and_test(self, row: int) -> None:
        """Test a row that must be read, and keep what it says for other filters."""
        reading = self._reading
        if reading.is_continued(row) or not reading.index.is_frame(row):
            return
        entry = reading.index.read_item(row)
        self._test_row(row, entry)
        is_loose = reading.columns.call_of[row] == NONE and not reading.columns.marks[row] & UNUSUAL
        if is_loose and isinstance(entry, Frame) and entry.verdict.kind != "batch":
            reading.loose_rows.note(row, RowFacts(reading, row, entry))

    def _step_text(self, text: TextSearch, limit: int) -> None:
        """Search some rows for the text that is required, and test the candidates."""
        if not self._candidates:
            self._searched_end, candidates = find_candidates(self._reading, self._row, limit, text)
            self._candidates.extend(candidates)
        read_count = 0
        for _ in range(min(len(self._candidates), MAX_CANDIDATES_PER_STEP)):
            row, raw = self._candidates.popleft()
            if self._reading.is_continued(row) or (raw is not None and not text.is_in(raw)):
                continue
            facts = column_facts(self._reading, row, raw) if raw is not None and self._has_column_facts else None
            if facts is not None:
                self._update_selection(row, is_selected=self.row_filter.matches(facts))
            else:
                self._test_row(row, self._reading.index.read_item(row))
                read_count += 1
            if read_count == MAX_READS_PER_STEP:
                break
        self._pass_to(self._candidates[0].row if self._candidates else self._searched_end)

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
        if row >= self._row:
            return
        result = UNCLEAR if self._column_tests is None else self._column_tests.results(row, row + 1)[0]
        if result == UNCLEAR:
            self._test_row(row, self._reading.index.read_item(row))
        else:
            self._update_selection(row, is_selected=result == SELECTED)

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
