"""What the HTTP relay reports to its observer: the interface between moving bytes and recording them.

An implementation is called after the bytes have been forwarded, in the order in which they were, and cannot delay them;
if it raises, the relay goes on without it.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from mcpproxy.wire import http1, response

EndedBy = Literal["client", "server", "proxy", "error"]


class Rewritten(NamedTuple):
    """An address of the response was not forwarded as sent; precedes the event that holds the address."""

    place: str
    """`location`, `content-location` or `endpoint`."""
    sent: bytes
    forwarded: bytes


Event: TypeAlias = response.Event | Rewritten
"""What is reported about a response. All events but `Rewritten` hold what the upstream sent."""


class ConnectionTap(Protocol):
    """Sees one client connection; `at_ns` is the time of the event, on the monotonic clock."""

    @property
    def is_behind(self) -> bool:
        """Whether it still has work to do on what it has seen."""

    def catch_up(self) -> None:
        """Do some of that work."""

    def request(self, at_ns: int, events: Sequence[http1.Event]) -> None:
        """Pieces of requests were forwarded to the upstream; a `Refusal` marks one that was not."""

    def response(self, at_ns: int, events: Sequence[Event]) -> None:
        """Pieces of responses were forwarded to the client."""

    def tunnelled(self, at_ns: int, direction: Literal["c2s", "s2c"], size: int) -> None:
        """Bytes were forwarded on a connection that is no longer HTTP."""

    def answered(self, at_ns: int, status: int, reason: str) -> None:
        """We ourselves answered the oldest unanswered request."""

    def ended(self, at_ns: int, by: EndedBy, error: str | None) -> None:
        """The connection has ended."""


class Observer(Protocol):
    """Sees the traffic."""

    def connected(self, peer: str) -> ConnectionTap:
        """A client has connected."""

    def failed(self, error: Exception) -> ConnectionTap | None:
        """The observer itself raised, which is a bug; returns the tap for the rest of that connection, if any."""


TapCall = Callable[[ConnectionTap, int], None]
"""Reports to a connection's tap what happened at that time."""
