"""Side: what both connections have in common. Data read from one of them is forwarded in portions.

A read that is one portion, as nearly all are, is forwarded at once; a longer one in turn with those of other
connections. Reading pauses while a long read is unfinished, and while the other connection accepts no more.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from mcpproxy.relay.http.observer_calls import ObservedConnection
from mcpproxy.relay.http.round_robin import RoundRobin
from mcpproxy.wire.portions import portion

HELD_BYTES: Final = 64 << 10
"""How many bytes may wait for the upstream connection, or for a slow reader, before the sender has to wait."""


class Side(asyncio.Protocol):
    """One of the two connections that the relay joins."""

    __slots__ = ("_is_full", "_is_held", "_long_read", "_turns", "observed", "transport")

    def __init__(self, observed: ObservedConnection, turns: RoundRobin) -> None:
        self.observed = observed
        self._turns = turns
        self._is_full = False
        """Whether the other connection currently accepts no more."""
        self._is_held = False
        """Whether the next bytes must wait for what the other connection brings."""
        self._long_read: _LongRead | None = None
        self.transport: asyncio.Transport

    def forward(self, data: bytes, forward: Callable[[bytes], None]) -> None:
        """Forward what has been read: at once if it is one portion and nothing waits before it, else in turns."""
        if self._long_read is not None:
            self._long_read.data += data
        elif portion(data) == len(data) and not self.observed.is_behind:
            forward(data)
        else:
            self._long_read = _LongRead(self, data, forward)
            self._pause_or_resume()
            self._turns.schedule(self._long_read.step)

    def when_forwarded(self, call: Callable[[], object]) -> None:
        """Call `call` once all that was read before has been forwarded."""
        if self._long_read is None:
            call()
        else:
            self._long_read.afterwards.append(call)

    def discard(self) -> None:
        """Discard what has not been forwarded yet."""
        self._long_read = None

    def finish(self, long_read: "_LongRead") -> None:
        """A long read has been forwarded completely."""
        self._long_read = None
        self._pause_or_resume()
        for call in long_read.afterwards:
            call()

    def is_forwarding(self, long_read: "_LongRead") -> bool:
        """Whether this is the long read now being forwarded."""
        return self._long_read is long_read

    def set_full(self, *, is_full: bool) -> None:
        """Note whether the other connection currently accepts no more, and pause or resume reading."""
        self._is_full = is_full
        self._pause_or_resume()

    def set_held(self, *, is_held: bool) -> None:
        """Note whether the next bytes must wait for what the other connection brings, and pause or resume reading."""
        self._is_held = is_held
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_full or self._is_held or self._long_read is not None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class _LongRead:
    """The part of a long read still to be forwarded, and what to call after that."""

    __slots__ = ("_at", "_forward", "_side", "afterwards", "data")

    def __init__(self, side: Side, data: bytes, forward: Callable[[bytes], None]) -> None:
        self._side = side
        self._forward = forward
        self._at = 0
        self.data = data
        self.afterwards: list[Callable[[], object]] = []

    def step(self) -> bool:
        """Forward a portion; returns whether more is left."""
        observed = self._side.observed
        if not self._side.is_forwarding(self):
            return False
        if observed.is_behind:
            return True
        begin, self._at = self._at, portion(self.data, self._at)
        try:
            self._forward(self.data[begin : self._at])
        except Exception:
            # As asyncio does if a connection's `data_received` raises; other connections continue.
            self._side.transport.abort()
            self._side.discard()
            raise
        observed.calls.make()
        if self._at < len(self.data) or observed.is_behind:
            return True
        self._side.finish(self)
        return False
