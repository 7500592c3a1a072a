"""The interface between the HTTP relay, which moves bytes, and its observer, which records them.

The relay calls the observer after it has forwarded bytes, in the order in which it forwarded them, so the observer
cannot delay them. If the observer raises, the relay continues without it.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from mcpproxy.wire import http1, response

EndedBy = Literal["client", "server", "proxy", "error"]


class RewrittenAddress(NamedTuple):
    """Reports that an address in the response was not forwarded as sent; precedes the event that contains it."""

    place: str
    """`location`, `content-location` or `endpoint`."""
    sent: bytes
    forwarded: bytes


Event: TypeAlias = response.Event | RewrittenAddress
"""An event of a response. All events except `RewrittenAddress` contain what the upstream sent."""


class ConnectionTap(Protocol):
    """Sees the traffic on one client connection; `at_ns` is the time of the event, on the monotonic clock."""

    @property
    def is_behind(self) -> bool:
        """Whether the tap still has to process traffic that it has seen."""

    def catch_up(self) -> None:
        """Does some of that work."""

    def request(self, at_ns: int, events: Sequence[http1.RequestEvent]) -> None:
        """Called when pieces of requests were forwarded to the upstream; a `Refusal` marks one that was not."""

    def response(self, at_ns: int, events: Sequence[Event]) -> None:
        """Called when pieces of responses were forwarded to the client."""

    def tunnelled(self, at_ns: int, direction: Literal["c2s", "s2c"], size: int) -> None:
        """Called when bytes were forwarded on a connection that is no longer HTTP."""

    def answered(self, at_ns: int, status: int, reason: str) -> None:
        """Called when mcpproxy itself has responded to the oldest unanswered request."""

    def ended(self, at_ns: int, by: EndedBy, error: str | None) -> None:
        """Called when the connection has ended."""


class Observer(Protocol):
    """Sees the traffic of all connections."""

    def connected(self, peer: str) -> ConnectionTap:
        """Called when a client has connected; returns the tap for its connection."""

    def failed(self, error: Exception) -> ConnectionTap | None:
        """Called when the observer raises, which is a bug; returns the tap for the rest of the connection, if any."""


TapCall = Callable[[ConnectionTap, int], None]
"""Reports an event, with its time, to the tap of a connection."""
