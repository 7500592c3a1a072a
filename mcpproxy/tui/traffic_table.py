"""Rows: the text of the traffic table's lines, read from the file when a line is drawn.

A thread reads the rows, and the drawing thread waits for it no longer than `PATIENCE_S`: while a disk spins up, rows
show `…`, and the screen does not hang. A few screenfuls of rows are cached. The wording is the same as in `show`.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.exchange import Exchange, Outcome, outcome_of
from analysis.conversation.message import (
    Invalid,
    Message,
    Notification,
    Request,
    Response,
    message_of,
    messages,
    parse_exactly,
)
from analysis.conversation.session import Seen, Session
from captures.frame import Frame
from captures.reader import Damage
from captures.record import Record
from mcpproxy.report import units
from mcpproxy.report.records import remark_on
from mcpproxy.report.text import Role, Span, ms_text
from mcpproxy.report.wording import EXCERPT, aside_of, aside_spans, gist, id_text, name_of, notification_gist, status_of
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.tui import clock
from mcpproxy.tui.data.findings import COUNTED, LEVELS, SIGNS
from mcpproxy.tui.data.reading import NONE, Reading
from mcpproxy.tui.widgets.table import Column, Line

Times: TypeAlias = Literal["rel", "delta", "abs"]
"""Since the capture opened, since the row above, or local wall clock."""

TIMES: Final[tuple[Times, ...]] = ("rel", "delta", "abs")
PATIENCE_S: Final = 0.025
"""How long the drawing thread may wait for rows to be read."""
KEPT: Final = 2000
"""Rows that are kept."""
LARGE: Final = 1 << 20
"""Bytes. A row of a larger frame shows only members of its record: drawing a line must not parse a gigabyte."""
MANY_SECONDS_NS: Final = 9_999_500_000
"""The duration from which milliseconds do not fit in the column."""

MARK: Final = "◆"
"""Before the time of a marked row."""

FRAME_COLUMNS: Final = (
    Column("time", "time", 12, right=True, drop=1),
    Column("way", "", 2),
    Column("findings", "find", 4, drop=3),
    Column("what", "method / name", 24, stretch=True),
    Column("id", "id", 6, drop=4),
    Column("status", "status", 14, drop=2),
    Column("latency", "latency", 8, right=True, drop=3),
    Column("size", "size", 8, right=True, drop=5),
    Column("more", "content", 24, stretch=True, drop=9),
)
EXCHANGE_COLUMNS: Final = (
    Column("time", "sent", 12, right=True, drop=1),
    Column("way", "", 2),
    Column("findings", "find", 4, drop=3),
    Column("what", "method / name", 24, stretch=True),
    Column("id", "id", 6, drop=4),
    Column("status", "outcome", 14),
    Column("latency", "latency", 8, right=True, drop=3),
    Column("size", "response", 8, right=True, drop=5),
    Column("more", "content", 24, stretch=True, drop=9),
)

HEADINGS: Final[Mapping[Times, str]] = {"delta": "delta", "abs": "clock"}
"""The headings of the time column, unless times are since the start."""


def columns_for(columns: Sequence[Column], times: Times) -> tuple[Column, ...]:
    """The columns, with a heading for the times that they show."""
    heading = HEADINGS.get(times)
    return tuple(replace(column, title=heading) if column.name == "time" and heading else column for column in columns)


def next_times(times: Times) -> Times:
    """The kind of times after another, as the key switches them."""
    return TIMES[(TIMES.index(times) + 1) % len(TIMES)]


class RowText(NamedTuple):
    """The text of a row, without time, latency and size."""

    way: Span
    what: Sequence[Span]
    id: str = ""
    status: Span = Span("")
    more: str = ""
    is_wide: bool = False
    """Whether `what` runs on to the end of the row."""
    is_final: bool = True
    """Whether it stays the same as more rows are understood."""


_WAITING: Final = RowText(Span(""), (Span("…", "dim"),), is_final=False)
_GONE: Final = RowText(
    Span("▲", "bad"), (Span("gone: its recorder has deleted this part, or the file was changed", "bad"),)
)


class TrafficRows:
    """The rows of one capture that a table shows: the entries in `view`."""

    def __init__(self, reading: Reading, ready: Callable[[], None]) -> None:
        """Show all rows that get a line.

        Args:
            reading: the capture.
            ready: called from another thread when rows that were shown as `…` are available.
        """
        self.reading = reading
        self.view: Sequence[int] = reading.shown
        """Numbers of entries, ascending."""
        self.times: Times = "rel"
        self.is_exchanges = False
        """Whether a line is an exchange; its number is that of its request."""
        self.marks: Mapping[int, str] = {}
        """The marked rows, by the numbers of their records, with their notes."""
        self.is_narrow = False
        """Whether the column with the content is dropped, so that notes follow the names."""
        self._ready = ready
        self._texts: OrderedDict[int, RowText] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, "rows")
        self._read: Future[None] | None = None

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def __len__(self) -> int:
        return len(self.view)

    def want(self, first: int, last: int) -> None:
        """Read the rows that are not cached, but wait for no longer than `PATIENCE_S`."""
        rows = [row for line in range(first, last) for row in self._rows_of(line) if row not in self._texts]
        if rows and (self._read is None or self._read.done()):
            self._read = self._thread.submit(self._fetch, rows, time.monotonic() + PATIENCE_S)
            try:
                self._read.result(PATIENCE_S)
            except TimeoutError:
                return

    def line(self, row: int) -> Line:
        """A row as cells."""
        entry = self.view[row]
        text = self._texts.get(entry, _WAITING)
        size = self.reading.index.entry(entry).size
        number = self.reading.exchange(entry)
        latency_ns = self.reading.exchanges.latency_ns[number] if number is not None else -1
        is_answer = number is not None and self.reading.exchanges.response[number] == entry
        status = text.status
        if self.is_exchanges and number is not None:
            response = self.reading.partner(entry)
            status = self._texts.get(response, _WAITING).status if response is not None else self._open(entry)
            size = self.reading.index.entry(response).size if response is not None else 0
            is_answer = True
        elif not is_answer and number is not None:
            status = self._open(entry)
        if is_answer and status.text and latency_ns >= 0 and number in self.reading.exchanges.abandoned_ns:
            status = Span(f"{status.text}, late", status.role)
        session = self.reading.session_at(entry)
        what = text.what if session is None else (Span(f"session {session:,}  "), *text.what)
        findings, note = (self._findings_cell(row),), self.marks.get(self.reading.index.entry(entry).seq)
        if text.is_wide:
            what = (*what, Span(f"  {note}", "accent")) if note else what
            return Line({"time": self._time(row), "way": (text.way,), "findings": findings, "what": what}, wide="what")
        latency = latency_text(latency_ns) if is_answer and latency_ns >= 0 else ""
        if not latency and number is not None and self.reading.exchanges.response[number] == NONE:
            latency = self._waited(entry, number)
        spills = ""
        if note and self.is_narrow:
            # It goes where there is room: after the name or, for a request, in place of its response's outcome.
            spills = "status" if text.id and not (status.text or latency) else "what"
            if spills == "status":
                status = Span(note, "dim")
            else:
                what = (*what, Span(f"  {note}", "dim"))
        return Line(
            {
                "time": self._time(row),
                "way": (text.way,),
                "findings": findings,
                "what": what,
                "id": (Span(text.id),),
                "status": (status,),
                "latency": (Span(latency, "dim"),),
                "size": (Span(units.size(size) if size else "", "dim"),),
                "more": (*((Span(f"{note}  ", "accent"),) if note else ()), Span(text.more, "dim")),
            },
            spills=spills,
        )

    def entry(self, row: int) -> int | None:
        """The entry that a line shows."""
        return self.view[row] if 0 <= row < len(self.view) else None

    def forget(self) -> None:
        """Drop cached rows, whose meaning may have changed."""
        for row in [row for row, text in self._texts.items() if not text.is_final]:
            self._texts.pop(row, None)

    # ---- cells

    def _rows_of(self, line: int) -> list[int]:
        row = self.view[line]
        partner = self.reading.partner(row) if self.is_exchanges else None
        return [row] if partner is None else [row, partner]

    def _findings_cell(self, line: int) -> Span:
        """The findings in a line: the worst level, and the number."""
        marks = [self.reading.findings.at(row) for row in self._rows_of(line)]
        level = max((level for level, _ in marks if level is not None), default=None)
        if level is None:
            return Span("")
        count = sum(count for _, count in marks)
        return Span(f"{SIGNS[level]} {count}" if count < COUNTED else f"{SIGNS[level]}{COUNTED}+", LEVELS[level])

    def _open(self, row: int) -> Span:
        """The status of a request without a response."""
        number = self.reading.exchange(row)
        outcome = self.reading.outcome(number) if number is not None else None
        if outcome is Outcome.UNANSWERED:
            return Span("unanswered", "bad")
        if outcome is Outcome.FAILED:
            return Span("failed", "bad")
        if number is not None and outcome is Outcome.CANCELLED:
            is_abandoned = number in self.reading.exchanges.abandoned_ns
            return Span("abandoned", "bad") if is_abandoned else Span("cancelled", "dim")
        if number is not None and outcome is None and self.reading.has_ended:
            return Span("forgotten", "dim")
        return Span("" if outcome is not None or not self.reading.is_live else "waiting", "dim")

    def _waited(self, row: int, number: int) -> str:
        """How long an unanswered request has waited: until it was abandoned, or up to now."""
        reading, wall_ns = self.reading, self.reading.fold.wall_ns
        waited_ns = reading.exchanges.abandoned_ns.get(number)
        if waited_ns is None and reading.outcome(number) is None and reading.is_live and wall_ns is not None:
            waited_ns = max(0, clock.since_ns(wall_ns) - reading.index.t_ns(row))
        return "" if waited_ns is None else latency_text(waited_ns)

    def _time(self, row: int) -> tuple[Span, ...]:
        text = Span(self._time_text(row), "dim")
        return (Span(MARK, "accent"), text) if self._is_marked(row) else (text,)

    def _is_marked(self, line: int) -> bool:
        if not self.marks:
            return False
        index = self.reading.index
        entries = (index.entry(row) for row in self._rows_of(line))
        return any(entry.seq in self.marks and entry.sort != "damage" for entry in entries)

    def _time_text(self, row: int) -> str:
        index, entry = self.reading.index, self.view[row]
        t_ns = index.t_ns(entry)
        wall_ns = self.reading.fold.wall_ns
        if self.times == "abs" and wall_ns is not None:
            try:
                clock_text = time.strftime("%H:%M:%S", time.localtime((wall_ns + t_ns) // 1_000_000_000))
            except (OverflowError, ValueError, OSError):
                pass
            else:
                return f"{clock_text}.{(wall_ns + t_ns) // 10_000_000 % 100:02}"
        if self.times == "delta":
            t_ns -= index.t_ns(self.view[row - 1]) if row else 0
            t_ns = max(0, t_ns)
        return f"+{t_ns // 1_000_000_000:,}.{t_ns // 1_000_000 % 1000:03}"

    # ---- reading, in a thread

    def _fetch(self, rows: Sequence[int], until: float) -> None:
        for row in rows:
            self._texts[row] = self._text_of(row)
        while len(self._texts) > KEPT:
            self._texts.popitem(last=False)
        if time.monotonic() > until:
            self._ready()

    def _text_of(self, row: int) -> RowText:
        reading = self.reading
        if row in reading.continued:
            record = reading.index.beginning(row)
            raw = record.members.get("raw") if record is not None else None
            return RowText(
                Span(" ┆", "dim"), (Span(sanitise(raw if isinstance(raw, str) else "…", EXCERPT), "dim"),), is_wide=True
            )
        if reading.index.entry(row).size > LARGE:
            return self._large(row)
        item = reading.index.item(row)
        if item is None:
            return _GONE
        if not isinstance(item, Frame):
            remark = remark_on(item, ended=False)
            if remark is None:
                return RowText(
                    Span("·", "dim"), (Span(item.rec if isinstance(item, Record) else "", "dim"),), is_wide=True
                )
            text = f"{remark.text}  {remark.detail}" if remark.detail else remark.text
            if isinstance(item, Damage):
                # The screen already says which file it is in.
                text = sanitise(str(item).removeprefix(f"{item.path}: "))
            return RowText(Span(remark.glyph, remark.role), (Span(text, remark.role),), is_wide=True)
        message = message_at(reading, row, item)
        if item.verdict.kind == "batch":
            count = len(messages(item))
            return RowText(
                way_of(item, message), (Span(f"batch of {count:,}"), Span(f"  {item.verdict.problem or ''}", "bad"))
            )
        return self._message(row, item, message)

    def _large(self, row: int) -> RowText:
        entry, record = self.reading.index.entry(row), self.reading.index.beginning(row)
        method = record.members.get("method") if record is not None else None
        word = sanitise(method, EXCERPT) if isinstance(method, str) else "large frame"
        arrow = Span("→" if entry.dir == "c2s" else "←", "accent")
        return RowText(arrow, (Span(word), Span(f"  {entry.sort}", "dim")), is_final=row < self.reading.understood)

    def _message(self, row: int, frame: Frame, message: Message) -> RowText:
        way, problem = way_of(frame, message), frame.problem
        wrong = Span(f"  {problem}" if problem and row not in self.reading.joined else "", "bad")
        if isinstance(message, Request):
            what = (Span(sanitise(message.method, EXCERPT), "accent"), Span(f" {name_of(message)}"), wrong)
            return RowText(way, what, id_text(message.id).removeprefix(" #"), more=gist(message))
        if isinstance(message, Notification):
            event = Seen(message, Session(0, None, {}, 0))
            is_cancel = message.method.endswith("cancelled")
            more = gist(message) if is_cancel else notification_gist(event, message)
            return RowText(way, (Span(sanitise(message.method, EXCERPT)), wrong), more=more)
        if isinstance(message, Response):
            return self._answer(row, way, message, wrong)
        return self._invalid(frame, message, way)

    def _answer(self, row: int, way: Span, response: Response, wrong: Span) -> RowText:
        reading = self.reading
        is_final = row < reading.understood
        request = request_of(reading, row)
        # Before the row is understood, only the content is known, and not the request.
        known_request = request or (None if is_final else Request(response.frames, None, "client", {}, response.id, ""))  # type: ignore[arg-type]
        exchange = None
        if known_request is not None:
            exchange = Exchange(known_request, response, outcome_of(response, request), 0, 0)
        status = status_of(response, exchange, None)
        role: Role = "bad" if status.is_bad else "plain"
        if request is None:
            what: tuple[Span, ...] = (Span("answer" if is_final else "…", "dim"), wrong)
        else:
            what = (Span(sanitise(request.method, EXCERPT), "dim"), Span(f" {name_of(request)}", "dim"), wrong)
        id_ = id_text(response.id).removeprefix(" #")
        return RowText(way, what, id_, Span(status.word, role), status.text, is_final=is_final)

    @staticmethod
    def _invalid(frame: Frame, message: Invalid, way: Span) -> RowText:
        aside = aside_of(message)
        if aside is not None:
            return RowText(way, aside_spans(aside), is_wide=True)
        text = sanitise_bytes(frame.raw, EXCERPT)
        spans = (Span("not a message", "bad"), Span(f': "{text}"  '), Span(message.reason, "bad"))
        return RowText(Span(f"{way.text[0]}✗", "bad"), spans, is_wide=True)


def latency_text(ns: int) -> str:
    """How long a response took, in at most eight cells: `9,999 ms`, and from ten seconds on `14.0s`, `2m14s`."""
    return ms_text(ns) if ns < MANY_SECONDS_NS else units.duration(ns)


def way_of(frame: Frame, message: Message) -> Span:
    """The arrow of a frame, with a mark if it breaks a rule by itself."""
    arrow = "→" if frame.dir == "c2s" else "←"
    wrong = frame.problem is not None and len(message.frames) == 1
    return Span(f"{arrow}!" if wrong else arrow, "bad" if wrong else "accent")


def message_at(reading: Reading, row: int, frame: Frame) -> Message:
    """The first message of a row, with all the lines that it spans."""
    last = reading.joined.get(row)
    if last is not None:
        items = [reading.index.item(item) for item in range(row, min(last, row + 10_000) + 1)]
        frames = tuple(item for item in items if isinstance(item, Frame) and item.dir == frame.dir)
        try:
            whole = message_of(frame, None, parse_exactly(b"\n".join(item.raw for item in frames)))
        except (ValueError, RecursionError):
            return messages(frame)[0]
        whole.frames = frames
        return whole
    return messages(frame)[0]


def request_of(reading: Reading, row: int) -> Request | None:
    """The request that the response in a row answers."""
    number = reading.exchange(row)
    request_row = reading.exchanges.request[number] if number is not None else row
    item = reading.index.item(request_row) if request_row != row else None
    if not isinstance(item, Frame):
        return None
    if item.verdict.kind == "batch":
        return next((request for request in messages(item) if isinstance(request, Request)), None)
    message = message_at(reading, request_row, item)
    return message if isinstance(message, Request) else None
