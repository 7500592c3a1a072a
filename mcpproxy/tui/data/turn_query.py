"""Turn query: the SQL that lists the calls of a turn, and the captures that can contain them.

A client starts its servers together, and each has a capture of its own. The captures of the same client process are
found by their headers. Over HTTP, no client process is known, so listed captures that were written within an hour of
the call count as well.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.conversation.client_ids import ClientIds
from captures.errors import CaptureError
from captures.listing import first_segment, real_path, segments
from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.data.client_captures import ClientCaptures
from mcpproxy.tui.data.reading import Reading
from mcpproxy.wording.turns import extent_text
from mcpproxy.wording.units import nanoseconds

MAX_CAPTURES: Final = 100
"""The maximum number of captures that are searched."""
REACH_NS: Final = 3600 * 10**9
"""How far a turn can reach from one of its calls, in ns: other captures must have been written within this time."""


class TurnQuery(NamedTuple):
    """A query for the calls that belong together."""

    sql: str
    figures_sql: str
    """A query for the figures of the turn as text: calls, servers, failed calls, ms of waiting; empty for none."""
    paths: list[Path]
    """The captures to search; the first one has the call."""


def turn_query(reading: Reading, row: int, ids: ClientIds, listed: Sequence[ListedCapture]) -> TurnQuery | None:
    """Returns the query for the calls of a call's turn or, if its client names none, of its conversation or its trace.

    Reads headers, so do not call it in the drawing thread.

    Args:
        reading: the capture of the call.
        row: a row of the call.
        ids: the ids that its client gave to the call.
        listed: the captures in the list of sessions.

    Returns:
        None if the client names none of them, or by a text that cannot be typed.
    """
    candidates = (("turn_id", ids.turn), ("client_session", ids.session), ("trace_id", ids.trace))
    column, value = next((candidate for candidate in candidates if candidate[1] is not None), ("", None))
    if value is None or not (value.isascii() and value.isprintable()):
        return None
    quoted_value = value.replace("'", "''")
    condition = f"{column} = '{quoted_value}'"
    sql = (
        "select time, server, method, name, outcome, open_ms as waited_ms, request, capture\n"
        f"from calls where {condition}\norder by time, request"
    )
    paths: dict[Path, Path] = {}
    for path in (reading.path, *_related_captures(reading, listed), *_nearby_captures(reading, row, listed)):
        if len(paths) < MAX_CAPTURES:
            paths.setdefault(first_segment(real_path(path)), path)
    figures_sql = (
        "select calls::varchar, server_count::varchar, failed::varchar, waited_ms::varchar\n"
        f"from turns where {condition}"
    )
    return TurnQuery(sql, figures_sql if ids.turn is not None else "", list(paths.values()))


def figures_text(figures: Sequence[str | None]) -> str:
    """Returns the figures of a turn, as `TurnQuery.figures_sql` selects them, in words."""
    call_count, server_count, failure_count, waited_ms = figures
    waited_ns = None if waited_ms is None else nanoseconds(float(waited_ms))
    return extent_text(int(call_count or 0), int(server_count or 0), int(failure_count or 0), waited_ns)


def _related_captures(reading: Reading, listed: Sequence[ListedCapture]) -> list[Path]:
    """Returns the other captures of the same client process, those that began at about the same time first."""
    related = ClientCaptures(reading.path, reading.index.header.members, lambda: [capture.path for capture in listed])
    related.list_files()
    while related.step():
        pass
    return [path for path, _ in sorted(related.related, key=lambda other: abs(other[1]))]


def _nearby_captures(reading: Reading, row: int, listed: Sequence[ListedCapture]) -> Iterator[Path]:
    """Yields the listed captures that were written around the time of a row."""
    wall_ns = reading.conversation.capture.wall_ns
    if wall_ns is None:
        return
    at_ns = wall_ns + reading.index.t_ns(row)
    for capture in listed:
        try:
            ended_ns = segments(capture.path)[-1].stat().st_mtime_ns
        except (CaptureError, OSError):
            continue
        if capture.began_ns - REACH_NS <= at_ns <= ended_ns + REACH_NS:
            yield capture.path
