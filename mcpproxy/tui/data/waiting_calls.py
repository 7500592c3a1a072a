"""Waiting calls: which calls of a live capture wait for a response, kept up to date as cells arrive.

Each call is looked at when it begins and when it ends, so the number of waiting calls is known without a walk over all
of them. A byte for each call says whether it waits; the oldest is found by a search for that byte.
"""

import re
from collections.abc import Iterator
from typing import Final

from analysis.protocol.extensions import ENDLESS_METHODS
from mcpproxy.tui.data.call_kinds import CallKinds
from mcpproxy.tui.data.columns import OPEN, Calls

_SETTLED: Final = 0
_CLIENT_WAITS: Final = 1
_SERVER_WAITS: Final = 2
_WAITING: Final = re.compile(rb"[\x01\x02]")


class WaitingCalls:
    """The calls of one capture that wait. One thread updates them while others read."""

    def __init__(self, calls: Calls, kinds: CallKinds) -> None:
        """Start without calls.

        Args:
            calls: the calls of the capture.
            kinds: their kinds.
        """
        self._calls, self._kinds = calls, kinds
        self._states = bytearray()
        self._settled_count = 0
        self._counts = [0, 0, 0]

    def note_changes(self) -> None:
        """Note the calls that have begun or ended since the last call."""
        calls, states, counts = self._calls, self._states, self._counts
        for number in range(len(states), len(calls)):
            kind = self._kinds.all[calls.kind[number]]
            is_waiting = calls.outcome[number] == OPEN and kind.method not in ENDLESS_METHODS
            state = _SETTLED if not is_waiting else _CLIENT_WAITS if kind.side == "client" else _SERVER_WAITS
            states.append(state)
            counts[state] += 1
        settled = calls.settled
        for position in range(self._settled_count, len(settled)):
            number = settled[position]
            counts[states[number]] -= 1
            states[number] = _SETTLED
            counts[_SETTLED] += 1
        self._settled_count = len(settled)

    @property
    def count(self) -> int:
        """The number of the client's calls that wait; if none does, of the server's requests to the client."""
        return self._counts[self._side]

    @property
    def oldest(self) -> int | None:
        """The number of the one that has waited longest, or None if nothing waits."""
        return self.next_longest(-1)

    def next_longest(self, number: int) -> int | None:
        """Returns the call that has waited longest among those sent after another; the oldest of all after the last.

        Args:
            number: the number of the other call; -1 for the oldest of all.
        """
        states, sign = self._states, bytes([self._side])
        found = states.find(sign, number + 1)
        found = states.find(sign) if found < 0 else found
        return None if found < 0 else found

    def is_waiting(self, number: int) -> bool:
        """Returns whether a call waits."""
        return number < len(self._states) and self._states[number] != _SETTLED

    def server_requests(self, after: int) -> Iterator[int]:
        """Yields the requests of the server, sent after a call, that wait for the client, the oldest first."""
        number = after
        while (number := self._states.find(bytes([_SERVER_WAITS]), number + 1)) >= 0:
            yield number

    def is_only_client_call_before(self, number: int) -> bool:
        """Returns whether exactly one of the client's calls before a call waits."""
        return self._states.count(_CLIENT_WAITS, 0, number) == 1

    def request_rows(self) -> Iterator[int]:
        """Yields the rows of all waiting requests of both sides, ascending, so the oldest comes first."""
        # A copy, because a search in the array itself would keep the other thread from extending it.
        for match in _WAITING.finditer(bytes(self._states)):
            yield self._calls.request[match.start()]

    @property
    def _side(self) -> int:
        return _CLIENT_WAITS if self._counts[_CLIENT_WAITS] else _SERVER_WAITS
