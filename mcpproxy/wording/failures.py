"""How an HTTP exchange failed to bring the response of a call."""

from typing import Final

from analysis.conversation.failure import failed_by
from analysis.conversation.http_exchange import HttpExchange
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.units import duration
from mcpproxy.wording.values import EXCERPT

_NO_SUCCESS: Final = 300
"""Statuses from here on do not mean success (RFC 9110 §15)."""


def failure(http: HttpExchange | None, lasted_ns: int | None = None) -> str:
    """How an HTTP exchange failed to bring a response, with its text or the reason; sanitised.

    Args:
        http: the exchange; None if it is forgotten.
        lasted_ns: how long it lasted.
    """
    if http is None or (http.status is None and not http.error):
        return "the HTTP exchange ended before a response"
    if http.is_redirect:
        return f"redirected with status {http.status}, and not repeated"
    why = sanitise(http.response_gist or http.error, EXCERPT)
    if http.status is None:
        return f"no HTTP response: {why}"
    told = f": {why}" if why else ""
    if http.status >= _NO_SUCCESS:
        by = failed_by(http)
        return f"HTTP status {http.status}{f' by a {by}' if by == 'gateway' else ''}{told}"
    after = "" if lasted_ns is None else f" after {duration(lasted_ns)}"
    return f"the HTTP response ended{after} without an answer{told}"
