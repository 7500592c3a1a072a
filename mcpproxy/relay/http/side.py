"""The base of both connections that the relay joins: forwards the data that is read from one of them in portions.

Nearly all reads are a single portion, which is forwarded at once. A longer read is forwarded in turn with those of
other connections. Reading pauses while a long read is unfinished, and while the other connection accepts no more data.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from mcpproxy.relay.http.observer_calls import ObservedConnection
from mcpproxy.relay.http.round_robin import RoundRobinQueue
from mcpproxy.wire.portions import portion_end

MAX_HELD_BYTES: Final = 64 << 10
"""The maximum number of bytes that wait for the upstream connection, or for a slow reader, before reading pauses."""


class RelayConnection(asyncio.Protocol):
    """One of the two connections that the relay joins."""

    __slots__ = ("_is_full", "_is_held", "_long_read", "_turns", "observed", "transport")

    def __init__(self, observed: ObservedConnection, turns: RoundRobinQueue) -> None:
        self.observed = observed
        self._turns = turns
        self._is_full = False
        """Whether the other connection currently accepts no more data."""
        self._is_held = False
        """Whether the next bytes must wait for data from the other connection."""
        self._long_read: _LongRead | None = None
        self.transport: asyncio.Transport

    def forward(self, data: bytes, forward_portion: Callable[[bytes], None]) -> None:
        """Forward data that was read: at once if it is one portion and no other data waits, otherwise in turns."""
        if self._long_read is not None:
            self._long_read.data += data
        elif portion_end(data) == len(data) and not self.observed.is_behind:
            forward_portion(data)
        else:
            self._long_read = _LongRead(self, data, forward_portion)
            self._pause_or_resume()
            self._turns.schedule(self._long_read.step)

    def call_when_forwarded(self, call: Callable[[], object]) -> None:
        """Calls `call` when all data that was read before has been forwarded."""
        if self._long_read is None:
            call()
        else:
            self._long_read.afterwards.append(call)

    def discard_unforwarded(self) -> None:
        """Discard data that has not been forwarded yet."""
        self._long_read = None

    def on_long_read_forwarded(self, long_read: "_LongRead") -> None:
        """Resume reading, because a long read has been forwarded completely."""
        self._long_read = None
        self._pause_or_resume()
        for call in long_read.afterwards:
            call()

    def is_forwarding(self, long_read: "_LongRead") -> bool:
        """Returns whether this long read is the one that is being forwarded."""
        return self._long_read is long_read

    def set_full(self, *, is_full: bool) -> None:
        """Set whether the other connection currently accepts no more data, and pause or resume reading."""
        self._is_full = is_full
        self._pause_or_resume()

    def set_held(self, *, is_held: bool) -> None:
        """Set whether the next bytes must wait for data from the other connection, and pause or resume reading."""
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
    """The part of a long read that has not been forwarded yet, and the functions to call after that."""

    __slots__ = ("_at", "_forward", "_side", "afterwards", "data")

    def __init__(self, side: RelayConnection, data: bytes, forward: Callable[[bytes], None]) -> None:
        self._side = side
        self._forward = forward
        self._at = 0
        self.data = data
        self.afterwards: list[Callable[[], object]] = []

    def step(self) -> bool:
        """Forward a portion; returns whether more remains."""
        connection = self._side.observed
        if not self._side.is_forwarding(self):
            return False
        if connection.is_behind:
            return True
        start, self._at = self._at, portion_end(self.data, self._at)
        try:
            self._forward(self.data[start : self._at])
        except Exception:
            # asyncio does the same if a connection's `data_received` raises; other connections continue.
            self._side.transport.abort()
            self._side.discard_unforwarded()
            raise
        connection.calls.make_calls()
        if self._at < len(self.data) or connection.is_behind:
            return True
        self._side.on_long_read_forwarded(self)
        return False
