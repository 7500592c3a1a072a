"""The figures with which `mcpproxy stats` answers its questions about a set of captures.

All SQL is part of this program: nothing from a capture or from user input ever becomes part of a statement, so it needs
no sandbox. A hostile capture can only be large, and memory is bounded.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import duckdb

from analysis.store.cache import memory_setting
from analysis.store.connection import connect
from analysis.store.open import Progress, Source, prepare
from analysis.store.turn_figures import CLIENTS_SQL, ClientFigures, TurnFigures, TurnSortKey, turns_sql

LatencySubject: TypeAlias = Literal["call", "server", "client", "tool", "day"]
"""The subject of a row of latencies."""
LatencySortKey: TypeAlias = Literal["n", "errors", "p95", "max", "total"]
"""The sort keys for rows of latencies, the largest first."""

OutOfMemoryError = duckdb.OutOfMemoryException
"""Raised if figures need more memory than is allowed."""
DEFAULT_MEMORY_BYTES: Final = 1_000_000_000
"""The default number of bytes of memory that DuckDB may use."""
SELECT_LOSSES: Final = (
    "select path, damage, lost, forgotten, begins_at, unrecorded, "
    "(select count(*) from sessions where sessions.capture = captures.capture and delimited = 'guess') as guesses "
    "from captures where damage > 0 or lost > 0 or forgotten > 0 or begins_at > 0 or unrecorded > 0 or guesses > 0 "
    "order by path"
)
"""Selects the captures that lack something: the rows of `Loss`."""
VIEWS: Final = frozenset(
    {
        "calls",
        "errors",
        "id_mismatches",
        "lifecycle_violations",
        "session_times",
        "startup",
        "tool_costs",
        "turns",
        "unanswered",
    }
)
"""The views that figures are computed from."""
MAX_ROWS_PER_FIGURE: Final = 1000
"""The most rows read for one figure, the most important first."""

# The SQL for the columns that distinguish rows: (server, what). None of it comes from outside.
_SERVER_SQL: Final = "nullif(server, '')"
_ONLY_CLIENT_SQL: Final = "min(known_client) over (partition by nullif(client, ''))"
_CLIENT_SQL: Final = (
    "coalesce(known_client, case when client <> '' and "
    f"{_ONLY_CLIENT_SQL} = max(known_client) over (partition by nullif(client, '')) then {_ONLY_CLIENT_SQL} end, "
    "nullif(client, ''))"
)
"""The name of a client, as in `turn_figures.CLIENTS_SQL`."""
_SUBJECT_SQL: Final[dict[LatencySubject, tuple[str, str]]] = {
    "call": (_SERVER_SQL, "concat_ws(' ', method, name)"),
    "server": (_SERVER_SQL, "null"),
    "client": ("null", _CLIENT_SQL),
    "tool": (_SERVER_SQL, "name"),
    "day": ("null", "strftime(time, '%Y-%m-%d')"),
}
_ORDER_SQL: Final[dict[LatencySortKey, str]] = {
    "n": "calls desc",
    "errors": "errors desc, error_share desc nulls last",
    "p95": "took[2] desc nulls last",
    "max": "longest desc nulls last",
    "total": "total desc",
}


class Loss(NamedTuple):
    """What one capture lacks."""

    path: str
    damage: int
    """Bytes that are not records."""
    lost: int
    """Records known to be lost."""
    forgotten: int
    """Requests and similar that were forgotten because too many were open at once."""
    begins_at: int
    """The number of its first record if the recorder's ring has deleted earlier ones; otherwise 0."""
    unrecorded: int
    """Bodies that may contain messages and are not in the capture."""
    guesses: int
    """Sessions of clients that cannot be distinguished."""


class Totals(NamedTuple):
    """The size of the captures."""

    captures: int
    servers: int
    clients: int
    sessions: int
    frames: int
    bytes: int
    duration_ns: int
    """The duration of all captures together."""
    lost: int
    damage: int
    live: int
    """Captures that are still being recorded."""
    cut_off: int
    """Captures that were never closed and are not live, because the recorder was killed."""
    forgotten: int
    """Requests and similar that were forgotten because too many were open at once."""
    not_recorded: int
    """Requests whose response may be in bodies or records that the captures lack."""


class Latency(NamedTuple):
    """How long the responses to one kind of call took."""

    server: str | None
    """None if the row is about several servers."""
    what: str | None
    calls: int
    answered: int
    errors: int
    error_share: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    total_ms: float
    """The total time its calls were open, including unanswered ones."""
    buckets: dict[int, int]
    """The number of responses by latency: the keys are exponents of powers of two, in milliseconds."""


class Count(NamedTuple):
    """How often something occurs."""

    what: str
    times: int
    example: str | None = None


class AbandonedRequests(NamedTuple):
    """Requests of one kind whose sender gave up on them; see `Call.abandoned_ns`."""

    what: str
    times: int
    late: int
    """How many of them were answered anyway."""
    waited_ms: float
    """The longest wait; the other columns, except `captures`, are about that request."""
    request: int
    """The number of its frame."""
    reason: str | None
    """The reason given in its cancellation."""
    late_ms: float | None
    """How long after its cancellation it was answered anyway; None if it was not."""
    captures: int
    """How many captures have such requests."""
    path: str
    """The file of the capture."""
    probable_answer: int | None
    """The number of the frame of a response that matches no request and was probably meant for it."""
    probable_answer_id: str | None
    """The id of that response."""


class UnansweredRequests(NamedTuple):
    """Unanswered requests of one kind that were not cancelled."""

    what: str
    times: int
    requests: list[int]
    """The numbers of the frames of the first ones."""
    live: int
    """How many of them are in captures that are still being recorded."""
    may_be_lost: int
    """How many of them are in captures that lack records or bodies."""
    may_be_unjudged: int
    """How many of them are in other captures, before frames that could not be examined."""
    captures: int
    """How many captures have such requests."""
    path: str
    """The file of the first one."""
    waited_ms: float
    """How long the first one has waited: up to the end of its capture, or up to now while that is being recorded."""
    probable_answer: int | None
    """The number of the frame of a response that matches no request and was probably meant for the first one."""
    probable_answer_id: str | None
    """The id of that response."""


class ToolCost(NamedTuple):
    """The cost of a tool's definition."""

    server: str | None
    tool: str
    bytes: int
    tokens_estimate: int
    calls: int


class SessionTime(NamedTuple):
    """Where the time of all sessions went, in ms; server, client and stalled time add up to that of the sessions."""

    session_ms: float
    server_ms: float
    """The time in which a request of the client was open, and the server did not wait for the client."""
    client_ms: float
    """The remaining time: that of the model and the user."""
    waiting_ms: float
    """The part of client time in which the server waited for responses from the client."""
    stalled_ms: float
    """The time in which a frame waited because its receiver did not accept it."""
    unanswered: int
    """The number of unanswered client requests; they count as server time up to the end of their session."""


class ToolTime(NamedTuple):
    """How long the calls of a tool kept its server busy, in ms. Each of several overlapping calls counts."""

    server: str | None
    tool: str
    total_ms: float


class DeclaredExtension(NamedTuple):
    """An extension that one side declares."""

    side: str
    identifier: str
    sessions: int
    """The number of sessions in which it is declared."""


class Startup(NamedTuple):
    """How long sessions took to start: for each part, the median over the sessions in which it is known."""

    sessions: int
    total_ms: float
    process_ms: float | None
    initialize_ms: float | None
    ready_ms: float | None
    first_list_ms: float | None
    silent: int
    """Sessions in which the start of the process cannot be distinguished from the first response."""
    process_sessions: int
    """The number of sessions in which this part is known; likewise for the other three parts."""
    initialize_sessions: int
    ready_sessions: int
    first_list_sessions: int
    discover_sessions: int
    """In how many sessions the part `initialize` is that of `server/discover`."""


class Figures:
    """Queries the figures from a connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, refused: list[tuple[Path, Exception]]) -> None:
        """Create figures from a connection that has the tables and views."""
        self._connection = connection
        self.refused = refused
        """Captures that could no longer be read, and why."""

    def totals(self) -> Totals:
        """The size of the captures."""
        (row,) = self._rows(
            """
            select
                count(*), count(distinct server), (select count(distinct client_name) from sessions),
                sum(sessions)::bigint, sum(frames)::bigint, sum(bytes)::bigint,
                least(sum(duration_ns), 9223372036854775807)::bigint,
                sum(lost)::bigint, sum(damage)::bigint, count(*) filter (is_live),
                count(*) filter (ending is null and not is_live),
                sum(forgotten)::bigint, (select count(*) from exchanges where outcome = 'not_recorded')
            from captures
            """
        )
        return Totals(*(value or 0 for value in row))

    def losses(self) -> list[Loss]:
        """The captures that lack something."""
        return [Loss(*row) for row in self._rows(SELECT_LOSSES)]

    def latency(self, by: LatencySubject = "call", sort: LatencySortKey | None = None) -> list[Latency]:
        """A row for each kind of call; by tool, only the calls of tools count.

        Args:
            by: what a row is about.
            sort: the sort key; None to put the most frequent first, or the earliest day.
        """
        server, kind = _SUBJECT_SQL[by]
        order = "what" if by == "day" and sort is None else _ORDER_SQL[sort or "n"]
        return [
            _latency(row)
            for row in self._rows(
                f"""
                with marked as (
                    select
                        {server} as server, {kind} as what, is_decided, is_error, latency_ms, open_ms,
                        case when latency_ms < 0.001953125 then -10 else floor(log2(latency_ms))::integer end as bucket
                    from calls
                    where ? or (method = 'tools/call' and asked_by = 'client')
                ),
                counted as (
                    select server, what, bucket, count(*) as answers
                    from marked where bucket is not null group by all
                ),
                pictured as (
                    select
                        server, what, list(bucket order by bucket) as buckets, list(answers order by bucket) as answers
                    from counted group by all
                ),
                summed as (
                    select
                        server, what, count(*) as calls, count(latency_ms) as answered,
                        count(*) filter (is_error) as errors,
                        round(count(*) filter (is_error) / nullif(count(*) filter (is_decided), 0), 4) as error_share,
                        quantile_cont(latency_ms, [0.5, 0.95, 0.99]) as took, max(latency_ms) as longest,
                        coalesce(sum(open_ms), 0) as total
                    from marked group by all
                )
                select
                    summed.server, summed.what, calls, answered, errors, error_share, round(took[1], 6),
                    round(took[2], 6), round(took[3], 6), round(longest, 6), round(total, 6),
                    coalesce(buckets, []), coalesce(answers, [])
                from summed left join pictured
                    on pictured.server is not distinct from summed.server
                    and pictured.what is not distinct from summed.what
                order by {order}, calls desc, summed.server, summed.what
                limit {MAX_ROWS_PER_FIGURE}
                """,  # noqa: S608 - no part is untrusted
                by != "tool",
            )
        ]

    def error_share(self) -> float | None:
        """Returns the share of errors among all calls that were answered in time or failed, or None if there are none.

        `Latency.error_share` is the same for one kind of call.
        """
        ((share,),) = self._rows(
            "select count(*) filter (is_error) / nullif(count(*) filter (is_decided), 0) from calls"
        )
        return None if share is None else float(share)

    def time(self) -> SessionTime:
        """Where the time of all sessions went."""
        (row,) = self._rows(
            """
            select
                coalesce(round(sum(session_ms), 6), 0), coalesce(round(sum(server_ms), 6), 0),
                coalesce(round(sum(client_ms), 6), 0), coalesce(round(sum(waiting_ms), 6), 0),
                coalesce(round(sum(stalled_ms), 6), 0), coalesce(sum(unanswered), 0)::bigint
            from session_times
            """
        )
        return SessionTime(*row)

    def tool_times(self) -> list[ToolTime]:
        """How long each tool that was called kept its server busy, the longest first."""
        return [
            ToolTime(*row)
            for row in self._rows(
                f"""
                select
                    {_SERVER_SQL} as server, name,
                    round(sum(greatest(0, open_ms - coalesce(waiting_ms, 0))), 6) as total_ms
                from calls
                where method = 'tools/call' and asked_by = 'client' and name is not null
                group by all order by total_ms desc, server, name limit {MAX_ROWS_PER_FIGURE}
                """  # noqa: S608 - no part is untrusted
            )
        ]

    def errors(self) -> list[Count]:
        """Errors by their meaning, except those that answer a cancellation."""
        return self._counts(
            """
            select
                concat_ws(' ', code, meaning) || coalesce(' (' || failed_by || ')', ''), count(*),
                arg_min(text, (time, capture, request))
            from errors where not is_cancelled group by all order by 2 desc, 1
            """
        )

    def id_mismatches(self) -> list[Count]:
        """Mismatched ids, by rule, excluding notes."""
        return self._counts(
            """
            select coalesce(rule, what), count(*), arg_min(text, (time, capture, frame))
            from id_mismatches where level is distinct from 'note' group by all order by 2 desc, 1
            """
        )

    def lifecycle_violations(self) -> list[Count]:
        """Violations of the life cycle, by rule."""
        return self._counts(
            """
            select rule, count(*), arg_min(text, (time, capture, frame))
            from lifecycle_violations group by all order by 2 desc, 1
            """
        )

    def abandoned(self) -> list[AbandonedRequests]:
        """Abandoned requests by what they requested, the longest wait first."""
        return [
            AbandonedRequests(*row)
            for row in self._rows(
                """
                select
                    concat_ws(' ', method, calls.name) as what, count(*), count(late_ms), max(abandoned_ms),
                    arg_max(request, place), arg_max_null(cancel_reason, place), arg_max_null(late_ms, place),
                    count(distinct capture), arg_max(path, place), arg_max_null(probable_answer, place),
                    arg_max_null(probable_answer_id, place)
                from (
                    select *, (abandoned_ms, -request) as place
                    from calls where is_abandoned
                ) as calls join captures using (capture)
                group by what order by 4 desc, 1
                """
            )
        ]

    def unanswered(self) -> list[UnansweredRequests]:
        """Unanswered requests that were not cancelled, by what they request."""
        return [
            UnansweredRequests(*row)
            for row in self._rows(
                """
                with numbered as (
                    select
                        concat_ws(' ', method, unanswered.name) as what, request, unanswered.is_live as is_live,
                        may_be_lost, may_be_unjudged, capture, path, open_ms, probable_answer, probable_answer_id,
                        row_number() over (partition by what order by time, capture, request) as place
                    from unanswered join captures using (capture)
                    where why <> 'abandoned'
                )
                select
                    what, count(*), list(request order by place) filter (place <= 10),
                    count(*) filter (is_live), count(*) filter (may_be_lost and not is_live),
                    count(*) filter (may_be_unjudged and not may_be_lost and not is_live),
                    count(distinct capture), arg_min(path, place), arg_min(open_ms, place),
                    max(probable_answer) filter (place = 1), max(probable_answer_id) filter (place = 1)
                from numbered group by what order by 2 desc, 1
                """
            )
        ]

    def logins(self) -> list[Count]:
        """Logins by outcome, with the leg that failed as an example."""
        return self._counts(
            """
            select
                outcome, count(*),
                arg_min(concat_ws(' ', failed_leg, failed_status, error), (started_ns, capture, login))
                    filter (failed_leg is not null)
            from logins group by all order by 2 desc, 1
            """
        )

    def turns(self, sort: TurnSortKey | None = None) -> list[TurnFigures]:
        """What each turn caused, the worst first unless `sort` says otherwise."""
        return [TurnFigures(*row) for row in self._rows(turns_sql(sort, MAX_ROWS_PER_FIGURE))]

    def clients(self) -> list[ClientFigures]:
        """What each client that called tools says its calls belong to."""
        return [ClientFigures(*row) for row in self._rows(CLIENTS_SQL)]

    def extensions(self) -> list[DeclaredExtension]:
        """The extensions that clients and servers declare, those of most sessions first. Untrusted texts."""
        return [
            DeclaredExtension(*row)
            for row in self._rows(
                """
                select side, identifier, count(*) as sessions
                from (
                    select 'client' as side, unnest(json_keys(try_cast(client_capabilities as json), '$.extensions'))
                        as identifier
                    from sessions
                    union all
                    select 'server', unnest(json_keys(try_cast(server_capabilities as json), '$.extensions'))
                    from sessions
                )
                group by all order by side, sessions desc, identifier limit ?
                """,
                MAX_ROWS_PER_FIGURE,
            )
        ]

    def definitions(self) -> list[ToolCost]:
        """All listed tools, the most expensive first."""
        return [
            ToolCost(*row)
            for row in self._rows(
                """
                select server, name, definition_bytes, definition_tokens_estimate, calls
                from tool_costs where definition_bytes is not null order by definition_bytes desc, server, name
                """
            )
        ]

    def startup(self) -> Startup | None:
        """Returns how long sessions took to start up, or None if that is unknown for all."""
        (row,) = self._rows(
            """
            select
                count(total_ms), median(total_ms), median(process_ms), median(initialize_ms), median(ready_ms),
                median(first_list_ms), count(*) filter (is_silent and total_ms is not null), count(process_ms),
                count(initialize_ms), count(ready_ms), count(first_list_ms),
                count(initialize_ms) filter (era = 'modern')
            from startup join sessions using (capture, session)
            """
        )
        return Startup(*row) if row[0] else None

    def _counts(self, sql: str) -> list[Count]:
        return [Count(*row) for row in self._rows(sql)]

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, whose text does not come from outside."""
        return self._connection.execute(sql, list(values)).fetchall()


def _latency(row: tuple[Any, ...]) -> Latency:
    *values, buckets, answers = row
    return Latency._make([*values, dict(zip(buckets, answers, strict=True))])


@contextmanager
def figures(
    readable: Iterable[Source], *, findings: bool, progress: Progress | None = None, memory: int = DEFAULT_MEMORY_BYTES
) -> Iterator[Figures]:
    """The figures of some captures.

    Args:
        readable: the sources of the rows.
        findings: whether to run the rules, too.
        progress: called with the progress.
        memory: the bytes of memory that DuckDB may use.
    """
    with connect_with_limit(memory) as connection:
        yield Figures(connection, prepare(connection, readable, views=VIEWS, findings=findings, progress=progress))


def connect_with_limit(memory: int) -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new database in memory, which loads no extensions.

    Args:
        memory: the bytes of memory that DuckDB may use.
    """
    extensions = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return connect(memory_limit=memory_setting(memory), **extensions)
