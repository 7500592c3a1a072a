"""Accepts connections of clients, up to a maximum, and ends all of them when the recorder ends."""

import asyncio
import socket
from typing import Any, Final

from mcpproxy.relay.http.client_connection import ClientConnection
from mcpproxy.relay.http.observer import Observer
from mcpproxy.relay.http.shared import SharedState
from mcpproxy.relay.http.upstream import error_text

MAX_CLOSE_S: Final = 1.0
"""How long clients that do not read may delay the exit, in seconds."""
BACKLOG: Final = 512
_ACCEPTS_PER_TURN: Final = 2  # per turn of the event loop, because closing a surplus connection takes several turns


class HttpRelay:
    """A listener and its connections."""

    def __init__(self, shared: SharedState) -> None:
        """Create a relay that does not listen yet.

        Args:
            shared: the state that its connections share.
        """
        self.shared = shared
        self._server: asyncio.Server | None = None
        self._is_closed = False

    async def listen(self, bound: socket.socket) -> None:
        """Start accepting connections on a bound socket."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        create_server = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
        self._server = await create_server(
            lambda: ClientConnection(self.shared, loop), sock=bound, backlog=_ACCEPTS_PER_TURN
        )
        bound.listen(BACKLOG)  # asyncio uses a single number for accepts per turn and for the system's backlog

    async def close(self) -> None:
        """Stop listening, and end every connection as ended by mcpproxy."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for client in list(self.shared.clients):
            client.close_for_exit()
        try:
            async with asyncio.timeout(MAX_CLOSE_S):
                await self.shared.wait_until_empty()
        except TimeoutError:  # a client that does not read cannot be closed cleanly
            for client in list(self.shared.clients):
                client.transport.abort()
        self.shared.observer_calls.make_calls()
        await self.shared.turns.finish()

    def set_observer(self, observer: Observer) -> None:
        """Report connections that are made from now on to another observer."""
        self.shared.observer_calls.observer = observer

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report in one line an error that asyncio would print with a traceback."""
        if self._is_closed:  # asyncio may still try to accept connections on the closed listener
            return
        error = context.get("exception")
        if isinstance(error, OSError):  # accepting failed; asyncio tries again after a second
            self.shared.say(f"new connections are delayed: {error_text(error)}")
        else:
            self.shared.say(f"a fault in mcpproxy: {context['message']} ({type(error).__name__})")
