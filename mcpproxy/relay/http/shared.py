"""The state that all client connections share: the upstream, the admission rule, the observer, and the limit."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from mcpproxy.relay.http.admission import AdmissionRule
from mcpproxy.relay.http.observer import Observer
from mcpproxy.relay.http.observer_calls import ObserverCalls
from mcpproxy.relay.http.rewrite import Origin
from mcpproxy.relay.http.round_robin import RoundRobinQueue
from mcpproxy.relay.http.upstream import Upstream

_MAX_SURPLUS_CLIENTS: Final = (
    4  # the number of clients above the maximum that receive an explanation instead of a reset
)


class Client(Protocol):
    """A client connection."""

    transport: asyncio.Transport

    def close_for_exit(self) -> None:
        """Close the connection because the recorder ends."""


class SharedState:
    """The state that all client connections share, and the list of these connections."""

    def __init__(
        self,
        upstream: Upstream,
        admission: AdmissionRule | None,
        observer: Observer,
        tell: Callable[[str], None],
        *,
        rewrites: bool,
        most: int,
    ) -> None:
        """Start without connections.

        Args:
            upstream: the server that receives everything.
            admission: the rule that decides which requests pass; None in front of a public server, which decides
                itself. Then request heads pass unchanged, and connections may be upgraded.
            observer: the observer of the traffic.
            tell: shows one line to the user.
            rewrites: whether to make the upstream's own addresses in responses relative.
            most: the maximum number of simultaneous client connections.
        """
        self.upstream = upstream
        self.admission = admission
        self.is_public = admission is None
        """Whether clients connect from outside, to the public address of the server."""
        self.turns = RoundRobinQueue()
        self.observer_calls = ObserverCalls(observer, self.turns)
        self.origin = (
            Origin("http" if upstream.tls is None else "https", upstream.host, upstream.port) if rewrites else None
        )
        self.say = tell
        self.clients: dict[Client, None] = {}
        """The client connections, in the order in which they were made."""
        self.max_clients = most
        self._has_dropped = asyncio.Event()
        self._has_reported_overload = False

    def add_client(self, client: Client) -> bool:
        """Add a client that has connected; returns False if too many are connected."""
        self.clients[client] = None
        return len(self.clients) <= self.max_clients

    def remove_client(self, client: Client) -> None:
        """Remove a client whose connection is closed."""
        self.clients.pop(client, None)
        self._has_dropped.set()

    async def wait_until_empty(self) -> None:
        """Wait until no client is connected."""
        while self.clients:
            self._has_dropped.clear()
            await self._has_dropped.wait()

    def report_overload(self) -> None:
        """Reports that clients are refused, but only once, because there may be thousands."""
        if not self._has_reported_overload:
            self._has_reported_overload = True
            self.say(
                f"refusing connections above the limit of {self.max_clients} with status 503; raise "
                "it with --max-connections"
            )

    @property
    def is_overloaded(self) -> bool:
        """Whether refused clients must be disconnected at once, which leaves descriptors for others."""
        return len(self.clients) > self.max_clients + _MAX_SURPLUS_CLIENTS
