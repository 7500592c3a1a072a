"""Parts of a server's URL that can be shown, and whether a client sends requests for this machine to a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
"""The variables that name a proxy."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def authority(url: str) -> str:
    """Host and port of a URL: user names, paths and queries can be secrets."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def origin_shown(url: str) -> str:
    """Scheme, host and port of a URL, for a person."""
    scheme, slashes, _ = url.partition("://")
    return f"{scheme}{slashes}{authority(url)}" if slashes else "a URL"


def host(url: str) -> str:
    """The host of a URL, without port and brackets."""
    place = authority(url)
    return place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]


def loopback_proxy(name: str, variables: Mapping[str, str]) -> str:
    """The variable that sends requests for a host on this machine to a proxy, or an empty text if none does.

    Args:
        name: the host.
        variables: the environment of the client.
    """
    kept = (variables.get("NO_PROXY") or variables.get("no_proxy") or "").replace(" ", "").split(",")
    if name not in _LOOPBACK or {"*", name, f"[{name}]", "127.0.0.1"} & {*kept}:
        return ""
    return next((variable for variable in PROXIES if variables.get(variable)), "")
