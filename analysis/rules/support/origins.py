"""Checks whether an address belongs to the server, by the names that clients or the recorder use for it.

The recorder sits between client and server: clients use the recorder's address, and the recorder uses the address that
it was given for the server. The server may use either address for itself, and any name of its own machine.
"""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from analysis.conversation.http_exchange import HttpExchange

_LOOPBACK: Final = re.compile(r"127(?:\.[0-9]{1,3}){3}").fullmatch
_DEFAULT_PORTS: Final = frozenset({None, 80, 443})
"""Ports that addresses may leave out; behind a TLS proxy, the public scheme differs from the server's."""


def is_local(host: str) -> bool:
    """Whether a host, in lower case, is this machine."""
    return host in ("localhost", "::1") or host.endswith(".localhost") or _LOOPBACK(host) is not None


def is_own(address: str, http: HttpExchange) -> bool:
    """Whether an absolute URL has the host and the port by which the client or the recorder knows the server.

    If no host and port are known, any URL with a host counts.
    """
    origin, own_origins = (
        _host_and_port(address),
        {_host_and_port(f"//{http.fields.get('host', '')}"), _host_and_port(http.upstream)},
    )
    return origin is not None and (origin in own_origins or own_origins == {None})


def may_be_public(address: str, http: HttpExchange) -> bool:
    """Whether an address may be the public one of a server that was reached by an address inside a network.

    A tunnel, a gateway or a container's port hides the name by which clients know the server, unless the recorder was
    told that name.
    """
    if http.has_public_url:
        return False
    known_origin, public_origin = (
        _host_and_port(http.upstream) or _host_and_port(f"//{http.fields.get('host', '')}"),
        _host_and_port(address),
    )
    return (
        public_origin is not None
        and not _is_private(public_origin[0])
        and (known_origin is None or _is_private(known_origin[0]))
    )


def is_plain(address: str, http: HttpExchange) -> bool:
    """Whether an address is plain http at another machine than this one, and not the URL by which the server is known.

    A server inside a network may do without https.
    """
    parts = _parts(address)
    if parts is None or parts.scheme != "http" or is_local(parts.hostname or ""):
        return False
    known = _parts(http.upstream)
    return known is None or known.scheme != "http" or not is_own(address, http)


def is_known_by_https(address: str, http: HttpExchange) -> bool:
    """Whether an address has the host of the server, and the server is known by https."""
    known = _parts(http.upstream)
    return known is not None and known.scheme == "https" and is_own(address, http)


def is_unreachable(address: str, http: HttpExchange) -> bool:
    """Whether an address is on the server's own machine, although clients use the server from elsewhere."""
    parts, known = _parts(address), _parts(http.upstream)
    return (
        http.has_public_url
        and parts is not None
        and known is not None
        and is_local(parts.hostname or "")
        and not is_local(known.hostname or "")
    )


def _parts(address: str) -> SplitResult | None:
    """Returns the parts of an absolute URL, or None if it is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return parts if parts.hostname else None


def _is_private(host: str) -> bool:
    """Whether a host is this machine, in a private network, or has a name that only its own network knows."""
    if host == _THIS_MACHINE or host.endswith((".local", ".internal", ".lan", ".home.arpa")):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host


def _host_and_port(address: str) -> tuple[str, int | None] | None:
    """Returns the host and the port of an address, or None if it has no host; this machine always has the same name."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host:
        return None
    return _THIS_MACHINE if is_local(host) else host, None if port in _DEFAULT_PORTS else port


_THIS_MACHINE: Final = "localhost"
