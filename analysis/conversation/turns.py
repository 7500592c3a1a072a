"""Turns: which calls one prompt of a user caused, in all sessions with all servers of a client.

A client that names its turns (`client_ids.py`) gives the same id to every call that a prompt caused, whichever server
it goes to. Captures are recorded separately for each server, so a turn is put together from several captures. Times are
therefore wall-clock times.
"""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.conversation.call import Call
from analysis.conversation.client_ids import ClientIds
from analysis.protocol.extensions import ENDLESS_METHODS


class TurnKey(NamedTuple):
    """What identifies a turn."""

    client: str
    """The client, as its users call it."""
    session: str
    """The id of its conversation; empty if the client does not send it."""
    turn: str
    """The id of the turn."""


def key_of(ids: ClientIds) -> TurnKey | None:
    """Returns the turn of a call with these ids, or None if its client names no turn."""
    return None if ids.client is None or ids.turn is None else TurnKey(ids.client, ids.session or "", ids.turn)


class CallOfTurn(NamedTuple):
    """What a turn needs to know about one of its calls."""

    server: str
    """The name of the server."""
    started_ns: int
    """When it was handed on, in ns since 1970."""
    ended_ns: int | None
    """Until when it was waited for, in ns since 1970, as `calls.until_ns` in SQL; None for a request that only
    listens and has not ended."""
    is_failed: bool
    """Whether it failed: an error, a failed tool, or no response although one was due."""


def call_of_turn(call: Call, server: str, opened_ns: int, open_until_ns: int, *, is_live: bool = False) -> CallOfTurn:
    """Returns what a turn needs to know about a call.

    Args:
        call: the call, once the end of its capture is known.
        server: the name of its server.
        opened_ns: when its capture was opened, in ns since 1970.
        open_until_ns: the stamp until which it was open (`Fold.open_until_ns`).
        is_live: whether the capture is still being recorded, so that a response may still come.
    """
    end = call.end_ref
    exchange_end = None if call.http is None else call.http.end_ref
    until_ns: int | None = open_until_ns
    if end is None and call.request.method in ENDLESS_METHODS:
        until_ns = None
    elif end is None and exchange_end is not None and call.session is not None:
        # Its response may still have come on another stream.
        until_ns = max(exchange_end.t_ns, call.session.last_ns or 0)
    return CallOfTurn(
        server,
        opened_ns + call.started_ns,
        None if until_ns is None else opened_ns + max(call.started_ns, until_ns),
        not (is_live and call.is_open) and (call.is_error or call.is_failure),
    )


class Turn:
    """One turn."""

    def __init__(self, key: TurnKey) -> None:
        self.key = key
        self.calls: list[CallOfTurn] = []

    @property
    def servers(self) -> list[str]:
        """The servers that were called, each once, in order of their first call."""
        return list(dict.fromkeys(call.server for call in sorted(self.calls, key=_start)))

    @property
    def failure_count(self) -> int:
        """How many calls failed."""
        return sum(call.is_failed for call in self.calls)

    @property
    def started_ns(self) -> int:
        """When the first call was handed on, in ns since 1970."""
        return min(call.started_ns for call in self.calls)

    @property
    def waited_ns(self) -> int:
        """For how long at least one of the calls was waited for: calls at the same time count once."""
        total, until = 0, self.started_ns
        for call in sorted(self.calls, key=_start):
            if call.ended_ns is not None and call.ended_ns > until:
                total += call.ended_ns - max(call.started_ns, until)
                until = call.ended_ns
        return total


class Turns:
    """The turns of one or several captures."""

    def __init__(self) -> None:
        self._turns: dict[TurnKey, Turn] = {}

    def add(self, ids: ClientIds, call: CallOfTurn) -> Turn | None:
        """Add a call; returns its turn, or None if its client names no turn."""
        key = key_of(ids)
        if key is None:
            return None
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = Turn(key)
        turn.calls.append(call)
        return turn

    def __iter__(self) -> Iterator[Turn]:
        """Yields the turns, in order of their first call."""
        return iter(sorted(self._turns.values(), key=lambda turn: turn.started_ns))


def _start(call: CallOfTurn) -> int:
    return call.started_ns
