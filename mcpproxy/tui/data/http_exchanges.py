"""HTTP exchanges of one capture: the status, the number of events and the rows of each, in 18 bytes per exchange.

The row of an ordinary response also shows what the lines about its stream say, so those lines can be left out: an HTTP
session then reads like one over stdio.
"""

from array import array
from typing import Final, NamedTuple

from captures.frame import Frame
from captures.record import Record
from mcpproxy.wording.records import is_routine_stream

MAX_STORED_EXCHANGES: Final = 1_250_000
"""Exchanges with a higher number are not stored."""
MAX_OPEN_EXCHANGES: Final = 10_000
"""The maximum number of open GET requests that are remembered, and of open streams with a response."""
_MAX_EVENTS: Final = (1 << 32) - 1
_STAGES: Final = ("request", "response", "end")
_NO_ROW: Final = (1 << 32) - 1


class HttpAnswer(NamedTuple):
    """How an exchange was answered."""

    status: int
    events: int
    """The number of events in its stream; 0 if there was none, or it has not ended."""


class HttpExchanges:
    """The HTTP exchanges of one capture. One thread fills them while others read."""

    def __init__(self) -> None:
        self.has_any = False
        """Whether the capture has HTTP exchanges."""
        self._status, self._events = array("H"), array("I")
        self._rows = tuple(array("I") for _ in _STAGES)
        self._open_gets: dict[int, None] = {}
        """Open GET exchanges. They carry no MCP request, so their streams are not shown by the row of a response."""
        self._answered_streams: set[int] = set()
        """Open exchanges on whose streams a response has come."""

    @property
    def columns(self) -> "tuple[array[int], ...]":
        """Everything known about each exchange, by its number."""
        return self._status, *self._rows, self._events

    def answer(self, number: int | None) -> HttpAnswer | None:
        """How an exchange was answered, or None if it is not known."""
        if number is None or number >= len(self._events) or not self._status[number]:
            return None
        return HttpAnswer(self._status[number], self._events[number])

    def note_response(self, item: Frame | Record) -> None:
        """Record that a response came on the stream of an exchange.

        Args:
            item: the frame, or the record that contains it.
        """
        number = item.members.get("exchange") if isinstance(item, Record) else item.exchange
        if type(number) is int and len(self._answered_streams) < MAX_OPEN_EXCHANGES:
            self._answered_streams.add(number)

    def rows(self, number: int) -> list[int]:
        """The rows of an exchange's records: for each stage, the last one."""
        stage_rows = [rows[number] for rows in self._rows if 0 <= number < len(rows)]
        return sorted(row for row in stage_rows if row != _NO_ROW)

    def on_record(self, row: int, record: Record) -> None:
        """Store what the record in a row says about its exchange."""
        number = record.members.get("exchange")
        if type(number) is not int or number < 0:
            return
        self.has_any = True
        if record.rec == "exchange":
            self._note_exchange(row, record, number)
        elif record.rec == "stream" and record.members.get("event") == "ended" and self._make_room(number):
            events = record.members.get("events")
            self._events[number] = min(events, _MAX_EVENTS) if type(events) is int and events > 0 else 0

    def is_shown_by_response(self, record: Record) -> bool:
        """Whether the row of a response already says what this record of a stream says."""
        members = record.members
        number = members.get("exchange")
        if record.rec != "stream" or type(number) is not int or number in self._open_gets:
            return False
        return is_routine_stream(members, is_waiting=number not in self._answered_streams)

    def _note_exchange(self, row: int, record: Record, number: int) -> None:
        request, response = record.members.get("request"), record.members.get("response")
        stage = record.members.get("stage")
        if stage == "end":
            self._open_gets.pop(number, None)
            self._answered_streams.discard(number)
        elif isinstance(request, dict) and request.get("method") == "GET":
            self._open_gets[number] = None
            if len(self._open_gets) > MAX_OPEN_EXCHANGES:
                del self._open_gets[next(iter(self._open_gets))]
        if stage in _STAGES and self._make_room(number):
            self._rows[_STAGES.index(stage)][number] = row
        status = response.get("status") if isinstance(response, dict) else None
        if type(status) is int and 100 <= status <= 999 and self._make_room(number):
            self._status[number] = status

    def _make_room(self, number: int) -> bool:
        if number >= MAX_STORED_EXCHANGES:
            return False
        if number >= len(self._events):
            missing_count = number + 1 - len(self._events)
            self._status.frombytes(bytes(2 * missing_count))
            for rows in self._rows:
                rows.frombytes(b"\xff" * (4 * missing_count))
            self._events.frombytes(bytes(4 * missing_count))
        return True
