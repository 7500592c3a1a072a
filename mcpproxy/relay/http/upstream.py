"""Connects to the one server behind `serve`: by TCP, by TLS, through an HTTP proxy, or by a Unix socket."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

HEAD_BYTES: Final = 64 << 10
"""The longest response head accepted from an HTTP proxy before the tunnel begins."""
_RESET: Final = struct.pack("ii", 1, 0)  # linger time zero: closing sends a reset


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
        """What to call it in messages."""
        return f"unix:{self.unix}" if self.unix is not None else self.authority.decode("latin-1")


async def connect(
    loop: asyncio.AbstractEventLoop, upstream: Upstream, new_protocol: Callable[[], asyncio.Protocol]
) -> None:
    """Connect to the upstream, through a tunnel if there is an HTTP proxy.

    Raises:
        OSError: it cannot be reached; this includes an untrusted certificate.
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
    tunnel = await _tunnel(loop, upstream.proxy, f"{upstream.host}:{upstream.port}")
    try:
        await loop.create_connection(
            new_protocol, sock=tunnel, ssl=upstream.tls, server_hostname=upstream.host if upstream.tls else None
        )
    except BaseException:
        tunnel.close()
        raise


async def _tunnel(loop: asyncio.AbstractEventLoop, proxy: tuple[str, int], target: str) -> socket.socket:
    """A socket that leads through an HTTP proxy to `target` (RFC 9110, 9.3.6)."""
    infos = await loop.getaddrinfo(*proxy, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = infos[0]
    tunnel = socket.socket(family, kind, protocol)
    try:
        tunnel.setblocking(False)
        await loop.sock_connect(tunnel, address)
        await loop.sock_sendall(tunnel, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < HEAD_BYTES:
            # One byte at a time: what follows the head belongs to the upstream.
            byte = await loop.sock_recv(tunnel, 1)
            if not byte:
                break
            answer += byte
        status = answer.split(b" ", 2)[1:2]
        if not answer.startswith(b"HTTP/1.") or not status or not status[0].startswith(b"2"):
            raise OSError(f"the HTTP proxy {proxy[0]}:{proxy[1]} makes no tunnel ({answer[:60]!r})")
    except BaseException:
        tunnel.close()
        raise
    return tunnel


def socket_of(transport: asyncio.Transport) -> Any:
    """The socket of a connection, of a type that depends on the loop, or None if it no longer has one."""
    try:
        return transport.get_extra_info("socket")
    except AttributeError:  # a TLS transport that was closed twice, as asyncio itself does when a connect is cancelled
        return None


def reset_on_close(transport: asyncio.Transport) -> None:
    """Make closing a connection send a reset."""
    sock = socket_of(transport)
    if sock is not None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except OSError:  # it is closed already
            return


def error_text(error: Exception) -> str:
    """What went wrong with a connection, in the system's words."""
    if isinstance(error, ssl.SSLError):  # its errno is not a system errno
        return (error.reason or "TLS failed").replace("_", " ").lower()
    code = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror) or code is None or code < 0:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    return os.strerror(code)
