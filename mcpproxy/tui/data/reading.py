"""Reading: one open capture, which a thread reads and interprets step by step.

It first indexes the position of everything (`captures.index`), so that all rows can be shown after a few seconds per
million. Then the fold interprets them, as in all commands, and its results are kept in columns (`Understanding`). The
rest of a row is read again from the file when it is shown.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from analysis import clock
from analysis.conversation.call import Outcome
from analysis.summary import bad_ending
from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.frames import assembled
from captures.index import Index
from captures.listing import segments
from captures.record import Record
from captures.tail import STEP, Tail
from mcpproxy.tui.data.calls import NONE
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.http_exchanges import HttpExchanges
from mcpproxy.tui.data.row_views import Left, Without
from mcpproxy.tui.data.understanding import ROWS, Understanding
from mcpproxy.wording.records import Remark, remark_on

INTRODUCED: Final = 500
"""Rows that are understood while the index is built: they identify the two sides."""
STEP_UNDERSTOOD: Final = 16 << 10
"""Bytes that are understood per step: a few milliseconds."""


class Reading(Understanding):
    """One capture. A single thread steps; others read its data."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            NotACapture, NewerFormat: as `Capture`.
        """
        super().__init__(Index(path, ROWS))
        self.findings = Findings(self.index)
        """The findings of the rules, from a separate process (`mcpproxy.tui.data.checking`)."""
        self.stderr = array("I")
        """Rows of lines that the server wrote to stderr."""
        self.shown = array("I")
        """The rows that get a line: all frames, and records with a remark."""
        self._in_answers, self._beside = Left(), Left()
        self.folded: Sequence[int] = Without(self.shown, self._in_answers)
        """These rows, except lines and events of streams that only say what the row of a response says."""
        self.frames_only: Sequence[int] = Without(self.shown, self._beside)
        """These rows, except the records beside the messages; losses, faults and the end stay."""
        self.http = HttpExchanges()
        """How HTTP exchanges were answered."""
        self.end: Remark | None = None
        """How it ended."""
        files = segments(path)
        self._was_live = is_live(files[-1])
        self._size = 0
        for file in files:
            # A ring may delete a file at any time.
            with suppress(OSError):
                self._size += file.stat().st_size
        self._behind: Tail | None = Tail(path)
        """The reader for the fold, while the fold is behind the index."""
        self._remarked: dict[int, tuple[bool, bool]] = {}
        """New rows of records and events without data: whether each is beside the messages, and whether a response's
        row says the same."""
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
        return self.conversation.capture.name or self.path.parent.name

    @property
    def is_live(self) -> bool:
        """Whether it is being recorded."""
        return self._was_live and not self.index.has_ended

    @property
    def is_killed(self) -> bool:
        """Whether everything was read, and no record shows a normal end of its recorder."""
        return self.has_ended and self.conversation.capture.ending is None

    @property
    def bad_end(self) -> str | None:
        """How it ended, in the words of the list of sessions, if it ended badly or was killed."""
        return bad_ending(self.conversation.capture.ending, self._status, self._signal) if self.has_ended else None

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
                "use `mcpproxy show` or `mcpproxy query`"
            )
        return sentences + self.unknown

    def step(self) -> bool:
        """Do some milliseconds of work; False if there was none and the end was not just reached."""
        had_ended = self.has_ended
        return self._step() or self.has_ended != had_ended

    def _step(self) -> bool:
        if self._behind is None:
            return self._step_both()
        if self.index.grow(STEP, self._note):
            self.findings.settle()
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
        self.findings.settle()
        self._show_new()
        self._take_all(items, has_ended=tail.has_ended)
        return bool(items) or not (tail.is_at_end or self.has_ended)

    def close(self) -> None:
        """Close the files."""
        self.index.close()
        if self._behind is not None:
            self._behind.close()
        self.has_ended = True

    def waited_ns(self, number: int) -> int | None:
        """How long a request without a response has waited: until it was abandoned, up to the end, or up to now.

        None if there is a response, or if it does not wait or that is unknown.
        """
        calls, wall_ns = self.calls, self.conversation.capture.wall_ns
        if calls.response[number] != NONE:
            return None
        if number in calls.abandoned_ns:
            return calls.abandoned_ns[number]
        outcome, sent_ns = self.outcome(number), self.index.t_ns(calls.request[number])
        if outcome is None and self.is_live and wall_ns is not None:
            return max(0, clock.since_ns(wall_ns) - sent_ns)
        if outcome is Outcome.UNANSWERED and self.has_ended:
            return max(0, self.index.last_ns - sent_ns)
        return None

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

    def _note(self, row: int, item: Frame | Record | Damage) -> None:
        if self.index.is_frame(row):
            _, frame = next(assembled([item]))
            if isinstance(frame, Frame) and frame.is_priming:
                # The row of the response counts it among the events of its stream.
                self._remarked[row] = True, True
            return
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

    def _take_all(self, items: Iterable[Frame | Record | Damage], *, has_ended: bool) -> None:
        for item in items:
            # Beyond the last row, only the end of the recording is of interest.
            if len(self.call_of) < ROWS or (isinstance(item, Record) and item.rec == "close"):
                self.take(self.conversation.take(item))
        if has_ended:
            self.finish()
