"""Understanding: what the fold has found out about the rows of a capture, in columns of some 30 bytes per row.

A row's call, its session, the response to a request, how long it took and how it ended: enough to draw, sort and
filter a million rows without pairing their messages again. One thread adds entries in the order of the rows; others may
read meanwhile, since columns only grow.
"""

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, Call, IdState, Meant, Outcome, Seen
from analysis.conversation.message import Invalid, Message, Notification, Request, Response
from analysis.facts import size_of
from analysis.reading import Reading, Step
from captures.damage import Damage
from captures.frame import Frame
from captures.gaps import lost_range
from captures.index import Index
from captures.record import Record
from mcpproxy.tui.data.call_kinds import CallKinds
from mcpproxy.tui.data.calls import NONE, OPEN, OUTCOMES, Calls, Cancellation
from mcpproxy.tui.data.paces import Paces
from mcpproxy.tui.data.sorted_rows import holds, insert

LOSSES: Final = 1000
"""Ranges of missing records that are distinguished."""
ROWS: Final = 1_250_000
"""The maximum number of rows, and of calls: with all columns some 75 bytes per pair. Anything after the last is
only counted."""
SPANNING: Final = 100_000
ABANDONED: Final = 100_000
PROBABLE: Final = 20_000
BESIDE: Final = 100_000
"""Messages that span lines, abandoned requests (and cancellations), probable responses, and bodies that need not be
messages, of which that many are remembered."""
UNUSUAL_BYTES: Final = 8 << 20
"""The size of the unusual messages that are kept; a filter takes the others for ordinary ones."""
_CODES: Final = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_UNANSWERED: Final = _CODES[Outcome.UNANSWERED]
_FAILED: Final = _CODES[Outcome.FAILED]
_MISFITS: Final = (IdState.ANSWERED, IdState.FAILED, IdState.OPEN, IdState.CANCELLED)
"""States of the ids of responses that belong to no call, although a request has that id."""


class Loss(NamedTuple):
    """Records that are missing."""

    first: int
    last: int
    """The range of their numbers, first to last."""
    missing: int


class Understanding:
    """The rows of one capture that the fold has been over."""

    def __init__(self, index: Index) -> None:
        """Begin with no row.

        Args:
            index: where the rows are.
        """
        self.index = index
        self.conversation = Reading()
        """What reads and understands the capture."""
        self.calls = Calls()
        self.kinds = CallKinds()
        """The kinds of requests seen."""
        self.call_of = array("I")
        """By row, for all understood rows: its call, or NONE."""
        self.sessions = array("I")
        """By row, for all understood rows: the number of its session, from 1; 0 if it has no message."""
        self.unusual: dict[int, tuple[tuple[Message, int], ...]] = {}
        """The messages that are not alone in a row of their own, packed, and their calls: by the (first) row."""
        self.unusual_rows = array("I")
        """These rows, in the order in which they were understood."""
        self.paces = Paces()
        """How long each kind of request usually takes."""
        self.bad = array("I")
        """Rows with errors, and frames that are not messages."""
        self.misfits = array("Q")
        """Rows of responses and cancellations that belong to no call although a request has their id, each with the
        state of that id, as one number, ascending."""
        self.losses: list[Loss] = []
        """Where records are missing; beyond the maximum, the last range includes all that follow."""
        self.joined: dict[int, int] = {}
        """Messages that span lines: the last row, by the first."""
        self.continued: set[int] = set()
        """The rows of these messages after the first."""
        self.beside: set[int] = set()
        """Rows of HTTP bodies that need not be messages, and are none."""
        self.has_ended = False
        """Whether everything was read and understood, and no more will follow."""
        self._begun = array("I")
        """Over HTTP: the rows with which sessions begin, ascending."""
        self._numbers = array("I")
        """The numbers of those sessions."""
        self._has_begun = bytearray(1)
        """By the number of a session, whether it has begun."""
        self._unnoted = 0
        """Requests whose abandonment or probable response was not noted."""
        self._unusual_bytes = 0
        self._unjoined = 0
        """Messages that span lines, but are shown as separate lines."""

    @property
    def understood(self) -> int:
        """How many rows are understood."""
        return len(self.call_of)

    @property
    def unknown(self) -> list[str]:
        """What is unknown because there was too much of it, as sentences."""
        sentences = []
        if self.calls.left_out:
            sentences.append(f"{self.calls.left_out:,} requests after the first {ROWS:,} have no exchange here")
        if self._unnoted:
            sentences.append(
                f"{self._unnoted:,} requests were abandoned or probably answered, but are not marked as such here"
            )
        if self._unjoined:
            sentences.append(
                f"{self._unjoined:,} messages that span lines are shown as lines: there are more than {SPANNING:,}"
            )
        return sentences + [loss.text for loss in self.conversation.forgotten]

    # ---- what belongs together

    def call(self, row: int) -> int | None:
        """The number of the call to which a row belongs."""
        number = self.call_of[row] if row < len(self.call_of) else NONE
        return None if number == NONE else number

    def lines_of(self, row: int) -> list[int]:
        """The other rows of a message that spans lines and begins in a row."""
        lines = range(row + 1, self.joined.get(row, row) + 1)
        way = self.index.entry(row).dir
        return [line for line in lines if line in self.continued and self.index.entry(line).dir == way]

    def partner(self, row: int) -> int | None:
        """The row of the response to a request, or of the request that a response answers."""
        number = self.call(row)
        if number is None:
            return None
        request, response = self.calls.request[number], self.calls.response[number]
        partner = response if row == request else request
        return None if partner in (NONE, row) else partner

    def misfit(self, row: int) -> IdState | None:
        """For a response or a cancellation that belongs to no call: the state of its id; None for any other row."""
        first = row * len(_MISFITS)
        return next((state for code, state in enumerate(_MISFITS, first) if holds(self.misfits, code)), None)

    def outcome(self, number: int) -> Outcome | None:
        """How a call ended; None while that is unknown."""
        code = self.calls.outcome[number]
        return None if code == OPEN else OUTCOMES[code]

    def session_at(self, row: int) -> int | None:
        """The number of the session that begins in a row; always None if there is only one, as over stdio."""
        if len(self._numbers) < 2:
            return None
        at = bisect_left(self._begun, row)
        return self._numbers[at] if at < len(self._numbers) and self._begun[at] == row else None

    def session_of(self, row: int) -> int | None:
        """The number of the session of a message; None if unknown, or if there is only one."""
        number = self.sessions[row] if row < len(self.sessions) else 0
        return number if number and len(self._numbers) > 1 else None

    # ---- entries, in order

    def take(self, step: Step) -> None:
        """Process the next step of `conversation`; beyond the last row, it only counts."""
        entry, row, number = step.item, len(self.call_of), NONE
        if entry is None or row >= ROWS:
            return
        is_bad = isinstance(entry, Damage)
        session, seq = 0, -1 if isinstance(entry, Damage) else entry.seq
        for event in step.messages:
            session = event.session.number
            number, is_wrong = self._take_message(event, row, number, seq)
            is_bad = is_bad or is_wrong
        if isinstance(entry, Frame):
            is_bad = is_bad or (entry.problem is not None and row not in self.beside)
        elif isinstance(entry, Record):
            is_bad = is_bad or entry.rec == "gap"
            for call in step.unanswered if entry.rec == "exchange" else ():
                self._settle(call, row)
        if isinstance(entry, Frame | Record) and (entry.skipped or (isinstance(entry, Record) and entry.rec == "gap")):
            self._note_loss(entry)
        if is_bad:
            self.bad.append(row)
        self.sessions.append(session)
        self.call_of.append(number)

    def _note_loss(self, record: Frame | Record) -> None:
        """Note which records are missing, by a gap record or by skipped numbers."""
        first, last = record.seq - record.skipped, record.seq - 1
        if isinstance(record, Record) and record.rec == "gap":
            span = lost_range(record)
            if span is None:
                return
            first, last = span
            # Records with later numbers may come first, and have revealed the gap already.
            self.losses = [loss for loss in self.losses if not first <= loss.first <= loss.last <= last]
        if len(self.losses) < LOSSES:
            self.losses.append(Loss(first, last, last - first + 1))
        else:
            previous = self.losses[-1]
            self.losses[-1] = Loss(previous.first, max(previous.last, last), previous.missing + last - first + 1)

    def _take_message(self, event: Seen, row: int, number: int, seq: int) -> tuple[int, bool]:
        """Process a message.

        Args:
            event: the message.
            row: the row that completed it, or that showed that it is not part of another one.
            number: the call of the row so far.
            seq: the number of the row's record.

        Returns:
            The call of the row, and whether the message is an error or broken.
        """
        message = event.message
        at = row if message.seq == seq else self._row_of(message, row)
        own, is_wrong = self._pair(event, at)
        if is_unusual(message):
            self._note_unusual(message, at, own)
        if event.is_beside and len(self.beside) < BESIDE:
            self.beside.add(at)
        if at != row:
            self.sessions[at] = event.session.number
        if len(message.frames) > 1 and at != row:
            self._join(message, at, row)
            self.call_of[at] = own
        return number if own == NONE else own, is_wrong

    def _row_of(self, message: Message, row: int) -> int:
        """The row of a message that began before a row."""
        first = self.index.of_seq(message.seq)
        return row if first is None or first >= len(self.call_of) else first

    def _note_unusual(self, message: Message, row: int, number: int) -> None:
        """Keep a message that its row alone does not show, for filters."""
        size = size_of(message.frames)
        if self._unusual_bytes + size > UNUSUAL_BYTES:
            return
        self._unusual_bytes += size + 400
        if not isinstance(message, Invalid):
            message.pack()
        if row not in self.unusual:
            self.unusual_rows.append(row)
        # Replaced, not extended: another thread may read it at this moment.
        self.unusual[row] = (*self.unusual.get(row, ()), (message, number))

    def _pair(self, event: Seen, row: int) -> tuple[int, bool]:
        """Enter a message into its call; returns that, or NONE, and whether the message is an error or broken."""
        message, number, is_wrong = event.message, NONE, False
        if message.frames[0].exchange is not None:
            self._begin(event.session.number, row)
        if event.is_again:
            return self._number_of(event.call), False
        if event.cancelled is not None:
            self._cancel(event.cancelled, row)
        if isinstance(message, Notification):
            self._note_cancellation(event, row)
        if isinstance(message, Request) and event.call is not None:
            if len(self.calls) >= ROWS:
                self.calls.left_out += 1
                return NONE, False
            number = self.calls.add(row, self.kinds.number(event.call))
            if event.call.is_over:
                self._settle(event.call)  # its id cannot be answered
        elif isinstance(message, Response):
            if event.answered is None:
                if event.meant is not None:
                    self._note_meant(event.meant)
                if event.id_state in _MISFITS:
                    insert(self.misfits, row * len(_MISFITS) + _MISFITS.index(event.id_state))
                return number, True
            number = self._answer(event.answered, row)
            is_wrong = event.answered.outcome in ERRORS or event.is_converted
        return number, is_wrong

    def _join(self, message: Message, first: int, last: int) -> None:
        """Note that rows from one to another are one message; the rows between may belong to others."""
        if len(self.joined) >= SPANNING or len(self.continued) + len(message.frames) > 10 * SPANNING:
            self._unjoined += 1
            return
        rows = (self.index.of_seq(frame.seq) for frame in message.frames[1:])
        self.continued.update(row for row in rows if row is not None)
        self.joined[first] = last

    def _begin(self, session: int, row: int) -> None:
        """Note where a session begins: with its first message. A session without messages has a number, too."""
        self._has_begun.extend(bytes(max(0, session + 1 - len(self._has_begun))))
        if not self._has_begun[session]:
            self._has_begun[session] = 1
            self._begun.append(max(row, self._begun[-1] if self._begun else 0))
            self._numbers.append(session)

    def _number_of(self, call: Call | None) -> int:
        return call.number if call is not None and call.number < len(self.calls) else NONE

    def _answer(self, call: Call, row: int) -> int:
        number = self._number_of(call)
        if number != NONE:
            self.calls.response[number] = row
            latency_ns = min(call.latency_ns or 0, (1 << 63) - 1)
            self.calls.latency_ns[number] = latency_ns
            self.paces.add(self.calls.kind[number], latency_ns)
            self.calls.outcome[number] = _CODES[call.outcome]
            self.calls.end[number] = row
            self.calls.settled.append(number)
        return number

    def _cancel(self, call: Call, by: int) -> None:
        number = self._number_of(call)
        if number == NONE:
            return
        self._note_cancelled(number, by)
        self._note_abandoned(number, call)
        if self.calls.outcome[number] == OPEN:
            self.calls.outcome[number] = _CODES[call.outcome]
            self.calls.end[number] = by
            self.calls.settled.append(number)

    def _note_cancelled(self, number: int, row: int) -> None:
        if not self.calls.is_cancelled[number] and row != NONE and len(self.calls.cancelled_at) < ABANDONED:
            self.calls.cancelled_at[number] = row
        self.calls.is_cancelled[number] = True

    def _note_abandoned(self, number: int, call: Call) -> None:
        if call.response is None and call.abandoned_ns is not None:
            if len(self.calls.abandoned_ns) < ABANDONED or number in self.calls.abandoned_ns:
                self.calls.abandoned_ns[number] = call.abandoned_ns
            else:
                self._unnoted += 1
            insert(self.bad, self.calls.request[number])

    def _note_cancellation(self, event: Seen, row: int) -> None:
        """Note what a cancellation names: a call, or else an id that had one before."""
        if event.cancels is None:
            if event.id_state in _MISFITS:
                insert(self.misfits, row * len(_MISFITS) + _MISFITS.index(event.id_state))
            return
        request = self.index.of_seq(event.cancels.seq)
        number = None if request is None else self.call(request)
        if number is not None and len(self.calls.cancellations) < ABANDONED:
            call = event.cancelled
            self.calls.cancellations[row] = Cancellation(number, None if call is None else call.abandoned_ns)

    def _note_meant(self, meant: Meant) -> None:
        number = self._number_of(meant.call)
        if number == NONE or number in self.calls.probable_answers:
            return
        if len(self.calls.probable_answers) < PROBABLE:
            self.calls.probable_answers[number] = meant.answer
        else:
            self._unnoted += 1

    def _settle(self, call: Call, row: int = NONE) -> None:
        """Settle a call without a response, at the row that ends its HTTP exchange, or at the end of the capture."""
        number = self._number_of(call)
        outcome = call.outcome
        # A call that was cancelled can still fail: its HTTP exchange is refused afterwards.
        if number == NONE or self.calls.outcome[number] == _CODES[outcome]:
            return
        self.calls.outcome[number] = _CODES[outcome]
        if call.cancelled_ns is not None:
            self._note_cancelled(number, row)
        self._note_abandoned(number, call)
        self.calls.end[number] = row
        self.calls.settled.append(number)
        if outcome not in (Outcome.CANCELLED, Outcome.NOT_RECORDED):
            insert(self.bad, self.calls.request[number])

    def finish(self) -> None:
        """Settle what is open: there are no more items."""
        for step in self.conversation.finish():
            self.take(step)
            # The records left out may contain responses; how a forgotten request ended is unknown.
            for call in step.changed if step.end is not None and not self.index.left_out else ():
                self._settle(call)
        for table in self.conversation.fold.tables.values():
            table.clear()  # no longer needed, and a filter needs as much memory for its own tables
        self.has_ended = True


def is_unusual(message: Message) -> bool:
    """Whether a message is not simply the one that its frame holds: it shares a frame, spans lines, or lacks some."""
    if message.index is not None or len(message.frames) > 1:
        return True
    verdict = message.frames[0].verdict
    if isinstance(message, Response):
        return verdict.method is not None  # a message with both `method` and `result` that was taken for a response
    return isinstance(message, Invalid) and (message.reason, verdict.kind) == ("unjudged", "invalid")
