"""Column tests: which rows of a range a filter selects, from the columns alone, in a fraction of a microsecond per row.

What a filter can ask about a row is in a few columns, and few combinations of their values occur. So the filter is
applied to one row of each combination, with the same facts as any other row, and the result holds for the others.
Numbers such as latencies differ in each row, but a filter compares them with a few bounds: only between which of these
a number is counts.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import eq
from typing import Any, Final

from analysis.filter import Filter
from mcpproxy.tui.data.columns import CONTINUED, NONE, REDIRECTED, UNUSUAL
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.row_facts import RowFacts, column_facts

NOT_SELECTED: Final = 0
SELECTED: Final = 1
UNCLEAR: Final = 2
"""The columns do not say enough about the row: it must be read."""
MAX_COMBINATIONS: Final = 20_000
"""The maximum number of combinations that are remembered."""

_TEXT_KEYS: Final = frozenset({"method", "name"})
_MESSAGE_KEYS: Final = _TEXT_KEYS | {"kind", "has:error", "has:failure"}
"""The keys for which the message of a row without a call must be known."""
_OUTCOME_KEYS: Final = frozenset({"kind", "has:error", "has:failure", "has:waiting"})
_FAILURE_KEYS: Final = frozenset({"has:failure", "has:waiting"})
_LATENCY_KEYS: Final = frozenset({"latency", "has:answer"})
_FINDING_KEYS: Final = frozenset({"rule", "level", "has:finding"})
_PASSED_OVER: Final = 0
_CLEAR: Final = 1
_STATES: Final = bytes(
    _PASSED_OVER if mark & CONTINUED else UNCLEAR if mark & (UNUSUAL | REDIRECTED) else _CLEAR for mark in range(256)
)
"""By mark of a row: whether to pass over it, as it is a line of another row's message, and whether it is unclear."""


class ColumnTests:
    """The tests of one filter, all of whose keys are in `COLUMN_KEYS`."""

    def __init__(self, reading: Reading, row_filter: Filter) -> None:
        """Prepare, without testing anything.

        Args:
            reading: the capture.
            row_filter: the filter.
        """
        self._reading, self._filter, self._keys = reading, row_filter, row_filter.keys.keys()
        self.needs_messages = not self._keys.isdisjoint(_MESSAGE_KEYS)
        """Whether the filter asks about the messages of rows without a call."""
        self._results: dict[tuple[Any, ...], int] = {}
        """The results by combination of values."""

    def results(self, first: int, last: int) -> bytes:
        """Returns `NOT_SELECTED`, `SELECTED` or `UNCLEAR` for each row of a range; all must be interpreted."""
        if len(self._results) > MAX_COMBINATIONS:
            self._results.clear()
        combinations = list(zip(*self._columns(first, last), strict=False))
        known_results = list(map(self._results.get, combinations))
        if None not in known_results:
            return bytes(known_results)  # type: ignore[arg-type] # None is not among them
        return bytes(
            self._result(first + position, combinations[position]) if result is None else result
            for position, result in enumerate(known_results)
        )

    def _result(self, row: int, combination: tuple[Any, ...]) -> int:
        result = self._results.get(combination)
        if result is None:
            result = self._results[combination] = self._test(row, state=combination[0], code=combination[1])
        return result

    def _test(self, row: int, *, state: int, code: int) -> int:
        """Test a row for all rows with the same values."""
        if state != _CLEAR:
            return NOT_SELECTED if state == _PASSED_OVER else UNCLEAR
        if code:
            return self._test_loose(row, is_known=code != _UNKNOWN_MESSAGE)
        reading, facts = self._reading, column_facts(self._reading, row)
        if facts is None:
            return UNCLEAR
        number = reading.columns.call_of[row]
        is_cut = not reading.kinds.all[reading.calls.kind[number]].is_whole
        is_odd = not facts.is_request and facts.answered is None
        if (is_cut and not self._keys.isdisjoint(_TEXT_KEYS)) or (is_odd and not self._keys.isdisjoint(_OUTCOME_KEYS)):
            return UNCLEAR
        return SELECTED if self._filter.matches(facts) else NOT_SELECTED

    def _test_loose(self, row: int, *, is_known: bool) -> int:
        """Test a row without a call."""
        if self.needs_messages and not is_known:
            return UNCLEAR
        return SELECTED if self._filter.matches(RowFacts(self._reading, row)) else NOT_SELECTED

    # ---- values

    def _columns(self, first: int, last: int) -> Iterator[Iterable[Any]]:
        """Yields the columns whose values can make a difference: first the states, then the codes of loose rows."""
        reading, keys = self._reading, self._keys
        calls, numbers = reading.calls, reading.columns.call_of[first:last]
        yield self._states(first, last)
        if NONE in numbers:
            codes = reading.loose_rows.codes(first, last) if self.needs_messages else repeat(0)
            yield [
                code or _UNKNOWN_MESSAGE if number == NONE else 0 for number, code in zip(numbers, codes, strict=False)
            ]
            # The values of another call make no difference to these rows.
            numbers = array("I", [0 if number == NONE else number for number in numbers])
        else:
            yield repeat(0)
        if not keys.isdisjoint(_OUTCOME_KEYS):
            yield map(eq, _values(calls.request, numbers), range(first, last))
            yield _values(calls.outcome, numbers)
        if not keys.isdisjoint(_FAILURE_KEYS):
            yield map((0).__le__, _values(calls.abandoned_ns, numbers))
            yield _values(calls.is_cancelled, numbers)
            yield repeat(reading.is_live)
        if not keys.isdisjoint(_TEXT_KEYS | _FAILURE_KEYS):
            yield _values(calls.kind, numbers)
        if not keys.isdisjoint(_LATENCY_KEYS):
            yield _between(_values(calls.latency_ns, numbers), self._filter.bounds.get("latency", ()))
        if "dir" in keys:
            yield reading.index.directions(first, last)
        if "session" in keys:
            yield reading.columns.sessions[first:last]
        if "frame" in keys:
            yield _between(reading.index.seqs(first, last), self._filter.bounds["frame"])
        if not keys.isdisjoint(_FINDING_KEYS):
            levels = reading.findings.levels(first, last)
            yield levels
            if "rule" in keys and any(levels):
                yield (reading.findings.rules_at(row) if level else () for row, level in enumerate(levels, first))

    def _states(self, first: int, last: int) -> Iterable[int]:
        """Yields for each row whether to pass over it, to trust its columns, or to read it."""
        classes = self._reading.index.frame_classes(first, last)
        states = bytes(self._reading.columns.marks[first:last]).translate(_STATES)
        if classes.count(_CLEAR) == states.count(_CLEAR) == last - first:
            return repeat(_CLEAR, last - first)
        return [
            min(frame_class, state) and max(frame_class, state)
            for frame_class, state in zip(classes, states, strict=True)
        ]


_UNKNOWN_MESSAGE: Final = -1
"""The code of a row without a call whose message is not known."""


def _values(column: "array[int]", numbers: "array[int]") -> Iterable[int]:
    """Returns the values of some calls; zeros if there are no calls at all."""
    return map(column.__getitem__, numbers) if column else repeat(0, len(numbers))


def _between(values: Iterable[int], bounds: Sequence[float]) -> list[int]:
    """Returns for each value between which bounds it is; equal numbers mean equal places; -1 for no value."""
    if len(bounds) == 1:
        [bound] = bounds
        return [-1 if value < 0 else (value > bound) + (value >= bound) for value in values]
    ordered = sorted(bounds)
    return [
        -1 if value < 0 else bisect_left(ordered, value) + bisect_right(ordered, value) if ordered else 0
        for value in values
    ]
