"""Row facts: the facts about a row of an open capture that a filter can test.

The worker has already interpreted the row: its call, outcome and session are in the columns of the `Reading`. So
messages are not paired again, and a filter that needs nothing else reads no frame. The facts are those of
`show --filter` and `check --filter`.
"""

# ruff: noqa: D102 - `Facts` documents each fact

from collections.abc import Container, Iterator
from typing import Final

from analysis.conversation.call import ERRORS, FAILURES, Outcome
from analysis.conversation.client_ids import NO_IDS, ClientIds
from analysis.conversation.message import Message, Notification, Request, Response, messages
from analysis.facts import is_error, kind_of, raw_of, target_name
from analysis.filter import Facts, facts_of_batch, facts_of_record
from analysis.filter.facts import Fact
from analysis.protocol.extensions import ENDLESS_METHODS
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction, Kind
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.columns import NONE, UNUSUAL
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import message_at, message_of_call, unusual_messages_in
from mcpproxy.tui.rows.row_ids import ids_at

COLUMN_KEYS: Final = frozenset(
    {"method", "name", "dir", "kind", "latency", "frame", "session", "rule", "level"}
    | {"has:answer", "has:error", "has:failure", "has:waiting", "has:finding"}
)
"""The keys of `Filter.keys` that need no frame for a request or a response that is alone in its row."""


class RowFacts(Facts):
    """The facts of a message in an interpreted row: from the columns or, if they lack a fact, from the frame."""

    def __init__(
        self,
        reading: Reading,
        row: int,
        frame: Frame | None = None,
        message: Message | None = None,
        number: int | None = None,
        marks: Container[int] = frozenset(),
        raw: bytes | None = None,
    ) -> None:
        """Prepare; no fact is computed yet.

        Args:
            reading: the capture.
            row: an interpreted row.
            frame: its frame; without it, only the facts of `COLUMN_KEYS` are known.
            message: the message, if it is not simply the one in the frame.
            number: its call, or NONE; by default, the call of the row.
            marks: the numbers of the records that are marked.
            raw: the bytes of the frame, if they are known without it.
        """
        self._reading, self._row, self._frame, self._message, self._marks = reading, row, frame, message, marks
        self._raw = raw
        self._number = reading.columns.call_of[row] if number is None else number

    @Fact
    def message(self) -> Message | None:
        if self._message is not None:
            return self._message
        frame = self._frame or self._reading.index.read_item(self._row)
        return message_at(self._reading, self._row, frame) if isinstance(frame, Frame) else None

    @property
    def parts(self) -> tuple[Frame, ...]:
        if self._message is not None:
            return self._message.frames
        return () if self._frame is None else (self._frame,)

    @property
    def is_stray_body(self) -> bool:
        return self._reading.is_stray_body(self._row)

    @property
    def is_request(self) -> bool:
        """Whether it is the request of its call."""
        is_first = self._number != NONE and self._reading.calls.request[self._number] == self._row
        return is_first and (self._message is None or isinstance(self._message, Request))

    @property
    def answered(self) -> Outcome | None:
        """The outcome of its call, if it is the response and alone in its row; otherwise None."""
        is_last = self._number != NONE and self._reading.calls.response[self._number] == self._row
        return self._reading.outcome(self._number) if is_last and self._message is None else None

    @property
    def method(self) -> str | None:
        call_kind = self._call_kind
        if call_kind is not None:
            return call_kind.method
        message = self._message_with_method()
        return None if message is None else message.method

    @property
    def name(self) -> str | None:
        call_kind = self._call_kind
        if call_kind is not None:
            return call_kind.name
        message = self._message_with_method()
        return None if message is None else target_name(message.params)

    @property
    def _call_kind(self) -> CallKind | None:
        """The kind of its call, if the texts of the kind are not cut."""
        if self._number == NONE:
            return None
        call_kind = self._reading.kinds.all[self._reading.calls.kind[self._number]]
        return call_kind if call_kind.is_whole else None

    def _message_with_method(self) -> Request | Notification | None:
        """Returns the message that contains the method: for a response, its request."""
        message = self.message
        if isinstance(message, Response):
            return _request(self._reading, self._number)
        return message if isinstance(message, Request | Notification) else None

    @property
    def dir(self) -> Direction | None:
        return self._reading.index.entry(self._row).dir

    @property
    def kind(self) -> Kind | None:
        if self.is_request:
            return "request"
        if self.answered is not None:
            return "error" if self.answered is Outcome.ERROR else "response"
        return None if self.message is None else kind_of(self.message)

    @property
    def index(self) -> int | None:
        return None if self._message is None else self._message.index

    @property
    def is_batched(self) -> bool:
        return self.index is not None

    @property
    def latency_ns(self) -> int | None:
        latency_ns = -1 if self._number == NONE else self._reading.calls.latency_ns[self._number]
        return latency_ns if latency_ns >= 0 else None

    @property
    def is_answered(self) -> bool:
        return self.latency_ns is not None

    @property
    def is_error(self) -> bool:
        if self.answered is not None:
            return self.answered in ERRORS
        if self.is_request:
            return self._number != NONE and self._reading.outcome(self._number) is Outcome.FAILED
        return self.message is not None and is_error(self.message)

    @property
    def is_failure(self) -> bool:
        return _has_failed(self._reading, self._number) if self.is_request else self.is_error

    @property
    def is_waiting(self) -> bool:
        return self.is_request and _is_waiting(self._reading, self._number)

    @property
    def rules(self) -> tuple[str, ...]:
        return self._reading.findings.rules_at(self._row)

    @property
    def level(self) -> str | None:
        level, _ = self._reading.findings.worst_level_and_count(self._row)
        return None if level is None else str(level)

    @property
    def client_ids(self) -> ClientIds:
        return NO_IDS if self._number == NONE else ids_at(self._reading, self._number)

    @property
    def session(self) -> int | None:
        return self._reading.session(self._row) or None

    @property
    def frames(self) -> tuple[int, int]:
        if self._message is not None:
            return self._message.frames[0].seq, self._message.frames[-1].seq
        seq = self._reading.index.entry(self._row).seq
        return seq, seq

    @property
    def raw(self) -> bytes:
        if self._raw is not None:
            return self._raw
        return self._frame.raw if self._message is None and self._frame is not None else raw_of(self.parts)

    @property
    def is_marked(self) -> bool:
        return self._reading.index.entry(self._row).seq in self._marks


def column_facts(reading: Reading, row: int, raw: bytes | None = None) -> RowFacts | None:
    """Returns the facts of an interpreted row without its frame, or None if the columns do not say enough about it.

    Args:
        reading: the capture.
        row: the row.
        raw: the bytes of the frame, if they are known.
    """
    number = reading.columns.call_of[row]
    if number == NONE or reading.columns.marks[row] & UNUSUAL or reading.index.kind(row) == "batch":
        return None
    if row not in (reading.calls.request[number], reading.calls.response[number]):
        return None  # a request that was repeated after a redirect
    return RowFacts(reading, row, number=number, raw=raw)


def facts_in(
    reading: Reading, row: int, entry: Frame | Record | Damage | None, marks: Container[int] = frozenset()
) -> Iterator[Facts]:
    """Yields the facts of each message in an interpreted row, of a batch as a whole, and of a record if it is marked.

    Args:
        reading: the capture.
        row: the row; for a message that spans lines, its first row.
        entry: the content of the row.
        marks: the numbers of the records that are marked.
    """
    if isinstance(entry, Record) and entry.seq in marks:
        yield _with_row_facts(facts_of_record(entry), reading, row, marks)
    if not isinstance(entry, Frame):
        return
    is_batch = entry.verdict.kind == "batch"
    if is_batch:
        yield _with_row_facts(facts_of_batch(entry), reading, row, marks)
    unusual_messages = unusual_messages_in(reading, row, entry)
    if not unusual_messages and is_batch:
        unusual_messages = [(message, NONE) for message in messages(entry)]
    if not unusual_messages:
        yield RowFacts(reading, row, entry, marks=marks)
    for message, number in unusual_messages:
        yield RowFacts(reading, row, entry, message, number, marks)


def login_facts(reading: Reading, row: int, marks: Container[int] = frozenset()) -> Facts:
    """Returns the facts of the row of a login that did not succeed, or of the leg with which it failed."""
    seq = reading.index.entry(row).seq
    return _with_row_facts(Facts(frames=(seq, seq), is_failure=True), reading, row, marks)


def _with_row_facts(facts: Facts, reading: Reading, row: int, marks: Container[int]) -> Facts:
    """Add the findings and mark of a row to facts; returns the facts."""
    row_facts = RowFacts(reading, row, marks=marks)
    return facts.add(is_marked=row_facts.is_marked, rules=row_facts.rules, level=row_facts.level)


def _request(reading: Reading, number: int) -> Request | None:
    """Returns the request of a call, read from the file again."""
    if number == NONE:
        return None
    row = reading.calls.request[number]
    item = reading.index.read_item(row)
    if not isinstance(item, Frame):
        return None
    return message_of_call(reading, row, item, number, Request)


def _has_failed(reading: Reading, number: int) -> bool:
    """Whether a request got no response although it should have, or was abandoned."""
    if reading.kinds.all[reading.calls.kind[number]].method in ENDLESS_METHODS:
        return False
    return reading.outcome(number) in FAILURES or reading.abandoned_ns(number) is not None


def _is_waiting(reading: Reading, number: int) -> bool:
    """Whether a request is still open while a recorder still writes the capture."""
    if not reading.is_live or reading.outcome(number) is not None:
        return False
    return reading.waited_ns(number) is not None and not _has_failed(reading, number)
