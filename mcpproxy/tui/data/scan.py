"""Scan: the rows that a filter selects. A thread searches for them while the rows selected so far are shown.

It uses the same facts as `show --filter` and `check --filter`, from a fold of its own, so all three select the same
rows. A filter may depend on the outcome of a request. So each request is tested when it arrives, and again when its
response arrives: it may then be selected after all, or no longer.

A filter on findings waits for the process that runs the rules. Rules may report a finding late, in a row that was
tested long ago. Such a row is read and tested again.

Only messages and marked rows are tested: a filter on marks selects any row that has one.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final, TypedDict

from analysis.conversation.exchange import Exchange
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request, Response, messages
from analysis.conversation.session import Seen, Session
from analysis.filter import Facts, Filter, facts_of, facts_of_batch, facts_of_record
from captures.frame import Frame
from captures.reader import Damage, FrameAssembler
from captures.record import Record
from captures.tail import Tail
from mcpproxy.tui.data.reading import ROWS, STEP_UNDERSTOOD, Reading
from mcpproxy.tui.row_text import message_at, request_of

LATE_AT_ONCE: Final = 200
"""Rows read again per step."""


class RowFindings(TypedDict, total=False):
    """The findings in a row, as arguments for `facts_of`."""

    rules: tuple[str, ...]
    level: str | None


class Scan:
    """One filter over one capture."""

    def __init__(self, reading: Reading, only: Filter, marks: Container[int] = ()) -> None:
        """Start without a selection.

        Args:
            reading: the capture, and the positions of its rows.
            only: the filter.
            marks: the numbers of the records that are marked.
        """
        self.only = only
        self._marks = marks if "has:mark" in only.keys else None
        self.rows = array("I")
        """The selected rows, ascending."""
        self.frames = 0
        """How many frames were scanned."""
        self.has_ended = False
        """Whether everything was scanned, and no more will follow."""
        self._reading = reading
        self._tail = Tail(reading.path)
        self._assembler, self._fold = FrameAssembler(), Fold()
        self._row = 0
        self._untested: deque[Frame | Record | Damage] = deque()
        """Entries that were read and wait for the rules, or for the index."""
        self._is_read = self._is_settled = False
        self._findings = reading.findings
        self._late = 0

    @property
    def scanned(self) -> int:
        """How many rows were scanned."""
        return self._row

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the rules."""
        return bool(self._untested)

    def step(self) -> bool:
        """Do some milliseconds of work; False if there is none at present."""
        if self.has_ended:
            return False
        is_busy = False
        if not (self._untested or self._is_read):
            items = self._tail.step(STEP_UNDERSTOOD)
            self._untested.extend(entry for entry in map(self._assembler.feed, items) if entry is not None)
            self._is_read = self._tail.has_ended
            if self._is_read:
                self._untested.extend(self._assembler.end())
            is_busy = bool(items) or not self._tail.is_at_end
        while self._untested and self._can_test():
            self._take(self._untested.popleft())
            is_busy = True
        if self._is_read and not (self._untested or self._is_settled):
            # The outcomes of open requests are known only now.
            for exchange in self._fold.finish() if self._row < ROWS else ():
                self._retest(exchange.request.seq, exchange)
            self._is_settled = is_busy = True
        if self.only.needs_findings:
            is_busy = self._retest_late() or is_busy
        self.has_ended = self._is_settled and not self._may_be_late()
        return is_busy

    def close(self) -> None:
        """Close the file."""
        self._tail.close()
        self.has_ended = True

    def _take(self, entry: Frame | Record | Damage) -> None:
        row = self._row
        if row >= ROWS:
            return
        for event in self._fold.feed(entry):
            message = event.message
            at = row if len(message.frames) == 1 else self._row_of(message.seq)
            if event.exchange is not None:
                self._retest(event.exchange.request.seq, event.exchange)
            facts = facts_of(event, **self._findings_at(at))
            if self._matches(facts, message.seq):
                self._select(at)
            for frame in message.frames[1:]:
                if self._is_marked(frame.seq) and self._matches(facts, frame.seq):
                    self._select(self._row_of(frame.seq))
        if isinstance(entry, Frame) and entry.verdict.kind == "batch":
            facts = facts_of_batch(entry)
            if self._matches(
                replace(facts, **self._findings_at(row)) if self.only.needs_findings else facts, entry.seq
            ):
                self._select(row)
        elif isinstance(entry, Record) and self._is_marked(entry.seq):
            facts = replace(facts_of_record(entry), **self._findings_at(row))
            if self._matches(facts, entry.seq):
                self._select(row)
        self.frames += isinstance(entry, Frame)
        self._row += 1

    def _retest(self, seq: int, exchange: Exchange) -> None:
        """Test a request again, now that its outcome is known."""
        request = exchange.request
        if exchange.session is None or not isinstance(request, Request):
            return
        row = self._row_of(seq)
        if self._matches(facts_of(Seen(request, exchange.session), exchange, **self._findings_at(row)), seq):
            self._select(row)
        elif request.index is None:
            self._drop(row)

    # ---- findings

    def _findings_at(self, row: int) -> "RowFindings":
        if not self.only.needs_findings:
            return {}
        level, _ = self._findings.at(row)
        return {"rules": self._findings.rules_at(row), "level": None if level is None else str(level)}

    def _can_test(self) -> bool:
        """Whether everything that the filter needs for the next row is known, except late findings."""
        if self._row >= len(self._reading.index):
            # The scan reads the file by itself; the index does not have this row yet, or never will.
            return self._row >= ROWS
        return not self.only.needs_findings or self._row < self._findings.checked or not self._may_be_late()

    def _may_be_late(self) -> bool:
        """Whether rows that were tested may get more findings."""
        if not self.only.needs_findings:
            return False
        findings = self._findings
        return self._late < len(findings.late) or not (findings.has_ended or findings.trouble)

    def _retest_late(self) -> bool:
        """Test rows again that got findings after they had been tested."""
        late, start = self._findings.late, self._late
        while self._late < min(len(late), start + LATE_AT_ONCE):
            row = late[self._late]
            if row >= min(self._row, self._reading.understood):
                break
            self._late += 1
            seq = self._reading.index.entry(row).seq
            candidates = facts_at(self._reading, row, self._findings_at(row), is_marked=self._is_marked(seq))
            if any(self._matches(facts, seq) for facts in candidates):
                self._select(row)
            else:
                self._drop(row)
        return self._late > start

    def _is_marked(self, seq: int) -> bool:
        """Whether the filter is on marks, and this record is marked."""
        return self._marks is not None and seq in self._marks

    def _matches(self, facts: Facts, seq: int) -> bool:
        if self._marks is not None:
            facts = replace(facts, is_marked=seq in self._marks)
        return self.only.matches(facts)

    def _row_of(self, seq: int) -> int:
        row = self._reading.index.of_seq(seq)
        return self._row if row is None else row

    def _select(self, row: int) -> None:
        rows = self.rows
        if not rows or rows[-1] < row:
            rows.append(row)
            return
        at = bisect_left(rows, row)
        if rows[at] != row:
            rows.insert(at, row)

    def _drop(self, row: int) -> None:
        at = bisect_left(self.rows, row)
        if at < len(self.rows) and self.rows[at] == row:
            self.rows.pop(at)


def facts_at(reading: Reading, row: int, findings: RowFindings, *, is_marked: bool) -> Iterator[Facts]:
    """The facts of the messages in an understood row, or of the row itself if that is marked, read again."""
    item = reading.index.item(row)
    if isinstance(item, Record) and is_marked:
        yield replace(facts_of_record(item), **findings)
    if not isinstance(item, Frame):
        return
    is_batch = item.verdict.kind == "batch"
    if is_batch:
        yield replace(facts_of_batch(item), **findings)
    kept = reading.findings.kept_at(row)
    number, request = reading.exchange(row), request_of(reading, row)
    for message in messages(item) if is_batch else (message_at(reading, row, item),):
        session = Session(kept[0].session if kept else 0, None, {}, 0)
        facts = facts_of(Seen(message, session), **findings)
        if number is not None:
            latency_ns = reading.exchanges.latency_ns[number]
            facts = replace(facts, latency_ns=latency_ns if latency_ns >= 0 else None, is_answered=latency_ns >= 0)
        if request is not None and isinstance(message, Response):
            request_facts = facts_of(Seen(request, session))
            facts = replace(facts, method=request_facts.method, name=request_facts.name)
        yield facts
