"""Failure: who failed where an HTTP exchange did not bring its response, as far as that shows.

A gateway is recognised by statuses that only gateways send, or by a page that names the program of the `Server` field.
What neither says was sent by the server itself, as far as anybody can tell from here.
"""

from typing import Final, Literal, TypeAlias

from analysis.conversation.http_exchange import HttpExchange

GATEWAYS: Final = frozenset({502, 504})
"""Statuses that only a gateway sends (RFC 9110 §15.6.3, §15.6.5); the recorder sends them where it meets nobody."""
_REFUSED: Final = 400

FailedBy: TypeAlias = Literal["client", "gateway", "network", "server"]


def failed_by(http: HttpExchange) -> FailedBy | None:
    """Who failed; None if nobody did, or it is not over."""
    if http.status is not None and http.status >= _REFUSED:
        if http.is_ours:
            return "network" if http.status in GATEWAYS else "client"
        return "gateway" if http.status in GATEWAYS or http.is_signed else "server"
    if http.ended_by == "client":
        # Leaving a stream that listens is no failure.
        return "client" if http.let_go or http.status is None else None
    if http.ended_by == "error":
        return "network"
    return "server" if http.ended_by == "server" else None
