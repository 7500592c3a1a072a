"""Keeps one connection from delaying the others: connections take turns to do long work in portions.

Nearly all reads are a single portion, which is handled at once. The rest of a longer read waits here, and nothing more
is read from its connection until it is done. So floods use only part of each turn of the event loop, no matter how many
connections send one, and memory contains at most one read of each connection.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_TURN_S: Final = 0.0005
"""How long after the start of a turn another portion may begin, in seconds; at least one is always handled."""


class RoundRobinQueue:
    """A queue of work that is done step by step."""

    def __init__(self) -> None:
        self._waiting_steps: deque[Callable[[], bool]] = deque()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def schedule(self, step: Callable[[], bool]) -> None:
        """Calls `step`, in turn with others, until it returns False; if it raises, only this work ends."""
        if self._is_idle.is_set():
            self._is_idle.clear()
            asyncio.get_running_loop().call_soon(self._run_turn)
        self._waiting_steps.append(step)

    async def finish(self) -> None:
        """Wait until all work is done, still in turns, so that the consumer of the results can keep up."""
        await self._is_idle.wait()

    def _run_turn(self) -> None:
        deadline = time.monotonic() + MAX_TURN_S
        try:
            while self._waiting_steps:
                step = self._waiting_steps.popleft()
                if step():
                    self._waiting_steps.append(step)
                if time.monotonic() >= deadline:
                    return
        finally:
            if self._waiting_steps:
                asyncio.get_running_loop().call_soon(self._run_turn)
            else:
                self._is_idle.set()
