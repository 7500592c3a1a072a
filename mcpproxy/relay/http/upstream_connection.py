"""The upstream connection of one client connection: what the upstream does to it, the relay does to the client's."""

import asyncio
import os
from asyncio.trsock import TransportSocket
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from mcpproxy.relay.http.side import HELD_BYTES, Side
from mcpproxy.relay.http.upstream import reset_on_close, socket_of

if TYPE_CHECKING:
    from mcpproxy.relay.http.client_connection import ClientConnection

_UNREAD_BYTES: Final = 256 << 10  # read from a connection that was lost before its last bytes were read


class UpstreamConnection(Side):
    """The upstream connection of one client connection."""

    __slots__ = ("_client", "_is_half_closed")

    def __init__(self, client: "ClientConnection") -> None:
        super().__init__(client.observed, client.shared.turns)
        self._client = client
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The upstream has accepted the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(HELD_BYTES)
        self._client.upstream_connected(self)

    def data_received(self, data: bytes) -> None:
        """Forward the data to the client."""
        self.forward(data, self._client.upstream_data)

    def eof_received(self) -> bool:
        """Forward the half-close; returns True to keep the other half open."""
        self.when_forwarded(self._client.upstream_eof)
        # TLS has no half-close.
        return self._client.relays_half_closes

    def connection_lost(self, exc: Exception | None) -> None:
        """The upstream is gone: forward what it sent before, then end the client's connection in the same way."""
        if exc is not None and self._client.relays_half_closes:
            # It may have said why it accepts no more, such as 401 or 413, before the write failed.
            unread = _unread(self.transport)
            if unread:
                self.data_received(unread)
        self.when_forwarded(partial(self._client.upstream_lost, exc))

    def pause_writing(self) -> None:
        """The upstream reads slowly: stop reading from the client."""
        self._client.set_full(is_full=True)

    def resume_writing(self) -> None:
        """The upstream has caught up: read from the client again."""
        self._client.set_full(is_full=False)

    def half_close(self) -> None:
        """The client has finished sending. For a TLS upstream that is a close, as it would be without us."""
        if self.transport.is_closing() or self._is_half_closed:
            return
        self._is_half_closed = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close after writing what is still queued."""
        if not self.transport.is_closing():  # a TLS transport of asyncio that is closed twice fails at the next call
            self.transport.close()

    def abort(self) -> None:
        """Close with a reset."""
        reset_on_close(self.transport)
        self.transport.abort()


def _unread(transport: asyncio.Transport) -> bytes:
    """Returns what arrived on a lost connection: asyncio drops it if a write fails before it is read."""
    sock = socket_of(transport)
    if not isinstance(sock, TransportSocket):
        return b""  # another loop may have closed it, and the number may since have been reused
    try:
        return os.read(sock.fileno(), _UNREAD_BYTES)
    except OSError:
        return b""
