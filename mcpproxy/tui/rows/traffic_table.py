"""Rows: the text of the traffic table's lines, read from the file when a line is drawn.

A thread reads the rows, and the drawing thread waits for it for at most `PATIENCE_S`: while a disk spins up, rows
show `…`, and the screen does not hang. A few screenfuls of rows are cached. The wording is the same as in `show`.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from analysis.conversation.call import Outcome
from analysis.protocol.extensions import ENDLESS_METHODS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.colours.row_looks import RowLooks
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.findings import LEVELS, MAX_COUNT_PER_ROW, SIGNS
from mcpproxy.tui.data.login_folds import LoginFolds
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.stderr_folds import StderrFolds
from mcpproxy.tui.rows.incompleteness import lost_before
from mcpproxy.tui.rows.login_row_text import BAD_GLYPH, role_of, row_text_with_logins
from mcpproxy.tui.rows.row_ids import ids_at
from mcpproxy.tui.rows.row_text import PENDING_TEXT, RowText, short_call
from mcpproxy.tui.rows.traffic_columns import Times
from mcpproxy.tui.widgets.columns import TableLine
from mcpproxy.wording import units
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.gists import GIST_SEPARATOR, call_gist
from mcpproxy.wording.spans import Span
from mcpproxy.wording.statuses import lost_answer_forms, outcome_status, waiting_status
from mcpproxy.wording.units import brief_duration, offset_text
from mcpproxy.wording.waits import MIN_SHOWN_WAIT_NS, waiting_role

PATIENCE_S: Final = 0.025
"""How long the drawing thread may wait for rows to be read."""
MAX_CACHED_ROWS: Final = 2000
"""The maximum number of rows whose texts are cached; the rows that were read first are dropped first."""
MAX_TURN_CHARS: Final = 40
"""The maximum length of the id of a turn, in characters."""
MIN_NOTE_CELLS: Final = 24
"""The minimum width of the column with the content in which a note has room, in cells."""
REQUEST_CONTENT_COLUMNS: Final = ("status", "latency", "more")
"""The columns that the content of a request may extend over if it is alone in them."""
LOST_ANSWER_COLUMNS: Final = ("status", "latency")
"""The columns that the status of a request without a response and a latency may extend over."""
MIN_CONTENT_CELLS: Final = 40
"""The minimum width of the content at which that of requests is in its own column, in cells."""
SHORT_REQUEST_CELLS: Final = 12
"""The maximum width of a short gist of a request, such as a path, in cells."""
FOLDED_SIGN: Final = "▸"
UNFOLDED_SIGN: Final = "▾"
COMPARED_SIGN: Final = "="
"""The sign before the time of a row that is marked for a comparison."""
MARK_SIGN: Final = "◆"
"""The sign before the time of a marked row."""


class TrafficRows:
    """The rows of one capture that a table shows: the entries in `view`."""

    def __init__(self, reading: Reading, ready: Callable[[], None]) -> None:
        """Create the rows; until `view` is changed, it contains all entries that the table can show.

        Args:
            reading: the capture.
            ready: called from another thread when rows that were shown as `…` are available.
        """
        self.reading = reading
        self.view: Sequence[int] = reading.shown_rows
        """Numbers of entries, ascending."""
        self.times: Times = "rel"
        self.is_exchanges = False
        """Whether a line is an exchange, numbered like its request."""
        self.marks: Mapping[int, str] = {}
        """The marked rows, by the numbers of their records, with their notes."""
        self.compared_row: int | None = None
        """The row that is marked for a comparison."""
        self.is_narrow = False
        """Whether the column with the content has no room for a note, so that notes follow the names."""
        self.is_short = False
        """Whether tool calls are shown without `tools/`, because the names have no room."""
        self.folds: LoginFolds | None = None
        """Which logins are folded; None if the rows have no folds."""
        self.stderr_folds: StderrFolds | None = None
        """Which runs of lines of stderr are folded; None if all lines are listed."""
        self.looks = RowLooks(reading, ())
        """What the user's colour rules make of the rows."""
        self._name_width, self._content_width, self._status_width = 16, 24, 14
        self._request_width = 0
        """The width of the columns in which the content of a request has room if it begins in that of the status; 0 if
        they are not next to each other.
        """
        self._lost_answer_width = 14
        """The width of the columns in which a row may say that its response is lost."""
        self._wants_turns = False
        """Whether the turns of calls are shown."""
        self._ready = ready
        self._texts: OrderedDict[int, RowText] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, "rows")
        self._read: Future[None] | None = None

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        return len(self.view)

    def fit(self, widths: Mapping[str, int], name_cells: int) -> None:
        """Record how much of each text the columns show.

        Args:
            widths: the widths of the columns in their order, by their names, in cells.
            name_cells: the width of the longest method with its name, in cells.
        """
        self.is_short = widths.get("what", 0) < name_cells
        if self._wants_turns != ("turn" in widths):
            self._wants_turns = not self._wants_turns
            self._texts.clear()  # only the texts that are read now have turns, or do without
        self._lost_answer_width = max(width_across(widths, LOST_ANSWER_COLUMNS), widths.get("status", 0))
        self._name_width = widths.get("what", 0)
        self._request_width = width_across(widths, REQUEST_CONTENT_COLUMNS)
        self.is_narrow = widths.get("more", 0) < MIN_NOTE_CELLS
        self._content_width, self._status_width = widths.get("more", 24), widths.get("status", 14)

    def prefetch(self, first: int, last: int) -> None:
        """Read the rows that are not cached, but wait for at most `PATIENCE_S`."""
        entries = [
            entry
            for line in range(first, last)
            for entry in self._entries_of_line(line)
            if entry not in self._texts or self.looks.must_read(entry, self.marks)
        ]
        if entries and (self._read is None or self._read.done()):
            self._read = self._thread.submit(self._fetch, entries, time.monotonic() + PATIENCE_S)
            try:
                self._read.result(PATIENCE_S)
            except TimeoutError:
                return

    def line(self, row: int) -> TableLine:
        """The cells of a row."""
        entry = self.view[row]
        text = self._texts.get(entry, PENDING_TEXT)
        calls, number = self.reading.calls, self.reading.call(entry)
        answer = text
        if self.is_exchanges and number is not None:
            response = self.reading.partner(entry)
            answer = self._texts.get(response, PENDING_TEXT) if response is not None else RowText(text.direction, ())
        is_answer = number is not None and (self.is_exchanges or calls.response[number] == entry)
        name_spans = short_call(text.subject) if self.is_short else text.subject
        session, note = self.reading.starting_session(entry), self.marks.get(self.reading.index.entry(entry).seq)
        what_cell = name_spans if session is None else (Span(f"session {session:,}  "), *name_spans)
        cell_spans: dict[str, Sequence[Span]] = {
            "number": (Span(str(self.reading.index.entry(entry).seq), "dim"),),
            "time": self._time_cell(row),
            "way": self._way_cell(entry, text),
            "findings": (self._findings_cell(row),),
            "clock": (Span(self._clock_text(self.reading.index.t_ns(entry)) or "", "dim"),),
            "session": (Span(f"{self.reading.session(entry) or ''}", "dim"),),
        }
        look = self.looks.look_of(self._entries_of_line(row))
        loss = lost_before(self.reading, entry)
        loss_spans = (Span(f"{loss}  ", "bad"),) if loss else ()
        if text.is_wide:
            line_count = self._folded_count(entry)
            count_spans = (Span(f"{line_count:,} lines: "),) if line_count else ()
            what_cell = (*loss_spans, *count_spans, *what_cell)
            what_cell = (*what_cell, Span(f"  {note}", "accent")) if note else what_cell
            return TableLine({**cell_spans, "what": what_cell}, wide_column="what", look=look)
        status_cell = self._status_cell(number, answer, is_answer=is_answer)
        latency_cell = self._latency_cell(number, is_answer=is_answer)
        size = self._size(entry)
        # A text that is longer than its column extends over the empty cells after it.
        spilling_column = "status" if any(span.text for span in status_cell) else "what"
        is_blank = not (any(span.text for span in status_cell) or latency_cell.text)
        has_note_before = bool(note) and self.is_narrow and is_blank
        if note and has_note_before:
            # The note goes where there is room: after the name or, for a request, into an empty status column.
            spilling_column = "status" if text.id else "what"
            if spilling_column == "status":
                status_cell = (Span(note, "dim"),)
            else:
                what_cell = (*what_cell, Span(f"  {note}", "dim"))
        gist = text.details
        if self.is_exchanges and number is not None:
            room = self._content_width - (cells(note) + 2 if note and not has_note_before else 0)
            gist = call_gist(request_excerpt(text.brief_details or gist, answer.details, room), answer.details)
        is_fitting = sum(cells(span.text) for span in what_cell) <= self._name_width
        is_alone = gist and is_fitting and is_blank and not loss and (has_note_before or not note)
        if is_alone and self._content_width < MIN_CONTENT_CELLS and self._content_width < self._request_width:
            # It begins where its status would be: the empty cells have room for more of it.
            note_spans = (Span(f"{note}  ", "accent"),) if note else ()
            status_cell, gist, spilling_column = (*note_spans, Span(gist, "dim")), "", "status"
        http = self.reading.http.answer(answer.http)
        cell_spans |= {
            "what": what_cell,
            "id": (Span(text.id),),
            "status": status_cell,
            "latency": (latency_cell,),
            "size": (Span(units.size(size) if size else "", "dim"),),
            "asked": (Span(units.size(self.reading.index.entry(entry).size), "dim"),),
            "http": (Span("" if http is None else str(http.status), "dim"),),
            "turn": (Span(text.turn, "dim"),),
            "more": (
                *loss_spans,
                *((Span(f"{note}  ", "accent"),) if note and not has_note_before else ()),
                Span(gist, "dim"),
            ),
        }
        return TableLine(cell_spans, spilling_column=spilling_column, look=look)

    def entry(self, row: int) -> int | None:
        """The entry that a line shows."""
        return self.view[row] if 0 <= row < len(self.view) else None

    def forget(self) -> None:
        """Drop the cached rows whose texts may have changed."""
        for entry in [entry for entry, text in self._texts.items() if not self._is_current(entry, text)]:
            self._texts.pop(entry, None)

    def _is_current(self, entry: int, text: RowText) -> bool:
        """Whether nothing has become known that may change the text of an entry."""
        logins = self.reading.logins
        if not (text.is_wide and len(logins)):
            return text.is_final
        number = logins.login_shown_in(entry)
        return text.is_final and text.login_state == (None if number is None else logins.state(number))

    def head_at(self, entry: int) -> int | None:
        """The number of the login whose head an entry is, if it can be folded and unfolded."""
        return None if self.folds is None else self.reading.logins.login_headed_by(entry)

    def _folded_count(self, entry: int) -> int:
        """How many lines of stderr an entry stands for; 0 if it is not the row of a folded run."""
        return 0 if self.stderr_folds is None else self.stderr_folds.folded_count(entry)

    # ---- cells

    def _way_cell(self, entry: int, text: RowText) -> tuple[Span, ...]:
        if self.stderr_folds is not None and self.stderr_folds.first_line_of(entry) == entry:
            return (Span(FOLDED_SIGN if self.stderr_folds.folded_count(entry) else UNFOLDED_SIGN, "dim"),)
        number = self.head_at(entry)
        if number is None or self.folds is None:
            return (text.direction,)
        fold_sign = Span(UNFOLDED_SIGN if self.folds.is_unfolded(number) else FOLDED_SIGN, "dim")
        is_bad = role_of(self.reading.logins.state(number)) == "bad"
        return (fold_sign, Span(BAD_GLYPH, "bad")) if is_bad else (fold_sign,)

    def _entries_of_line(self, line: int) -> list[int]:
        entry = self.view[line]
        partner = self.reading.partner(entry) if self.is_exchanges else None
        return [entry] if partner is None else [entry, partner]

    def _covered_entries(self, line: int) -> list[int]:
        """The entries whose marks a line shows: for a folded login, also those of its legs."""
        number = self.head_at(self.view[line])
        if number is None or self.folds is None or self.folds.is_unfolded(number):
            return self._entries_of_line(line)
        return self.reading.logins.rows_in(self.view[line])

    def _findings_cell(self, line: int) -> Span:
        """The findings in a line: the worst level, and the number of findings; for a login, those of all its legs."""
        rows = [row for entry in self._entries_of_line(line) for row in self.reading.logins.rows_in(entry)]
        level_counts = [self.reading.findings.worst_level_and_count(row) for row in rows]
        level = max((level for level, _ in level_counts if level is not None), default=None)
        if level is None:
            return Span("")
        count = sum(count for _, count in level_counts)
        return Span(
            f"{SIGNS[level]} {count}" if count < MAX_COUNT_PER_ROW else f"{SIGNS[level]}{MAX_COUNT_PER_ROW}+",
            LEVELS[level],
        )

    def _size(self, entry: int) -> int:
        """The size of a frame, in bytes; for an exchange, the size of its response."""
        if not self.is_exchanges:
            return self.reading.index.entry(entry).size
        response = self.reading.partner(entry)
        return 0 if response is None else self.reading.index.entry(response).size

    def _status_cell(self, number: int | None, answer: RowText, *, is_answer: bool) -> tuple[Span, ...]:
        """How a request ended, or what a response means; over HTTP, with the status code and the number of events."""
        status = answer.status
        if status is None or (number is not None and not (is_answer and self.reading.calls.response[number] != NONE)):
            return (self._unanswered_cell(number),)
        room = self._status_width
        forms = status.word, status.short, status.shortest
        word = next((form for form in forms if cells(form) <= room), status.shortest)
        spans = [Span(word, "bad" if status.is_bad else "plain")]
        room -= cells(word)
        http = self.reading.http.answer(answer.http)
        if http is not None:
            events = f" · {count_text(http.events, 'event')}" if http.events else ""
            for text in (f" · {http.status}", events):
                room -= cells(text)
                if text and room >= 0:
                    spans.append(Span(text, "dim"))
        return tuple(spans)

    def _latency_cell(self, number: int | None, *, is_answer: bool) -> Span:
        """How long a response took, or how long a request waited without one."""
        if number is None:
            return Span("")
        calls = self.reading.calls
        latency_ns = calls.latency_ns[number]
        if is_answer and latency_ns >= 0:
            if calls.is_inexact[number]:
                return Span(f"~{brief_duration(latency_ns)}", "dim")
            return Span(brief_duration(latency_ns), "warm" if self.reading.is_slow(number) else "dim")
        waited_ns = self.reading.waited_ns(number)
        if waited_ns is None:
            return Span("")
        is_long = self.reading.outcome(number) is None and waited_ns >= MIN_SHOWN_WAIT_NS
        return Span(brief_duration(waited_ns), waiting_role(waited_ns) if is_long else "dim")

    def _unanswered_cell(self, number: int | None) -> Span:
        """What became of a request that was not answered in time."""
        if number is None or self.reading.is_answered_in_time(number):
            return Span("")
        outcome, kind = self.reading.outcome_without_response(number), self.reading.calls.kind[number]
        if outcome in (None, Outcome.UNANSWERED) and self.reading.kinds.all[kind].method in ENDLESS_METHODS:
            return Span("")
        lost_records = self.reading.conversation.lost_answers.get(number)
        if outcome is Outcome.NOT_RECORDED and lost_records is not None:
            forms = lost_answer_forms(lost_records)
            return Span(next((form for form in forms if cells(form) <= self._lost_answer_width), forms[-1]), "dim")
        if outcome is not None:
            status = outcome_status(outcome, is_abandoned=self.reading.abandoned_ns(number) is not None)
        elif self.reading.has_ended:
            return Span("forgotten", "dim")
        elif self.reading.is_live:
            status = waiting_status()
        else:
            return Span("")
        return Span(status.word, "bad" if status.is_bad else "dim")

    def _time_cell(self, row: int) -> tuple[Span, ...]:
        text = Span(self._time_text(row), "dim")
        if self.view[row] == self.compared_row:
            return (Span(COMPARED_SIGN, "accent"), text)
        return (Span(MARK_SIGN, "accent"), text) if self._is_marked(row) else (text,)

    def _is_marked(self, line: int) -> bool:
        if not self.marks:
            return False
        index, first = self.reading.index, self.view[line]
        count = self._folded_count(first)
        if count:
            seqs = range(index.entry(first).seq, index.entry(first + count - 1).seq + 1)
            return any(seq in seqs for seq in self.marks)
        entries = (index.entry(number) for number in self._covered_entries(line))
        return any(entry.seq in self.marks and entry.kind != "damage" for entry in entries)

    def _time_text(self, row: int) -> str:
        index, entry = self.reading.index, self.view[row]
        t_ns = index.t_ns(entry)
        clock_text = self._clock_text(t_ns) if self.times == "abs" else None
        if clock_text is not None:
            return clock_text
        if self.times == "delta":
            t_ns -= index.t_ns(self.view[row - 1]) if row else 0
            t_ns = max(0, t_ns)
        return offset_text(t_ns)

    def _clock_text(self, t_ns: int) -> str | None:
        """The wall clock at a time of the capture, or None if it is unknown."""
        wall_ns = self.reading.conversation.capture.wall_ns
        if wall_ns is None:
            return None
        try:
            text = time.strftime("%H:%M:%S", time.localtime((wall_ns + t_ns) // 1_000_000_000))
        except (OverflowError, ValueError, OSError):
            return None
        return f"{text}.{(wall_ns + t_ns) // 10_000_000 % 100:02}"

    # ---- reading, in a thread

    def _fetch(self, entries: Sequence[int], deadline_s: float) -> None:
        for entry in entries:
            if entry not in self._texts:
                self._texts[entry] = self._text_of(entry)
            if self.looks.must_read(entry, self.marks):
                self.looks.read(entry, self.marks)
        while len(self._texts) > MAX_CACHED_ROWS:
            self._texts.popitem(last=False)
        if time.monotonic() > deadline_s:
            self._ready()

    def _text_of(self, entry: int) -> RowText:
        """The text of a row."""
        text, number = row_text_with_logins(self.reading, entry), self.reading.call(entry)
        if number is None or not self._wants_turns:
            return text
        return text._replace(turn=sanitise(ids_at(self.reading, number).turn or "", MAX_TURN_CHARS))


def width_across(widths: Mapping[str, int], names: Sequence[str]) -> int:
    """Returns the width of some columns with the gaps between them, or 0 if they are not shown next to each other.

    Args:
        widths: the widths of all columns in their order, by their names, in cells.
        names: the columns, in the order in which they must be.
    """
    shown_names = list(widths)
    start = shown_names.index(names[0]) if names[0] in widths else 0
    if shown_names[start : start + len(names)] != list(names):
        return 0
    return sum(widths[name] for name in names) + len(names) - 1


def request_excerpt(request_gist: str, response_gist: str, room: int) -> str:
    """The part of a request's gist that is shown before the gist of its response.

    Args:
        request_gist: the gist of the request.
        response_gist: the gist of the response; empty if there is none.
        room: the cells for both; neither gist is cut unless it takes more than half of them, and a short one of the
            request, which tells rows apart, not unless it takes more than two thirds.
    """
    if not response_gist:
        return request_gist
    available = room - len(GIST_SEPARATOR)
    least = max(1, available // 2, min(SHORT_REQUEST_CELLS, available * 2 // 3))
    return fit(request_gist, max(least, available - cells(response_gist)))
