"""Finds out, by a request without credentials, whether clients can use a server with a URL as it is.

One `ping` is posted: it opens no session, and a server that requires credentials refuses it like any other request. The
headers of the client's entry are not sent. A redirect is followed as the official SDKs follow it: within its origin.
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

PROBE_S: Final = 5.0
"""How long a server may take."""
HOPS: Final = 5
"""How many redirects are followed."""
REDIRECTS: Final = (301, 302, 303, 307, 308)
_KEEPING: Final = (307, 308)
_AT_ONCE: Final = 8
_PORT_OF: Final = {"http": 80, "https": 443}

Access = Literal["open", "denied", "oauth", "redirect", "unreachable", "unapproved"]
"""`denied`: it requires credentials, but does not mention OAuth. `unapproved`: no request was sent."""


class Probe(NamedTuple):
    """A server's response to the probe."""

    access: Access
    reason: str = ""
    """For `redirect` and `unreachable`: where to, or why."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Returns redirects to the caller instead of following them."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """Follow no redirect."""
        return


def probe(url: str) -> Probe:
    """Probe one server."""
    try:
        return run_with_timeout(2 * PROBE_S, lambda: _asked(url))
    except TimeoutError as error:
        return Probe("unreachable", _why(error))


def next_url(url: str, method: str, status: int, location: str) -> str | None:
    """The URL at which the official SDKs repeat a request that was redirected, or None if they do not.

    They stay within the origin, ignore credentials in the redirect, and do not let a POST become a GET, as it
    does after 301, 302 and 303.
    """
    if status not in (_KEEPING if method == "POST" else REDIRECTS) or not location:
        return None
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
        is_same = _origin(before) == _origin(after) and after.username is None
    except ValueError:  # it is not an address
        return None
    return target if is_same else None


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORT_OF.get(parts.scheme)


def _asked(url: str, hops: int = HOPS) -> Probe:
    try:
        request = urllib.request.Request(  # noqa: S310 # only http and https come here
            url,
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        )
        with urllib.request.build_opener(NoRedirect).open(request, timeout=PROBE_S):
            return Probe("open")
    except urllib.error.HTTPError as error:
        with error:
            target = next_url(url, "POST", error.code, error.headers.get("Location") or "")
        return _asked(target, hops - 1) if target is not None and hops else _of_status(error)
    except urllib.error.URLError as error:
        return Probe("unreachable", _why(error.reason))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Probe("unreachable", _why(error))


def _of_status(error: urllib.error.HTTPError) -> Probe:
    if error.code in REDIRECTS:
        host = (error.headers.get("Location") or "").partition("://")[2].partition("/")[0]
        return Probe("redirect", host or "another path")
    if error.code not in (401, 403):
        return Probe("open")
    challenge = (error.headers.get("WWW-Authenticate") or "").lower()
    return Probe("oauth" if "resource_metadata" in challenge or "bearer" in challenge else "denied")


def _why(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return f"it did not answer within {PROBE_S:.0f} s"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__


def probe_all(urls: Iterable[str]) -> dict[str, Probe]:
    """Probe several servers at the same time."""
    each = list(dict.fromkeys(urls))
    if not each:
        return {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(each, pool.map(probe, each), strict=True))
