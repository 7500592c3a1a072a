"""The rows of `mcpproxy report`: captures, sessions, calls, tools and stderr, one by one instead of summed.

As in `analysis.store.stats`, all SQL is part of this program, and needs no sandbox.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from analysis.protocol.methods import OPENING_METHODS
from analysis.store.open import Progress, Source, prepare
from analysis.store.stats import VIEWS, Figures, connect_with_limit


class CaptureRow(NamedTuple):
    """One capture. Text is untrusted."""

    id: str
    name: str | None
    path: str
    transport: str | None
    command: str | None
    upstream: str | None
    opened_ns: int | None
    """When it was opened, by the wall clock, in ns since 1970."""
    duration_ns: int
    frames: int
    bytes: int
    sessions: int
    ending: str | None
    exit_status: int | None
    exit_signal: str | None
    is_live: bool
    lost: int
    damage: int
    unjudged: int
    forgotten: int
    begins_at: int
    unrecorded: int


class SessionRow(NamedTuple):
    """One session: who took part, how long it took to start, and where its time went. Text is untrusted."""

    capture: str
    session: int
    client: str | None
    client_version: str | None
    server: str | None
    server_version: str | None
    revision: str | None
    opened_ns: int
    process_ms: float | None
    initialize_ms: float | None
    ready_ms: float | None
    first_list_ms: float | None
    total_ms: float | None
    is_silent: bool
    session_ms: float | None
    server_ms: float | None
    client_ms: float | None
    stalled_ms: float | None


class CallRow(NamedTuple):
    """One request. Text is untrusted."""

    capture: str
    session: int | None
    request: int
    """The number of its frame."""
    response: int | None
    asked_by: str
    method: str
    name: str | None
    state: str
    """`answered`, `interim`, `cancelled`, `unanswered`, `failed` or `not_recorded`."""
    is_error: bool
    is_abandoned: bool
    started_ns: int
    until_ns: int
    late_ms: float | None
    """How long after its cancellation the response came; None if it was not cancelled or none came."""


class SlowRow(NamedTuple):
    """One of the slowest responses. Text is untrusted."""

    capture: str
    request: int
    asked_by: str
    method: str
    name: str | None
    outcome: str
    latency_ms: float
    waiting_ms: float | None
    late_ms: float | None
    """How long after the cancellation it came; None if it was not cancelled."""


class ErrorRow(NamedTuple):
    """Errors with the same text from the same kind of call, and the first of them. Text is untrusted."""

    capture: str
    frame: int
    """The number of the frame of the error; if no response came, of its request."""
    answered_by: str
    method: str | None
    """None if the error matches no request."""
    name: str | None
    code: int | None
    meaning: str
    text: str | None
    times: int


class Errors(NamedTuple):
    """Errors, grouped by their texts."""

    times: int
    """The number of all errors, including those that are not in a row of `first`."""
    groups: int
    first: list[ErrorRow]
    """The most frequent first."""


class ToolRow(NamedTuple):
    """What a tool costs. Text is untrusted."""

    server: str | None
    name: str
    definitions: int
    """The number of different definitions of it that were received."""
    definition_bytes: int | None
    tokens_estimate: int | None
    calls: int
    errors: int
    result_bytes: int
    largest_result_bytes: int | None


class ChangeRow(NamedTuple):
    """A changed definition of a tool. Text is untrusted."""

    server: str | None
    name: str
    capture: str
    frame: int
    what: str
    version_before: str | None
    version: str | None
    bytes_before: int
    bytes: int
    description_before: str | None
    description: str | None


class StderrRow(NamedTuple):
    """A line that a server wrote to stderr. Its text is untrusted."""

    capture: str
    seq: int
    t_ns: int
    line: str


class ReportRows(Figures):
    """The figures of `stats`, and the rows behind them."""

    def captures(self) -> list[CaptureRow]:
        """All captures, in the order in which they were opened."""
        return [
            CaptureRow(*row)
            for row in self._rows(
                """
                select
                    capture, server, path, transport, command, upstream, epoch_ns(opened), coalesce(duration_ns, 0),
                    frames, bytes, sessions, ending, exit_status, exit_signal, is_live, lost,
                    damage, unjudged, forgotten, begins_at, unrecorded
                from captures order by opened nulls first, path
                """
            )
        ]

    def sessions(self, max_rows: int) -> list[SessionRow]:
        """The first sessions, in the order in which they began."""
        return [
            SessionRow(*row)
            for row in self._rows(
                """
                select
                    sessions.capture, sessions.session, client_name, client_version, server_name,
                    sessions.server_version, sessions.revision, opened_ns, process_ms, initialize_ms, startup.ready_ms,
                    first_list_ms, total_ms, coalesce(is_silent, false), session_ms, server_ms, client_ms, stalled_ms
                from sessions
                    left join startup on startup.capture = sessions.capture and startup.session = sessions.session
                    left join session_times as times
                        on times.capture = sessions.capture and times.session = sessions.session
                order by opened nulls first, sessions.capture, sessions.session limit ?
                """,
                max_rows,
            )
        ]

    def calls(self, capture: str, last: int, max_rows: int) -> list[CallRow]:
        """The first requests of a capture, up to frame `last`."""
        return [
            CallRow(*row)
            for row in self._rows(
                """
                select
                    capture, session, request, response, asked_by, method, name, state, is_error, is_abandoned,
                    started_ns, until_ns, late_ms
                from calls where capture = ? and request <= ? order by request limit ?
                """,
                capture,
                last,
                max_rows,
            )
        ]

    def slowest(self, max_rows: int) -> list[SlowRow]:
        """The slowest responses, without those that open a session, whose latency includes the server's start-up."""
        return [
            SlowRow(*row)
            for row in self._rows(
                """
                select capture, request, asked_by, method, name, outcome, latency_ms, waiting_ms, late_ms
                from slowest where not list_contains(?, method) order by latency_ms desc, capture, request limit ?
                """,
                sorted(OPENING_METHODS),
                max_rows,
            )
        ]

    def errors_by_text(self, max_rows: int) -> Errors:
        """The errors, grouped by their texts, except those that answer a cancellation.

        Texts count as the same if they differ only in words with digits: numbers, ids, times.
        """
        rows = self._rows(
            r"""
            with placed as (
                select
                    * replace (meaning || coalesce(' (' || failed_by || ')', '') as meaning),
                    coalesce(response, request) as frame, (time, capture, coalesce(request, response)) as place,
                    regexp_replace(text, '\w*\d\w*', '0', 'g') as saying
                from errors where not is_cancelled
            )
            select
                sum(count(*)) over (), count(*) over (),
                arg_min(capture, place), arg_min(frame, place), answered_by, method, name, code, meaning,
                arg_min_null(text, place), count(*)
            from placed group by server, answered_by, method, name, code, meaning, saying
            order by count(*) desc, min(place) limit ?
            """,
            max_rows,
        )
        times, groups = rows[0][:2] if rows else (0, 0)
        return Errors(int(times), groups, [ErrorRow(*row[2:]) for row in rows])

    def tools(self, max_rows: int) -> list[ToolRow]:
        """The tools, the most expensive definition first."""
        return [
            ToolRow(*row)
            for row in self._rows(
                """
                select
                    server, name, definitions, definition_bytes, definition_tokens_estimate, calls, errors,
                    result_bytes, largest_result_bytes
                from tool_costs order by definition_bytes desc nulls last, server, name limit ?
                """,
                max_rows,
            )
        ]

    def tool_changes(self, max_rows: int) -> list[ChangeRow]:
        """The first changes of tools."""
        return [
            ChangeRow(*row)
            for row in self._rows(
                """
                select
                    server, name, capture, frame, what, version_before, version, bytes_before, bytes,
                    description_before, description
                from tool_changes order by time, server, name limit ?
                """,
                max_rows,
            )
        ]

    def stderr(self, max_rows: int, max_chars: int) -> list[StderrRow]:
        """The first lines of stderr of all captures, each of at most `max_chars` characters."""
        return [
            StderrRow(*row)
            for row in self._rows(
                "select capture, seq, t_ns, left(line, ?) from stderr order by time nulls first, capture, seq limit ?",
                max_chars,
                max_rows,
            )
        ]

    def stderr_line_count(self) -> int:
        """The number of lines of stderr."""
        ((count,),) = self._rows("select count(*) from stderr")
        return int(count)

    def frame_sizes(self) -> list[tuple[int, int]]:
        """Each frame size in bytes, and how many frames have it, the smallest first."""
        return [(size, count) for size, count in self._rows("select size, count(*) from frames group by 1 order by 1")]


@contextmanager
def report_rows(readable: Iterable[Source], *, progress: Progress | None = None, memory: int) -> Iterator[ReportRows]:
    """The rows of some captures; the rules do not run.

    Args:
        readable: the sources of the rows.
        progress: called with the progress.
        memory: the bytes of memory that DuckDB may use.
    """
    with connect_with_limit(memory) as connection:
        views = VIEWS | {"slowest", "tool_changes"}
        yield ReportRows(connection, prepare(connection, readable, views=views, progress=progress))
