"""The history of tool definitions over many captures: which changed, which came and went, and who received which.

As in `analysis.store.stats`, all SQL is part of this program, and needs no sandbox.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from analysis.protocol.error_codes import METHOD_NOT_FOUND
from analysis.store.open import Progress, Source, prepare
from analysis.store.stats import connect_with_limit

MAX_SIGHTINGS: Final = 20
"""The most sessions that are named for one definition."""
MAX_LISTED_NAMES: Final = 2_000_000
"""The most names of tools in the lists that are compared."""
_BATCH: Final = 500


class ListedTool(NamedTuple):
    """One row of the table `tools`: a definition in one session. Text is untrusted."""

    capture: str
    """The id of the capture."""
    path: str
    session: int
    frame: int
    hash: str
    server_version: str | None
    revision: str | None


class ChangedTool(NamedTuple):
    """One row of the view `tool_changes`, with both definitions. Text is untrusted."""

    time_ns: int | None
    """When the changed definition was listed, in ns since 1970."""
    server: str | None
    calls_itself: str | None
    name: str
    before: ListedTool
    after: ListedTool

    @property
    def version_before(self) -> str | None:
        """The version that the server gave itself with the earlier definition."""
        return self.before.server_version

    @property
    def version(self) -> str | None:
        """The version that it gave itself with the changed one."""
        return self.after.server_version


class ListPlace(NamedTuple):
    """A list that a session received."""

    path: str
    session: int
    frame: int


class ChangedList(NamedTuple):
    """A session whose tools have other names than those of the session before, of the same server."""

    time_ns: int | None
    """When the session began, in ns since 1970."""
    server: str | None
    calls_itself: str | None
    version_before: str | None
    """The version that the server gave itself in the session before."""
    version: str | None
    place_before: ListPlace
    """The list of the session before."""
    place: ListPlace
    """The list of this session."""
    gone: dict[str, ListedTool]
    """By name, the tools of the session before that this one lacks."""
    come: dict[str, ListedTool]
    """By name, the tools that only this one has."""


class Sighting(NamedTuple):
    """A session that received a definition. Text is untrusted."""

    path: str
    """The capture."""
    session: int
    client: str | None
    """Name and version of the client."""
    time_ns: int | None
    """When the list came, in ns since 1970."""


class Sightings(NamedTuple):
    """The sessions that received a definition, until it changed or went."""

    total: int = 0
    first: tuple[Sighting, ...] = ()
    """The first of them, at most `MAX_SIGHTINGS`."""


class CaptureHole(NamedTuple):
    """What a capture lacks, so that it may hide a change of a definition."""

    path: str
    damage: int
    """How many bytes of its files are not records."""
    lost: int
    """How many records are known to be lost."""
    unanswered: int
    """In how many sessions the last request for tools got no answer that was recorded."""
    refused: int
    """In how many sessions it got an error, other than that the server has no such method."""
    cut: int
    """In how many sessions pages of the list are missing."""


class HistoryTotals(NamedTuple):
    """What the history covers."""

    captures: int
    sessions: int
    definitions: int
    """How many different definitions there are."""


_LISTED: Final = """
    {0}.capture, {0}_capture.path, {0}.session, {0}.listed, {0}.hash, {0}_session.server_version, {0}_session.revision
"""
_JOINED: Final = """
    join captures as {0}_capture on {0}_capture.capture = {0}.capture
    left join sessions as {0}_session on {0}_session.capture = {0}.capture and {0}_session.session = {0}.session
"""
_CHANGED_TOOLS: Final = f"""
    select
        epoch_ns(changes.time), changes.server, after_session.server_name, changes.name,
        {_LISTED.format("before")}, {_LISTED.format("after")}
    from tool_changes as changes
        join tools as after
            on after.capture = changes.capture and after.session = changes.session and after.listed = changes.frame
            and after.name = changes.name and after.bytes = changes.bytes
        join tools as before
            on before.capture = changes.capture_before and before.session = changes.session_before
            and before.name = changes.name and before.bytes = changes.bytes_before and before.hash <> after.hash
            and (before.capture <> after.capture or before.session <> after.session or before.listed <= after.listed)
        {_JOINED.format("before")}
        {_JOINED.format("after")}
    qualify row_number() over (
        partition by after.capture, after.session, after.listed, after.hash
        order by before.t_ns desc, before.listed desc
    ) = 1
    order by
        changes.time nulls last, changes.server nulls last, changes.name, after.capture, after.session, after.listed
    limit ?
"""  # noqa: S608 - no part comes from outside
# A session knows the whole list if it received a first page and a last one, and nothing is lost.
_CHANGED_LISTS: Final = """
    with whole as (
        select exchanges.capture as capture, exchanges.session as session, max(exchanges.response) as listed
        from exchanges
            join frames as asked on asked.capture = exchanges.capture and asked.seq = exchanges.request
            join frames as answered on answered.capture = exchanges.capture and answered.seq = exchanges.response
        where exchanges.method = 'tools/list' and exchanges.asked_by = 'client' and exchanges.outcome = 'result'
        group by all
        having bool_or(asked.message is not null and (asked.message -> '$.params.cursor') is null)
            and bool_or(answered.message is not null and (answered.message -> '$.result.nextCursor') is null)
    ),
    lists as (
        select
            captures.server as server, sessions.server_name as calls_itself, whole.capture as capture,
            captures.path as path, whole.session as session, whole.listed as listed,
            sessions.server_version as version, sessions.opened as time,
            coalesce(list_sort(list(distinct tools.name) filter (tools.name is not null)), []) as names
        from whole join captures using (capture) join sessions using (capture, session)
            left join tools using (capture, session)
        where captures.lost = 0 and captures.damage = 0
        group by all
    ),
    compared as (
        select
            *, lag(names) over earlier as names_before, lag(capture) over earlier as capture_before,
            lag(session) over earlier as session_before, lag(version) over earlier as version_before,
            lag(path) over earlier as path_before, lag(listed) over earlier as listed_before
        from lists
        window earlier as (partition by server, calls_itself order by time nulls last, capture, session)
    )
    select
        epoch_ns(time), server, calls_itself, version_before, version,
        capture_before, session_before, names_before, capture, session, names,
        path_before, listed_before, path, listed, count(*) over () as total
    from compared
    where names_before is not null and names <> names_before
    qualify sum(len(names_before) + len(names)) over (
        order by time nulls last, server nulls last, capture, session rows unbounded preceding
    ) <= ?
    order by time nulls last, server nulls last, capture, session
    limit ?
"""
_TOOLS_BY_NAME: Final = f"""
    select wanted.list, listed.name, {_LISTED.format("listed")}
    from (
            select unnest(?) as list, unnest(?) as capture, unnest(?) as session, unnest(?) as name
        ) as wanted
        join tools as listed
            on listed.capture = wanted.capture and listed.session = wanted.session and listed.name = wanted.name
        {_JOINED.format("listed")}
    qualify row_number() over (
        partition by wanted.list, listed.name order by listed.t_ns desc, listed.listed desc
    ) = 1
    order by wanted.list, listed.name
"""  # noqa: S608 - no part comes from outside
# A stretch is a series of equal definitions of a tool, without another one or a list that lacks the tool in between.
_SIGHTINGS: Final = """
    with wanted as (
        select
            unnest(?::bigint[]) as number, unnest(?::varchar[]) as capture, unnest(?::integer[]) as session,
            unnest(?::bigint[]) as listed, unnest(?::varchar[]) as name, unnest(?::varchar[]) as hash
    ),
    seen as (
        select
            captures.server as server, sessions.server_name as calls_itself, tools.name as name,
            tools.capture as capture, tools.session as session, tools.t_ns as t_ns, tools.listed as listed,
            epoch_ns(tools.time) as time_ns, tools.hash as hash, captures.path as path,
            nullif(concat_ws(' ', sessions.client_name, nullif(sessions.client_version, '')), '') as client
        from tools join captures using (capture)
            left join sessions on sessions.capture = tools.capture and sessions.session = tools.session
        where tools.name in (select name from wanted)
        union all by name
        select
            unnest(?::varchar[]) as server, unnest(?::varchar[]) as calls_itself, unnest(?::varchar[]) as name,
            unnest(?::bigint[]) as time_ns
    ),
    marked as (
        select *, hash is distinct from lag(hash) over earlier as begins
        from seen
        window earlier as (
            partition by server, calls_itself, name order by time_ns nulls last, capture, session, t_ns, listed
        )
    ),
    numbered as (
        select *, count_if(begins) over (
            partition by server, calls_itself, name order by time_ns nulls last, capture, session, t_ns, listed
            rows unbounded preceding
        ) as stretch
        from marked
    ),
    totals as (
        select
            server, calls_itself, name, stretch, count(*) as total,
            list(
                {'path': path, 'session': session, 'client': client, 'time_ns': time_ns}
                order by time_ns nulls last, capture, session, listed
            )[:?] as first
        from numbered where hash is not null
        group by server, calls_itself, name, stretch
    )
    select wanted.number, totals.total, totals.first
    from wanted
        join numbered on numbered.capture = wanted.capture and numbered.session = wanted.session
            and numbered.listed = wanted.listed and numbered.name = wanted.name and numbered.hash = wanted.hash
        join totals on totals.name = numbered.name and totals.stretch = numbered.stretch
            and totals.server is not distinct from numbered.server
            and totals.calls_itself is not distinct from numbered.calls_itself
"""
_DEFINITIONS: Final = "select hash, any_value(definition) from tools where hash in (select unnest(?)) group by hash"
_HOLES: Final = """
    with asked as (
        select
            exchanges.capture as capture, exchanges.session as session,
            arg_max(
                {
                    'outcome': exchanges.outcome, 'code': coalesce(exchanges.code, 0),
                    'is_last': answered.message is not null and (answered.message -> '$.result.nextCursor') is null
                },
                exchanges.request
            ) as newest,
            bool_or(
                exchanges.outcome = 'result' and asked.message is not null
                and (asked.message -> '$.params.cursor') is null
            ) as has_first
        from exchanges
            left join frames as asked on asked.capture = exchanges.capture and asked.seq = exchanges.request
            left join frames as answered on answered.capture = exchanges.capture and answered.seq = exchanges.response
        where exchanges.method = 'tools/list' and exchanges.asked_by = 'client'
        group by all
    ),
    counted as (
        select
            captures.path as path, captures.damage as damage, captures.lost as lost,
            count(*) filter (newest.outcome not in ('result', 'error')) as unanswered,
            count(*) filter (newest.outcome = 'error' and newest.code <> ?) as refused,
            count(*) filter (newest.outcome = 'result' and not (newest.is_last and has_first)) as cut
        from captures left join asked using (capture)
        group by captures.capture, captures.path, captures.damage, captures.lost
    )
    from counted where damage + lost + unanswered + refused + cut > 0 order by path
"""
_TOTALS: Final = """
    select (select count(*) from captures), (select count(*) from sessions), (select count(distinct hash) from tools)
"""

_NAMES: Final = """
    with named as (
        select captures.server, sessions.server_name as name, min(sessions.opened) as time
        from sessions join captures using (capture)
        where sessions.server_name is not null
            and exists (from tools where tools.capture = sessions.capture and tools.session = sessions.session)
        group by all
    )
    select server, list(name order by time nulls last, name)[:?] from named
    group by server having count(*) > 1 order by server nulls last limit ?
"""

Absence = tuple[str | None, str | None, str, int | None]
"""The server, the name that it gives itself, the name of a tool, and when a list began to lack it, in ns since 1970."""


class DefinitionHistory:
    """The definitions in some captures."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, refused: list[tuple[Path, Exception]]) -> None:
        """Create a history over a connection with the tables and the view `tool_changes`."""
        self._connection = connection
        self.refused = refused
        """Captures that could not be read, and why."""

    def totals(self) -> HistoryTotals:
        """Returns what the history covers."""
        (row,) = self._rows(_TOTALS)
        return HistoryTotals(*row)

    def holes(self) -> list[CaptureHole]:
        """Returns the captures that may lack definitions."""
        return [CaptureHole._make(row) for row in self._rows(_HOLES, METHOD_NOT_FOUND)]

    def names(self, max_names: int, max_servers: int) -> list[tuple[str | None, list[str]]]:
        """Returns the recorded servers that give themselves several names, with the first of these names."""
        return [(server, names) for server, names in self._rows(_NAMES, max_names, max_servers)]

    def changed_tools(self, max_rows: int) -> list[ChangedTool]:
        """Returns the first changes of definitions."""
        return [
            ChangedTool._make((*row[:4], ListedTool._make(row[4:11]), ListedTool._make(row[11:])))
            for row in self._rows(_CHANGED_TOOLS, max_rows)
        ]

    def changed_lists(self, max_rows: int) -> tuple[list[ChangedList], bool]:
        """Returns the first changes of which tools there are, and whether there are more."""
        rows = self._rows(_CHANGED_LISTS, MAX_LISTED_NAMES, max_rows)
        total = rows[0][-1] if rows else 0
        wanted = (
            (index, capture, session, name)
            for index, row in enumerate(rows)
            for (capture, session, names), others in ((row[5:8], row[10]), (row[8:11], row[7]))
            for name in sorted(set(names).difference(others))
        )
        tools = self._listed_tools(wanted)
        changed_lists: list[ChangedList] = []
        for index, row in enumerate(rows):
            names_before, listed = set(row[7]), tools.get(index, {})
            gone = {name: tool for name, tool in listed.items() if name in names_before}
            come = {name: tool for name, tool in listed.items() if name not in names_before}
            places = ListPlace(row[11], row[6], row[12]), ListPlace(row[13], row[9], row[14])
            changed_lists.append(ChangedList._make((*row[:5], *places, gone, come)))
        return changed_lists, total > len(rows)

    def definitions(self, hashes: Iterable[str]) -> dict[str, str]:
        """Returns definitions as JSON, by their hashes."""
        return dict(row for batch in _batches(hashes) for row in self._rows(_DEFINITIONS, batch))

    def sightings(
        self, tools: Iterable[tuple[str, ListedTool]], absences: Iterable[Absence]
    ) -> dict[tuple[str, ListedTool], Sightings]:
        """Returns who received definitions, each as long as it was neither changed nor gone.

        Args:
            tools: the names and places of the definitions.
            absences: when lists began to lack tools.
        """
        gone = list(zip(*absences, strict=True)) or [(), (), (), ()]
        found: dict[tuple[str, ListedTool], Sightings] = {}
        distinct = iter(dict.fromkeys(tools))
        while batch := list(islice(distinct, 100 * _BATCH)):
            listed = [
                (number, tool.capture, tool.session, tool.frame, name, tool.hash)
                for number, (name, tool) in enumerate(batch)
            ]
            columns = (list(column) for column in (*zip(*listed, strict=True), *gone))
            for number, total, first in self._rows(_SIGHTINGS, *columns, MAX_SIGHTINGS):
                found[batch[number]] = Sightings(total, tuple(Sighting(**each) for each in first))
        return found

    def _listed_tools(self, wanted: Iterable[tuple[int, str, int, str]]) -> dict[int, dict[str, ListedTool]]:
        """Returns tools by list and name, as they were listed last.

        Args:
            wanted: the number of a list, the capture and session that received it, and the name of a tool.
        """
        tools: defaultdict[int, dict[str, ListedTool]] = defaultdict(dict)
        places = iter(wanted)
        while batch := list(islice(places, 10 * _BATCH)):
            for index, name, *listed in self._rows(_TOOLS_BY_NAME, *map(list, zip(*batch, strict=True))):
                tools[index][name] = ListedTool._make(listed)
        return tools

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, whose text does not come from outside."""
        return self._connection.execute(sql, list(values)).fetchall()


def _batches(hashes: Iterable[str]) -> Iterator[Sequence[str]]:
    distinct = sorted(set(hashes))
    for start in range(0, len(distinct), _BATCH):
        yield distinct[start : start + _BATCH]


@contextmanager
def definition_history(
    readable: Iterable[Source], *, progress: Progress | None = None, memory: int
) -> Iterator[DefinitionHistory]:
    """The history of the definitions in some captures; the rules do not run.

    Args:
        readable: the sources of the rows.
        progress: called with the progress.
        memory: the bytes of memory that DuckDB may use.
    """
    with connect_with_limit(memory) as connection:
        refused = prepare(connection, readable, views={"tool_changes"}, progress=progress)
        yield DefinitionHistory(connection, refused)
