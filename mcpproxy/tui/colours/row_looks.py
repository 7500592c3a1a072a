"""Row looks: which of the user's colour rules selects a row of the traffic.

A rule that needs only what is in the columns of the reading is tested whenever the row is drawn, as what it depends on
may change. Any other rule needs the frame, so the thread that reads rows tests it, and again when something that it may
depend on has changed; until then, the row has no colour.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from mcpproxy.tui.colours.rules import ColourRule, RowLook
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_facts import COLUMN_KEYS, RowFacts, column_facts, facts_in
from mcpproxy.tui.rows.row_calls import MAX_LINE_FRAME_BYTES

MAX_KNOWN_ROWS: Final = 4000
"""The maximum number of rows for which it is known which rules that need a frame select them."""

_State: TypeAlias = tuple[object, ...]
"""What was known about a row: if it changes, the row is tested again."""


class RowLooks:
    """The looks of the rows of one capture, by the user's rules."""

    def __init__(self, reading: Reading, rules: Sequence[ColourRule]) -> None:
        """Start without knowing a look."""
        self._reading, self._rules = reading, rules
        self._needs_frame = [not rule.row_filter.keys.keys() <= COLUMN_KEYS for rule in rules]
        self._is_on_marks = any("has:mark" in rule.row_filter.keys for rule in rules)
        self._tested: dict[int, tuple[_State, Sequence[bool]]] = {}
        """Of rows that were tested with their frames: what was known then, and which rules select them."""

    def must_read(self, row: int, marks: Mapping[int, str]) -> bool:
        """Whether a row must be read, in the thread that reads rows, before its look is known."""
        if not self._rules or not self._reading.index.is_frame(row) or not self._is_interpreted(row):
            return False
        if self._columns(row) is not None and not any(self._needs_frame):
            return False
        tested = self._tested.get(row)
        return tested is None or tested[0] != self._state(row, marks)

    def read(self, row: int, marks: Mapping[int, str]) -> None:
        """Test a row with its frame. Reads the file."""
        state = self._state(row, marks)
        is_small = self._reading.index.entry(row).size <= MAX_LINE_FRAME_BYTES
        item: Frame | Record | Damage | None = self._reading.index.read_item(row) if is_small else None
        all_facts = list(facts_in(self._reading, row, item, marks))
        self._tested[row] = state, [any(map(rule.row_filter.matches, all_facts)) for rule in self._rules]
        while len(self._tested) > MAX_KNOWN_ROWS:
            self._tested.pop(next(iter(self._tested)))

    def look_of(self, rows: Sequence[int]) -> RowLook | None:
        """Returns the look of a line that shows these rows: that of the first rule that selects one of them, if any."""
        if not self._rules:
            return None
        columns = [(self._columns(row), self._tested.get(row)) for row in rows if self._is_interpreted(row)]
        for number, rule in enumerate(self._rules):
            for facts, tested in columns:
                if facts is not None and not self._needs_frame[number]:
                    is_selected = rule.row_filter.matches(facts)
                else:
                    is_selected = tested is not None and tested[1][number]
                if is_selected:
                    return rule.look
        return None

    def _is_interpreted(self, row: int) -> bool:
        return row < min(self._reading.interpreted_count, len(self._reading.index))

    def _columns(self, row: int) -> RowFacts | None:
        """Returns the facts of a row without its frame, or None if they are too few, or if the names are cut."""
        number = self._reading.columns.call_of[row]
        is_whole = number != NONE and self._reading.kinds.all[self._reading.calls.kind[number]].is_whole
        return column_facts(self._reading, row) if is_whole else None

    def _state(self, row: int, marks: Mapping[int, str]) -> _State:
        """Returns what the rules may depend on and may change, from columns alone."""
        reading = self._reading
        number = reading.columns.call_of[row]
        is_marked = self._is_on_marks and reading.index.entry(row).seq in marks
        call_state = None if number == NONE else (reading.outcome(number), reading.calls.latency_ns[number])
        return call_state, reading.is_live, reading.findings.worst_level_and_count(row), is_marked
