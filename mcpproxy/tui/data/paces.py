"""Paces: how long each kind of request usually takes, so that a slow response stands out in its row."""

from typing import Final

from analysis.conversation.histogram import Histogram

LEAST: Final = 20
"""The number of responses from which a kind has a usual time."""
_GROWN: Final = 1.1
"""The usual time is computed again after this much growth: computing it costs as much as a hundred responses."""


class Paces:
    """Filled by one thread, while others read `p95_ns`."""

    def __init__(self) -> None:
        self.p95_ns: dict[int, int] = {}
        """By the number of a kind of request: the time within which 95 of 100 of its responses came."""
        self._all: dict[int, Histogram] = {}
        self._next: dict[int, float] = {}

    def add(self, call: int, ns: int) -> None:
        """Add a response to a request of a kind."""
        histogram = self._all.get(call)
        if histogram is None:
            histogram = self._all[call] = Histogram()
        histogram.add(ns)
        if histogram.count >= self._next.get(call, LEAST):
            self._next[call] = histogram.count * _GROWN
            p95_ns = histogram.quantiles(0.95)[0]
            if p95_ns is not None:
                self.p95_ns[call] = p95_ns

    def is_slow(self, call: int, ns: int) -> bool:
        """Whether a response took longer than 95 of 100 of its kind."""
        usual_ns = self.p95_ns.get(call)
        return usual_ns is not None and ns > usual_ns
