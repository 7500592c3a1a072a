"""Calls the observer of the HTTP relay after the bytes have been forwarded.

Each call has the time at which the bytes were read, so that no response is older than its request. All calls for one
turn of the loop are made together, in order, which takes half the time of interleaving them. If the observer raises,
traffic continues unobserved.
"""

import asyncio
import time
from functools import partial

from mcpproxy.relay.http.observer import ConnectionTap, Observer, TapCall
from mcpproxy.relay.http.round_robin import RoundRobin


class ObserverCalls:
    """The calls that are due, of all connections."""

    def __init__(self, observer: Observer, turns: RoundRobin) -> None:
        """Start without calls.

        Args:
            observer: sees the traffic.
            turns: where taps that have fallen behind catch up.
        """
        self.observer = observer
        self._turns = turns
        self._due: list[tuple[ObservedConnection, int, TapCall]] = []

    def queue(self, connection: "ObservedConnection", at_ns: int, call: TapCall) -> None:
        """Queue a call about what a connection has just forwarded, or about how it ended."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self.make)
        self._due.append((connection, at_ns, call))

    def make(self) -> None:
        """Make the queued calls now."""
        due, self._due = self._due, []
        for connection, at_ns, call in due:
            if connection.tap is None:
                continue
            was_behind = connection.is_behind
            try:
                call(connection.tap, at_ns)
            except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the traffic
                connection.tap = self.observer.failed(error)
            if connection.is_behind and not was_behind:
                self._turns.schedule(partial(self._catch_up, connection))

    def _catch_up(self, connection: "ObservedConnection") -> bool:
        """Let a connection's tap do some of its remaining work; returns whether more is left."""
        try:
            if connection.tap is not None:
                connection.tap.catch_up()
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the traffic
            connection.tap = self.observer.failed(error)
        return connection.is_behind


class ObservedConnection:
    """One client connection, as the observer sees it."""

    __slots__ = ("calls", "tap")

    def __init__(self, calls: ObserverCalls) -> None:
        self.calls = calls
        self.tap: ConnectionTap | None = None
        """None before `connected`, and if the observer has given up on this connection."""

    def connected(self, peer: str) -> None:
        """The client has connected."""
        try:
            self.tap = self.calls.observer.connected(peer)
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the traffic
            self.tap = self.calls.observer.failed(error)

    @property
    def is_behind(self) -> bool:
        """Whether the tap still has work to do on what it has seen."""
        return self.tap is not None and self.tap.is_behind

    def show(self, call: TapCall, at_ns: int = 0) -> None:
        """Report what happened at that time, or now."""
        if self.tap is not None:
            self.calls.queue(self, at_ns or time.monotonic_ns(), call)
