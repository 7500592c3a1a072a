"""Login rows: to which login a row belongs, and which rows a login has.

A login has a head, which is the row of its first record, and a row for each of its legs: that of the end of its HTTP
exchange. The records of a leg's request and response have no rows of their own if the leg has ended. A message that was
refused has one.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress
from typing import Final, NamedTuple

from analysis.conversation.login import UNSUCCESSFUL, Outcome
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.login_columns import IS_OVER, IS_SETTLED, LOGIN_OUTCOMES, OUTCOME_CODES, LoginColumns
from mcpproxy.tui.data.sorted_rows import contains, insert_row

MAX_READ_LEGS: Final = 256
"""The maximum number of legs of a login that are read for a text. A device may ask for its token every five seconds."""
_WRONG_CODES: Final = frozenset(
    OUTCOME_CODES * LOGIN_OUTCOMES.index(outcome) + bits
    for outcome in UNSUCCESSFUL
    for bits in (IS_SETTLED, IS_SETTLED | IS_OVER)
)
"""The outcome codes of logins that did not succeed, and are not under way."""
_LEG_BITS: Final = 32
_LEG_MASK: Final = (1 << _LEG_BITS) - 1


class LegRows(NamedTuple):
    """The rows of a leg."""

    start: int
    """The row of its request, or NONE if that was not recorded."""
    end: int
    """The row of its end."""


class LoginState(NamedTuple):
    """Everything about a login that can change, except the texts of its legs."""

    leg_count: int
    outcome: Outcome
    is_over: bool
    is_under_way: bool
    failed: int
    """Row of the leg with which it failed, or NONE."""
    accepted: int
    """Row of the end of the first exchange that the endpoint accepted, or NONE."""
    guessed_count: int
    """How many of its legs were assigned by a guess."""


class LoginRows:
    """The rows of the logins of one capture. One thread at a time links new legs; others read."""

    def __init__(self, columns: LoginColumns) -> None:
        self._columns = columns
        self._next_leg = array("I")
        """By leg: the next leg of the same login, or NONE."""
        self._first_leg, self._last_leg, self._leg_counts = array("I"), array("I"), array("I")
        """By login, less 1."""
        self._hidden_words = array("Q")
        """The rows of requests and responses, ascending, each with its leg."""
        self._message_words = array("Q")
        """The rows of refused messages, ascending, each with its leg."""
        self._heads = array("I")

    def __len__(self) -> int:
        """The number of logins that have a leg."""
        return len(self._leg_counts)

    @property
    def leg_count(self) -> int:
        """How many legs are linked."""
        return len(self._next_leg)

    def link_new_legs(self) -> None:
        """Link the legs that have been added to the columns."""
        columns = self._columns
        for leg in range(len(self._next_leg), len(columns.leg_login)):
            position = columns.leg_login[leg]
            while len(self._leg_counts) <= position:
                for column in (self._first_leg, self._last_leg):
                    column.append(NONE)
                self._leg_counts.append(0)
            if self._leg_counts[position]:
                self._next_leg[self._last_leg[position]] = leg
            else:
                self._first_leg[position] = leg
                insert_row(self._heads, columns.head[position])
            self._last_leg[position] = leg
            self._leg_counts[position] += 1
            for row in (columns.leg_start[leg], columns.leg_response[leg]):
                if row != NONE:
                    insert_row(self._hidden_words, row << _LEG_BITS | leg)
            if columns.leg_message[leg] != NONE:
                insert_row(self._message_words, columns.leg_message[leg] << _LEG_BITS | leg)
            self._next_leg.append(NONE)

    # ---- from rows to logins

    def leg_at(self, row: int) -> int | None:
        """The leg whose end is in a row."""
        ends = self._columns.leg_end
        leg = bisect_left(ends, row)
        return leg if leg < self.leg_count and ends[leg] == row else None

    def leg_behind(self, row: int) -> int | None:
        """The leg whose request or response is in a row."""
        return _leg_in(self._hidden_words, row)

    def leg_of_message(self, row: int) -> int | None:
        """The leg that refused the message in a row."""
        return _leg_in(self._message_words, row)

    def login_of(self, row: int) -> int | None:
        """The number of the login to which a row belongs as its head, as a leg, or as a leg's request or response."""
        leg = self.leg_at(row)
        leg = self.leg_behind(row) if leg is None else leg
        return None if leg is None else self._columns.leg_login[leg] + 1

    def login_headed_by(self, row: int) -> int | None:
        """The number of the login whose head a row is."""
        return self.login_of(row) if contains(self._heads, row) else None

    def login_shown_in(self, row: int) -> int | None:
        """The number of the login whose head or leg a row shows."""
        leg = self.leg_at(row)
        return self.login_headed_by(row) if leg is None else self.login_of_leg(leg)

    def line_of(self, row: int) -> int:
        """The row that shows a row: for the request or response of a leg, that of its end, unless it is a head."""
        leg = self.leg_behind(row)
        return row if leg is None or contains(self._heads, row) else self._columns.leg_end[leg]

    def is_passed_over(self, row: int, start: int | None) -> bool:
        """Whether a search for the next error passes a row over, because its login says more.

        A login that failed is entered at the leg that failed. A refused message is no error if its login succeeded.

        Args:
            row: the row of an error or a finding.
            start: the row from which the search goes down, or None.
        """
        number = self._login_around(row)
        if number is None:
            return False
        state = self.state(number)
        if state.outcome not in UNSUCCESSFUL:
            return self.leg_of_message(row) is not None
        is_inside = start is not None and start != self.head(number) and self._login_around(start) == number
        return state.failed != NONE and self.line_of(row) < state.failed and not is_inside

    def _login_around(self, row: int) -> int | None:
        """The number of the login to which a row belongs, also as a message that was refused."""
        leg = self.leg_of_message(row)
        return self.login_of(row) if leg is None else self.login_of_leg(leg)

    def wrong_rows(self) -> set[int]:
        """Returns the heads of all logins that did not succeed, and the rows of the legs with which they failed."""
        columns, count = self._columns, len(self)
        codes, heads, failed = columns.outcome[:count], columns.head[:count], columns.failed[:count]
        wrong_codes = bytes(map(_WRONG_CODES.__contains__, codes))
        return {*compress(heads, wrong_codes), *compress(failed, wrong_codes)} - {NONE}

    # ---- from logins to rows

    def head(self, number: int) -> int:
        """The row of a login."""
        return self._columns.head[number - 1]

    def state(self, number: int) -> LoginState:
        """What is known about a login."""
        columns, position = self._columns, number - 1
        return LoginState(
            self._leg_counts[position],
            LOGIN_OUTCOMES[columns.outcome[position] // OUTCOME_CODES],
            bool(columns.outcome[position] & IS_OVER),
            not columns.outcome[position] & IS_SETTLED,
            columns.failed[position],
            columns.accepted[position],
            columns.guessed[position],
        )

    def legs(self, number: int) -> Iterator[LegRows]:
        """Yields the rows of all legs of a login."""
        leg = self._first_leg[number - 1]
        while leg != NONE:
            yield self.leg(leg)
            leg = self._next_leg[leg]

    def read_legs(self, number: int) -> list[LegRows]:
        """Returns the rows of the legs that are read for a text: the first `MAX_READ_LEGS`, or the last one instead."""
        read_legs = []
        for leg in self.legs(number):
            read_legs.append(leg)
            if len(read_legs) == MAX_READ_LEGS:
                read_legs[-1] = self.leg(self._last_leg[number - 1])
                break
        return read_legs

    def rows_in(self, row: int) -> list[int]:
        """The rows that a row stands for, ascending.

        For a leg, these are the rows of all records of its exchange, and that of the message that it refused. For the
        head of a login, they are those of its legs.
        """
        leg, number = self.leg_at(row), self.login_headed_by(row)
        if number is not None:
            return sorted({row}.union(*(self._rows_of_leg(rows.end) for rows in self.read_legs(number))))
        return [row] if leg is None else sorted(self._rows_of_leg(row))

    def _rows_of_leg(self, end: int) -> set[int]:
        """Returns the rows of a leg, given that of its end."""
        leg, columns = self.leg_at(end), self._columns
        assert leg is not None
        return {end, columns.leg_start[leg], columns.leg_response[leg], columns.leg_message[leg]} - {NONE}

    def leg(self, leg: int) -> LegRows:
        """The rows of a leg."""
        return LegRows(self._columns.leg_start[leg], self._columns.leg_end[leg])

    def login_of_leg(self, leg: int) -> int:
        """The number of the login of a leg."""
        return self._columns.leg_login[leg] + 1

    def all_rows(self, leg_count: int) -> set[int]:
        """Returns the rows of the requests, the responses and the ends of the first legs."""
        columns = self._columns
        return {*columns.leg_start[:leg_count], *columns.leg_response[:leg_count], *columns.leg_end[:leg_count]}

    def heads_of(self, choices: bytes | bytearray) -> Iterator[int]:
        """Yields the heads of the logins that are chosen: by a byte for each login, which is not 0."""
        return compress(self._columns.head[: len(choices)], choices)

    def ends_of(self, choices: bytes | bytearray, leg_count: int) -> Iterator[int]:
        """Yields the ends of those of the first legs whose logins are chosen."""
        columns = self._columns
        return compress(columns.leg_end[:leg_count], map(choices.__getitem__, columns.leg_login[:leg_count]))

    def outcome_codes(self) -> bytes:
        """Returns a byte for each login, which is another one if the login has another outcome, or is over."""
        return bytes(self._columns.outcome[: len(self)])


def _leg_in(words: "array[int]", row: int) -> int | None:
    """Returns the leg of a row, from words of rows and legs."""
    index = bisect_left(words, row << _LEG_BITS)
    return words[index] & _LEG_MASK if index < len(words) and words[index] >> _LEG_BITS == row else None
