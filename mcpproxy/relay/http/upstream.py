"""Connects to the upstream of `serve` over TCP or TLS, through an HTTP proxy, or over a Unix socket."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

MAX_PROXY_HEAD_BYTES: Final = 64 << 10
"""The maximum size of the response head of an HTTP proxy before the tunnel begins."""
_RESET_LINGER: Final = struct.pack("ii", 1, 0)  # with a linger time of zero, closing sends a reset


class Upstream(NamedTuple):
    """The one server that receives everything."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    authority: bytes
    """The value of the Host header."""
    proxy: tuple[str, int] | None = None
    """An HTTP proxy to tunnel through."""
    unix: str | None = None
    """The path of a Unix socket to connect to instead of host and port."""

    @property
    def label(self) -> str:
        """The name of the upstream in messages."""
        return f"unix:{self.unix}" if self.unix is not None else self.authority.decode("latin-1")


async def connect(
    loop: asyncio.AbstractEventLoop, upstream: Upstream, new_protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Connect to the upstream, through a tunnel if it has an HTTP proxy.

    Raises:
        OSError: the upstream cannot be reached, or its certificate is not trusted.
    """
    if upstream.unix is not None:
        await loop.create_unix_connection(new_protocol, upstream.unix)
        return
    if upstream.proxy is None:
        await loop.create_connection(
            new_protocol,
            upstream.host,
            upstream.port,
            ssl=upstream.tls,
            server_hostname=upstream.host if upstream.tls else None,
        )
        return
    tunnel = await _open_tunnel(loop, upstream.proxy, f"{upstream.host}:{upstream.port}")
    try:
        await loop.create_connection(
            new_protocol, sock=tunnel, ssl=upstream.tls, server_hostname=upstream.host if upstream.tls else None
        )
    except BaseException:
        tunnel.close()
        raise


async def _open_tunnel(loop: asyncio.AbstractEventLoop, proxy: tuple[str, int], target: str) -> socket.socket:
    """Returns a socket that is connected to `target` through an HTTP proxy (RFC 9110, 9.3.6)."""
    addresses = await loop.getaddrinfo(*proxy, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = addresses[0]
    tunnel = socket.socket(family, kind, protocol)
    try:
        tunnel.setblocking(False)
        await loop.sock_connect(tunnel, address)
        await loop.sock_sendall(tunnel, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        response = b""
        while b"\r\n\r\n" not in response and len(response) < MAX_PROXY_HEAD_BYTES:
            # One byte at a time, because the bytes after the head belong to the upstream.
            byte = await loop.sock_recv(tunnel, 1)
            if not byte:
                break
            response += byte
        status_words = response.split(b" ", 2)[1:2]
        if not response.startswith(b"HTTP/1.") or not status_words or not status_words[0].startswith(b"2"):
            raise OSError(f"the HTTP proxy {proxy[0]}:{proxy[1]} makes no tunnel ({response[:60]!r})")
    except BaseException:
        tunnel.close()
        raise
    return tunnel


def socket_of(transport: asyncio.Transport) -> Any:
    """Returns the socket of a connection, or None if it no longer has one; the type depends on the event loop."""
    try:
        return transport.get_extra_info("socket")
    except AttributeError:  # a TLS transport was closed twice, as asyncio itself does when a connect is cancelled
        return None


def set_reset_on_close(transport: asyncio.Transport) -> None:
    """Make a later close of the connection send a reset."""
    sock = socket_of(transport)
    if sock is not None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_LINGER)
        except OSError:  # the socket is already closed
            return


def error_text(error: Exception) -> str:
    """Returns the system's message for an error of a connection."""
    if isinstance(error, ssl.SSLError):  # the errno of TLS errors is not a system errno
        return (error.reason or "TLS failed").replace("_", " ").lower()
    code = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror) or code is None or code < 0:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    return os.strerror(code)
