"""What the HTTP relay reports to its observer: the interface between moving bytes and recording them.

Whoever implements these is told after the bytes have been handed on, in the order in which that was, and can hold up
nothing; when it raises, the relay goes on without it.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from mcpproxy.wire import http1, response

EndedBy = Literal["client", "server", "proxy", "error"]


class ConnectionTap(Protocol):
    """Sees one connection of a client; `at_ns` is when it happened, on the monotonic clock."""

    @property
    def is_behind(self) -> bool:
        """Whether it still has work to do on what it was told."""

    def catch_up(self) -> None:
        """Do a piece of that work."""

    def request(self, at_ns: int, events: Sequence[http1.Event]) -> None:
        """Pieces of requests went on to the upstream; a `Refusal` says that one did not."""

    def response(self, at_ns: int, events: Sequence[response.Event]) -> None:
        """Pieces of responses went on to the client."""

    def answered(self, at_ns: int, status: int, reason: str) -> None:
        """We ourselves answered the oldest request that has no answer yet."""

    def ended(self, at_ns: int, by: EndedBy, error: str | None) -> None:
        """The connection is over."""


class Observer(Protocol):
    """Is told what crosses."""

    def connected(self, peer: str) -> ConnectionTap:
        """A client has connected."""

    def failed(self, error: Exception) -> ConnectionTap | None:
        """The observer itself raised, which is a bug; returns what sees the rest of that connection, if anything."""


Telling = Callable[[ConnectionTap, int], None]
"""Tells the observer of a connection what happened then."""
