"""Login cells: the worker writes the columns of logins and their legs."""

from array import array
from collections.abc import Iterable
from typing import Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.logins import Login
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import BAD, NONE
from mcpproxy.tui.data.login_columns import LOGIN_OUTCOMES

_FAILED: Final = LOGIN_OUTCOMES.index("failed")
_REJECTED: Final = LOGIN_OUTCOMES.index("rejected")


class LoginCells:
    """Writes the cells of logins."""

    def __init__(self, filler: ColumnFiller) -> None:
        self._filler = filler
        self._leg_counts = array("I")
        """By login: how many of its legs have cells."""

    def on_change(self, logins: Iterable[Login], row: int) -> None:
        """Write what has changed about some logins.

        Args:
            logins: the logins.
            row: the row that changed them, which ended a leg if one of them has a new leg; NONE if no row did.
        """
        columns = self._filler.columns.logins
        for login in logins:
            position = login.number - 1
            while len(columns) <= position:
                self._add_login(0 if row == NONE else row)
            if row != NONE and login.count > self._leg_counts[position]:
                self._add_leg(login, position, row)
            self._write_state(login, position)
            self._filler.note_login_change(position)

    def on_end(self, logins: Iterable[Login]) -> None:
        """Write what the end of the capture means for logins, of which the fold may have forgotten some."""
        self.on_change(logins, NONE)
        outcomes = self._filler.columns.logins.outcome
        for position in [position for position, outcome in enumerate(outcomes) if not outcome % 2]:
            outcomes[position] += 1
            self._filler.note_login_change(position)

    def _add_login(self, row: int) -> None:
        columns = self._filler.columns.logins
        self._leg_counts.append(0)
        columns.head.append(row)
        for column in (columns.failed, columns.accepted):
            column.append(NONE)
        for column in (columns.guessed, columns.outcome):
            column.append(0)

    def _add_leg(self, login: Login, position: int, row: int) -> None:
        columns, started_ref = self._filler.columns.logins, login.last.http.started_ref
        start = row if started_ref is None else self._filler.row_of(started_ref.seq, row)
        if not self._leg_counts[position]:
            columns.head[position] = start
        self._leg_counts[position] = login.count
        columns.leg_start.append(NONE if start == row else start)
        columns.leg_end.append(row)
        columns.leg_login.append(position)

    def _write_state(self, login: Login, position: int) -> None:
        columns, outcome = self._filler.columns.logins, LOGIN_OUTCOMES.index(login.outcome)
        failed_leg = {_FAILED: login.failed_leg, _REJECTED: login.rejection}.get(outcome)
        columns.failed[position] = self._end_row(None if failed_leg is None else failed_leg.http)
        columns.accepted[position] = self._end_row(login.accepted)
        columns.guessed[position] = login.guessed_count
        columns.outcome[position] = 2 * outcome + (login.is_over or login.is_paused)
        if login.is_over and columns.failed[position] != NONE:
            self._filler.add_mark(columns.failed[position], BAD)

    def _end_row(self, http: HttpExchange | None) -> int:
        """Returns the row of the end of an exchange, or NONE."""
        if http is None or http.end_ref is None:
            return NONE
        row = self._filler.row_of(http.end_ref.seq, NONE)
        return row if row < self._filler.columns.interpreted_count else NONE
