"""Two captures of one conversation: what was lost or changed between them, and how long messages took.

The view `both_sides` pairs the messages, and `lost_between` says what became of those that differ. This module only
reads these views, and finds the place of a change in the frames.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from analysis.conversation.message import parse_exactly
from analysis.store.content import comparable_answer, comparable_params, first_difference
from analysis.store.open import Progress, Source, prepare
from analysis.store.stats import Figures, Loss, connect_with_limit

_ROWS_PER_BATCH: Final = 50
"""How many differences are looked up in the frames at a time."""


class HopTimes(NamedTuple):
    """How long one direction took, in milliseconds; None if no time is certain."""

    median_ms: float | None
    max_ms: float | None


class JoinTotals(NamedTuple):
    """What two captures have in common."""

    client_capture: str
    """The id of the capture that was taken nearer to the client."""
    server_capture: str
    """The id of the capture that was taken nearer to the server."""
    requests: int
    """The requests in at least one of them, except those of other clients."""
    common_requests: int
    """The requests that are certainly in both."""
    notifications: int
    common_notifications: int
    uncertain: int
    """The messages of which it is not certain which one they are on the other side, or whether that lacks them."""
    uncovered: int
    """The messages that are missing on one side, where it was not recording at that time."""
    changed_ids: int
    """The requests whose ids were changed on the way."""
    changed_order: int
    """The messages that arrived before others that were sent earlier."""
    request_way: HopTimes
    response_way: HopTimes
    clock_ms: float | None
    """How much later the clock of the server's side is; None if a capture has no wall clock."""
    clock_error_ms: float | None
    """By how much this may be wrong; None if messages went only one way."""


class Difference(NamedTuple):
    """A message that was lost, changed or answered between two captures. All texts are untrusted."""

    what: str
    """As in the view `lost_between`."""
    is_certain: bool
    sender: str
    """`client` or `server`."""
    method: str
    name: str | None
    client_frame: int | None
    client_item: int | None
    client_response: int | None
    client_outcome: str | None
    client_status: int | None
    server_frame: int | None
    server_item: int | None
    server_response: int | None
    server_outcome: str | None
    server_status: int | None
    at_ms: float
    """When it was sent, in milliseconds since the opening of the capture on its sender's side, or else of the other."""
    at: str | None
    """When it was sent, UTC."""
    id: str | None
    """Its id as JSON where it was sent."""
    code: int | None
    """The code of the error that its sender got."""
    error: str | None
    """The text of that error, or of the HTTP response that took its place."""
    pointer: str = ""
    """A JSON Pointer to what was changed; empty if nothing was, or all of it."""


_COLUMNS: Final = """
    what, is_certain, sender, lost_between.method, lost_between.name, client_frame, client_item, client_response,
    client_outcome, client_status, server_frame, server_item, server_response, server_outcome, server_status,
    at_ms, strftime(lost_between.time::timestamp, '%Y-%m-%dT%H:%M:%S.%fZ'), asked.id,
    asked.code, coalesce(asked.error, said)
"""
_SELECT_DIFFERENCES: Final = f"""
    with lost_between as (
        select
            *,
            case when is_client then client_capture else server_capture end as capture,
            case when is_client then client_frame else server_frame end as frame,
            case when is_client then client_item else server_item end as item,
            case when is_client then client_ms else server_ms end as at_ms
        from (
            select
                *, (sender = 'client' and client_frame is not null) or server_frame is null as is_client
            from lost_between
        )
    )
    select {_COLUMNS}
    from lost_between
        left join exchanges as asked
            on asked.capture = lost_between.capture and asked.request = lost_between.frame
                and asked.item is not distinct from lost_between.item
        left join (select capture, exchange, max(said) as said from http_exchanges group by all) as http
            on http.capture = lost_between.capture and http.exchange = asked.exchange
    order by
        lost_between.time nulls last, client_frame nulls last, server_frame nulls last, client_item nulls last,
        server_item nulls last
"""  # noqa: S608 - no part is untrusted
_SELECT_TOTALS: Final = """
    select
        min(client_capture), min(server_capture),
        count(*) filter (kind = 'request'), count(*) filter (kind = 'request' and is_pair and is_certain),
        count(*) filter (kind = 'notification'), count(*) filter (kind = 'notification' and is_pair and is_certain),
        count(*) filter (not is_certain and is_request_covered and is_response_covered),
        count(*) filter (not is_request_covered or not is_response_covered),
        count(*) filter (is_id_changed), count(*) filter (is_order_changed),
        median(request_hop_ms), max(request_hop_ms), median(response_hop_ms), max(response_hop_ms),
        min(offset_ms)
            + min((select epoch_ns(opened) from captures where capture = server_capture)
                - (select epoch_ns(opened) from captures where capture = client_capture)) / 1e6,
        min(offset_error_ms)
    from both_sides
"""


class JoinedCaptures:
    """The database with two captures."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, refused: list[tuple[Path, Exception]], readable: list[Source]
    ) -> None:
        self._connection = connection
        self.refused = refused
        """Captures that could not be read, and why."""
        self.paths = {source.id: source.path for source in readable}
        """The files of the captures by their ids."""

    def totals(self) -> JoinTotals | None:
        """Count what the captures have in common; returns None if they have nothing."""
        row = self._connection.execute(_SELECT_TOTALS).fetchone()
        if row is None or row[0] is None:
            return None
        *counts, request_ms, request_max_ms, response_ms, response_max_ms, clock_ms, clock_error_ms = row
        ways = HopTimes(request_ms, request_max_ms), HopTimes(response_ms, response_max_ms)
        return JoinTotals._make([*counts, *ways, clock_ms, clock_error_ms])

    def differences(self, joined: JoinTotals) -> Iterator[Difference]:
        """Yields what was lost, changed or answered between, in chronological order."""
        rows = iter(self._connection.cursor().execute(_SELECT_DIFFERENCES).fetchone, None)
        differences = (Difference(*row) for row in rows)
        while batch := list(islice(differences, _ROWS_PER_BATCH)):
            yield from self._with_pointers(batch, joined)

    def losses(self) -> list[Loss]:
        """Returns what each capture lacks."""
        return Figures(self._connection, self.refused).losses()

    def _with_pointers(self, batch: list[Difference], joined: JoinTotals) -> Iterator[Difference]:
        """Yields differences with the places of what was changed."""
        numbers = [_changed_frames(difference) for difference in batch]
        client_frames = self._raw_frames(joined.client_capture, [client for client, _ in numbers])
        server_frames = self._raw_frames(joined.server_capture, [server for _, server in numbers])
        for difference, (client, server) in zip(batch, numbers, strict=True):
            client_raw, server_raw = client_frames.get(client), server_frames.get(server)
            if client_raw is None or server_raw is None:
                yield difference
            else:
                yield difference._replace(pointer=_changed_place(difference, client_raw, server_raw))

    def _raw_frames(self, capture: str, numbers: Iterable[int | None]) -> dict[int | None, bytes]:
        wanted = [number for number in numbers if number is not None]
        if not wanted:
            return {}
        return dict(
            self._connection.execute(
                "select seq, raw from frames where capture = ? and seq in (select unnest(?::bigint[]))",
                [capture, wanted],
            ).fetchall()
        )


def _changed_frames(difference: Difference) -> tuple[int | None, int | None]:
    """Returns the frames that show a change, in both captures."""
    if difference.what == "response_changed":
        return difference.client_response, difference.server_response
    if difference.what in ("request_changed", "notification_changed"):
        return difference.client_frame, difference.server_frame
    return None, None


def _changed_place(difference: Difference, client_raw: bytes, server_raw: bytes) -> str:
    is_response = difference.what == "response_changed"
    client = _body(client_raw, None if is_response else difference.client_item)
    server = _body(server_raw, None if is_response else difference.server_item)
    if client is None or server is None:
        return ""
    if not is_response:
        return f"/params{first_difference(comparable_params(client), comparable_params(server))}"
    (member, value), (other_member, other_value) = comparable_answer(client), comparable_answer(server)
    return f"/{member}{first_difference(value, other_value)}" if member == other_member else ""


def _body(raw: bytes, item: int | None) -> dict[str, Any] | None:
    """Returns the members of a message, or None if its frame does not show them."""
    try:
        body = parse_exactly(raw)
    except (ValueError, RecursionError):
        return None
    if item is not None and isinstance(body, list):
        body = body[item] if item < len(body) else None
    return body if isinstance(body, dict) else None


@contextmanager
def joined_captures(
    readable: list[Source], *, memory: int, progress: Progress | None = None
) -> Iterator[JoinedCaptures]:
    """Open two captures, to compare what they have in common.

    Args:
        readable: their sources.
        memory: the bytes of memory that DuckDB may use.
        progress: called with the progress.
    """
    with connect_with_limit(memory) as connection:
        yield JoinedCaptures(connection, prepare(connection, readable, progress=progress), readable)
