"""The listeners of `mcpproxy up`: the local port in front of each server with a URL.

A listener contains only the origin of its server (`https://example.com`). The path and the query stay in the client's
file, because they may contain a token.
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
PORT_COUNT: Final = 4000
"""The number of ports that listeners can use.

A port that is written into a file must stay free. So all of these ports are below those that systems assign to outgoing
connections, and none of them is one that mcp-remote uses for logins.
"""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class NotRoutable(ValueError):
    """A URL cannot be routed through a listener; the text says why."""


@dataclass(slots=True)
class Listener:
    """A local port, and the server to which it leads."""

    name: str
    """The name of the server in its captures."""
    port: int
    upstream: str
    """The origin of the server."""
    capture: str = ""
    """The directory for its captures; empty for the default."""
    machine: str = ""
    """The name of this machine in its captures; empty for the default."""
    users: list[str] = field(default_factory=list)
    """The entries that use the listener: the file and the path in it, as JSON."""


_MEMBERS: Final = frozenset(member.name for member in fields(Listener))


def parsed_listener(stored_data: Any) -> Listener | None:
    """Returns the listener that was stored, or None if it is malformed; drops unknown members."""
    if not isinstance(stored_data, dict):
        return None
    try:
        listener = Listener(**{name: value for name, value in stored_data.items() if name in _MEMBERS})
        is_valid = (
            isinstance(stored_data.get("users", []), list)
            and all(
                isinstance(value_text, str)
                for value_text in (
                    listener.name,
                    listener.upstream,
                    listener.capture,
                    listener.machine,
                    *listener.users,
                )
            )
            and type(listener.port) is int
            and 0 < listener.port < 1 << 16
            and split_origin(listener.upstream) == (listener.upstream, "")
        )
    except (TypeError, NotRoutable):
        return None
    return listener if is_valid else None


def split_origin(url: str) -> tuple[str, str]:
    """Split a URL into its origin and the rest.

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
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise NotRoutable("its URL is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise NotRoutable("its URL contains a user name or a password")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS[parts.scheme] else "")
    _, _, without_scheme = url.partition("://")
    # The URL contains characters that the parser drops, or a lone surrogate.
    if not without_scheme.startswith(parts.netloc) or not _is_encodable(url):
        raise NotRoutable("its URL is malformed")
    return origin, without_scheme[len(parts.netloc) :]


def _is_encodable(text: str) -> bool:
    """Returns whether a string can be encoded; one from JSON can contain a lone surrogate, such as `\\ud800`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def local_url(listener: Listener, path_and_query: str) -> str:
    """Returns the local URL that replaces a server's own URL in a client's file."""
    return f"http://{HOST}:{listener.port}{path_and_query}"


def server_url(listener: Listener, url: str) -> str:
    """Returns the server's own URL for the local URL that replaced it.

    Raises:
        NotRoutable: mcpproxy did not write this URL; for example, the user added a user name to it.
    """
    try:
        return listener.upstream + split_origin(url)[1]
    except NotRoutable as error:
        raise NotRoutable(f"{error}; write {listener.upstream} in place of http://{HOST}:{listener.port}") from None


def listener_of(url: str, listeners: Iterable[Listener]) -> Listener | None:
    """Returns the listener that a URL leads to, or None if it leads elsewhere."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in (HOST, "localhost"):
            return None
        return next((listener for listener in listeners if listener.port == parts.port), None)
    except ValueError:
        return None


def preferred_port(name: str, upstream: str) -> int:
    """Returns the port that a server is assigned if it is free."""
    return FIRST_PORT + int.from_bytes(blake2b(f"{name}\n{upstream}".encode(), digest_size=4).digest()) % PORT_COUNT


def free_port(name: str, upstream: str, taken_ports: Container[int]) -> int:
    """Returns a port for a server: the same one each time, unless it is taken.

    Raises:
        OSError: all ports are taken.
    """
    first_offset = preferred_port(name, upstream) - FIRST_PORT
    for offset in range(PORT_COUNT):
        port = FIRST_PORT + (first_offset + offset) % PORT_COUNT
        if port not in taken_ports and is_port_free(port):
            return port
    raise OSError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORT_COUNT - 1} is free")


def is_port_free(port: int) -> bool:
    """Returns whether nothing listens on a port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe_socket:
        probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe_socket.bind((HOST, port))
        except OSError:
            return False
    return True
