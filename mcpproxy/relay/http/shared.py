"""What the connections of all clients share: the upstream, who is admitted, the observer, and how many there may be."""

import asyncio
from collections.abc import Callable
from typing import Final

from mcpproxy.relay.http.admission import Admission
from mcpproxy.relay.http.observer import Observer
from mcpproxy.relay.http.observer_calls import ObserverCalls
from mcpproxy.relay.http.rewrite import Origin
from mcpproxy.relay.http.round_robin import RoundRobin
from mcpproxy.relay.http.side import Side
from mcpproxy.relay.http.upstream import Upstream

_SURPLUS_ANSWERED: Final = 4  # clients above the maximum that get an explanation instead of a reset


class Shared:
    """What the connections of all clients share, and the list of these connections."""

    def __init__(
        self,
        upstream: Upstream,
        admission: Admission | None,
        observer: Observer,
        tell: Callable[[str], None],
        *,
        rewrites: bool,
        most: int,
    ) -> None:
        """Start without connections.

        Args:
            upstream: the server that receives everything.
            admission: decides which requests may pass; None in front of a public server, which decides that itself:
                then request heads pass unchanged, and connections may be upgraded.
            observer: sees the traffic.
            tell: shows one line to the user.
            rewrites: whether to make the upstream's own addresses in responses relative.
            most: how many client connections there may be at a time.
        """
        self.upstream = upstream
        self.admission = admission
        self.is_public = admission is None
        """Whether clients come from outside, by an address that is not ours."""
        self.turns = RoundRobin()
        self.observer_calls = ObserverCalls(observer, self.turns)
        self.origin = (
            Origin("http" if upstream.tls is None else "https", upstream.host, upstream.port) if rewrites else None
        )
        self.tell = tell
        self.clients: dict[Side, Callable[[], None]] = {}
        """The connections of clients, and what to call when the recorder ends."""
        self.cap = most
        self._has_dropped = asyncio.Event()
        self._has_reported_crowd = False

    def add(self, client: Side, leave: Callable[[], None]) -> bool:
        """Add a client that has connected; returns False if there are too many.

        Args:
            client: its connection.
            leave: ends the connection, with the recorder as the cause.
        """
        self.clients[client] = leave
        return len(self.clients) <= self.cap

    def drop(self, client: Side) -> None:
        """Remove a client whose connection is closed."""
        self.clients.pop(client, None)
        self._has_dropped.set()

    async def all_dropped(self) -> None:
        """Wait until no client is connected."""
        while self.clients:
            self._has_dropped.clear()
            await self._has_dropped.wait()

    def report_overload(self) -> None:
        """Report that clients are refused: once, as thousands may be."""
        if not self._has_reported_crowd:
            self._has_reported_crowd = True
            self.tell(
                f"refusing connections above the limit of {self.cap} with status 503; raise it with --max-connections"
            )

    @property
    def is_overloaded(self) -> bool:
        """Whether refused clients must be closed at once, so that descriptors are left for others."""
        return len(self.clients) > self.cap + _SURPLUS_ANSWERED
