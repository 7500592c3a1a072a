"""The upstream connection of one client connection; events on it are passed on to the client's connection."""

import asyncio
import os
from asyncio.trsock import TransportSocket
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from mcpproxy.relay.http.side import MAX_HELD_BYTES, RelayConnection
from mcpproxy.relay.http.upstream import set_reset_on_close, socket_of

if TYPE_CHECKING:
    from mcpproxy.relay.http.client_connection import ClientConnection

_MAX_UNREAD_BYTES: Final = (
    256 << 10
)  # the maximum to read from a connection that was lost before its last bytes were read


class UpstreamConnection(RelayConnection):
    """The upstream connection of one client connection."""

    __slots__ = ("_client", "_is_half_closed")

    def __init__(self, client: "ClientConnection") -> None:
        super().__init__(client.observed, client.shared.turns)
        self._client = client
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the client's connection forward its data, because the upstream has accepted the connection."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MAX_HELD_BYTES)
        self._client.on_upstream_connected(self)

    def data_received(self, data: bytes) -> None:
        """Forward the data to the client."""
        self.forward(data, self._client.on_upstream_data)

    def eof_received(self) -> bool:
        """Forward the half-close; returns whether to keep the other half open, which TLS does not support."""
        self.call_when_forwarded(self._client.on_upstream_eof)
        return self._client.supports_half_close

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward what the upstream sent before it closed, then end the client's connection in the same way."""
        if exc is not None and self._client.supports_half_close:
            # Before the write failed, the upstream may have sent the reason, such as 401 or 413.
            unread_data = _read_unread(self.transport)
            if unread_data:
                self.data_received(unread_data)
        self.call_when_forwarded(partial(self._client.on_upstream_lost, exc))

    def pause_writing(self) -> None:
        """Stop reading from the client, because the upstream reads slowly."""
        self._client.set_full(is_full=True)

    def resume_writing(self) -> None:
        """Resume reading from the client, because the upstream has caught up."""
        self._client.set_full(is_full=False)

    def half_close(self) -> None:
        """Finish sending, as the client did; a TLS connection is closed, as it would be without mcpproxy."""
        if self.transport.is_closing() or self._is_half_closed:
            return
        self._is_half_closed = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close the connection after the queued data is written."""
        if not self.transport.is_closing():  # a TLS transport of asyncio that is closed twice fails at the next call
            self.transport.close()

    def abort(self) -> None:
        """Close the connection with a reset."""
        set_reset_on_close(self.transport)
        self.transport.abort()


def _read_unread(transport: asyncio.Transport) -> bytes:
    """Returns the data that arrived on a lost connection; asyncio drops it if a write fails before the data is read."""
    sock = socket_of(transport)
    if not isinstance(sock, TransportSocket):
        return b""  # another event loop may have closed the descriptor, and its number may have been reused since
    try:
        return os.read(sock.fileno(), _MAX_UNREAD_BYTES)
    except OSError:
        return b""
