"""How an HTTP exchange failed to deliver the response of a call."""

from typing import Final

from analysis.conversation.failure import failed_party
from analysis.conversation.http_exchange import HttpExchange
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.units import duration
from mcpproxy.wording.values import MAX_EXCERPT_CHARS

_FIRST_FAILURE_STATUS: Final = 300
"""The lowest status that does not mean success (RFC 9110 §15)."""


def failure_text(http: HttpExchange | None, lasted_ns: int | None = None) -> str:
    """How an HTTP exchange failed to deliver a response, with its text or the reason; sanitised.

    Args:
        http: the exchange; None if it is forgotten.
        lasted_ns: how long it lasted.
    """
    if http is None or (http.status is None and not http.error):
        return "the HTTP exchange ended before a response"
    if http.is_redirect:
        return f"redirected with status {http.status}, and not repeated"
    reason = sanitise(http.response_gist or http.error, MAX_EXCERPT_CHARS)
    if http.status is None:
        return f"no HTTP response: {reason}"
    reason_text = f": {reason}" if reason else ""
    if http.status >= _FIRST_FAILURE_STATUS:
        failing_side = failed_party(http)
        return f"HTTP status {http.status}{f' by a {failing_side}' if failing_side == 'gateway' else ''}{reason_text}"
    after_text = "" if lasted_ns is None else f" after {duration(lasted_ns)}"
    return f"the HTTP response ended{after_text} without an answer{reason_text}"
