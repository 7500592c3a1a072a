"""Decides from the head of a request whether to forward it, before the upstream sees any of it.

A web page can make a browser send requests to loopback, either across origins or under its own host name, resolved to
loopback (DNS rebinding). So a request must name a host of this listener. If a browser names the page that sent the
request, that page must be on this machine. The MCP specification requires the same of servers (basic/transports,
Streamable HTTP), but a proxy that rewrites Host disables the server's own check.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mcpproxy.wire.framing import Fields

LOOPBACK_HOSTS: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""The host names that always refer to this machine."""
_WEB_SCHEMES: Final = (b"http://", b"https://")


class Objection(NamedTuple):
    """The reason for which a request is refused, with the status of the response."""

    status: int
    reason: str


class AdmissionRule:
    """The admission rule of one listener."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Accept the names of this machine and `names`, other hosts of the listener; a port in a name is ignored.

        Raises:
            UnicodeError: a name is not a valid host name.
        """
        self._names = LOOPBACK_HOSTS | {_host(_host_spelling(name)) for name in names}

    def objection_to(self, headers: Fields) -> Objection | None:
        """Returns the objection to a request with this header list, or None if it is admitted."""
        for host in headers.values_of(b"host"):
            if _host(host) not in self._names:
                return Objection(421, "the Host header names another server; see --allow-host")
        for origin in headers.values_of(b"origin"):
            if not self._is_own_page(origin):
                return Objection(403, "the Origin header names a page of another machine; see --allow-host")
        for site in headers.values_of(b"sec-fetch-site"):
            if site.lower() == b"cross-site":
                return Objection(403, "a page of another site sent this (Sec-Fetch-Site: cross-site)")
        return None

    def _is_own_page(self, origin: bytes) -> bool:
        lower_origin = origin.lower()
        return any(
            lower_origin.startswith(scheme) and _host(lower_origin.removeprefix(scheme)) in self._names
            for scheme in _WEB_SCHEMES
        )


def _host(authority: bytes) -> bytes:
    """Returns the host of an authority, without its port, in lower case."""
    host, colon, port = authority.rpartition(b":")
    return (host if colon and (port.isdigit() or not port) and not port.endswith(b"]") else authority).lower()


def _host_spelling(name: str) -> bytes:
    """Returns a name in the form of the Host header, with IPv6 addresses in brackets."""
    return f"[{name}]".encode() if name.count(":") > 1 and not name.startswith("[") else name.encode("idna")
