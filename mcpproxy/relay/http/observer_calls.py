"""Calls the observer of the HTTP relay after the bytes have been forwarded.

Each call passes the time at which the bytes were read, so no response is older than its request. All calls for one turn
of the event loop are made together, in order, which takes half as long as making them one by one. If the observer
raises, traffic continues unobserved.
"""

import asyncio
import time
from functools import partial

from mcpproxy.relay.http.observer import ConnectionTap, Observer, TapCall
from mcpproxy.relay.http.round_robin import RoundRobinQueue


class ObserverCalls:
    """The queued calls for all connections."""

    def __init__(self, observer: Observer, turns: RoundRobinQueue) -> None:
        """Start without calls.

        Args:
            observer: the observer of the traffic.
            turns: the queue in which taps that have fallen behind catch up.
        """
        self.observer = observer
        self._turns = turns
        self._queued_calls: list[tuple[ObservedConnection, int, TapCall]] = []

    def queue_call(self, connection: "ObservedConnection", at_ns: int, call: TapCall) -> None:
        """Queue a call about bytes that a connection has just forwarded, or about its end."""
        if not self._queued_calls:
            asyncio.get_running_loop().call_soon(self.make_calls)
        self._queued_calls.append((connection, at_ns, call))

    def make_calls(self) -> None:
        """Make the queued calls now."""
        calls, self._queued_calls = self._queued_calls, []
        for connection, at_ns, call in calls:
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
        """Let the tap of a connection do some of its remaining work; returns whether more remains."""
        try:
            if connection.tap is not None:
                connection.tap.catch_up()
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the traffic
            connection.tap = self.observer.failed(error)
        return connection.is_behind


class ObservedConnection:
    """Reports one client connection to the observer."""

    __slots__ = ("calls", "tap")

    def __init__(self, calls: ObserverCalls) -> None:
        self.calls = calls
        self.tap: ConnectionTap | None = None
        """The tap; None before `report_connected`, and after a fault for which the observer returned none."""

    def report_connected(self, peer: str) -> None:
        """Reports that the client has connected."""
        try:
            self.tap = self.calls.observer.connected(peer)
        except Exception as error:  # noqa: BLE001 - a bug in the recorder must not affect the traffic
            self.tap = self.calls.observer.failed(error)

    @property
    def is_behind(self) -> bool:
        """Whether the tap still has to process traffic that it has seen."""
        return self.tap is not None and self.tap.is_behind

    def report_event(self, call: TapCall, at_ns: int = 0) -> None:
        """Report an event with the given time, or else with the current time."""
        if self.tap is not None:
            self.calls.queue_call(self, at_ns or time.monotonic_ns(), call)
