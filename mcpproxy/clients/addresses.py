"""Extracts the parts of a server's URL that can be shown, and finds the proxy that a client uses for this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROXY_VARIABLES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
"""The environment variables that can name a proxy."""
_LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "::1")


def authority(url: str) -> str:
    """Returns the host and port of a URL, without the user name, path and query, which can be secrets."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def display_origin(url: str) -> str:
    """Returns the scheme, host and port of a URL for output, or `a URL` if it has no scheme."""
    scheme, slashes, _ = url.partition("://")
    return f"{scheme}{slashes}{authority(url)}" if slashes else "a URL"


def host(url: str) -> str:
    """Returns the host of a URL, without the port and without the brackets of an IPv6 address."""
    host_and_port = authority(url)
    return host_and_port[1:].partition("]")[0] if host_and_port.startswith("[") else host_and_port.partition(":")[0]


def loopback_proxy_variable(hostname: str, variables: Mapping[str, str]) -> str:
    """Returns the variable that makes a client send requests for a host on this machine to a proxy, or an empty string.

    Args:
        hostname: the host.
        variables: the environment of the client.
    """
    exempt_hosts = (variables.get("NO_PROXY") or variables.get("no_proxy") or "").replace(" ", "").split(",")
    if hostname not in _LOOPBACK_HOSTS or {"*", hostname, f"[{hostname}]", "127.0.0.1"} & {*exempt_hosts}:
        return ""
    return next((variable for variable in PROXY_VARIABLES if variables.get(variable)), "")
