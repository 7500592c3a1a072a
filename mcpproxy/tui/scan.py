"""Scan: the rows that a filter selects, found by a thread of its own while those found so far are shown.

It asks the same facts as `show --filter` and `check --filter`, from a fold of its own, so the three select alike. A
request can be asked what became of it, too. So it is asked when it comes, and once more when its answer does: then it
may be selected after all, or no longer.
"""

from array import array
from bisect import bisect_left

from analysis.exchange import Exchange
from analysis.filter import Filter, facts_of, facts_of_batch
from analysis.fold import Fold
from analysis.message import Request
from analysis.session import Seen
from captures.frame import Frame
from captures.reader import Damage, FrameAssembler
from captures.record import Record
from captures.tail import Tail
from mcpproxy.tui.reading import STEP_UNDERSTOOD, Reading


class Scan:
    """One filter over one capture."""

    def __init__(self, reading: Reading, only: Filter) -> None:
        """Nothing is selected yet.

        Args:
            reading: the capture, and where its rows are.
            only: the filter.
        """
        self.only = only
        self.rows = array("I")
        """What it has selected, rising."""
        self.has_ended = False
        """Whether all was looked at, and no more will come."""
        self._reading = reading
        self._tail = Tail(reading.path)
        self._assembler, self._fold = FrameAssembler(), Fold()
        self._row = 0

    @property
    def scanned(self) -> int:
        """How many rows were looked at."""
        return self._row

    def step(self) -> bool:
        """Some milliseconds of work; False where there is none at present."""
        if self.has_ended:
            return False
        items = self._tail.step(STEP_UNDERSTOOD)
        for item in items:
            found = self._assembler.feed(item)
            if found is not None:
                self._take(found)
        if self._tail.has_ended:
            for found in self._assembler.end():
                self._take(found)
            for exchange in self._fold.finish():
                self._ask(exchange.request.seq, exchange)
            self.has_ended = True
            return False
        return bool(items) or not self._tail.is_at_end

    def close(self) -> None:
        """Close the file."""
        self._tail.close()
        self.has_ended = True

    def _take(self, found: Frame | Record | Damage) -> None:
        row = self._row
        for seen in self._fold.feed(found):
            message = seen.message
            at = row if len(message.frames) == 1 else self._row_of(message.seq)
            if seen.exchange is not None:
                self._ask(seen.exchange.request.seq, seen.exchange)
            if self.only.matches(facts_of(seen)):
                self._select(at)
        if isinstance(found, Frame) and found.verdict.kind == "batch" and self.only.matches(facts_of_batch(found)):
            self._select(row)
        self._row += 1

    def _ask(self, seq: int, exchange: Exchange) -> None:
        """Ask a request once more, now that it is known what became of it."""
        request = exchange.request
        if exchange.session is None or not isinstance(request, Request):
            return
        if self.only.matches(facts_of(Seen(request, exchange.session), exchange)):
            self._select(self._row_of(seq))
        elif request.index is None:
            self._drop(self._row_of(seq))

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
