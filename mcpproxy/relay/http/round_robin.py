"""Keeps one connection from holding up the others: connections take turns to do long work in portions.

A read that is one portion, as nearly all are, is handled at once. The rest of a longer one waits here, and nothing more
is read from its connection until it is done. So floods take only a part of each turn of the loop, however many
connections send one, and memory holds one read of each.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.0005
"""How far into a turn of the loop another portion may begin; at least one is always handled."""


class RoundRobin:
    """A queue of work that is done in pieces."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def schedule(self, step: Callable[[], bool]) -> None:
        """Have `step` called, in turn with others, until it returns False; if it raises, only this work ends."""
        if self._is_idle.is_set():
            self._is_idle.clear()
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append(step)

    async def finish(self) -> None:
        """Wait until all work is done; still in turns, so that the consumer of its results can keep up."""
        await self._is_idle.wait()

    def _turn(self) -> None:
        until = time.monotonic() + TURN_S
        try:
            while self._waiting:
                step = self._waiting.popleft()
                if step():
                    self._waiting.append(step)
                if time.monotonic() >= until:
                    return
        finally:
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._turn)
            else:
                self._is_idle.set()
