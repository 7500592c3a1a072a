"""Row facts: what a filter can test about a row of an open capture, worked out only when the filter asks for it.

The fold has been over the row already: its exchange, outcome and session are in the columns of the `Reading`, so no
messages are paired again, and a filter that asks for nothing else needs no frame. The facts are those of
`show --filter` and `check --filter`.
"""

# ruff: noqa: D102 - each property is the fact of that name in `Facts`

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final, TypedDict

from analysis.conversation.call import ENDLESS, ERRORS, FAILURES, Outcome
from analysis.conversation.message import Id, Message, Notification, Request, Response, messages
from analysis.facts import code_of, is_error, kind_of, name_in, problem_of
from analysis.filter import Facts, facts_of_batch, facts_of_record
from captures.frame import Direction, Frame, Kind
from captures.reader import Damage
from captures.record import Record
from mcpproxy.tui.data.call_kinds import KEPT, CallKind
from mcpproxy.tui.data.exchanges import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.row_text import message_at, request_of

_set: Final = object.__setattr__


OF_COLUMNS: Final = frozenset(
    {"method", "name", "dir", "kind", "latency", "frame", "session", "rule", "level"}
    | {"has:answer", "has:error", "has:failure", "has:finding"}
)
"""The keys of `Filter.keys` that `ColumnFacts` has the facts for."""


class RowFindings(TypedDict):
    """The findings in a row, as facts."""

    rules: tuple[str, ...]
    level: str | None


def facts_in(
    reading: Reading, row: int, entry: Frame | Record | Damage | None, marks: Container[int] = frozenset()
) -> Iterator[Facts]:
    """The facts of the messages in an understood row, and of a batch as a whole; of a record only if it is marked.

    Args:
        reading: the capture.
        row: the row; of a message that spans lines, its first.
        entry: what the row stands for.
        marks: the numbers of the records that are marked.
    """
    if isinstance(entry, Record) and entry.seq in marks:
        yield replace(facts_of_record(entry), is_marked=True, **_findings_at(reading, row))
    if not isinstance(entry, Frame):
        return
    unusual = reading.unusual.get(row)
    if entry.verdict.kind == "batch":
        yield replace(facts_of_batch(entry), is_marked=entry.seq in marks, **_findings_at(reading, row))
    if unusual is None:
        for message in messages(entry) if entry.verdict.kind == "batch" else (None,):
            yield RowFacts(reading, row, entry, marks, message)
        return
    raw = entry.raw if row not in reading.joined else _joined_raw(reading, row, entry)
    for facts, number in unusual:
        latency_ns = -1 if number == NONE else reading.exchanges.latency_ns[number]
        yield replace(
            facts,
            raw=raw,
            latency_ns=latency_ns if latency_ns >= 0 else None,
            is_answered=latency_ns >= 0,
            is_failure=facts.is_error or (facts.kind == "request" and _has_failed(reading, number)),
            is_waiting=facts.kind == "request" and _waits(reading, number),
            is_marked=entry.seq in marks,
            **_findings_at(reading, row),
        )


def _joined_raw(reading: Reading, row: int, first: Frame) -> bytes:
    items = [reading.index.item(item) for item in range(row, reading.joined[row] + 1)]
    return b"\n".join(item.raw for item in items if isinstance(item, Frame) and item.dir == first.dir)


def _has_failed(reading: Reading, number: int) -> bool:
    """Whether a request got no response although it should have, or was abandoned."""
    if number == NONE or reading.kinds.all[reading.exchanges.kind[number]].method in ENDLESS:
        return False
    return reading.outcome(number) in FAILURES or number in reading.exchanges.abandoned_ns


def _waits(reading: Reading, number: int) -> bool:
    """Whether a request is still open, and a recorder still writes the capture."""
    return (
        number != NONE
        and reading.is_live
        and reading.waited_ns(number) is not None
        and not _has_failed(reading, number)
    )


def _findings_at(reading: Reading, row: int) -> RowFindings:
    level, _ = reading.findings.at(row)
    return {"rules": reading.findings.rules_at(row), "level": None if level is None else str(level)}


def column_facts(reading: Reading, row: int) -> "ColumnFacts | None":
    """The facts of an understood row, without its frame; None if the columns do not say enough about it."""
    number = reading.exchange_of[row]
    if number == NONE or row in reading.unusual or row in reading.joined or reading.index.sort(row) == "batch":
        return None
    call = _whole_call(reading, number)
    return None if call is None else ColumnFacts(reading, row, call)


def _whole_call(reading: Reading, number: int) -> CallKind | None:
    """The kind of an exchange's request, if its texts are whole."""
    call = reading.kinds.all[reading.exchanges.kind[number]]
    is_whole = not call.is_rest and len(call.method) < KEPT and len(call.name or "") < KEPT
    return call if is_whole else None


class _OfRow(Facts):
    """What the columns say about any message that is alone in its row."""

    __slots__ = ("_reading", "_row")
    _reading: Reading
    _row: int

    def __init__(self, reading: Reading, row: int) -> None:
        # Facts are frozen.
        _set(self, "_reading", reading)
        _set(self, "_row", row)

    @property
    def _number(self) -> int:
        """The exchange of the row, or NONE."""
        return self._reading.exchange_of[self._row]

    @property
    def _latency_ns(self) -> int:
        number = self._number
        return -1 if number == NONE else self._reading.exchanges.latency_ns[number]

    @property
    def latency_ns(self) -> int | None:
        latency_ns = self._latency_ns
        return latency_ns if latency_ns >= 0 else None

    @property
    def is_answered(self) -> bool:
        return self._latency_ns >= 0

    @property
    def rules(self) -> tuple[str, ...]:
        return self._reading.findings.rules_at(self._row)

    @property
    def level(self) -> str | None:
        return _findings_at(self._reading, self._row)["level"]

    @property
    def session(self) -> int | None:
        return self._reading.sessions[self._row] or None


class ColumnFacts(_OfRow):
    """What the columns say about one half of an exchange that is alone in its row: the facts of `OF_COLUMNS`."""

    __slots__ = ("_call",)
    _call: CallKind

    def __init__(self, reading: Reading, row: int, call: CallKind) -> None:
        """Work nothing out yet.

        Args:
            reading: the capture.
            row: an understood row.
            call: the kind of the request.
        """
        super().__init__(reading, row)
        _set(self, "_call", call)

    @property
    def _is_request(self) -> bool:
        return self._reading.exchanges.request[self._number] == self._row

    @property
    def method(self) -> str | None:
        return self._call.method

    @property
    def name(self) -> str | None:
        return self._call.name

    @property
    def dir(self) -> Direction | None:
        return self._reading.index.entry(self._row).dir

    @property
    def kind(self) -> Kind:
        if self._is_request:
            return "request"
        return "error" if self._reading.outcome(self._number) is Outcome.ERROR else "response"

    @property
    def is_batched(self) -> bool:
        return False

    @property
    def is_error(self) -> bool:
        return not self._is_request and self._reading.outcome(self._number) in ERRORS

    @property
    def is_failure(self) -> bool:
        return _has_failed(self._reading, self._number) if self._is_request else self.is_error

    @property
    def is_waiting(self) -> bool:
        return self._is_request and _waits(self._reading, self._number)

    @property
    def index(self) -> None:
        return None

    @property
    def frames(self) -> tuple[int, int]:
        seq = self._reading.index.entry(self._row).seq
        return seq, seq


class RowFacts(_OfRow):
    """The facts of a message that is alone in its row, or of a message in a batch, each worked out on demand.

    A filter asks for one or two of them, and working out all of them takes longer than reading the frame.
    """

    __slots__ = ("_frame", "_marks", "_message")
    _frame: Frame
    _marks: Container[int]
    _message: Message | None

    def __init__(
        self, reading: Reading, row: int, frame: Frame, marks: Container[int], message: Message | None = None
    ) -> None:
        """Work nothing out yet.

        Args:
            reading: the capture.
            row: an understood row.
            frame: its frame.
            marks: the numbers of the records that are marked.
            message: the message, if it is one of several in the frame.
        """
        super().__init__(reading, row)
        _set(self, "_frame", frame)
        _set(self, "_marks", marks)
        _set(self, "_message", message)

    def _parsed(self) -> Message:
        message = self._message
        if message is None:
            message = message_at(self._reading, self._row, self._frame)
            _set(self, "_message", message)
        return message

    def _call(self) -> CallKind | None:
        """The kind of the request in the row, or of the request that is answered in it, if its texts are whole."""
        number = self._number
        if number == NONE or (self._message is not None and self._message.index is not None):
            return None
        return _whole_call(self._reading, number)

    def _named(self) -> Request | Notification | None:
        """The message with the method: for a response, its request."""
        message = self._parsed()
        if isinstance(message, Response):
            return request_of(self._reading, self._row)
        return message if isinstance(message, Request | Notification) else None

    @property
    def method(self) -> str | None:
        call = self._call()
        if call is not None:
            return call.method
        named = self._named()
        return None if named is None else named.method

    @property
    def name(self) -> str | None:
        call = self._call()
        if call is not None:
            return call.name
        named = self._named()
        return None if named is None else name_in(named.params)

    @property
    def id(self) -> Id | None:
        message = self._parsed()
        return message.id if isinstance(message, Request | Response) else None

    @property
    def dir(self) -> Direction:
        return self._frame.dir

    @property
    def kind(self) -> Kind:
        return kind_of(self._parsed())

    @property
    def is_batched(self) -> bool:
        return self._parsed().index is not None

    @property
    def size(self) -> int:
        return len(self._frame.raw)

    @property
    def code(self) -> int | None:
        return code_of(self._parsed())

    @property
    def is_error(self) -> bool:
        return is_error(self._parsed())

    @property
    def is_failure(self) -> bool:
        number = self._number
        if number == NONE or self._reading.exchanges.request[number] != self._row:
            return self.is_error
        return isinstance(self._parsed(), Request) and _has_failed(self._reading, number)

    @property
    def is_waiting(self) -> bool:
        number = self._number
        is_asked = number != NONE and self._reading.exchanges.request[number] == self._row
        return is_asked and isinstance(self._parsed(), Request) and _waits(self._reading, number)

    @property
    def index(self) -> int | None:
        return self._parsed().index

    @property
    def problem(self) -> str | None:
        return None if self._row in self._reading.beside else problem_of(self._parsed())

    @property
    def exchange(self) -> int | None:
        return self._frame.exchange

    @property
    def frames(self) -> tuple[int, int]:
        return self._frame.seq, self._frame.seq

    @property
    def is_marked(self) -> bool:
        return self._frame.seq in self._marks

    @property
    def raw(self) -> bytes:
        return self._frame.raw
