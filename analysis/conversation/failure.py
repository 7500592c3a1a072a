"""Determines which party failed when an HTTP exchange did not deliver its response.

A response counts as a gateway's if it has a status that only gateways send, a page signed with the name of the program
in its `Server` field, or text that mentions an upstream. Any other response counts as the server's own.
"""

import re
from typing import Final, Literal, TypeAlias

from analysis.conversation.call import Outcome
from analysis.conversation.http_exchange import HttpExchange

GATEWAY_STATUSES: Final = frozenset({502, 504})
"""Statuses that only gateways send (RFC 9110 §15.6.3, §15.6.5), and the recorder when it cannot reach the server."""
_MIN_ERROR_STATUS: Final = 400
_UPSTREAM_MENTION: Final = re.compile(r"\bupstream\b", re.IGNORECASE)
"""The word that Envoy, Kong and other gateways use for the server they forward to. A server itself has no upstream."""

FailedBy: TypeAlias = Literal["client", "gateway", "network", "server"]


def failed_party(http: HttpExchange) -> FailedBy | None:
    """Returns the party that failed, or None if the exchange did not fail or is still open."""
    if http.status is not None and http.status >= _MIN_ERROR_STATUS:
        if http.is_from_recorder:
            return "network" if http.status in GATEWAY_STATUSES else "client"
        is_gateway = (
            http.status in GATEWAY_STATUSES
            or http.is_signed
            or _UPSTREAM_MENTION.search(http.response_gist) is not None
        )
        return "gateway" if is_gateway else "server"
    if http.ended_by == "client":
        # A client may stop listening at any time.
        return "client" if http.ended_calls or http.status is None else None
    if http.ended_by == "error":
        return "network"
    if http.ended_by == "server":
        return "server"
    has_failed_call = any(call.outcome is Outcome.FAILED for call in http.ended_calls) and not http.is_redirect
    return "server" if has_failed_call else None  # the exchange ended in order, but without a response
