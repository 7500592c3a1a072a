"""Accepts the connections of clients, up to a maximum, and ends them all when the recorder ends."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

from mcpproxy.relay.descriptors import USUAL
from mcpproxy.relay.http.admission import Admission
from mcpproxy.relay.http.client_connection import ClientConnection
from mcpproxy.relay.http.observer import Observer
from mcpproxy.relay.http.observer_calls import ObserverCalls
from mcpproxy.relay.http.rewrite import Origin
from mcpproxy.relay.http.turns import Turns
from mcpproxy.relay.http.upstream import Upstream, error_text

CLOSE_S: Final = 1.0
"""How long clients that do not read may delay our exit."""
BACKLOG: Final = 512
_ACCEPTS_PER_TURN: Final = 2  # of the loop; closing a surplus connection takes several turns
_SURPLUS_ANSWERED: Final = 4  # clients above the maximum that get an explanation instead of a reset


class HttpRelay:
    """A listener and its connections."""

    def __init__(
        self,
        upstream: Upstream,
        admission: Admission,
        observer: Observer,
        tell: Callable[[str], None],
        *,
        rewrites: bool = True,
        most: int = USUAL,
    ) -> None:
        """Create a relay that does not listen yet.

        Args:
            upstream: the server that receives everything.
            admission: decides which requests may pass.
            observer: sees the traffic.
            tell: shows one line to the user.
            rewrites: whether to make the upstream's own addresses in responses relative.
            most: how many client connections there may be at a time.
        """
        self.upstream = upstream
        self.admission = admission
        self.turns = Turns()
        self.observer_calls = ObserverCalls(observer, self.turns)
        self.origin = (
            Origin("http" if upstream.tls is None else "https", upstream.host, upstream.port) if rewrites else None
        )
        self.tell = tell
        self.clients: set[ClientConnection] = set()
        self.cap = most
        self._has_dropped = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._has_reported_crowd = False

    async def listen(self, bound: socket.socket) -> None:
        """Start accepting connections on a bound socket."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fault)
        self._server = await loop.create_server(
            lambda: ClientConnection(self, loop), sock=bound, backlog=_ACCEPTS_PER_TURN
        )
        bound.listen(BACKLOG)  # asyncio uses one number for accepts at once and for the system's backlog

    async def close(self) -> None:
        """Stop listening, and end every connection as ended by us."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for client in list(self.clients):
            if client.outstanding:
                client.abort("proxy", "the recorder ends")
            else:
                client.end("proxy", None)
        try:
            async with asyncio.timeout(CLOSE_S):
                while self.clients:
                    self._has_dropped.clear()
                    await self._has_dropped.wait()
        except TimeoutError:  # a client that does not read cannot be closed cleanly
            for client in list(self.clients):
                client.transport.abort()
        self.observer_calls.make()
        await self.turns.finish()

    def observe(self, observer: Observer) -> None:
        """Let another observer see the connections that are made from now on."""
        self.observer_calls.observer = observer

    def add(self, client: ClientConnection) -> bool:
        """Add a client that has connected; False if there are too many."""
        self.clients.add(client)
        return len(self.clients) <= self.cap

    def report_crowd(self) -> None:
        """Report that clients are refused: once, as thousands may be."""
        if not self._has_reported_crowd:
            self._has_reported_crowd = True
            self.tell(f"refusing connections beyond {self.cap}; --max-connections allows more; clients get 503")

    @property
    def is_crowded(self) -> bool:
        """Whether refused clients must be closed at once, so that descriptors are left for others."""
        return len(self.clients) > self.cap + _SURPLUS_ANSWERED

    def _fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report in one line what asyncio would print with a traceback."""
        if self._is_closed:  # it may still try to accept on the closed listener
            return
        error = context.get("exception")
        if isinstance(error, OSError):  # from accepting; the loop tries again after a second
            self.tell(f"connections have to wait: {error_text(error)}")
        else:
            self.tell(f"a fault in mcpproxy: {context['message']} ({type(error).__name__})")

    def drop(self, client: ClientConnection) -> None:
        """A client's connection is closed."""
        self.clients.discard(client)
        self._has_dropped.set()
