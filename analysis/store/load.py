"""Loads captures into tables.

A load is one pass of the reader and the fold, so the tables agree with every other command; it inserts rows in batches
of bounded size. Nothing in a capture makes a load fail: numbers that are too large for their columns become NULL, lone
surrogates are replaced, and text that parsers could read in different ways is kept only as bytes. Loading a capture
again produces the same rows. No other module inserts rows.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import duckdb

from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import Request, Response
from analysis.conversation.session import Session
from analysis.conversation.stalls import wait_of
from analysis.garbage import rare_collections
from analysis.reading import Item, Reading, Step
from analysis.store.capture_row import CaptureCounts
from analysis.store.content import params_hash
from analysis.store.inserts import MAX_WAITING_BYTES, MAX_WAITING_ROWS, ROW_BYTES, TableWriter
from analysis.store.login_rows import LoginRows
from analysis.store.table_rows import MAX_HELD_SESSIONS, DefinitionRows, HttpRows, SessionRowBuilder, name_text, row_of
from analysis.store.tables import Row, build_row, definition_statements
from analysis.store.values import MAX_BIGINT, MAX_JSON_DEPTH, integer, is_shallow, text, wall
from captures.ambiguity import NOT_JSON, TOO_DEEP, ambiguity
from captures.damage import Damage
from captures.errors import CaptureError
from captures.file import is_live
from captures.frame import Frame
from captures.identity import capture_id
from captures.reader import Capture
from captures.record import Record, raw_bytes

if TYPE_CHECKING:
    from analysis.rules.finding import Finding

Progress = Callable[[int], None]
"""Called with the number of bytes read."""


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables in the current schema."""
    connection.execute(definition_statements())


class Loader:
    """Loads captures that are not in the tables yet. Use it with `with`: waiting rows are inserted at the end."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, only: Container[str] | None = None) -> None:
        """Create a loader that has loaded nothing yet.

        Args:
            connection: a connection with the tables in the current schema and without an open transaction.
            only: the tables that are filled; None for all.
        """
        self._tables = TableWriter(connection, only)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._tables.close()
        else:
            self._tables.roll_back()

    def load(self, path: Path, capture: str | None = None, progress: Progress | None = None) -> str:
        """Insert the rows of a capture, except its findings.

        Args:
            path: the capture; a growing one is read up to its current end.
            capture: the value of the column `capture` in its rows; None for its id.
            progress: called with the number of bytes read.

        Returns:
            The value of the column `capture`.

        Raises:
            CaptureError: there is nothing to read, or it is not a capture, or a later version wrote it.
        """
        source = Capture(path)
        id_ = capture or capture_id(source)
        with rare_collections():
            try:
                _CaptureLoad(self._tables, source, id_, progress).run()
            except CaptureError:
                self._tables.delete_capture(id_)
                raise
        return id_

    def load_findings(self, path: Path, capture: str | None = None) -> None:
        """Insert the findings of a capture, in a separate pass with all rules.

        Args:
            path: the capture.
            capture: the value of the column `capture` in the rows; None for its id.

        Raises:
            CaptureError: as for `load`.
        """
        source = Capture(path)
        leading_values = capture or capture_id(source), wall(source.header.members.get("wall_ns"))
        with rare_collections():
            rows = self._tables.rows["findings"]
            for finding in _findings(source):
                rows.append(leading_values + _finding_row(finding))
                if len(rows) >= MAX_WAITING_ROWS:
                    self._tables.flush()


def _findings(capture: Capture) -> "Iterator[Finding]":
    """Yields the findings of a capture, from the list in the cache if there is one; otherwise, the list is kept."""
    from analysis.checking.checker import RuleSelection
    from analysis.rules.finding import Finding
    from analysis.store.finding_list import FindingList, listed_findings

    entries = listed_findings(capture.path)
    if entries is not None:
        yield from (entry for entry in entries if isinstance(entry, Finding))
        return
    finding_list = FindingList(capture.path)

    def fitting_items() -> Iterator[Item]:
        for item in capture.items_with_frames():
            if isinstance(item, Damage) or _fits_columns(item):
                yield item
            else:
                finding_list.abandon()

    reading = Reading(fitting_items(), RuleSelection())
    reading.is_growing = is_live(capture.segments[-1])
    for step in reading.to_end("open" if reading.is_growing else None):
        finding_list.on_step(step)
        yield from step.findings
    finding_list.save(reading)


def _finding_row(finding: "Finding") -> Row:
    return build_row(
        "findings",
        {
            "rule": finding.rule,
            "group": finding.rule.partition("/")[0],
            "level": str(finding.level),
            "blames": finding.blames,
            "session": finding.session,
            "frame": integer(finding.frame),
            "item": finding.item,
            "related": list(finding.related),
            "method": text(finding.method) or None,
            "message": text(finding.message, None),
            "pointer": text(finding.pointer, None),
            "source": finding.source,
            "t_ns": integer(finding.t_ns),
        },
    )


def _fits_columns(record: Frame | Record) -> bool:
    """Whether the number and the stamp of a record fit into columns."""
    return record.seq <= MAX_BIGINT and record.t_ns <= MAX_BIGINT


class _CaptureLoad:
    """One load of one capture."""

    def __init__(self, tables: TableWriter, capture: Capture, id_: str, progress: Progress | None) -> None:
        self._tables, self._capture, self._progress = tables, capture, progress
        self._id, self._wall_ns = id_, wall(capture.header.members.get("wall_ns"))
        self._start: Row = self._id, self._wall_ns
        """The values at the beginning of each row."""
        rows = tables.rows
        self._frame_rows, self._exchange_rows, self._session_rows = rows["frames"], rows["exchanges"], rows["sessions"]
        self._stderr_rows, self._stall_rows = rows["stderr"], rows["stalls"]
        self._reading = Reading(self._fitting_items())
        self._fold = self._reading.fold
        self._counts = CaptureCounts()
        self._definitions = DefinitionRows(rows["tools"], self._start)
        self._http = HttpRows(rows["http_exchanges"], self._start, self._fold.logins)
        self._logins = LoginRows(rows["logins"], self._start)
        self._held_frames: dict[int, Frame] = {}
        self._session_builders: dict[Session, SessionRowBuilder] = {}
        self._written_sessions: set[int] = set()
        self._last_record: Frame | Record | None = None
        self._bytes_in_earlier_segments = 0
        self._first_row = len(self._frame_rows)
        """The index of this capture's first waiting row."""

    def run(self) -> None:
        """Run the whole load."""
        is_growing = is_live(self._capture.segments[-1])
        process_frame = self._process_frame
        for step in self._reading:
            item = step.item
            if type(item) is Frame:
                process_frame(item, step.messages)
            elif item is not None:
                self._process(step)
            if step.changed:
                self._write_calls(step.changed)
        for step in self._reading.finish("open" if is_growing else None):
            self._process(step)
            if step.item is None:
                self._write_held_frames(step.messages)
                self._write_calls(step.changed, are_over=True)
            else:
                self._write_calls(step.changed)
        self._finish(is_growing=is_growing)

    def _fitting_items(self) -> Iterator[Item]:
        """Yields the items whose numbers and stamps fit into columns, and counts all items."""
        counts = self._counts
        expected = last_ns = 0
        for item in self._capture.items_with_frames():
            if not isinstance(item, Damage):
                seq, t_ns, offset = item.seq, item.t_ns, item.offset
                if type(item) is Frame and seq == expected <= MAX_BIGINT and last_ns <= t_ns <= MAX_BIGINT:
                    expected, last_ns = seq + 1, t_ns  # enough for frames in order, as nearly all are
                elif _fits_columns(item):
                    counts.catch_up(expected, last_ns)
                    counts.count(item)
                    expected, last_ns = counts.last_seq + 1, counts.last_ns
                else:
                    counts.lost += 1
                    continue
                if not offset:  # the first record of the next segment
                    self._bytes_in_earlier_segments += self._bytes_in_segment
                self._last_record = item
            yield item
        counts.catch_up(expected, last_ns)

    @property
    def _bytes_in_segment(self) -> int:
        """The bytes read so far of the last record's segment."""
        return 0 if self._last_record is None else self._last_record.offset + self._last_record.line_size + 1

    # ---- items

    def _process(self, step: Step) -> None:
        item = step.item
        if isinstance(item, Frame):
            self._process_frame(item, step.messages)
        elif isinstance(item, Record):
            self._process_record(item, step.messages)
        elif item is not None:
            self._counts.damage += item.size if item.cause != "torn" else 0

    def _process_frame(self, frame: Frame, messages: tuple[MessageContext, ...]) -> None:
        if len(messages) == 1 and (context := messages[0]).message.frames[0] is frame:
            self._count_message(context)
            self._add_frame(frame, context)
        else:
            self._held_frames[frame.seq] = frame
            self._write_held_frames(messages)

    def _write_held_frames(self, messages: tuple[MessageContext, ...]) -> None:
        """Write the frames of messages that span several lines or share one."""
        contexts_by_frame: dict[int, list[MessageContext]] = {}
        for context in messages:
            self._count_message(context)
            for frame in context.message.frames:
                contexts_by_frame.setdefault(frame.seq, []).append(context)
        for seq, contexts in contexts_by_frame.items():
            if seq in self._held_frames:
                frame, context = self._held_frames.pop(seq), contexts[0]
                if len(contexts) > 1:
                    self._add_row(frame, context.session, None, None, None)
                else:
                    self._add_frame(frame, context)

    def _add_frame(self, frame: Frame, context: MessageContext) -> None:
        call = context.call
        content = params_hash(context.body) if frame.verdict.kind == "notification" else None
        if call is None:
            self._add_row(frame, context.session, None, None, content)
        else:
            self._add_row(frame, context.session, name_text(call.name), call.request.seq, content)

    def _add_row(
        self, frame: Frame, session: Session, name: str | None, request: int | None, content: int | None
    ) -> None:
        kind, id_, method, code, problem, _ = frame.verdict
        raw, conn, exchange = frame.raw, frame.conn, frame.exchange
        size = len(raw)
        # One tuple, built in a single step: this runs for every frame, and half of a load is such steps.
        self._frame_rows.append(
            (
                self._id,
                self._wall_ns,
                frame.seq,
                frame.t_ns,
                frame.time_is_exact,
                frame.dir,
                session.number,
                integer(conn) or 0 if conn else 0,
                None if exchange is None else integer(exchange),
                frame.unit,
                frame.event_id,
                kind,
                None if id_ is None else id_.decode("utf-8", "replace"),
                method,
                name,
                code,
                problem,
                request,
                content,
                None if frame.is_as_written and size < _MIN_DEEP_FRAME_BYTES else _message_problem(frame),
                raw,
            )
        )
        tables = self._tables
        tables.bytes = waiting_bytes = tables.bytes + size + ROW_BYTES
        if waiting_bytes > MAX_WAITING_BYTES:
            self._flush()

    def _process_record(self, record: Record, messages: tuple[MessageContext, ...]) -> None:
        self._write_held_frames(messages)
        if record.rec == "exchange":
            self._process_exchange(record)
        elif record.rec == "stream":
            self._process_stream(record)
        elif record.rec == "stall":
            self._process_stall(record)
        elif record.rec == "stderr":
            raw = raw_bytes(record.members)
            if raw is not None:
                self._stderr_rows.append((*self._start, record.seq, record.t_ns, raw.decode("utf-8", "replace"), raw))
                self._tables.bytes += len(raw)
        elif record.rec in ("frame", "part"):
            self._counts.lost += 1
        if self._tables.is_full:
            self._flush()

    def _process_exchange(self, record: Record) -> None:
        number = integer(record.members.get("exchange"))
        http = None if number is None else self._fold.exchanges.get(number)
        if http is None:
            return
        self._http.builder_of(http, record.t_ns).update(record)
        if http.oauth is not None:
            self._tables.bytes += sum(map(len, http.oauth.values()))
        if self._fold.logins.changed:
            self._logins.hold(self._fold.logins.changed)

    def _process_stream(self, record: Record) -> None:
        number, events = integer(record.members.get("exchange")), integer(record.members.get("events"))
        http = None if number is None else self._fold.exchanges.get(number)
        if http is not None:
            row = self._http.builder_of(http, record.t_ns)
            row.is_stream = True
            row.events = max(row.events, events or 0)

    def _process_stall(self, record: Record) -> None:
        members = record.members
        first, waited_ns, direction = integer(members.get("of")), wait_of(members, record.t_ns), members.get("dir")
        last = integer(members.get("to"))
        if first is not None and waited_ns is not None and direction in ("c2s", "s2c"):
            self._stall_rows.append((self._id, direction, first, first if last is None else last, waited_ns))

    # ---- messages

    def _count_message(self, context: MessageContext) -> None:
        """Count a message in its session."""
        message, session = context.message, context.session
        builder = self._session_builders.get(session) or self._add_session(session)
        builder.frames += 1
        builder.last_ns = t_ns = message.t_ns
        if builder.ready_ns is None and session.state == "ready":
            builder.ready_ns = t_ns
        if context.is_repeat:
            return
        if type(message) is Request:
            builder.note_request(message)
        elif type(message) is Response:
            call = context.answered
            if call is not None and call.request.method == "tools/list" and call.outcome is Outcome.RESULT:
                self._definitions.record(message, session.number)

    def _add_session(self, session: Session) -> SessionRowBuilder:
        builder = self._session_builders[session] = SessionRowBuilder(session)
        if session.number in self._written_sessions:
            self._tables.has_split_sessions = True
        if len(self._session_builders) > MAX_HELD_SESSIONS:
            oldest = next(iter(self._session_builders))
            self._session_rows.append(self._start + self._session_builders.pop(oldest).row())
            self._written_sessions.add(oldest.number)
        return builder

    def _write_calls(self, calls: Iterable[Call], *, are_over: bool = False) -> None:
        """Write the rows of the calls that are over, which are all of them if `are_over` is true."""
        for call in calls:
            if are_over or call.is_over:
                self._exchange_rows.append(self._start + row_of(call))
                if len(self._exchange_rows) >= MAX_WAITING_ROWS:
                    self._flush()  # many calls may end at once, at the end of a capture or in a batch

    # ---- batches, and the end

    def _flush(self) -> None:
        self._count_frames()
        self._tables.flush()
        self._report_progress()

    def _count_frames(self) -> None:
        """Count the waiting frames and their bytes."""
        rows = self._frame_rows[self._first_row :]
        self._counts.frames += len(rows)
        self._counts.bytes += sum([len(row[-1]) for row in rows])
        self._first_row = 0

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(self._bytes_in_earlier_segments + self._bytes_in_segment)

    def _finish(self, *, is_growing: bool) -> None:
        fold = self._fold
        for session in fold.routing.sessions():
            if session not in self._session_builders:
                self._add_session(session)
        self._session_rows.extend(self._start + builder.row() for builder in self._session_builders.values())
        self._http.finish()
        self._logins.hold(fold.logins.changed)
        self._logins.finish()
        self._count_frames()
        row = self._counts.row(self._capture, fold, is_growing=is_growing)
        self._tables.rows["captures"].append(self._start + row)
        if self._tables.is_full:
            self._tables.flush()
        self._report_progress()
        # A million frames leave half a million objects. Without reference cycles, they are freed at once; otherwise,
        # freeing them would take a tenth of the load.
        for table in fold.tables.values():
            table.clear()


_MIN_DEEP_FRAME_BYTES: Final = 2 * MAX_JSON_DEPTH
"""The size in bytes below which no frame can be nested too deeply."""


def _message_problem(frame: Frame) -> str | None:
    """Returns why the column `message` of a frame is NULL, or None if it is not.

    Only frames that are not `is_as_written` can be ambiguous. The verdict is not enough: it looks for duplicates at the
    top level only, names only one of several problems, and does not say for every unit whether it is JSON. DuckDB also
    accepts NaN, and commas before a closing bracket.
    """
    if frame.verdict.kind == "unjudged":
        return "unjudged"
    problem = None if frame.is_as_written else ambiguity(frame.raw, frame.body)
    return TOO_DEEP if problem != NOT_JSON and not is_shallow(frame.raw) else problem
