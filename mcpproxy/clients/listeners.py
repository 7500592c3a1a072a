"""The listeners of `mcpproxy up`: which local port is in front of which server with a URL.

Only the origin of a server (`https://example.com`) is kept here. Path and query stay in the client's file, where they
were, because a token may be part of them.
"""

from __future__ import annotations

import socket
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlsplit

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 16000
PORTS: Final = 4000
"""The number of ports. All are below those that systems give to outgoing connections, and apart from those that
mcp-remote uses for logins, so that a port written into a file stays free.
"""

_PORT_OF: Final = {"http": 80, "https": 443}


class NotRoutable(ValueError):
    """A URL that no listener can stand in front of; the text says why."""


@dataclass(slots=True)
class Listener:
    """One local port and the server behind it."""

    name: str
    """The server's name, for its captures."""
    port: int
    upstream: str
    """The origin of the server."""
    capture: str = ""
    """The directory for its captures; empty for the default."""
    machine: str = ""
    """The name of this machine in its captures; empty for the default."""
    users: list[str] = field(default_factory=list)
    """The entries that use it: file and place, as JSON."""


_MEMBERS: Final = frozenset(member.name for member in fields(Listener))


def read_listener(stored: Any) -> Listener | None:
    """Returns a listener as it was stored, or None if it is malformed; unknown members are dropped."""
    if not isinstance(stored, dict):
        return None
    try:
        listener = Listener(**{name: value for name, value in stored.items() if name in _MEMBERS})
        is_sound = (
            isinstance(stored.get("users", []), list)
            and all(
                isinstance(text, str)
                for text in (listener.name, listener.upstream, listener.capture, listener.machine, *listener.users)
            )
            and type(listener.port) is int
            and 0 < listener.port < 1 << 16
            and split_origin(listener.upstream) == (listener.upstream, "")
        )
    except (TypeError, NotRoutable):
        return None
    return listener if is_sound else None


def split_origin(url: str) -> tuple[str, str]:
    """A URL as its origin and the rest.

    Raises:
        NotRoutable: it is not a plain http or https address.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NotRoutable("its URL is malformed") from None
    if "$" in parts.netloc or "{" in parts.netloc:
        raise NotRoutable("the host or port in its URL contains a variable")
    if parts.scheme not in _PORT_OF or not parts.hostname:
        raise NotRoutable("its URL is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise NotRoutable("its URL contains a user name or a password")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port and port != _PORT_OF[parts.scheme] else "")
    _, _, rest = url.partition("://")
    # It has characters that are dropped when a URL is parsed, or a lone surrogate.
    if not rest.startswith(parts.netloc) or not _is_text(url):
        raise NotRoutable("its URL is malformed")
    return origin, rest[len(parts.netloc) :]


def _is_text(text: str) -> bool:
    """Whether a string can be written at all: JSON can hold a lone surrogate, such as `\\ud800`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def local_url(listener: Listener, rest: str) -> str:
    """The URL that a client gets instead of a server's own."""
    return f"http://{HOST}:{listener.port}{rest}"


def own_url(listener: Listener, url: str) -> str:
    """The server's own URL, for the URL that a client got instead.

    Raises:
        NotRoutable: mcpproxy did not write this URL; someone added a user name to it, for example.
    """
    try:
        return listener.upstream + split_origin(url)[1]
    except NotRoutable as why:
        raise NotRoutable(f"{why}; write {listener.upstream} in place of http://{HOST}:{listener.port}") from None


def listener_of(url: str, listeners: Iterable[Listener]) -> Listener | None:
    """The listener that a URL leads to, or None if it leads elsewhere."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in (HOST, "localhost"):
            return None
        return next((listener for listener in listeners if listener.port == parts.port), None)
    except ValueError:
        return None


def first_port(name: str, upstream: str) -> int:
    """The port that a server gets if it is free."""
    return FIRST_PORT + int.from_bytes(blake2b(f"{name}\n{upstream}".encode(), digest_size=4).digest()) % PORTS


def free_port(name: str, upstream: str, taken: Container[int]) -> int:
    """A port for a server: the same one each time, unless it is taken.

    Raises:
        OSError: all are taken.
    """
    first = first_port(name, upstream) - FIRST_PORT
    for step in range(PORTS):
        port = FIRST_PORT + (first + step) % PORTS
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free")


def is_free(port: int) -> bool:
    """Whether nothing listens on a port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True
