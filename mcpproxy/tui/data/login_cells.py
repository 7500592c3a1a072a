"""Login cells: the worker writes the columns of logins and their legs."""

from array import array
from collections.abc import Iterable
from typing import Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.login import Login
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import BAD, NONE
from mcpproxy.tui.data.login_columns import IS_OVER, IS_SETTLED, LOGIN_OUTCOMES, OUTCOME_CODES

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
        for position in [position for position, outcome in enumerate(outcomes) if not outcome & IS_OVER]:
            outcomes[position] |= IS_OVER | IS_SETTLED
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
        columns, http = self._filler.columns.logins, login.last.http
        start = row if http.started_ref is None else self._filler.row_of(http.started_ref.seq, row)
        response = row if http.answered_ref is None else self._filler.row_of(http.answered_ref.seq, row)
        messages = http.client_messages[:1]
        message = self._filler.row_of(messages[0].message.frames[0].seq, row) if messages else row
        if not self._leg_counts[position]:
            columns.head[position] = start
        self._leg_counts[position] = login.count
        columns.leg_start.append(NONE if start == row else start)
        columns.leg_end.append(row)
        columns.leg_response.append(NONE if response in (start, row) else response)
        columns.leg_message.append(NONE if message == row else message)
        columns.leg_login.append(position)

    def _write_state(self, login: Login, position: int) -> None:
        columns, outcome = self._filler.columns.logins, LOGIN_OUTCOMES.index(login.outcome)
        failed_leg = {_FAILED: login.failed_leg, _REJECTED: login.rejection}.get(outcome)
        previous_row, failed_row = columns.failed[position], self._end_row(failed_leg and failed_leg.http)
        columns.failed[position] = failed_row
        columns.accepted[position] = self._end_row(login.accepted)
        columns.guessed[position] = login.guessed_count
        is_settled = not login.is_under_way
        columns.outcome[position] = (
            OUTCOME_CODES * outcome + IS_SETTLED * is_settled + IS_OVER * (login.is_over or login.is_paused)
        )
        if previous_row not in (failed_row, NONE):
            self._filler.remove_mark(previous_row, BAD)
        if is_settled and failed_row != NONE:
            self._filler.add_mark(failed_row, BAD)

    def _end_row(self, http: HttpExchange | None) -> int:
        """Returns the row of the end of an exchange, or NONE."""
        if http is None or http.end_ref is None:
            return NONE
        row = self._filler.row_of(http.end_ref.seq, NONE)
        return row if row < self._filler.columns.interpreted_count else NONE
