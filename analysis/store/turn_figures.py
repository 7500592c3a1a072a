"""The figures of `mcpproxy stats` about turns: what prompts caused, and what each client says its calls belong to."""

from typing import Final, Literal, NamedTuple, TypeAlias

TurnSortKey: TypeAlias = Literal["n", "errors", "total"]
"""The sort keys for turns, the largest first: calls, failed calls, or the waiting time."""

_ORDER_SQL: Final[dict[TurnSortKey, str]] = {
    "n": "calls desc",
    "errors": "failed desc",
    "total": "waited_ms desc nulls last",
}


class TurnFigures(NamedTuple):
    """What one turn caused; a row of the view `turns`."""

    client: str
    client_session: str | None
    turn_id: str
    time: str | None
    """When its first call was sent, in UTC."""
    calls: int
    servers: list[str]
    failed: int
    waited_ms: float | None
    """How long at least one of its calls was waited for; None if the end of no call is known."""


class ClientFigures(NamedTuple):
    """What one client says its calls of tools belong to."""

    client: str | None
    """Its name for its users, if its ids show it; or else the name that it gives itself, if it has one."""
    calls: int
    conversations: int
    turns: int
    turnless_calls: int
    """The calls that name no turn."""


CLIENTS_SQL: Final = """
    with asked as (
        select nullif(client, '') as given_name, known_client, client_session, turn_id
        from calls
        where method = 'tools/call' and asked_by = 'client'
    ),
    named as (
        select given_name, min(known_client) as only_client
        from asked
        where given_name is not null
        group by 1 having count(distinct known_client) = 1
    )
    select
        coalesce(known_client, only_client, given_name) as client, count(*) as calls,
        count(distinct client_session),
        count(distinct (known_client, client_session, turn_id)) filter (turn_id is not null),
        count(*) filter (turn_id is null)
    from asked left join named using (given_name)
    group by 1 order by 2 desc, 1
"""
"""Selects the values of `ClientFigures`, the client with the most calls first."""


def turns_sql(sort: TurnSortKey | None, max_rows: int) -> str:
    """Returns the query of the values of `TurnFigures`, the worst first: most failed calls, then longest wait.

    Args:
        sort: what comes first instead; None for that order.
        max_rows: the most rows.
    """
    order = f"{_ORDER_SQL[sort]}, " if sort is not None else ""
    return f"""
        select
            client, client_session, turn_id, strftime(time, '%Y-%m-%d %H:%M:%S'), calls, servers, failed, waited_ms
        from turns
        order by {order}failed desc, waited_ms desc nulls last, calls desc, time, client, client_session, turn_id
        limit {max_rows}
    """  # noqa: S608 - no part is untrusted
