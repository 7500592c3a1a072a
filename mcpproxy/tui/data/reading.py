"""Reading: one open capture: the positions of its rows, and what the worker reports about them.

A thread indexes the position of everything (`captures.index`), so that all rows can be shown after a few seconds per
million. The worker reads the capture as well, interprets it as all commands do (`analysis.reading`), and sends the
results, which are kept in columns here (`Columns`). The rest of a row is read from the file again when the row is
shown, so this process keeps no messages. The positions in a large closed capture are cached (`output_caches.py`).
"""

import re
import threading
import zlib
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from analysis import clock
from analysis.child_process import as_json, from_json
from analysis.conversation.call import ERRORS, IdState, Outcome
from analysis.summary import bad_ending
from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.frames import assemble
from captures.index import Index
from captures.listing import segments, total_size
from captures.record import Record
from captures.tail import STEP
from mcpproxy.tui.data.call_kinds import CallKind, CallKinds
from mcpproxy.tui.data.columns import (
    BAD,
    CONTINUED,
    MAX_ROWS,
    MAX_SPANNING_MESSAGES,
    MISFIT,
    MISFIT_MASK,
    MISFITS,
    NONE,
    OPEN,
    OTHER_BODY,
    OUTCOMES,
    REDIRECTED,
    Batch,
    Columns,
)
from mcpproxy.tui.data.conversation import Conversation
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.http_exchanges import HttpExchanges
from mcpproxy.tui.data.login_rows import LoginRows
from mcpproxy.tui.data.loose_rows import LooseRows
from mcpproxy.tui.data.output_caches import cache_of, is_cached, save_pieces
from mcpproxy.tui.data.row_views import ExcludedRows, FilteredRows
from mcpproxy.tui.data.server_process import RecordedProcess, recorded_process
from mcpproxy.tui.data.waiting_calls import WaitingCalls
from mcpproxy.wording.records import Remark, remark_on

WORKER_WAIT_S: Final = 0.05
"""How long the thread waits for the worker before it searches for more rows."""
MAX_WAITING_BATCH_BYTES: Final = 256 << 20
"""The maximum size, in bytes, of the batches that wait for their rows; the worker never gets that far ahead."""
BATCH_OVERHEAD_BYTES: Final = 300
"""How many bytes of memory a batch uses in addition to its parts."""
MAX_ACCEPTED_KINDS: Final = 10_000
"""The maximum number of kinds of requests that are accepted; the worker distinguishes half as many."""
_BAD_MARK: Final = re.compile(rb"[\x80-\xff]")
_GOOD_MARKS: Final = bytes(range(BAD))


class Reading:
    """One open capture. One thread calls `step`, another receives the worker's output; others read the data."""

    def __init__(self, path: Path) -> None:
        """Open the capture.

        Raises:
            NotACapture, NewerFormat: as for `Capture`.
        """
        self.max_rows = MAX_ROWS
        """The maximum number of its rows, and of its calls."""
        # The rows read now must not be cached for a file that replaces this one, so the key is computed first.
        self._row_cache = cache_of(path, "rows", self.max_rows) if path.is_file() and is_cached(path) else None
        """The cache for the rows; None if they are cached already, or must not be cached."""
        self.index = Index(path, self.max_rows)
        self.findings = Findings(self.index)
        """The findings of the rules, from the worker."""
        self.columns = Columns()
        self.calls = self.columns.calls
        self.logins = LoginRows(self.columns.logins)
        """The rows of its logins."""
        self.kinds = CallKinds()
        """The kinds of requests so far."""
        self.waiting = WaitingCalls(self.calls, self.kinds)
        """The calls that wait, in a live capture."""
        self.server_process: RecordedProcess | None = None
        """The server's process, as far as the capture names it and it has not ended."""
        self.output_end_row: int | None = None
        """The row of the record that says that the server has closed its output, on stdio."""
        self.loose_rows = LooseRows()
        """The messages of rows without a call, as far as filters have read them."""
        self.stderr_rows = array("I")
        """Rows of lines that the server wrote to stderr."""
        self.shown_rows = array("I")
        """The rows that get a line: all frames, and records with a remark."""
        self._redundant_rows, self._other_rows = ExcludedRows(), ExcludedRows()
        self.folded_rows = FilteredRows(self.shown_rows, self._redundant_rows)
        """These rows, except lines and events of streams that only repeat what the row of a response says."""
        self.message_rows: Sequence[int] = FilteredRows(self.shown_rows, self._other_rows)
        """These rows, except records that are not messages; losses, faults and the end stay."""
        self.http = HttpExchanges()
        """How HTTP exchanges were answered."""
        self.conversation = Conversation(self.index, self.http)
        """What is known about the capture as a whole."""
        self.end: Remark | None = None
        """How the capture ended; None if no record says so."""
        files = segments(path)
        self._was_live = is_live(files[-1])
        self._has_begun = False
        self._size = total_size(files)
        self._new_remarks: dict[int, tuple[bool, bool]] = {}
        """New rows of records and events without data: whether each is left out of `message_rows`, and whether a
        response's row says the same.
        """
        self._status: object = None
        self._signal: object = None
        self._progress = 0.0
        self._shown_count = 0
        self._write_lock = threading.Lock()
        """Held while batches are written to the columns, by the thread that finds that their rows exist."""
        self._waiting_batches: deque[Batch] = deque()
        """Batches whose rows do not exist yet."""
        self._waiting_bytes = 0
        self._analysed_bytes = 0
        self._is_analysed = False
        self._is_refused = False
        """Whether the worker has sent cells that are invalid, or belong to another file."""
        self._is_closed = False
        self._has_news = threading.Event()
        """Set when the worker has reported something that no step has returned yet."""
        self._report_count = self._returned_report_count = 0
        """How often the worker has reported something, and how many of these reports a step has returned."""
        self._had_ended = False

    @property
    def path(self) -> Path:
        """The path of the capture."""
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
    def interpreted_count(self) -> int:
        """How many rows the worker has interpreted."""
        return self.columns.interpreted_count

    @property
    def has_ended(self) -> bool:
        """Whether everything has been read and interpreted, and nothing will follow."""
        return self._is_closed or (self._is_analysed and self.index.has_ended)

    @property
    def is_killed(self) -> bool:
        """Whether everything has been read, and no record shows that its recorder ended normally."""
        return self.has_ended and self.conversation.capture.ending is None

    @property
    def bad_end(self) -> str | None:
        """How it ended, in the words of the list of sessions, if it ended badly or was killed."""
        return bad_ending(self.conversation.capture.ending, self._status, self._signal) if self.has_ended else None

    @property
    def progress(self) -> float:
        """The progress of reading and interpreting what existed at the start, from 0 to 1; it never decreases."""
        share = (self.index.tail.read_bytes + self._analysed_bytes) / max(1, 2 * self._size)
        self._progress = max(self._progress, min(1.0, share))
        return self._progress

    @property
    def forgotten(self) -> list[str]:
        """Sentences about what is unknown because the capture is too large."""
        sentences = []
        if self.index.left_out_count:
            sentences.append(
                f"{self.index.left_out_count:,} records after the first {self.max_rows:,} are not shown here; "
                "use `mcpproxy show` or `mcpproxy query`"
            )
        omitted_requests, omitted_notes, unjoined_messages = self.conversation.omitted_counts
        if omitted_requests:
            sentences.append(f"{omitted_requests:,} requests after the first {self.max_rows:,} have no exchange here")
        if omitted_notes:
            sentences.append(
                f"{omitted_notes:,} notes on what cancelled, ended or probably answered a request are left out here"
            )
        if unjoined_messages:
            sentences.append(
                f"{unjoined_messages:,} messages that span lines are shown as lines: there are more "
                f"than {MAX_SPANNING_MESSAGES:,}"
            )
        return [*sentences, *self.conversation.forgotten]

    # ---- related rows

    def call(self, row: int) -> int | None:
        """The number of the call to which a row belongs."""
        calls = self.columns.call_of
        number = calls[row] if row < len(calls) else NONE
        return None if number == NONE else number

    def partner(self, row: int) -> int | None:
        """The row of the response to a request, or of the request to a response."""
        number = self.call(row)
        if number is None:
            return None
        request, response = self.calls.request[number], self.calls.response[number]
        partner = response if row == request else request
        return None if partner in (NONE, row) else partner

    def outcome(self, number: int) -> Outcome | None:
        """How a call ended, or None while that is unknown."""
        code = self.calls.outcome[number]
        return None if code == OPEN else OUTCOMES[code]

    def effective_outcome(self, number: int) -> Outcome | None:
        """Like `outcome`, but cancelled if an error came only after the cancellation: such a call did not fail."""
        outcome = self.outcome(number)
        return Outcome.CANCELLED if outcome in ERRORS and self.calls.is_cancelled[number] else outcome

    def is_answered_in_time(self, number: int) -> bool:
        """Whether a response came, and the call had not been cancelled before."""
        return self.calls.response[number] != NONE and not self.calls.is_cancelled[number]

    def outcome_without_response(self, number: int) -> Outcome | None:
        """How a call that was not answered in time ended, or None while that is unknown."""
        return Outcome.CANCELLED if self.calls.response[number] != NONE else self.outcome(number)

    def abandoned_ns(self, number: int) -> int | None:
        """How long a request had waited when it was abandoned, or None if it was not."""
        abandoned_ns = self.calls.abandoned_ns[number]
        return None if abandoned_ns < 0 else abandoned_ns

    def waited_ns(self, number: int) -> int | None:
        """How long a request waited without a response.

        It waits until it is abandoned or cancelled, or its server ends; otherwise, until now. Returns None if a
        response came in time, or if the request is not waiting or its state is unknown.
        """
        capture = self.conversation.capture
        if self.is_answered_in_time(number):
            return None
        abandoned_ns, outcome = self.abandoned_ns(number), self.outcome_without_response(number)
        if abandoned_ns is not None:
            return abandoned_ns
        if outcome is Outcome.CANCELLED:
            return self.lasted_ns(number)
        sent_ns = self.index.t_ns(self.calls.request[number])
        if outcome is None and self.is_live and capture.wall_ns is not None:
            return max(0, clock.age_ns(capture.wall_ns) - sent_ns)
        if outcome is Outcome.UNANSWERED and self.has_ended:
            server_ended_ns = None if capture.transport == "http" else capture.server_ended_ns
            return max(0, (self.index.last_ns if server_ended_ns is None else server_ended_ns) - sent_ns)
        return None

    def lasted_ns(self, number: int) -> int | None:
        """How long a call lasted: until its response, its cancellation or its failure, whichever came first.

        Returns None if it has not ended, or if that is unknown.
        """
        calls = self.calls
        if self.is_answered_in_time(number):
            return calls.latency_ns[number]
        end = calls.end[number]
        return None if end == NONE else max(0, self.index.t_ns(end) - self.index.t_ns(calls.request[number]))

    def is_slow(self, number: int) -> bool:
        """Whether the response to a call took longer than 95 of 100 of its kind."""
        kind, usual_ns = self.calls.kind[number], self.columns.usual_ns
        return kind < len(usual_ns) and 0 <= usual_ns[kind] < self.calls.latency_ns[number]

    def last_joined_row(self, row: int) -> int | None:
        """Returns the last row of the message that spans lines from this row on, or None if there is none."""
        return self.columns.last_joined_row(row)

    def continued_rows(self, row: int) -> list[int]:
        """Returns the other rows of the message that spans lines from this row on."""
        last_row, direction = self.last_joined_row(row), self.index.entry(row).dir
        lines = range(row + 1, row if last_row is None else last_row + 1)
        return [line for line in lines if self.is_continued(line) and self.index.entry(line).dir == direction]

    def is_continued(self, row: int) -> bool:
        """Whether a row is a line of a message that began in an earlier row."""
        return bool(self._marks(row) & CONTINUED)

    def is_stray_body(self, row: int) -> bool:
        """Whether a row is an HTTP body that need not be a message, and is not one."""
        return bool(self._marks(row) & OTHER_BODY)

    def is_repeat(self, row: int) -> bool:
        """Whether a row repeats a message whose HTTP exchange was redirected."""
        return bool(self._marks(row) & REDIRECTED)

    def misfit(self, row: int) -> IdState | None:
        """The state of the id of a response or a cancellation that belongs to no call; None for any other row."""
        position = (self._marks(row) & MISFIT_MASK) // MISFIT
        return MISFITS[position - 1] if 0 < position <= len(MISFITS) else None

    def _marks(self, row: int) -> int:
        marks = self.columns.marks
        return marks[row] if row < len(marks) else 0

    def session(self, row: int) -> int:
        """The number of the session of a row; 0 if it has no message, or has not been interpreted."""
        sessions = self.columns.sessions
        return sessions[row] if row < len(sessions) else 0

    def starting_session(self, row: int) -> int | None:
        """The number of the session that begins in a row; always None if there is only one, as over stdio."""
        start_rows, numbers = self.columns.session_start_rows, self.columns.session_start_numbers
        if len(numbers) < 2:
            return None
        index = bisect_left(start_rows, row)
        return numbers[index] if index < len(numbers) and start_rows[index] == row else None

    def session_of(self, row: int) -> int | None:
        """The number of the session of a message, or None if it is unknown, or there is only one."""
        number = self.session(row)
        return number if number and len(self.columns.session_start_numbers) > 1 else None

    def next_bad_row(self, row: int, by: int) -> int | None:
        """The nearest row, after or before another row, with an error or with a finding that is a warning or error.

        Args:
            row: the row to start from; -1 to start before the first.
            by: 1 for after, -1 for before.
        """
        marks = self.columns.marks
        if by > 0:
            match = _BAD_MARK.search(marks, row + 1)
            bad_row = -1 if match is None else match.start()
        else:
            bad_row = len(marks[: max(0, row)].rstrip(_GOOD_MARKS)) - 1
        candidates = [self.findings.next_serious_row(row, by), None if bad_row < 0 else bad_row]
        rows = [candidate for candidate in candidates if candidate is not None]
        return (min(rows) if by > 0 else max(rows)) if rows else None

    # ---- steps, in a thread

    def follow(self) -> bool:
        """Like `step`, but waits a moment if only the worker has work left; returns False if there is nothing left."""
        if self.step():
            return True
        is_behind = not (self.has_ended or self.findings.trouble) and self.interpreted_count < len(self.index)
        if is_behind:
            self._has_news.wait(WORKER_WAIT_S)
        return is_behind

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there was nothing to do, and nothing new from the worker."""
        self._has_news.clear()
        is_busy = self._restore() or self.index.grow(STEP, self._on_item)
        if len(self.index) > self._shown_count:
            self.findings.place_waiting()
            self._show_new_rows()
        if self.index.has_ended and self._row_cache is not None and not self._is_closed:
            row_cache, self._row_cache = self._row_cache, None
            save_pieces(row_cache, self._cache_pieces())
        self._write_due_batches()
        returned_before, self._returned_report_count, had_ended, self._had_ended = (
            self._returned_report_count,
            self._report_count,
            self._had_ended,
            self.has_ended,
        )
        return is_busy or (returned_before, had_ended) != (self._returned_report_count, self._had_ended)

    def close(self) -> None:
        """Close the files."""
        self._is_closed = True
        self.index.close()

    @property
    def _columns(self) -> "tuple[array[int], ...]":
        """The columns with facts from the records alone; the last column says which rows exist."""
        return (
            self.stderr_rows,
            self._redundant_rows.column,
            self._other_rows.column,
            *self.http.columns,
            self.shown_rows,
        )

    def _cache_pieces(self) -> Iterator[bytes]:
        """Yields all rows for the cache, once they are known."""
        facts = {"end": self.end, "status": self._status, "signal": self._signal, "has_http": self.http.has_any}
        yield as_json(facts)
        yield from map(bytes, self._columns)
        yield from self.index.saved_contents()

    def _restore(self) -> bool:
        """In the first step, load all rows if they are cached; returns whether they were."""
        has_begun, self._has_begun = self._has_begun, True
        if has_begun or self._row_cache is None:
            return False
        pieces = self._row_cache.cached()
        if pieces is None:
            return False
        try:
            facts, columns = from_json(next(pieces)), [array(column.typecode) for column in self._columns]
            for column in columns:
                column.frombytes(next(pieces, b""))
            end = None if facts["end"] is None else Remark(*facts["end"])
            status, signal, has_http = facts["status"], facts["signal"], facts["has_http"]
            self.index.restore(pieces)
        except (ArithmeticError, LookupError, TypeError, ValueError, StopIteration, zlib.error):
            return False
        self.end, self._status, self._signal, self.http.has_any, self._row_cache = end, status, signal, has_http, None
        for column, cells in zip(self._columns, columns, strict=True):
            column.extend(cells)
        self._shown_count = len(self.index)
        self.findings.place_waiting()
        return True

    def _on_item(self, row: int, item: Frame | Record | Damage) -> None:
        if self.index.is_frame(row):
            self._note_event(row, item)
            return
        remark = remark_on(item, ended=self.end is not None)
        if isinstance(item, Record):
            self._note_record(row, item)
        if remark is not None and not (isinstance(item, Record) and item.rec in ("stall", "header")):
            is_stray_body = remark.role == "dim"
            self._new_remarks[row] = (
                is_stray_body,
                is_stray_body and isinstance(item, Record) and self.http.is_shown_by_response(item),
            )
            self.end = remark if remark.is_end else self.end

    def _note_event(self, row: int, item: Frame | Record | Damage) -> None:
        """Record an event of a stream: a response, or an event without data."""
        if self.index.entry(row).size and not isinstance(item, Damage):
            self.http.note_response(item)
            return
        _, frame = next(assemble([item]))
        if isinstance(frame, Frame) and frame.is_priming:
            # The row of the response counts it among the events of its stream.
            self._new_remarks[row] = True, True

    def _note_record(self, row: int, record: Record) -> None:
        if record.rec == "stderr":
            self.stderr_rows.append(row)
        elif record.rec in ("exchange", "stream"):
            self.http.on_record(row, record)
        elif record.rec == "eof" and record.members.get("dir") == "s2c" and record.members.get("by") == "sender":
            self.output_end_row = row
        elif record.rec in ("process", "close"):
            self.server_process = recorded_process(record.members)
            self._status = record.members.get("status", self._status)
            self._signal = record.members.get("signal", self._signal)

    def _show_new_rows(self) -> None:
        start, count = self._shown_count, len(self.index)
        self._shown_count = count
        if not self._new_remarks and self.index.are_frames(start, count):
            self.shown_rows.extend(range(start, count))
            return
        rows = [row for row in range(start, count) if self.index.is_frame(row) or row in self._new_remarks]
        for row, (is_stray_body, is_shown_by_response) in self._new_remarks.items():
            position = len(self.shown_rows) + bisect_left(rows, row)
            if is_stray_body:
                self._other_rows.add(position)
            if is_shown_by_response:
                self._redundant_rows.add(position)
        self.shown_rows.extend(rows)
        self._new_remarks.clear()

    # ---- reports from the worker

    def on_batch(self, batch: Batch) -> None:
        """Write cells that have changed, as soon as the rows that they refer to exist.

        Raises:
            ValueError: they refer to something that does not exist.
        """
        self._waiting_batches.append(batch)
        self._waiting_bytes += len(batch.parts) + BATCH_OVERHEAD_BYTES
        self._write_due_batches()
        if self._is_refused or self._waiting_bytes > MAX_WAITING_BATCH_BYTES:
            raise ValueError("cells that refer to nothing")
        self._has_news.set()

    def on_news(self, news: dict[str, Any]) -> None:
        """Apply a JSON report from the worker.

        Raises:
            LookupError, TypeError, ValueError: it is invalid.
        """
        if "kinds" in news:
            first = news["first"]
            kinds = [CallKind.from_worker(*kind) for kind in news["kinds"]]
            if not 0 <= first <= len(self.kinds.all) <= MAX_ACCEPTED_KINDS:
                raise ValueError("kinds of requests at a place that does not exist")
            self.kinds.all[first : first + len(kinds)] = kinds
        self.conversation.apply_news(news)
        self._report_count += 1
        self._has_news.set()

    def _write_due_batches(self) -> None:
        if not self._waiting_batches:
            return
        with self._write_lock:
            while self._waiting_batches and (self._waiting_batches[0].rows <= len(self.index) or self.index.has_ended):
                batch = self._waiting_batches.popleft()
                self._waiting_bytes -= len(batch.parts) + BATCH_OVERHEAD_BYTES
                if not self._has_rows_of(batch):
                    # The recorder has deleted segments of the ring that one of the two processes had not read.
                    self._refuse_output("parts of the capture were deleted while it was read")
                    return
                try:
                    self.columns.write(batch, len(self.kinds.all))
                except ValueError:
                    self._refuse_output("the output of the process that reads captures is invalid")
                    return
                self.logins.link_new_legs()
                self._analysed_bytes = batch.read_bytes
                self._is_analysed = self._is_analysed or batch.has_ended
                self._report_count += 1
            if self._was_live:
                self.waiting.note_changes()

    def _has_rows_of(self, batch: Batch) -> bool:
        """Whether the worker has read the same rows."""
        if not batch.rows:
            return True
        return batch.rows <= len(self.index) and self.index.entry(batch.rows - 1).seq == batch.last_seq

    def _refuse_output(self, reason: str) -> None:
        """Accept nothing more from the worker; any thread that finds its output wrong may call this."""
        self._is_refused, self.findings.trouble = True, reason
        self._waiting_batches.clear()
