"""Decides from a request's head whether it may pass the listener, before the upstream sees any of it.

A web page can make a browser send requests to loopback, under its own name resolved to loopback (DNS rebinding) or
across origins. So a request must name a host that means this listener, and if a browser says which page it comes from,
that page must be on this machine. The MCP specification asks servers for the same (basic/transports, Streamable HTTP);
a proxy that rewrites Host would disable the server's own check.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mcpproxy.wire.framing import Fields

LOOPBACK: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""Names that always mean this machine."""
_WEB: Final = (b"http://", b"https://")


class Objection(NamedTuple):
    """Why a request is refused."""

    status: int
    reason: str


class Admission:
    """The admission rule of one listener."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are other hosts under which the listener may be reached; a port in a name is ignored.

        Raises:
            UnicodeError: a name is not a valid host name.
        """
        self._names = LOOPBACK | {_host(_spelt(name)) for name in names}

    def judge(self, headers: Fields) -> Objection | None:
        """Returns the objection to a request with this header list, or None if it is admitted."""
        for host in headers.values_of(b"host"):
            if _host(host) not in self._names:
                return Objection(421, "the Host header names another server; see --allow-host")
        for origin in headers.values_of(b"origin"):
            if not self._is_ours(origin):
                return Objection(403, "the Origin header names a page of another machine; see --allow-host")
        for site in headers.values_of(b"sec-fetch-site"):
            if site.lower() == b"cross-site":
                return Objection(403, "a page of another site sent this (Sec-Fetch-Site: cross-site)")
        return None

    def _is_ours(self, origin: bytes) -> bool:
        lower = origin.lower()
        return any(lower.startswith(scheme) and _host(lower.removeprefix(scheme)) in self._names for scheme in _WEB)


def _host(authority: bytes) -> bytes:
    """The host of an authority, without its port, in lower case."""
    host, colon, port = authority.rpartition(b":")
    return (host if colon and (port.isdigit() or not port) and not port.endswith(b"]") else authority).lower()


def _spelt(name: str) -> bytes:
    """A name as the Host header spells it: IPv6 addresses in brackets."""
    return f"[{name}]".encode() if name.count(":") > 1 and not name.startswith("[") else name.encode("idna")
