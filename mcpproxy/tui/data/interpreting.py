"""Interpreting, in the worker: fills the columns of a capture from the steps of its reading, and says what has changed.

A call is one object that shows what has become of it, so its cells are rewritten from it whenever a step names it.
"""

from array import array
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any, Final

from analysis.conversation.call import ERRORS, Call, Outcome, Seen
from analysis.conversation.durations import Durations
from analysis.conversation.message import Invalid, Message, Notification, Request, Response
from analysis.conversation.session import Peer, Session
from analysis.reading import Reading, Step
from captures.damage import Damage
from captures.frame import Frame
from captures.gaps import lost_range
from captures.index import place_of
from captures.record import Record
from mcpproxy.tui.data.call_kinds import CallKinds
from mcpproxy.tui.data.columns import (
    AGAIN,
    AS_IT_IS,
    AS_RESPONSE,
    AT_ONCE,
    BAD,
    BEGUN,
    BESIDE,
    CALLS,
    CHANGED,
    CONTINUED,
    JOINED,
    MISFIT,
    MISFITS,
    MOST_BYTES,
    NONE,
    OF_ROWS,
    OPEN,
    OUTCOMES,
    SETTLED,
    SPANNING,
    UNJUDGED,
    UNUSUAL,
    UNUSUAL_WORDS,
    USUAL,
    Batch,
    Columns,
    Unusual,
    runs,
    word_part,
)
from mcpproxy.tui.data.conversation import PEERS, Loss

LOSSES: Final = 1000
"""Ranges of missing records that are distinguished."""
PROBABLE: Final = 20_000
"""Probable responses, of which that many are remembered."""
CANCELLATIONS: Final = 100_000
"""Cancelled calls, and messages that cancel one, of which that many are remembered."""
CARRIED: Final = 20_000
"""Calls that ended by another HTTP exchange than that of their request, of which that many are remembered."""
MOST_UNUSUAL: Final = 1_000_000
"""Unusual messages that are remembered; a filter takes the others for ordinary ones."""
LONGEST: Final = 1000
"""Characters of a name or version that are sent."""
KINDS_AT_ONCE: Final = 100
"""Kinds of requests in a message."""
LEAST: Final = 20
"""The number of responses from which a kind has a usual time."""
_GROWN: Final = 1.1
"""The usual time is computed again after this much growth."""
_LONGEST: Final = (1 << 63) - 1
_CODES: Final = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_QUIET: Final = frozenset({_CODES[Outcome.CANCELLED], _CODES[Outcome.NOT_RECORDED]})
"""Ends without a response that are no error of the request."""


class Interpreter:
    """Fills the columns of one capture, step by step."""

    def __init__(self, reading: Reading, most: int) -> None:
        """Begin with no row.

        Args:
            reading: what is asked for the state of the conversation.
            most: how many rows, and how many calls, have columns.
        """
        self._most = most
        self.columns = Columns()
        self.kinds = CallKinds()
        self._reading = reading
        self._is_cut = False
        """Whether there are more rows than are kept; they may hold responses."""
        self._left_out = 0
        """Requests above the maximum."""
        self._unnoted = 0
        """Requests whose probable response was not noted."""
        self._unjoined = 0
        """Messages that span lines, but are shown as separate lines."""
        self._losses: list[Loss] = []
        self._seqs = array("Q")
        """By row: the number of its record."""
        self._is_sorted = True
        self._has_begun = bytearray(1)
        """By the number of a session, whether it has begun."""
        self._probable: set[int] = set()
        self._guesses = 0
        self._cancelled = self._cancellations = 0
        self._carried: dict[int, tuple[int, int | None]] = {}
        self._places: dict[int, int] = {}
        """How many unusual messages each row of this batch has."""
        self._durations: dict[int, Durations] = {}
        self._next: dict[int, float] = {}
        self._peers: dict[int, tuple[Peer | None, Peer | None, str | None]] = {}
        self._read_bytes = -1
        self._told: dict[str, Any] = {}
        # What has changed since the last batch. What is new at the end of a column is told by its length.
        self._sent = dict.fromkeys((CALLS, SETTLED, BEGUN, OF_ROWS, CHANGED, USUAL), 0)
        self._calls: set[int] = set()
        self._rows: set[int] = set()
        self._usual: set[int] = set()
        self._unusual: list[int] = []
        self._joined: list[int] = []
        self._news: list[dict[str, Any]] = []

    # ---- steps

    def take(self, step: Step) -> None:
        """Process the next step of the reading; beyond the last row, nothing more is known."""
        entry, columns = step.item, self.columns
        row = len(columns.call_of)
        if step.end is not None and not self._is_cut:
            for call in step.changed:
                self._note_call(call, NONE, is_last=True)
        if entry is None:
            return
        if row >= self._most:
            self._is_cut = True
            return
        seq = (self._seqs[-1] if self._seqs else 0) if isinstance(entry, Damage) else entry.seq
        self._is_sorted = self._is_sorted and not (self._seqs and seq < self._seqs[-1])
        self._seqs.append(seq)
        columns.sessions.append(0)
        columns.marks.append(0)
        columns.call_of.append(NONE)
        for call in step.changed:
            self._note_call(call, row)
        if isinstance(entry, Damage):
            columns.marks[row] |= BAD
            return
        for event in step.messages:
            self._take_message(event, row)
        if isinstance(entry, Frame):
            if entry.problem is not None and not columns.marks[row] & BESIDE:
                columns.marks[row] |= BAD
        elif entry.rec == "gap":
            columns.marks[row] |= BAD
        if entry.skipped or (isinstance(entry, Record) and entry.rec == "gap"):
            self._note_loss(entry)

    def _note_call(self, call: Call, row: int, *, is_last: bool = False) -> None:
        """Write the cells of a call.

        Args:
            call: the call.
            row: the row that has changed it; NONE at the end of the capture.
            is_last: whether nothing can change it any more.
        """
        calls, number = self.columns.calls, call.number
        if number >= self._most:
            self._left_out = max(self._left_out, number + 1 - self._most)
            return
        if number >= len(calls):
            self._add_call(call, row)
        elif number < self._sent[CALLS]:
            self._calls.add(number)
        settled, is_known = call.settled, not call.is_forgotten and (is_last or not call.request.id.pairs)
        if call.meant_for_it is not None and call.response is None:
            self._note_meant(call)
        if settled is None and call.cancellation is None and not is_known:
            return
        code = _CODES[call.outcome if settled is None else settled]
        self._note_cancelled(call, row)
        self._note_carrier(call, row)
        abandoned_ns = call.abandoned_ns if calls.is_cancelled[number] else None
        is_news = abandoned_ns is not None and calls.abandoned_ns[number] < 0
        if abandoned_ns is not None:
            calls.abandoned_ns[number] = min(abandoned_ns, _LONGEST)
        if is_news and call.response is None:
            self._mark(calls.request[number], BAD)
        before = calls.outcome[number]
        response = call.response
        if response is not None and calls.response[number] == NONE:
            latency_ns = min(call.latency_ns or 0, _LONGEST)
            calls.response[number] = self._row_of(response.seq, row)
            calls.latency_ns[number] = latency_ns
            self._note_duration(calls.kind[number], latency_ns)
        elif before == code:
            if is_news:
                calls.settled.append(number)
            return
        calls.outcome[number] = code
        calls.end[number] = self._end_of(call, row)
        calls.settled.append(number)
        if response is None and code not in _QUIET and (settled is not None or is_known):
            self._mark(calls.request[number], BAD)

    def _end_of(self, call: Call, row: int) -> int:
        """The row with which a call ended: the first of its response, its cancellation and its failure over HTTP.

        Args:
            call: the call.
            row: the row that has changed it; NONE at the end of the capture, which is no end of a call.
        """
        failure = call.broken if call.outcome is Outcome.FAILED else None
        ends = [call.cancelled_seq, *(end.seq for end in (call.response, failure) if end is not None)]
        return min((self._row_of(seq, row) for seq in ends if seq is not None), default=row)

    def _note_cancelled(self, call: Call, row: int) -> None:
        is_cancelled, seq = self.columns.calls.is_cancelled, call.cancelled_seq
        if seq is not None and not is_cancelled[call.number] and self._cancelled < CANCELLATIONS:
            self._cancelled += 1
            self._news.append({"cancelled": [call.number, self._row_of(seq, row)]})
        is_cancelled[call.number] = seq is not None

    def _note_carrier(self, call: Call, row: int) -> None:
        """Note by which HTTP exchange a call ended, and when, if the one of its request does not say so."""
        http, carrier = call.http, call.request.frames[0].exchange
        if http is None or call.response is not None:
            return
        broken, is_failed = call.broken, call.outcome is Outcome.FAILED
        if http.number == carrier and not (is_failed and broken != http.over):
            return
        told = http.number, None if broken is None else self._row_of(broken.seq, row)
        if self._carried.get(call.number) != told and (call.number in self._carried or len(self._carried) < CARRIED):
            self._carried[call.number] = told
            self._news.append({"carried": [call.number, *told]})

    def _add_call(self, call: Call, row: int) -> None:
        calls, kind, usual_ns = self.columns.calls, self.kinds.number(call), self.columns.usual_ns
        if kind >= len(usual_ns):
            usual_ns.append(-1)
        calls.request.append(self._row_of(call.request.seq, row))
        calls.response.append(NONE)
        calls.latency_ns.append(-1)
        calls.abandoned_ns.append(-1)
        calls.kind.append(kind)
        calls.is_cancelled.append(0)
        calls.end.append(NONE)
        calls.outcome.append(OPEN)

    def _note_duration(self, kind: int, ns: int) -> None:
        durations = self._durations.get(kind)
        if durations is None:
            durations = self._durations[kind] = Durations()
        durations.add(ns)
        if durations.count >= self._next.get(kind, LEAST):
            self._next[kind] = durations.count * _GROWN
            usual_ns = durations.quantiles(0.95)[0]
            assert usual_ns is not None
            self.columns.usual_ns[kind] = usual_ns
            if kind < self._sent[USUAL]:
                self._usual.add(kind)

    def _note_meant(self, call: Call) -> None:
        answer, number = call.meant_for_it, call.number
        if answer is None or number in self._probable:
            return
        if len(self._probable) >= PROBABLE:
            self._unnoted += 1
            return
        self._probable.add(number)
        self._news.append({"probable": [number, answer.seq, answer.id]})

    def _note_guess(self, event: Seen, row: int) -> None:
        """Note for which request a response that fits none was probably meant."""
        if event.meant is not None and self._guesses < PROBABLE:
            self._guesses += 1
            self._news.append({"meant": [row, event.meant.text]})

    def _note_loss(self, record: Frame | Record) -> None:
        """Note which records are missing, by a gap record or by skipped numbers."""
        first, last = record.seq - record.skipped, record.seq - 1
        if isinstance(record, Record) and record.rec == "gap":
            span = lost_range(record)
            if span is None:
                return
            first, last = span
            # Records with later numbers may come first, and have revealed the gap already.
            self._losses = [loss for loss in self._losses if not first <= loss.first <= loss.last <= last]
        if len(self._losses) < LOSSES:
            self._losses.append(Loss(first, last, last - first + 1))
        else:
            previous = self._losses[-1]
            self._losses[-1] = Loss(previous.first, max(previous.last, last), previous.missing + last - first + 1)

    # ---- messages

    def _take_message(self, event: Seen, row: int) -> None:
        message, columns = event.message, self.columns
        at = self._row_of(message.seq, row)
        own = self._call_of(event)
        marks = 0
        if message.frames[0].exchange is not None:
            self._begin(event.session.number, at)
        if isinstance(message, Response) and not event.is_again:
            answered = event.answered
            if answered is None:
                marks = BAD  # the row that completed it is wrong
                if event.id_state in MISFITS:
                    columns.marks[at] |= MISFIT * (1 + MISFITS.index(event.id_state))
                self._note_guess(event, at)
            elif answered.outcome in ERRORS or event.is_converted:
                marks = BAD
        elif isinstance(message, Notification):
            self._note_cancellation(event, at)
        columns.marks[row] |= marks | AGAIN * event.is_again
        if event.is_beside:
            columns.marks[at] |= BESIDE
        columns.sessions[at] = columns.sessions[row] = event.session.number
        self._note_peers(event.session)
        if own != NONE:
            columns.call_of[row] = own
        if is_unusual(message):
            self._note_unusual(message, at, own)
        if at != row:
            self._change(at)
            if len(message.frames) > 1:
                self._join(message, at, row)
                columns.call_of[at] = own

    def _note_cancellation(self, event: Seen, row: int) -> None:
        """Note what a cancellation names: a call, or else an id that had one before."""
        columns = self.columns
        if event.cancels is None:
            if event.id_state in MISFITS:
                columns.marks[row] |= MISFIT * (1 + MISFITS.index(event.id_state))
            return
        # A row of several requests refers to the last of them.
        known = event.cancelled
        number = columns.call_of[self._row_of(event.cancels.seq, row)] if known is None else known.number
        if known is not None and number >= len(columns.calls):
            number = NONE
        if number != NONE and self._cancellations < CANCELLATIONS:
            self._cancellations += 1
            abandoned_ns = None if event.cancelled is None else event.cancelled.abandoned_ns
            self._news.append({"cancels": [row, number, abandoned_ns]})

    def _call_of(self, event: Seen) -> int:
        """The call to which a message belongs, or NONE."""
        message, call = event.message, event.call
        belongs = event.is_again or isinstance(message, Request) or event.answered is not None
        return call.number if belongs and call is not None and call.number < len(self.columns.calls) else NONE

    def _row_of(self, seq: int, row: int) -> int:
        """The row of a record, which is before a row or the same."""
        seqs = self._seqs
        if not seqs or seqs[-1] == seq:
            return row if row != NONE else len(seqs) - 1
        at = place_of(seqs, seq, len(seqs), is_sorted=self._is_sorted)
        return row if at is None else at

    def _note_unusual(self, message: Message, row: int, number: int) -> None:
        """Note a message that its row alone does not show, for filters."""
        place = self._places.get(row, 0)
        if len(self.columns._unusual) >= MOST_UNUSUAL:
            return
        self._places[row] = place + 1
        taken = AS_IT_IS
        if isinstance(message, Invalid) and message.reason == "unjudged":
            taken = UNJUDGED
        elif isinstance(message, Response) and "method" in message.body:
            taken = AS_RESPONSE
        self._unusual.append(self.columns.add_unusual(row, place, Unusual(number, taken)))
        self._mark(row, UNUSUAL)
        if row < len(self.columns.call_of) - 1:
            self._change(row)

    def _join(self, message: Message, first: int, last: int) -> None:
        """Note that rows from one to another are one message; the rows between may belong to others."""
        if len(self.columns._joined) >= SPANNING:
            self._unjoined += message.index in (None, 0)
            return
        for frame in message.frames[1:]:
            self._mark(self._row_of(frame.seq, last), CONTINUED)
        word = self.columns.join(first, last)
        if not self._joined or self._joined[-1] != word:
            self._joined.append(word)

    def _begin(self, session: int, row: int) -> None:
        """Note where a session begins: with its first message. A session without messages has a number, too."""
        self._has_begun.extend(bytes(max(0, session + 1 - len(self._has_begun))))
        if not self._has_begun[session]:
            self._has_begun[session] = 1
            begun = self.columns.begun
            begun.append(max(row, begun[-1] if begun else 0))
            self.columns.begun_numbers.append(session)

    def _note_peers(self, session: Session) -> None:
        peers = session.client, session.server, session.revision
        if self._peers.get(session.number, (None, None, None)) != peers:
            if len(self._peers) >= PEERS:
                self._peers.pop(next(iter(self._peers)))
            self._peers[session.number] = peers
            self._news.append({"session": session.number, "peers": [_cut(what) for what in peers]})

    # ---- what has changed

    def _mark(self, row: int, mark: int) -> None:
        self.columns.marks[row] |= mark
        if row < self._sent[OF_ROWS]:
            self._rows.add(row)

    def _change(self, row: int) -> None:
        """Note that more is known of an earlier row."""
        if row < self._sent[OF_ROWS]:
            self._rows.add(row)
            self.columns.changed_rows.append(row)

    def news(self, job: int, read_bytes: int, *, has_ended: bool) -> Iterator[dict[str, Any] | Batch]:
        """What has changed since the last time: what is told in words, and then the cells.

        Args:
            job: the number of the capture.
            read_bytes: how much of it was read.
            has_ended: whether nothing more will change.
        """
        kinds = self.kinds.all
        for first in range(self._sent[USUAL], len(kinds), KINDS_AT_ONCE):
            yield {"kinds": [[*kind] for kind in kinds[first : first + KINDS_AT_ONCE]], "first": first}
        yield from self._news
        self._news = []
        state = self._state()
        if state != self._told:
            yield {name: value for name, value in state.items() if self._told.get(name) != value}
            self._told = state
        rows, parts, size = self.columns.understood, list[bytes](), 0
        last_seq = self._seqs[-1] if self._seqs else 0
        for part in self._parts():
            if size + len(part) > MOST_BYTES:
                yield Batch(job, rows, last_seq, read_bytes, has_ended=False, parts=b"".join(parts))
                parts, size = [], 0
            parts.append(part)
            size += len(part)
        if parts or has_ended or read_bytes != self._read_bytes:
            yield Batch(job, rows, last_seq, read_bytes, has_ended, b"".join(parts))
        self._read_bytes = read_bytes

    def _parts(self) -> Iterator[bytes]:
        columns = self.columns
        yield from self._changed(USUAL, self._usual, len(columns.usual_ns))
        yield from self._changed(CALLS, self._calls, len(columns.calls))
        yield from self._changed(SETTLED, (), len(columns.calls.settled))
        yield from self._changed(BEGUN, (), len(columns.begun))
        for group, words in ((UNUSUAL_WORDS, self._unusual), (JOINED, self._joined)):
            for first in range(0, len(words), AT_ONCE):
                yield word_part(group, words[first : first + AT_ONCE])
        yield from self._changed(OF_ROWS, self._rows, len(columns.call_of))
        yield from self._changed(CHANGED, (), len(columns.changed_rows))
        for changed in (self._usual, self._calls, self._unusual, self._joined, self._rows, self._places):
            changed.clear()

    def _changed(self, group: int, earlier: Collection[int], length: int) -> Iterator[bytes]:
        """The cells of a group that have changed, and those that are new."""
        for first, last in runs(chain(sorted(earlier), range(self._sent[group], length))):
            yield self.columns.part(group, first, last)
        self._sent[group] = length

    def _state(self) -> dict[str, Any]:
        """What is known of the conversation as a whole, as JSON."""
        about = self._reading.capture._replace(t_ns=0)
        return {
            "about": [_cut(value) for value in about],
            "lost": [*self._reading.losses],
            "forgotten": [loss.text for loss in self._reading.forgotten],
            "losses": [*self._losses],
            "unknown": [self._left_out, self._unnoted, self._unjoined],
        }


def is_unusual(message: Message) -> bool:
    """Whether a message is not simply the one that its frame holds: it shares a frame, spans lines, or lacks some."""
    if message.index is not None or len(message.frames) > 1:
        return True
    verdict = message.frames[0].verdict
    if isinstance(message, Response):
        return verdict.method is not None  # a message with both `method` and `result` that was taken for a response
    return isinstance(message, Invalid) and (message.reason, verdict.kind) == ("unjudged", "invalid")


def _cut(value: object) -> object:
    """What a peer says of itself, no longer than needed."""
    if isinstance(value, tuple):
        return [_cut(text) for text in value]
    return value[:LONGEST] if isinstance(value, str) else value
