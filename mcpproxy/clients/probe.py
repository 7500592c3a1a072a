"""Finds out, with a request without credentials, whether clients can use a server with a URL as it is.

The request is a `ping`, which opens no session and which a server that requires credentials refuses like any other. The
headers of the client's entry are not sent. A redirect is followed as the official SDKs do, only within its origin.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from mcpproxy.clients.timeouts import run_with_timeout

PROBE_TIMEOUT_S: Final = 5.0
"""How long a server may take to respond, in seconds."""
MAX_REDIRECTS: Final = 5
"""The maximum number of redirects that are followed."""
REDIRECT_STATUSES: Final = (301, 302, 303, 307, 308)
_METHOD_PRESERVING_STATUSES: Final = (307, 308)
_MAX_THREADS: Final = 8
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Access = Literal["open", "denied", "oauth", "redirect", "unreachable", "unapproved"]
"""`denied`: the server requires credentials, but does not mention OAuth. `unapproved`: no request was sent."""


class Probe(NamedTuple):
    """A server's response to the probe."""

    access: Access
    reason: str = ""
    """For `redirect`, the destination; for `unreachable`, the cause."""


class NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Returns redirects to the caller instead of following them."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """Returns None, so no redirect is followed."""
        return


def probe(url: str) -> Probe:
    """Probe one server."""
    try:
        return run_with_timeout(2 * PROBE_TIMEOUT_S, lambda: _send_probe(url))
    except TimeoutError as error:
        return Probe("unreachable", _failure_text(error))


def next_url(url: str, method: str, status: int, location: str) -> str | None:
    """Returns the URL to which the official SDKs repeat a redirected request, or None if they do not repeat it.

    They stay within the origin, refuse credentials in the redirect, and do not let a POST become a GET, as it
    does after 301, 302 and 303.
    """
    if status not in (_METHOD_PRESERVING_STATUSES if method == "POST" else REDIRECT_STATUSES) or not location:
        return None
    try:
        target = urljoin(url, location)
        old_parts, new_parts = urlsplit(url), urlsplit(target)
        is_same_origin = _origin(old_parts) == _origin(new_parts) and new_parts.username is None
    except ValueError:  # the location is not a valid URL
        return None
    return target if is_same_origin else None


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _send_probe(url: str, max_redirects: int = MAX_REDIRECTS) -> Probe:
    try:
        request = urllib.request.Request(  # noqa: S310 # only http and https come here
            url,
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        )
        with urllib.request.build_opener(NoRedirectHandler).open(request, timeout=PROBE_TIMEOUT_S):
            return Probe("open")
    except urllib.error.HTTPError as error:
        with error:
            target = next_url(url, "POST", error.code, error.headers.get("Location") or "")
        return (
            _send_probe(target, max_redirects - 1) if target is not None and max_redirects else _probe_of_error(error)
        )
    except urllib.error.URLError as error:
        return Probe("unreachable", _failure_text(error.reason))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Probe("unreachable", _failure_text(error))


def _probe_of_error(error: urllib.error.HTTPError) -> Probe:
    if error.code in REDIRECT_STATUSES:
        host = (error.headers.get("Location") or "").partition("://")[2].partition("/")[0]
        return Probe("redirect", host or "another path")
    if error.code not in (401, 403):
        return Probe("open")
    challenge = (error.headers.get("WWW-Authenticate") or "").lower()
    return Probe("oauth" if "resource_metadata" in challenge or "bearer" in challenge else "denied")


def _failure_text(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return f"it did not answer within {PROBE_TIMEOUT_S:.0f} s"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__


def probe_all(urls: Iterable[str]) -> dict[str, Probe]:
    """Probe several servers at the same time; returns the probe of each URL."""
    unique_urls = list(dict.fromkeys(urls))
    if not unique_urls:
        return {}
    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        return dict(zip(unique_urls, pool.map(probe, unique_urls), strict=True))
