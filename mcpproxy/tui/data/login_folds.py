"""Login folds: the rows of the traffic, with each login in one row, or unfolded with a row for each of its legs.

As soon as the capture has a login, the rows are in an array of their own: four bytes each.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import filterfalse, islice
from typing import Final, NamedTuple

from analysis.conversation.login import UNSUCCESSFUL
from mcpproxy.tui.data.login_rows import LegRows
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.sorted_rows import insert_row

MAX_SINGLE_CHANGES: Final = 300
"""How many legs are listed or removed one by one; for more, all rows are listed again: some 10 ms per 60,000 rows."""
_HIDDEN, _FOLDED, _UNFOLDED = range(3)
_IS_UNFOLDED: Final = bytes(mode == _UNFOLDED for mode in range(256))
"""By mode: 1 if the login is unfolded."""


class _Outcomes(NamedTuple):
    """Everything on which the folds at first depend."""

    codes: bytes
    """What became of each login."""
    is_live: bool


class LoginFolds:
    """The rows to list. One thread uses it."""

    def __init__(self, reading: Reading) -> None:
        """Start with the logins unfolded that are under way or did not succeed.

        Args:
            reading: the capture.
        """
        self._reading, self._logins = reading, reading.logins
        self._choices: dict[int, bool] = {}
        """Whether a login is unfolded, by its number, if the user has chosen that."""
        self._rows = array("I")
        self._base: Sequence[int] = ()
        self._omits_successes = False
        self._base_count = self._leg_count = 0
        """How many rows of the base, and how many legs, have been listed."""
        self._modes = bytearray()
        """By login, less 1: whether it is hidden, folded or unfolded in the rows."""
        self._outcomes = _Outcomes(b"", is_live=False)

    def rows(self, base: Sequence[int], *, omits_successes: bool) -> Sequence[int]:
        """Returns the rows to list, which `grow` changes; without logins, these are the rows without folds.

        Args:
            base: the rows without folds; they may grow.
            omits_successes: whether to list only logins that are under way or did not succeed.
        """
        if not len(self._logins):
            return base
        if base is not self._base or omits_successes != self._omits_successes:
            self._base, self._omits_successes = base, omits_successes
            self._list_anew()
        return self._rows

    def is_unfolded(self, number: int) -> bool:
        """Whether a login is unfolded, or would be if it were listed."""
        choice = self._choices.get(number)
        if choice is not None:
            return choice
        state = self._logins.state(number)
        return state.outcome in UNSUCCESSFUL and (state.is_over or self._reading.is_live)

    def fold(self, number: int, *, is_unfolded: bool) -> None:
        """Fold or unfold a login."""
        self._choices[number] = is_unfolded
        if number <= len(self._modes):
            self._list_changes([], [number])

    def reveal(self, row: int) -> None:
        """Unfold the login to which a row belongs, unless the row is its head."""
        number = self._logins.login_of(row)
        if number is not None and row != self._logins.head(number) and not self.is_unfolded(number):
            self.fold(number, is_unfolded=True)

    def grow(self, kept_row: int | None) -> None:
        """List new rows, and fold logins that have succeeded.

        Args:
            kept_row: the row at the cursor; its login stays unfolded.
        """
        if not self._base:
            return
        logins = self._logins
        kept_login = logins.login_of(kept_row) if kept_row is not None else None
        if kept_login is not None and kept_row != logins.head(kept_login) and not self._is_listed_as_is(kept_login):
            self._choices.setdefault(kept_login, True)
        new_legs = range(self._leg_count, logins.leg_count)
        self._leg_count = new_legs.stop
        self._list_changes(new_legs, self._changed_logins())
        count = len(self._base)
        new_rows, self._base_count = self._base[self._base_count : count], count
        self._list_new_rows(new_rows)

    def _is_listed_as_is(self, number: int) -> bool:
        return number <= len(self._modes) and self._mode_of(number) == self._modes[number - 1]

    def _changed_logins(self) -> list[int]:
        """Returns the logins that have to be folded, unfolded, hidden or listed now."""
        previous, current = self._outcomes, self._current_outcomes()
        if previous == current:
            return []
        self._outcomes = current
        known_count, is_still_live = len(self._modes), previous.is_live == current.is_live
        self._modes.extend(map(self._mode_of, range(known_count + 1, len(current.codes) + 1)))
        return [
            number
            for number, (before, now) in enumerate(zip(previous.codes, current.codes, strict=False), 1)
            if not (before == now and is_still_live) and self._mode_of(number) != self._modes[number - 1]
        ]

    def _current_outcomes(self) -> "_Outcomes":
        return _Outcomes(self._logins.outcome_codes(), self._reading.is_live)

    def _mode_of(self, number: int) -> int:
        if self._omits_successes and self._logins.state(number).outcome not in UNSUCCESSFUL:
            return _HIDDEN
        return _UNFOLDED if self.is_unfolded(number) else _FOLDED

    def _list_changes(self, new_legs: Sequence[int], changed_logins: Iterable[int]) -> None:
        logins, changes = self._logins, [*changed_logins]
        leg_count = len(new_legs) + sum(logins.state(number).leg_count for number in changes)
        if leg_count > MAX_SINGLE_CHANGES:
            self._list_anew()
            return
        for number in changes:
            self._modes[number - 1] = self._mode_of(number)
            for leg_rows in logins.legs(number):
                self._list_leg(number, leg_rows)
        for leg in new_legs:
            self._list_leg(logins.login_of_leg(leg), logins.leg(leg))

    def _list_leg(self, number: int, leg_rows: LegRows) -> None:
        """List the rows of a leg as the mode of its login says."""
        visible_rows = self._visible_rows(number, leg_rows)
        for row in leg_rows:
            if row in visible_rows:
                insert_row(self._rows, row)
            else:
                position = bisect_left(self._rows, row)
                if position < len(self._rows) and self._rows[position] == row:
                    del self._rows[position]

    def _visible_rows(self, number: int, leg_rows: LegRows) -> tuple[int, ...]:
        mode, head = self._modes[number - 1], self._logins.head(number)
        if mode == _HIDDEN:
            return ()
        head_rows = (head,) if head in leg_rows else ()
        return (*head_rows, leg_rows.end) if mode == _UNFOLDED else head_rows

    def _list_new_rows(self, new_rows: Sequence[int]) -> None:
        """List rows of the base, unless they belong to logins."""
        last_leg_row = self._logins.leg(self._leg_count - 1).end if self._leg_count else -1
        split = bisect_right(new_rows, last_leg_row)
        for row in new_rows[:split]:
            if self._logins.login_of(row) is None:
                insert_row(self._rows, row)
        self._rows.extend(new_rows[split:])

    def _list_anew(self) -> None:
        logins, self._base_count, self._leg_count = self._logins, len(self._base), self._logins.leg_count
        self._outcomes = self._current_outcomes()
        self._modes = bytearray(map(self._mode_of, range(1, len(self._outcomes.codes) + 1)))
        leg_rows = logins.all_rows(self._leg_count)
        unfolded_logins = self._modes.translate(_IS_UNFOLDED)
        visible_rows = {*logins.heads_of(self._modes), *logins.ends_of(unfolded_logins, self._leg_count)}
        other_rows = filterfalse(leg_rows.__contains__, islice(self._base, self._base_count))
        # Two ascending runs are merged fast. The screen holds the array, so it must stay the same.
        self._rows[:] = array("I", sorted([*other_rows, *sorted(visible_rows)]))
