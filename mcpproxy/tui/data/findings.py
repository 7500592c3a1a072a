"""The findings of one capture so far, by row and by rule; a thread adds to them and the screen reads them.

It keeps the texts of up to 25,000 findings. For all others it keeps only rule and row: 4 bytes each, and one byte for
each row up to the last with a finding.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from threading import Lock
from typing import Final, NamedTuple

from analysis.rules.finding import Finding, Level
from analysis.tally import Tally
from captures.index import Index
from mcpproxy.tui.data.sorted_rows import contains, insert_row
from mcpproxy.wording.spans import Role

MAX_FINDINGS_WITH_TEXT: Final = 25_000
"""The maximum number of findings kept with their text."""
MAX_PLACED_FINDINGS: Final = 4_000_000
"""The maximum number of findings whose rows are kept."""
MAX_WAITING_FINDINGS: Final = 10_000
"""The maximum number of findings kept for rows that are not yet in the index."""
MAX_COUNT_PER_ROW: Final = 63
"""The maximum count of findings in a row; further ones are not counted."""
LEVELS: Final[dict[Level, Role]] = {Level.NOTE: "dim", Level.WARNING: "plain", Level.ERROR: "bad"}
"""How each level is drawn."""
SIGNS: Final = {Level.NOTE: "·", Level.WARNING: "!", Level.ERROR: "✗"}

_SERIOUS_MARK: Final = re.compile(rb"[\x80-\xff]")
_HARMLESS_MARKS: Final = bytes(range(0x80))
_LEVEL_BYTES: Final = bytes((mark >> 6) + 1 if mark else 0 for mark in range(256))


class SelectedFindings(NamedTuple):
    """The findings in some rows."""

    row_count: int = 0
    """How many of the rows have a finding that is a warning or an error."""
    has_errors: bool = False
    """Whether any of these is an error."""


class Findings:
    """The findings of one capture."""

    def __init__(self, index: Index | None = None) -> None:
        """Start empty.

        Args:
            index: the index of the capture, which maps records to rows; None if findings are only counted.
        """
        self.kept_findings: list[Finding] = []
        """The first `MAX_FINDINGS_WITH_TEXT`, in the order in which the rules reported them."""
        self.counts: Counter[tuple[Level, str]] = Counter()
        """How many findings there are, by level and rule."""
        self.tally = Tally()
        """How many findings there are, by level; the only count for a capture that is not shown."""
        self.checked_count = 0
        """How many rows have been checked."""
        self.has_caught_up = False
        """Whether the worker had checked all rows when it last looked."""
        self.has_ended = False
        """Whether everything has been checked, and nothing will follow."""
        self.trouble = ""
        """Why checking stopped, if it did."""
        self.faults: tuple[str, ...] = ()
        """Rules that failed, which is a bug in mcpproxy."""
        self.forgotten: tuple[str, ...] = ()
        """Sentences about what the rules had to forget because too much was open at the same time."""
        self.late_rows = array("I")
        """Rows that got a finding after they had been checked, in the order of those findings."""
        self._index = index
        self._worst = bytearray()
        self._rows_of: dict[str, array[int]] = {}
        self._findings_by_row: dict[int, list[Finding]] = {}
        self._place_lock = Lock()
        self._waiting: list[tuple[str, Level, int, Finding | None]] = []
        self._placed_count = 0

    def __len__(self) -> int:
        return sum(self.tally)

    # ---- queries

    def row(self, finding: Finding) -> int | None:
        """The row at which a finding is shown."""
        return self._index.entry_of_seq(finding.frame) if self._index is not None else None

    def worst_level_and_count(self, row: int) -> tuple[Level | None, int]:
        """The worst level in a row, and the number of its findings, at most `MAX_COUNT_PER_ROW`."""
        mark = self._worst[row] if row < len(self._worst) else 0
        return (Level(mark >> 6), mark & MAX_COUNT_PER_ROW) if mark else (None, 0)

    def rules_at(self, row: int) -> tuple[str, ...]:
        """The rules that have findings in a row."""
        if row >= len(self._worst) or not self._worst[row]:
            return ()
        return tuple(rule for rule, rows in list(self._rows_of.items()) if contains(rows, row))

    def levels(self, first: int, last: int) -> bytes:
        """The worst level in each row of a range, as a byte that is 0 if the row has no finding."""
        return bytes(self._worst[first:last]).translate(_LEVEL_BYTES).ljust(last - first, b"\0")

    def findings_at(self, row: int) -> list[Finding]:
        """The findings in a row whose texts are kept."""
        return self._findings_by_row.get(row, [])

    def next_serious_row(self, row: int, by: int) -> int | None:
        """The nearest row with a warning or an error, after or before another row.

        Args:
            row: the row to start from; -1 to start before the first.
            by: 1 for after, -1 for before.
        """
        if by > 0:
            match = _SERIOUS_MARK.search(self._worst, row + 1)
            return match.start() if match is not None else None
        row_before = len(self._worst[: max(0, row)].rstrip(_HARMLESS_MARKS)) - 1
        return row_before if row_before >= 0 else None

    def serious_in(self, rows: "array[int]") -> SelectedFindings:
        """Returns the warnings and errors in ascending rows; takes some 20 ms for a million rows."""
        worst = self._worst
        marks = bytes(map(worst.__getitem__, rows[: bisect_left(rows, len(worst))]))
        serious_marks = marks.translate(None, _HARMLESS_MARKS)
        return SelectedFindings(len(serious_marks), max(serious_marks, default=0) >> 6 == Level.ERROR)

    # ---- additions, from the thread that receives the worker's output

    def add_finding(self, finding: Finding) -> None:
        """Add a finding with its text."""
        is_kept = len(self.kept_findings) < MAX_FINDINGS_WITH_TEXT
        if is_kept:
            self.kept_findings.append(finding)
        self.counts[finding.level, finding.rule] += finding.finding_count
        self._add(finding.rule, finding.level, finding.frame, finding if is_kept else None)

    def add_count(self, rule: str, level: Level, frame: int, count: int = 1) -> None:
        """Add `count` findings at one place, without text."""
        self.counts[level, rule] += count
        self._add(rule, level, frame, None)

    def place_waiting(self) -> None:
        """Place the findings that came before their rows; called by the thread that adds rows to the index."""
        with self._place_lock:
            if not self._waiting or not self._index:
                return
            last = self._index.entry(len(self._index) - 1).seq
            placeable = [entry for entry in self._waiting if entry[2] <= last]
            self._waiting = [entry for entry in self._waiting if entry[2] > last]
            for entry in placeable:
                self._place(*entry)

    def _add(self, rule: str, level: Level, frame: int, finding: Finding | None) -> None:
        # The lock is held from the search for the row to the end. Otherwise the row could be added, and `place_waiting`
        # called, in between.
        with self._place_lock:
            self._place(rule, level, frame, finding)

    def _place(self, rule: str, level: Level, frame: int, finding: Finding | None) -> None:
        if self._index is None:
            return
        row = self._index.entry_of_seq(frame)
        if row is None:
            if len(self._waiting) < MAX_WAITING_FINDINGS:
                self._waiting.append((rule, level, frame, finding))
            return
        if self._placed_count >= MAX_PLACED_FINDINGS:
            return
        self._placed_count += 1
        if finding is not None:
            self._findings_by_row.setdefault(row, []).append(finding)
        rows = self._rows_of.setdefault(rule, array("I"))
        insert_row(rows, row)
        if row >= len(self._worst):
            self._worst.extend(bytes(row + 1 - len(self._worst)))
        worst_level, count = self._worst[row] >> 6, self._worst[row] & MAX_COUNT_PER_ROW
        self._worst[row] = max(worst_level, level) << 6 | min(count + 1, MAX_COUNT_PER_ROW)
        if row < self.checked_count:
            self.late_rows.append(row)
