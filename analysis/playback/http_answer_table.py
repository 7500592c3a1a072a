"""HttpAnswerTable: how the HTTP exchanges of a script were answered, packed, as a capture may have very many."""

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from analysis.playback.items import HttpAnswer

_ROW: Final = Struct("<qIiIQQ")
"""Exchange, session, first call or -1, terms, start, end."""
_NO_END: Final = (1 << 64) - 1
_MAX_GAP: Final = 1_000
"""Numbers of exchanges have positions in an array up to four times as many as there are exchanges, and this many."""


class _Terms(NamedTuple):
    """What many answers have in common."""

    method: str
    status: int
    fields: tuple[tuple[str, str], ...]
    ended_by: str
    is_legacy: bool
    retry_ms: int | None
    assigns_session_id: bool


class HttpAnswerTable:
    """The answers by number of the exchange, in the order in which they first came; without their texts."""

    def __init__(self) -> None:
        """Create a table without answers."""
        self._rows = bytearray()
        self._terms: list[_Terms] = []
        self._term_numbers: dict[_Terms, int] = {}
        self._several_calls: dict[int, tuple[int, ...]] = {}
        """By number of the exchange."""
        # The position of the row of each exchange plus one; for numbers that are far too high, in a dictionary.
        self._positions = array("I")
        self._far_positions: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __contains__(self, exchange: int) -> bool:
        return self._position(exchange) >= 0

    def put(self, answer: HttpAnswer) -> None:
        """Add an answer, or replace that of the same exchange."""
        exchange, calls = answer.exchange, answer.calls
        terms = _Terms(
            answer.method,
            answer.status,
            answer.fields,
            answer.ended_by,
            answer.is_legacy,
            answer.retry_ms,
            answer.assigns_session_id,
        )
        number = self._term_numbers.get(terms)
        if number is None:
            self._terms.append(terms)
            number = self._term_numbers[terms] = len(self._terms) - 1
        if len(calls) > 1:
            self._several_calls[exchange] = calls
        ended_ns = _NO_END if answer.ended_ns < 0 else answer.ended_ns
        row = _ROW.pack(exchange, answer.session, calls[0] if calls else -1, number, answer.started_ns, ended_ns)
        position = self._position(exchange)
        if position >= 0:
            self._rows[position * _ROW.size : (position + 1) * _ROW.size] = row
            return
        position = len(self)
        self._rows += row
        if 0 <= exchange < 4 * position + _MAX_GAP:
            self._positions.extend([0] * (exchange + 1 - len(self._positions)))
            self._positions[exchange] = position + 1
        else:
            self._far_positions[exchange] = position

    def get(self, exchange: int) -> HttpAnswer | None:
        """Returns the answer of an exchange, or None if there is none."""
        position = self._position(exchange)
        return None if position < 0 else self._answer(position)

    def ordered(self, first: int, last: int) -> Iterator[HttpAnswer]:
        """Yields the answers from one position up to but excluding another one."""
        return map(self._answer, range(first, min(last, len(self))))

    def _position(self, exchange: int) -> int:
        if 0 <= exchange < len(self._positions) and self._positions[exchange]:
            return self._positions[exchange] - 1
        return self._far_positions.get(exchange, -1)

    def _answer(self, position: int) -> HttpAnswer:
        exchange, session, call, number, started_ns, ended_ns = _ROW.unpack_from(self._rows, position * _ROW.size)
        terms = self._terms[number]
        return HttpAnswer(
            exchange,
            session,
            terms.method,
            self._several_calls.get(exchange) or (() if call < 0 else (call,)),
            terms.status,
            terms.fields,
            "",
            terms.ended_by,
            started_ns,
            -1 if ended_ns == _NO_END else ended_ns,
            terms.is_legacy,
            terms.retry_ms,
            terms.assigns_session_id,
        )
