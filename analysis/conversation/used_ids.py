"""The ids that requests have used, by session: a second request with such an id is a mistake.

On a pipe, the tables of calls contain them, as each id has one key there. Over HTTP, an id has a key for each exchange,
and only `UsedIdsInExchanges` records the exchange in which a session last used an id.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from analysis.conversation.addressing import RequestKey
from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call_table import CallTable
from analysis.conversation.message import Id, Request, Side

MAX_USED_IDS: Final = 100_000
"""The most used ids over HTTP that are kept; the ids first used longest ago are forgotten first."""
_SEARCH_FACTOR: Final = 10
"""To find the latest ids of one session, this many times as many ids of all sessions are searched."""


class UsedId(NamedTuple):
    """The last request with an id."""

    seq: int
    conn: int
    """The connection that carried it; 0 on stdio."""
    key: RequestKey


class UsedIdsOnPipe:
    """The ids that the session of a pipe has used, since its last `initialize`."""

    has_all: Final = True
    """Always true: the tables of calls count the ids that they had to forget."""

    def __init__(self, tables: dict[Side, CallTable]) -> None:
        """Create a set without used ids.

        Args:
            tables: the requests of both sides.
        """
        self._tables = tables
        self._before = -1

    def last_use(self, _session: int, side: Side, id_: Id) -> UsedId | None:
        """Returns the last request of a side with an id, or None if there is none."""
        key = RequestKey(None, id_)
        last_request = self._tables[side].last_request(key)
        return (
            None
            if last_request is None or last_request[0] <= self._before
            else UsedId(last_request[1], last_request[2], key)
        )

    def latest_ids(self, _session: int, side: Side, count: int) -> Iterable[Id]:
        """Returns the ids that a side used last, at most `count`."""
        return self._tables[side].latest_ids(count, self._before)

    def clear(self) -> None:
        """Forget all ids."""
        self._before = max(table.newest_number for table in self._tables.values())


class UsedIdsInExchanges:
    """The ids that the sessions over HTTP have used, since the last loss."""

    def __init__(self) -> None:
        self._used_ids: BoundedDict[tuple[int, Side, Id], UsedId] = BoundedDict(MAX_USED_IDS)

    @property
    def has_all(self) -> bool:
        """Whether no id had to be forgotten."""
        return len(self._used_ids) < self._used_ids.limit

    def remember(self, session: int, request: Request, key: RequestKey) -> None:
        """Note that a request has used its id in a session."""
        self._used_ids.put((session, request.sender, request.id), UsedId(request.seq, request.frames[0].conn, key))

    def last_use(self, session: int, side: Side, id_: Id) -> UsedId | None:
        """Returns the last request of a side in a session with an id, or None if there is none."""
        return self._used_ids.get((session, side, id_))

    def latest_ids(self, session: int, side: Side, count: int) -> Iterable[Id]:
        """Returns at most `count` ids that a side of a session used last; it may miss ids used before many others."""
        session_keys = (key for key in islice(reversed(self._used_ids), _SEARCH_FACTOR * count) if key[0] == session)
        return (id_ for _, sender, id_ in islice(session_keys, count) if sender == side)

    def clear(self) -> None:
        """Forget all ids."""
        self._used_ids.clear()


UsedIds: TypeAlias = UsedIdsOnPipe | UsedIdsInExchanges
