"""Reading: one open capture, which a thread reads and interprets step by step.

It first indexes the position of everything (`captures.index`), so that all rows can be shown after a few seconds per
million. Then the fold interprets them, as in all commands. Its results are kept in arrays of some 25 bytes per frame:
the request of a response, the response to a request, how long it took, and how it ended. The rest of a row is read
again from the file when it is shown.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from analysis.conversation.exchange import GIVEN_UP_LIMIT, OPEN_LIMIT, Exchange, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.guesses import Meant
from analysis.conversation.limited import Limited
from analysis.conversation.message import Invalid, Message, Request, Response
from analysis.conversation.session import Seen
from analysis.filter import Facts, facts_of
from analysis.summary import bad_ending
from captures.file import is_live
from captures.frame import Frame
from captures.index import Index
from captures.listing import segments
from captures.reader import Damage, FrameAssembler
from captures.record import Record
from captures.tail import STEP, Tail
from mcpproxy.report.records import Remark, remark_on
from mcpproxy.tui.data.calls import Calls
from mcpproxy.tui.data.exchanges import NONE, OPEN, OUTCOMES, Exchanges
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.http_exchanges import HttpExchanges
from mcpproxy.tui.data.paces import Paces
from mcpproxy.tui.data.row_views import Left, Without

__all__ = ["NONE", "OUTCOMES", "ROWS", "STEP_UNDERSTOOD", "Loss", "Reading"]

INTRODUCED: Final = 500
"""Rows that are understood while the index is built: they identify the two sides."""
STEP_UNDERSTOOD: Final = 64 << 10
"""Bytes that are understood per step: a few milliseconds."""
LOSSES: Final = 1000
"""Ranges of missing records that are distinguished."""
ROWS: Final = 1_250_000
"""The maximum number of rows, and of exchanges: with all columns some 75 bytes per pair. Anything after the last is
only counted."""
SPANNING: Final = 100_000
ABANDONED: Final = 100_000
PROBABLE: Final = 20_000
"""Messages that span lines, abandoned requests, and probable responses that are remembered."""
UNUSUAL_BYTES: Final = 8 << 20
"""The size of the unusual messages whose facts are kept; a filter takes the others for ordinary ones."""
BATCHED: Final = 2 * OPEN_LIMIT + GIVEN_UP_LIMIT
"""Requests in batches that wait for their responses: as many as the fold remembers."""
_CODES: Final = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_UNANSWERED: Final = _CODES[Outcome.UNANSWERED]
_FAILED: Final = _CODES[Outcome.FAILED]
_BAD: Final = frozenset({Outcome.ERROR, Outcome.TOOL_ERROR})


class Loss(NamedTuple):
    """Records that are missing."""

    first: int
    last: int
    """The range of their numbers, first to last."""
    missing: int


class Reading:
    """One capture. A single thread steps; others read its data."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            NotACapture, NewerFormat: as `Capture`.
        """
        self.index = Index(path, ROWS)
        self.findings = Findings(self.index)
        """The findings of the rules, from a separate process (`mcpproxy.tui.data.checking`)."""
        self.fold = Fold()
        self.exchanges = Exchanges()
        self.calls = Calls()
        """The kinds of requests seen."""
        self.stderr = array("I")
        """Rows of lines that the server wrote to stderr."""
        self.exchange_of = array("I")
        """By row, for all understood rows: its exchange, or NONE."""
        self.session_of = array("I")
        """By row, for all understood rows: the number of its session, from 1; 0 if it has no message."""
        self.unusual: dict[int, tuple[tuple[Facts, int], ...]] = {}
        """The facts, without raw bytes, and the exchanges of messages that are not alone in a row of their own: by the
        (first) row."""
        self.unusual_rows = array("I")
        """These rows, in the order in which they were understood."""
        self.shown = array("I")
        """The rows that get a line: all frames, and records with a remark."""
        self._in_answers, self._beside = Left(), Left()
        self.folded: Sequence[int] = Without(self.shown, self._in_answers)
        """These rows, except lines of streams that only say what the row of a response says."""
        self.frames_only: Sequence[int] = Without(self.shown, self._beside)
        """These rows, except the records beside the messages; losses, faults and the end stay."""
        self.http = HttpExchanges()
        """How HTTP exchanges were answered."""
        self.paces = Paces()
        """How long each kind of request usually takes."""
        self.end: Remark | None = None
        """How it ended."""
        self.bad = array("I")
        """Rows with errors, and frames that are not messages."""
        self._begun = array("I")
        """Over HTTP: the rows with which sessions begin, ascending."""
        self.losses: list[Loss] = []
        """Where records are missing; beyond the maximum, the last range includes all that follow."""
        self.joined: dict[int, int] = {}
        """Messages that span lines: the last row, by the first."""
        self.continued: set[int] = set()
        """The rows of these messages after the first."""
        self.has_ended = False
        """Whether everything was read and understood, and no more will follow."""
        files = segments(path)
        self._was_live = is_live(files[-1])
        self._size = 0
        for file in files:
            # A ring may delete a file at any time.
            with suppress(OSError):
                self._size += file.stat().st_size
        self._behind: Tail | None = Tail(path)
        """The reader for the fold, while the fold is behind the index."""
        self._assembler = FrameAssembler()
        self._batched: Limited[tuple[int, int], int] = Limited(BATCHED)
        self._unnoted = 0
        """Requests whose abandonment or probable response was not noted."""
        self._unusual_bytes = 0
        self._unjoined = 0
        """Messages that span lines, but are shown as separate lines."""
        self._numbers = array("I")
        """The numbers of those sessions."""
        self._has_begun = bytearray(1)
        """By the number of a session, whether it has begun."""
        self._remarked: dict[int, tuple[bool, bool]] = {}
        """New rows of records: whether each is beside the messages, and whether a response's row says the same."""
        self._status: object = None
        self._signal: object = None
        self._progress = 0.0
        self._reached = 0

    @property
    def path(self) -> Path:
        """The capture."""
        return self.index.path

    @property
    def name(self) -> str:
        """Its name in the header, or else the name of its directory. Untrusted."""
        return self.fold.name or self.path.parent.name

    @property
    def understood(self) -> int:
        """How many rows are understood."""
        return len(self.exchange_of)

    @property
    def is_live(self) -> bool:
        """Whether it is being recorded."""
        return self._was_live and not self.index.has_ended

    @property
    def is_killed(self) -> bool:
        """Whether everything was read, and no record shows a normal end of its recorder."""
        return self.has_ended and self.fold.ending is None

    @property
    def bad_end(self) -> str | None:
        """How it ended, in the words of the list of sessions, if it ended badly or was killed."""
        return bad_ending(self.fold.ending, self._status, self._signal) if self.has_ended else None

    @property
    def progress(self) -> float:
        """How much of what was there at the start is read and understood: from 0 to 1, and never less than before."""
        size, ahead, behind = self._size, self.index.tail.read_bytes, self._behind
        share = (ahead + (behind.read_bytes if behind is not None else ahead)) / max(1, 2 * size)
        self._progress = max(self._progress, min(1.0, share))
        return self._progress

    @property
    def forgotten(self) -> list[str]:
        """What is unknown because the capture is too large, as sentences."""
        sentences = []
        if self.index.left_out:
            sentences.append(
                f"{self.index.left_out:,} records after the first {ROWS:,} are not shown here; "
                "`mcpproxy show` and `mcpproxy query` have them"
            )
        if self.exchanges.left_out:
            sentences.append(f"{self.exchanges.left_out:,} requests after the first {ROWS:,} have no exchange here")
        if self._unnoted:
            sentences.append(
                f"{self._unnoted:,} requests were abandoned or probably answered, but are not marked so here"
            )
        if self._unjoined:
            sentences.append(
                f"{self._unjoined:,} messages that span lines are shown as lines: there are more than {SPANNING:,}"
            )
        return sentences + [loss.text for loss in self.fold.forgotten]

    def step(self) -> bool:
        """Do some milliseconds of work; False if there was none and the end was not just reached."""
        had_ended = self.has_ended
        return self._step() or self.has_ended != had_ended

    def _step(self) -> bool:
        if self._behind is None:
            return self._step_both()
        if self.index.grow(STEP, self._note):
            self._show_new()
            if self.understood < INTRODUCED:
                self._understand(self._behind)
            return True
        self._show_new()
        is_busy = self._understand(self._behind)
        ahead = self.index.tail
        has_caught_up = (self._behind.read_bytes, len(self._behind.segments)) == (ahead.read_bytes, len(ahead.segments))
        if has_caught_up and not (is_busy or self.has_ended):
            # From here on, index and fold share a reader, and each record is decoded once.
            self._behind.close()
            self._behind = None
        return is_busy

    def _step_both(self) -> bool:
        if self.has_ended:
            return False
        tail = self.index.tail
        segment = len(tail.segments) - 1
        items = tail.step(STEP_UNDERSTOOD)
        self.index.take(items, segment, self._note)
        self._show_new()
        self._take_all(items, has_ended=tail.has_ended)
        return bool(items) or not (tail.is_at_end or self.has_ended)

    def close(self) -> None:
        """Close the files."""
        self.index.close()
        if self._behind is not None:
            self._behind.close()
        self.has_ended = True

    # ---- what belongs together

    def exchange(self, row: int) -> int | None:
        """The number of the exchange to which a row belongs."""
        number = self.exchange_of[row] if row < len(self.exchange_of) else NONE
        return None if number == NONE else number

    def lines_of(self, row: int) -> list[int]:
        """The other rows of a message that spans lines and begins in a row."""
        lines = range(row + 1, self.joined.get(row, row) + 1)
        way = self.index.entry(row).dir
        return [line for line in lines if line in self.continued and self.index.entry(line).dir == way]

    def partner(self, row: int) -> int | None:
        """The row of the response to a request, or of the request that a response answers."""
        number = self.exchange(row)
        if number is None:
            return None
        request, response = self.exchanges.request[number], self.exchanges.response[number]
        partner = response if row == request else request
        return None if partner in (NONE, row) else partner

    def outcome(self, number: int) -> Outcome | None:
        """How an exchange ended; None while that is unknown."""
        code = self.exchanges.outcome[number]
        return None if code == OPEN else OUTCOMES[code]

    def session_at(self, row: int) -> int | None:
        """The number of the session that begins in a row; always None over stdio, where there is only one."""
        at = bisect_left(self._begun, row)
        return self._numbers[at] if at < len(self._numbers) and self._begun[at] == row else None

    def next_wrong(self, row: int, by: int) -> int | None:
        """The nearest row after another, or before it, with an error or with a finding that is a warning or error.

        Args:
            row: the row to start from; -1 to start before the first.
            by: 1 for after, -1 for before.
        """
        at = bisect_right(self.bad, row) if by > 0 else bisect_left(self.bad, row) - 1
        candidates = [self.findings.next_wrong(row, by), self.bad[at] if 0 <= at < len(self.bad) else None]
        rows = [candidate for candidate in candidates if candidate is not None]
        return (min(rows) if by > 0 else max(rows)) if rows else None

    # ---- steps

    def _note(self, row: int, item: Record | Damage) -> None:
        remark = remark_on(item, ended=self.end is not None)
        if isinstance(item, Record):
            self._note_record(row, item)
        if remark is not None and not (isinstance(item, Record) and item.rec in ("stall", "header")):
            is_beside = remark.role == "dim"
            self._remarked[row] = is_beside, is_beside and isinstance(item, Record) and self.http.is_in_answer(item)
            self.end = remark if remark.is_end else self.end

    def _note_record(self, row: int, record: Record) -> None:
        if record.rec == "stderr":
            self.stderr.append(row)
        elif record.rec in ("exchange", "stream"):
            self.http.note(record)
        elif record.rec in ("process", "close"):
            self._status = record.members.get("status", self._status)
            self._signal = record.members.get("signal", self._signal)

    def _show_new(self) -> None:
        start, count = self._reached, len(self.index)
        self._reached = count
        if not self._remarked and self.index.are_frames(start, count):
            self.shown.extend(range(start, count))
            return
        rows = [row for row in range(start, count) if self.index.is_frame(row) or row in self._remarked]
        for row, (is_beside, is_in_answer) in self._remarked.items():
            place = len(self.shown) + bisect_left(rows, row)
            if is_beside:
                self._beside.add(place)
            if is_in_answer:
                self._in_answers.add(place)
        self.shown.extend(rows)
        self._remarked.clear()

    def _understand(self, tail: Tail) -> bool:
        if self.has_ended:
            return False
        items = tail.step(STEP_UNDERSTOOD)
        self._take_all(items, has_ended=tail.has_ended)
        return bool(items) or not (tail.is_at_end or self.has_ended)

    def _take_all(self, items: Iterable[Record | Damage], *, has_ended: bool) -> None:
        for item in items:
            entry = self._assembler.feed(item)
            if entry is not None:
                self._take(entry)
        if has_ended:
            for entry in self._assembler.end():
                self._take(entry)
            self._finish()

    def _take(self, entry: Frame | Record | Damage) -> None:
        row = len(self.exchange_of)
        if row >= ROWS:
            if isinstance(entry, Record) and entry.rec == "close":
                self.fold.feed(entry)
            return
        number = NONE
        is_bad = isinstance(entry, Damage)
        session, seq = 0, -1 if isinstance(entry, Damage) else entry.seq
        for event in self.fold.feed(entry):
            session = event.session.number
            number, is_wrong = self._take_message(event, row, number, seq)
            is_bad = is_bad or is_wrong
        if isinstance(entry, Frame):
            is_bad = is_bad or entry.problem is not None
        elif isinstance(entry, Record):
            is_bad = is_bad or entry.rec == "gap"
            if entry.rec == "exchange":
                self._settle_failed(row)
        if isinstance(entry, Frame | Record) and (entry.skipped or (isinstance(entry, Record) and entry.rec == "gap")):
            self._note_loss(entry)
        if is_bad:
            self.bad.append(row)
        self.session_of.append(session)
        self.exchange_of.append(number)

    def _note_loss(self, record: Frame | Record) -> None:
        """Note which records are missing, by a gap record or by skipped numbers."""
        first, last = record.seq - record.skipped, record.seq - 1
        if isinstance(record, Record) and record.rec == "gap":
            bounds = record.members.get("first"), record.members.get("last")
            if type(bounds[0]) is not int or type(bounds[1]) is not int or not 0 <= bounds[0] <= bounds[1]:
                return
            first, last = bounds[0], bounds[1]
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
            number: the exchange of the row so far.
            seq: the number of the row's record.

        Returns:
            The exchange of the row, and whether the message is an error or broken.
        """
        message = event.message
        at = row if message.seq == seq else self._row_of(message, row)
        own, is_wrong = self._pair(event, at)
        if is_unusual(message):
            self._note_unusual(event, at, own)
        if at != row:
            self.session_of[at] = event.session.number
        if len(message.frames) > 1 and at != row:
            self._join(message, at, row)
            self.exchange_of[at] = own
        return number if own == NONE else own, is_wrong

    def _row_of(self, message: Message, row: int) -> int:
        """The row of a message that began before a row."""
        first = self.index.of_seq(message.seq)
        return row if first is None or first >= len(self.exchange_of) else first

    def _note_unusual(self, event: Seen, row: int, number: int) -> None:
        """Keep what a filter needs to know of a message that its row alone does not show."""
        size = sum(len(frame.raw) for frame in event.message.frames)
        if self._unusual_bytes + size > UNUSUAL_BYTES:
            return
        self._unusual_bytes += size + 400
        facts = replace(facts_of(event), raw=b"")
        if row not in self.unusual:
            self.unusual_rows.append(row)
        # Replaced, not extended: another thread may read it at this moment.
        self.unusual[row] = (*self.unusual.get(row, ()), (facts, number))

    def _pair(self, event: Seen, row: int) -> tuple[int, bool]:
        """Enter a message into its exchange; returns that, or NONE, and whether the message is an error or broken."""
        message, number, is_wrong = event.message, NONE, False
        if message.frames[0].exchange is not None:
            self._begin(event.session.number, row)
        if event.cancels is not None:
            self._cancel(event.cancels, row, event.cancelled)
        if isinstance(message, Request):
            if len(self.exchanges) >= ROWS:
                self.exchanges.left_out += 1
                return NONE, False
            number = self.exchanges.add(row, self.calls.number(message))
            if message.index is not None or len(message.frames) > 1:
                self._batched.keep((message.seq, message.index or 0), number)
        elif isinstance(message, Response):
            if event.exchange is None:
                if event.meant is not None:
                    self._note_meant(event.meant)
                return number, True
            number = self._answer(event.exchange, row)
            is_wrong = event.exchange.outcome in _BAD or event.is_converted
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

    def _number_of(self, request: Request) -> int:
        number = self._batched.pop((request.seq, request.index or 0), None) if self._batched else None
        if number is not None:
            return number
        row = self.index.of_seq(request.seq)
        return self.exchange_of[row] if row is not None and row < len(self.exchange_of) else NONE

    def _answer(self, exchange: Exchange, row: int) -> int:
        number = self._number_of(exchange.request)
        if number != NONE:
            self.exchanges.response[number] = row
            latency_ns = min(exchange.duration_ns or 0, (1 << 63) - 1)
            self.exchanges.latency_ns[number] = latency_ns
            self.paces.add(self.exchanges.call[number], latency_ns)
            self.exchanges.outcome[number] = _CODES[exchange.outcome]
            self.exchanges.end[number] = row
            self.exchanges.settled.append(number)
        return number

    def _cancel(self, request: Request, by: int, cancelled: Exchange | None) -> None:
        row = self.index.of_seq(request.seq)
        number = self.exchange_of[row] if row is not None and row < len(self.exchange_of) else NONE
        if number == NONE:
            return
        self.exchanges.is_cancelled[number] = True
        self._note_abandoned(number, cancelled)
        if self.exchanges.outcome[number] == OPEN:
            self.exchanges.outcome[number] = _CODES[Outcome.CANCELLED]
            self.exchanges.end[number] = by
            self.exchanges.settled.append(number)

    def _note_abandoned(self, number: int, exchange: Exchange | None) -> None:
        if exchange is not None and exchange.outcome is Outcome.CANCELLED and exchange.abandoned_ns is not None:
            if len(self.exchanges.abandoned_ns) < ABANDONED or number in self.exchanges.abandoned_ns:
                self.exchanges.abandoned_ns[number] = exchange.abandoned_ns
            else:
                self._unnoted += 1
            self._add_bad(self.exchanges.request[number])

    def _note_meant(self, meant: Meant) -> None:
        number = self._number_of(meant.request)
        if number == NONE or number in self.exchanges.probable_answers:
            return
        if len(self.exchanges.probable_answers) < PROBABLE:
            self.exchanges.probable_answers[number] = meant.answer
        else:
            self._unnoted += 1

    def _settle_failed(self, row: int) -> None:
        """Settle the requests lost with an HTTP exchange that ended at a row."""
        for exchange in self.fold.let_go:
            outcome = exchange.outcome
            number = self._number_of(exchange.request)
            if number == NONE or self.exchanges.outcome[number] != OPEN:
                continue
            self.exchanges.outcome[number] = _CODES[outcome]
            self.exchanges.is_cancelled[number] = outcome is Outcome.CANCELLED
            self._note_abandoned(number, exchange)
            self.exchanges.end[number] = row
            self.exchanges.settled.append(number)
            if outcome is not Outcome.CANCELLED:
                self._add_bad(self.exchanges.request[number])

    def _finish(self) -> None:
        unanswered = self.fold.finish()
        is_all_known = not (self.index.left_out or any(table.evicted for table in self.fold.tables.values()))
        for table in self.fold.tables.values():
            table.clear()  # no longer needed, and a filter needs as much memory for its own tables
        # The records left out may contain responses; how a forgotten request ended is unknown.
        for exchange in unanswered if not self.index.left_out else ():
            number = self._number_of(exchange.request)
            if number != NONE and self.exchanges.outcome[number] == OPEN:
                self.exchanges.outcome[number] = _CODES[exchange.outcome]
                self._add_bad(self.exchanges.request[number])
                self.exchanges.settled.append(number)
        for number, code in enumerate(self.exchanges.outcome) if is_all_known else ():
            if code == OPEN:
                # The fold has already dropped it: its HTTP exchange has failed.
                self.exchanges.outcome[number] = _FAILED
                self._add_bad(self.exchanges.request[number])
                self.exchanges.settled.append(number)
        self.has_ended = True

    def _add_bad(self, row: int) -> None:
        at = bisect_left(self.bad, row)
        if at == len(self.bad) or self.bad[at] != row:
            self.bad.insert(at, row)


def is_unusual(message: Message) -> bool:
    """Whether a message is not simply the one that its frame holds: it shares a frame, spans lines, or lacks some."""
    if message.index is not None or len(message.frames) > 1:
        return True
    verdict = message.frames[0].verdict
    if isinstance(message, Response):
        return verdict.method is not None  # a message with both `method` and `result` that was taken for a response
    return isinstance(message, Invalid) and (message.reason, verdict.kind) == ("unjudged", "invalid")
