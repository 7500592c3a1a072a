"""The output of `mcpproxy stats`, as text and as objects: latencies and their shape, errors, mismatches, costs.

Untrusted text is sanitised here. A line is never longer than the terminal is wide.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.rules.finding import GUESS_PREFIX
from analysis.store.stats import (
    AbandonedRequests,
    Count,
    DeclaredExtension,
    Figures,
    Latency,
    LatencySortKey,
    LatencySubject,
    SessionTime,
    Startup,
    ToolCost,
    ToolTime,
    Totals,
    UnansweredRequests,
)
from analysis.store.turn_figures import ClientFigures, TurnFigures, TurnSortKey
from captures.paths import SUFFIX
from mcpproxy.report.turns import client_texts, hint_lines, turn_lines
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.blocks import distribution_text
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells, fit, fit_ends
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.extensions import known_or_unknown
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.units import duration, nanoseconds, size
from mcpproxy.wording.without_answer import abandoned_kind, doubt_texts, unanswered_kind
from mcpproxy.wording.wrapping import wrapped

Subject: TypeAlias = LatencySubject | Literal["turn"]
"""What a row at the top of the report is about: a kind of call, with its latency, or a turn."""
SHAPE_CELLS: Final = 10
"""The width of the shape of a distribution, in cells."""
MAX_LATENCY_ROWS: Final = 20
"""The maximum number of rows of latencies on the screen."""
MIN_ROWS_PER_SERVER: Final = 3
"""The minimum number of rows for each server, if there are several."""
MAX_NAMES_PER_LINE: Final = 3
_MAX_EXTENSIONS: Final = 10
"""The maximum number of names in a line."""
MIN_WIDTH: Final = 32
"""The minimum width of a line, in cells; a narrower terminal breaks the lines."""
MIN_NAME_CELLS: Final = 24
"""The width, in cells, that a name keeps: with less room, columns are dropped."""
MAX_NAME_CELLS: Final = 40
"""The width, in cells, that a name may use: with less room, the shape is dropped."""
MIN_SIDE_BY_SIDE_CELLS: Final = 60
"""The minimum width, in cells, at which details are shown next to their figure, not below it."""

_COLUMNS: Final = {"n": 7, "err": 5, "p50": 8, "p95": 8, "p99": 8, "max": 8, "total": 8}
"""The columns and their widths in cells, unless a value needs more."""
_DROPPABLE_COLUMNS: Final = ("total", "p99", "p95", "max", "p50", "err")
"""Columns that may be dropped, the least important first; the first is also dropped to make room for shapes."""
_SORT_COLUMNS: Final[dict[LatencySortKey, str]] = {
    "n": "n",
    "errors": "err",
    "p95": "p95",
    "max": "max",
    "total": "total",
}
"""By sort order: the column by which rows are sorted, which is never dropped."""
TURN_SORT_KEYS: Final[dict[LatencySortKey, TurnSortKey]] = {"n": "n", "errors": "errors", "total": "total"}
"""The keys by which turns can be sorted, too."""
_SHAPE_COLUMN_CELLS: Final = SHAPE_CELLS + 2
_TITLE_CELLS: Final = 22
_FAILED_LOGINS: Final = frozenset({"failed", "rejected", "unused"})
"""The outcomes of logins that are errors, as in the column `logins.outcome`."""
_VALUE_CELLS: Final = len("23 h 59 min")
_NOT_CHECKED: Final = "the rules did not run, because they would take long for this much traffic; --findings runs them"


class TrafficStats(NamedTuple):
    """All figures of a report."""

    totals: Totals
    by: Subject
    latency: list[Latency]
    """Empty if a row is about a turn."""
    errors: list[Count]
    has_findings: bool
    """Whether the rules ran. If not, the next two fields have only the rows that need no rules."""
    id_mismatches: list[Count]
    lifecycle_violations: list[Count]
    abandoned: list[AbandonedRequests]
    unanswered: list[UnansweredRequests]
    definitions: list[ToolCost]
    startup: Startup | None
    time: SessionTime
    tool_times: list[ToolTime]
    sort: LatencySortKey | None = None
    """The sort order of latency rows, if requested."""
    logins: Sequence[Count] = ()
    """The logins by outcome."""
    clients: Sequence[ClientFigures] = ()
    turns: Sequence[TurnFigures] = ()
    """The turns, if a row is about a turn."""
    extensions: Sequence[DeclaredExtension] = ()
    reads_all: bool = True
    """Whether all captures were asked for, so that no turn has calls in others."""


def query_stats(
    figures: Figures, by: Subject, sort: LatencySortKey | None = None, *, has_findings: bool
) -> TrafficStats:
    """Query all figures; returns them. Turns are sorted by a key of `TURN_SORT_KEYS` only."""
    return TrafficStats(
        figures.totals(),
        by,
        [] if by == "turn" else figures.latency(by, sort),
        figures.errors(),
        has_findings,
        figures.id_mismatches(),
        figures.lifecycle_violations(),
        figures.abandoned(),
        figures.unanswered(),
        figures.definitions(),
        figures.startup(),
        figures.time(),
        figures.tool_times(),
        sort,
        figures.logins(),
        figures.clients(),
        figures.turns(None if sort is None else TURN_SORT_KEYS[sort]) if by == "turn" else (),
        figures.extensions(),
    )


# ---- as objects


def as_objects(stats: TrafficStats) -> Iterator[dict[str, Any]]:
    """Yields an object for each figure, named by `figure`.

    The first object contains all sums; sums that need the rules may be null.
    """
    yield {
        "figure": "totals",
        **stats.totals._asdict(),
        "errors": _sum(stats.errors),
        "id_mismatches": _sum(stats.id_mismatches) if stats.has_findings else None,
        "lifecycle_violations": _sum(stats.lifecycle_violations) if stats.has_findings else None,
        "abandoned": _sum(stats.abandoned),
        "unanswered": _sum(stats.unanswered),
        "logins": _sum(stats.logins),
        "failed_logins": _failed_logins(stats),
        "turns": sum(client.turns for client in stats.clients),
        "turnless_calls": sum(client.turnless_calls for client in stats.clients),
        "definition_bytes": sum(entry.bytes for entry in stats.definitions),
        "startup_ms": None if stats.startup is None else stats.startup.total_ms,
        **{name: value for name, value in stats.time._asdict().items() if name.endswith("_ms")},
        "tool_ms": _tool_ms(stats),
    }
    for row in stats.latency:
        histogram = [
            {"from_ms": 0 if bucket == -10 else 2.0**bucket, "to_ms": 2.0 ** (bucket + 1), "answers": answers}
            for bucket, answers in row.buckets.items()
        ]
        values = {name: value for name, value in row._asdict().items() if name not in ("what", "buckets")}
        yield {"figure": "latency", "by": stats.by, "what": row.what, **values, "histogram": histogram}
    yield from ({"figure": "turns", **turn._asdict()} for turn in stats.turns)
    yield from ({"figure": "clients", **client._asdict()} for client in stats.clients)
    yield from ({"figure": "errors", **entry._asdict()} for entry in stats.errors)
    for figure, counts in (
        ("id_mismatches", stats.id_mismatches),
        ("lifecycle_violations", stats.lifecycle_violations),
    ):
        yield from ({"figure": figure, "rules_asked": stats.has_findings, **entry._asdict()} for entry in counts)
    yield from ({"figure": "abandoned", **entry._asdict()} for entry in stats.abandoned)
    yield from ({"figure": "unanswered", **entry._asdict()} for entry in stats.unanswered)
    yield from ({"figure": "logins", **entry._asdict()} for entry in stats.logins)
    yield from ({"figure": "extensions", **entry._asdict()} for entry in stats.extensions)
    yield from ({"figure": "definitions", **entry._asdict()} for entry in stats.definitions)
    if stats.startup is not None:
        yield {"figure": "startup", **stats.startup._asdict()}
    yield {"figure": "time", **stats.time._asdict()}
    yield from ({"figure": "tool_time", **entry._asdict()} for entry in stats.tool_times)


# ---- for people


def as_text(stats: TrafficStats, style: Style, width: int, *, has_blocks: bool = True) -> Iterator[str]:
    """Yields the screen, line by line.

    Args:
        stats: the figures to show.
        style: its colours.
        width: the width of a line, in cells.
        has_blocks: whether block characters can be written.
    """
    width = max(MIN_WIDTH, width)
    yield from wrapped(_head(stats.totals), width)
    yield ""
    if stats.by == "turn":
        yield from turn_lines(stats.turns, stats.clients, style, width)
        if stats.turns and not stats.reads_all:
            yield from hint_lines(style, width)
    else:
        yield from _latencies(stats, stats.by, style, width, has_blocks=has_blocks)
    yield ""
    for title, value, details, is_bad in _figures(stats):
        yield from _figure_lines(title, value, details, width, style, is_bad=is_bad)


def _head(totals: Totals) -> str:
    return " · ".join(
        [
            count_text(totals.captures, "capture"),
            count_text(totals.servers, "server"),
            count_text(totals.clients, "client"),
            count_text(totals.frames, "frame"),
            size(totals.bytes),
            duration(totals.duration_ns),
            *([f"{totals.live:,} still being recorded"] if totals.live else []),
            *([f"{totals.cut_off:,} cut off, as if killed"] if totals.cut_off else []),
            *([f"▲ {totals.forgotten:,} forgotten because too many were open at once"] if totals.forgotten else []),
        ]
    )


def _latencies(stats: TrafficStats, by: LatencySubject, style: Style, width: int, *, has_blocks: bool) -> Iterator[str]:
    heading = "LATENCY" if by == "call" else f"LATENCY by {by}"
    servers = {
        row.server: [latency for latency in stats.latency if latency.server == row.server] for row in stats.latency
    }
    has_several_servers = len(servers) > 1 and by != "server"
    # Each server gets its own share of rows.
    max_rows = max(MIN_ROWS_PER_SERVER, MAX_LATENCY_ROWS // len(servers)) if has_several_servers else MAX_LATENCY_ROWS
    if not has_several_servers:
        servers = {None: stats.latency}
    omitted_count = sum(max(0, len(rows) - max_rows) for rows in servers.values())
    if omitted_count == 1:
        # A line that says that one row is left out needs as much room as the row.
        max_rows, omitted_count = max_rows + 1, 0
    groups = {server: rows[:max_rows] for server, rows in servers.items()}
    names = [_name(row, by) for rows in groups.values() for row in rows]
    row_values = [_values(row) for rows in groups.values() for row in rows]
    widths = {
        name: max([min_width, *(len(row[name]) + 1 for row in row_values)]) for name, min_width in _COLUMNS.items()
    }
    columns, has_shapes = _columns([heading, *names], width, widths, stats.sort, has_blocks=has_blocks)
    label_width = width - sum(widths[name] for name in columns) - (_SHAPE_COLUMN_CELLS if has_shapes else 0)
    if width >= UNLIMITED_WIDTH:
        label_width = max(map(cells, [heading, *names])) + (3 if has_several_servers else 1)
    column_heads = "".join(f"{name:>{widths[name]}}" for name in columns)
    yield style.paint([Span(f"{heading:<{label_width}}", "accent"), Span(column_heads, "dim")])
    for server, rows in groups.items():
        if has_several_servers:
            yield style.paint([Span(fit(sanitise(server or "(no name)"), width), "dim")])
        indent = "  " if has_several_servers else ""
        short_names = _distinct_names([_name(row, by) for row in rows], label_width - 1 - len(indent))
        for row, short_name in zip(rows, short_names, strict=True):
            name = indent + short_name
            texts = _values(row)
            values = [
                Span(f"{texts[column]:>{widths[column]}}", "bad" if column == "err" and row.errors else "plain")
                for column in columns
            ]
            shape_text = f"  {distribution_text(row.buckets, SHAPE_CELLS)}" if has_shapes and row.buckets else ""
            yield style.paint([Span(name + " " * (label_width - cells(name))), *values, Span(shape_text)])
    if not stats.latency:
        yield style.paint([Span("  no request was seen", "dim")])
    if omitted_count:
        hint = f"  and {count_text(omitted_count, 'more row')} (show them with --json)"
        yield style.paint([Span(hint, "dim")])


def _values(row: Latency) -> dict[str, str]:
    """Returns the values of a row, by column."""
    return {
        "n": _count(row.calls),
        "err": _share(row.error_share),
        "p50": _ms(row.p50_ms),
        "p95": _ms(row.p95_ms),
        "p99": _ms(row.p99_ms),
        "max": _ms(row.max_ms),
        "total": _ms(row.total_ms),
    }


def _columns(
    names: list[str], width: int, widths: Mapping[str, int], sort: LatencySortKey | None, *, has_blocks: bool
) -> tuple[list[str], bool]:
    """Returns the columns that fit next to the names, and whether shapes fit, too."""
    longest = max(map(cells, names)) + 3  # two spaces before a name, and one after it
    droppable = [name for name in _DROPPABLE_COLUMNS if sort is None or name != _SORT_COLUMNS[sort]]
    columns = list(_COLUMNS)

    def has_room(name_width: int, extra: int = 0) -> bool:
        return width - min(name_width, longest) >= sum(widths[name] for name in columns) + extra

    if droppable[0] == "total" and not has_room(MAX_NAME_CELLS, _SHAPE_COLUMN_CELLS if has_blocks else 0):
        columns.remove(droppable.pop(0))
    has_shapes = has_blocks and has_room(MAX_NAME_CELLS, _SHAPE_COLUMN_CELLS)
    for name in droppable:
        if not has_room(MIN_NAME_CELLS):
            columns.remove(name)
    return columns, has_shapes


def _distinct_names(names: list[str], width: int) -> list[str]:
    """Returns the names in `width` cells each. If several would look alike, their middle is cut, so their ends show."""
    short_names = [fit(name, width) for name in names]
    counts = Counter(short_names)
    return [
        short_name if counts[short_name] == 1 else fit_ends(name, width)
        for name, short_name in zip(names, short_names, strict=True)
    ]


def _name(row: Latency, by: LatencySubject) -> str:
    name = row.server if by == "server" else row.what
    return sanitise(name or "(none)")


class _FigureRow(NamedTuple):
    title: str
    value: str
    details: list[str]
    is_bad: bool = False


def _figures(stats: TrafficStats) -> Iterator[_FigureRow]:
    errors = _sum(stats.errors)
    yield _FigureRow("ERRORS", f"{errors:,}", _first_few([_count_text(count) for count in stats.errors]), bool(errors))
    yield _finding_row("ID MISMATCHES", stats.id_mismatches, stats)
    yield _finding_row("LIFECYCLE VIOLATIONS", stats.lifecycle_violations, stats)
    abandoned, unanswered = _sum(stats.abandoned), _sum(stats.unanswered)
    yield _FigureRow("ABANDONED", f"{abandoned:,}", _abandoned(stats), bool(abandoned))
    yield _FigureRow("UNANSWERED", f"{unanswered:,}", _unanswered(stats), bool(unanswered))
    if stats.totals.not_recorded:
        yield _FigureRow(
            "NOT RECORDED",
            f"{stats.totals.not_recorded:,}",
            ["requests whose responses may be in a missing part of the capture"],
        )
    if stats.logins:
        details = [_explained(count) for count in stats.logins]
        yield _FigureRow("LOGINS", f"{_sum(stats.logins):,}", details, bool(_failed_logins(stats)))
    turns = client_texts(stats.clients)
    if turns:
        yield _FigureRow(
            "TURNS",
            f"{sum(client.turns for client in stats.clients):,}",
            turns if stats.by == "client" else _first_few(turns),
        )
    if stats.extensions:
        identifiers = {extension.identifier for extension in stats.extensions}
        yield _FigureRow("EXTENSIONS", f"{len(identifiers):,}", [*_declared_texts(stats.extensions)])
    if stats.definitions:
        total_bytes = sum(definition.bytes for definition in stats.definitions)
        yield _FigureRow("DEFINITIONS COST", size(total_bytes), _cost_details(stats.definitions))
    if stats.startup is not None:
        yield _FigureRow("START-UP", _ms(stats.startup.total_ms), _startup_details(stats.startup))
    yield _FigureRow("TIME", _ms(stats.time.session_ms), _time_details(stats.time))
    if stats.tool_times:
        yield _FigureRow("TOOL TIME", _ms(_tool_ms(stats)), _tool_times(stats.tool_times))


def _sum(rows: Sequence[Count] | Sequence[AbandonedRequests] | Sequence[UnansweredRequests]) -> int:
    return sum(row.times for row in rows)


def _failed_logins(stats: TrafficStats) -> int:
    return _sum([count for count in stats.logins if count.what in _FAILED_LOGINS])


def _finding_row(title: str, counts: list[Count], stats: TrafficStats) -> _FigureRow:
    total = _sum(counts)
    details = _first_few([_explained(count) for count in counts])
    if not stats.has_findings:
        return _FigureRow(title, f"{total:,} +" if total else "?", [*details, _NOT_CHECKED], bool(total))
    return _FigureRow(title, f"{total:,}", details, bool(total))


def _count_text(count: Count) -> str:
    return f"{sanitise(count.what)} {count.times:,}"


def _explained(count: Count) -> str:
    example = (count.example or "").partition(GUESS_PREFIX)[0]  # UNANSWERED and ABANDONED show the guess
    return f"{_count_text(count)} ({sanitise(example, 60)})" if example else _count_text(count)


def _first_few(words: list[str]) -> list[str]:
    """Returns a few items, and how many more there are."""
    other_count = len(words) - MAX_NAMES_PER_LINE
    return words if other_count <= 0 else [*words[:MAX_NAMES_PER_LINE], f"{other_count:,} more"]


def _abandoned(stats: TrafficStats) -> list[str]:
    return _first_few([abandoned_kind(request, _capture_name(request.path, stats)) for request in stats.abandoned])


def _capture_name(path: str, stats: TrafficStats) -> str:
    """Returns the name of a capture, if there are several captures."""
    return sanitise(PurePath(path).name.removesuffix(SUFFIX), 60) if stats.totals.captures > 1 else ""


def _unanswered(stats: TrafficStats) -> list[str]:
    requests = stats.unanswered
    words = [unanswered_kind(request, _capture_name(request.path, stats)) for request in requests]
    counts = (
        [row.live for row in requests],
        [row.may_be_lost for row in requests],
        [row.may_be_unjudged for row in requests],
    )
    return [*_first_few(words), *doubt_texts(*map(sum, counts))]


def _cost_details(definitions: Sequence[ToolCost]) -> list[str]:
    tokens = sum(definition.tokens_estimate for definition in definitions)
    unused_count = sum(not definition.calls for definition in definitions)
    has_several_servers = len({definition.server for definition in definitions}) > 1
    most_expensive = [
        f"{_tool_name(definition, with_server=has_several_servers)} {size(definition.bytes)}"
        for definition in definitions[:MAX_NAMES_PER_LINE]
    ]
    ellipsis = ["…"] if len(definitions) > MAX_NAMES_PER_LINE else []
    unused_text = [f"{unused_count:,} of {count_text(len(definitions), 'tool')} never called"] if unused_count else []
    return [f"≈ {tokens:,} tokens (estimate)", *most_expensive, *ellipsis, *unused_text]


def _tool_name(row: ToolCost | ToolTime, *, with_server: bool) -> str:
    return sanitise(row.tool, 60) + (f" ({sanitise(row.server or 'no name', 40)})" if with_server else "")


def _time_details(time: SessionTime) -> list[str]:
    notes = [_share(time.server_ms / time.session_ms)] if time.session_ms else []
    notes += [f"{count_text(time.unanswered, 'request')} unanswered"] if time.unanswered else []
    waiting_text = f" (the server waited for {_ms(time.waiting_ms)} of it)" if time.waiting_ms else ""
    return [
        f"server {_ms(time.server_ms)}" + (f" ({', '.join(notes)})" if notes else ""),
        f"client {_ms(time.client_ms)}{waiting_text}",
        f"stalled {_ms(time.stalled_ms)}",
    ]


def _tool_ms(stats: TrafficStats) -> float:
    return round(sum(tool.total_ms for tool in stats.tool_times), 6)


def _tool_times(tools: Sequence[ToolTime]) -> list[str]:
    has_several_servers = len({tool.server for tool in tools}) > 1
    return _first_few([f"{_tool_name(tool, with_server=has_several_servers)} {_ms(tool.total_ms)}" for tool in tools])


def _declared_texts(extensions: Sequence[DeclaredExtension]) -> Iterator[str]:
    """Yields for each side the extensions that it declares."""
    for side in ("client", "server"):
        names = [known_or_unknown(extension.identifier) for extension in extensions if extension.side == side]
        if names:
            others = [f"{len(names) - _MAX_EXTENSIONS:,} more"] if len(names) > _MAX_EXTENSIONS else []
            yield f"{side} {', '.join([*names[:_MAX_EXTENSIONS], *others])}"


def _opening_name(startup: Startup) -> str:
    """Returns the method with which the sessions began, or both if they differ."""
    if not startup.discover_sessions:
        return "initialize"
    is_uniform = startup.discover_sessions == startup.initialize_sessions
    return "server/discover" if is_uniform else "initialize or server/discover"


def _startup_details(startup: Startup) -> list[str]:
    parts = (
        ("process", startup.process_ms, startup.process_sessions),
        (_opening_name(startup), startup.initialize_ms, startup.initialize_sessions),
        ("ready", startup.ready_ms, startup.ready_sessions),
        ("first list", startup.first_list_ms, startup.first_list_sessions),
    )
    # The medians of different sessions may add up to more than the overall median.
    texts = [
        f"{name} {_ms(value)}" + (f" (of {count_text(sessions, 'session')})" if sessions < startup.sessions else "")
        for name, value, sessions in parts
        if value is not None
    ]
    if startup.silent and texts:
        index = 1 if startup.process_ms is not None and len(texts) > 1 else 0
        scope = f" in {count_text(startup.silent, 'session')}" if startup.silent < startup.sessions else ""
        texts[index] += f", including the start of the process{scope}"
    return [*texts, *([f"medians of {startup.sessions:,} sessions"] if startup.sessions > 1 else [])]


def _figure_lines(
    title: str, value: str, details: list[str], width: int, style: Style, *, is_bad: bool
) -> Iterator[str]:
    role: Any = "bad" if is_bad else "plain"
    text = " · ".join(details)
    if width < MIN_SIDE_BY_SIDE_CELLS:
        value_width = min(width, _TITLE_CELLS + _VALUE_CELLS + 3) - _TITLE_CELLS
        yield style.paint([Span(f"{title:<{_TITLE_CELLS}}", "accent"), Span(f"{value:>{value_width}}", role)])
        yield from (f"  {line}" for line in wrapped(text, width - 2) if text)
        return
    lines = list(wrapped(text, width - _TITLE_CELLS - _VALUE_CELLS - 3))
    first_line = [
        Span(f"{title:<{_TITLE_CELLS}}", "accent"),
        Span(f"{value:>{_VALUE_CELLS}}", role),
        Span(f"   {lines[0]}"),
    ]
    yield style.paint(first_line).rstrip()
    yield from (f"{'':<{_TITLE_CELLS + _VALUE_CELLS + 3}}{line}" for line in lines[1:])


def _count(value: int) -> str:
    return f"{value:,}" if value < 1_000_000 else f"{value / 1e6:.1f}M"


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    # A share above 0 is at least 1%, and one below 1 is at most 99%.
    percent = min(max(round(share * 100), 1 if share else 0), 100 if share == 1 else 99)
    return f"{percent}%"


def _ms(value: float | None) -> str:
    return "–" if value is None else duration(nanoseconds(value))
