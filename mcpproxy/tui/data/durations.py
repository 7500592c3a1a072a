"""Durations: how they changed over time."""

from typing import Final

from analysis.conversation.histogram import Histogram

SLICES: Final = 64
"""Number of equal time slices."""

_SHORTEST_NS: Final = 1 << 20


class Course:
    """How durations changed: a histogram for each time slice; the slices grow with the total time."""

    def __init__(self) -> None:
        self.slice_ns = _SHORTEST_NS
        """The length of a slice."""
        self._slices: list[Histogram | None] = [None] * SLICES

    def add(self, t_ns: int, ns: int) -> None:
        """Add a duration that ended at `t_ns`."""
        t_ns = max(0, t_ns)
        while t_ns >= SLICES * self.slice_ns:
            self._widen()
        held = self._slices[t_ns // self.slice_ns]
        if held is None:
            held = self._slices[t_ns // self.slice_ns] = Histogram()
        held.add(ns)

    def quantiles(self, part: float) -> list[int | None]:
        """The quantile of each slice, up to the last slice with durations."""
        found = [None if one is None else one.quantiles(part)[0] for one in self._slices]
        while found and found[-1] is None:
            found.pop()
        return found

    def _widen(self) -> None:
        made: list[Histogram | None] = []
        for one, two in zip(self._slices[::2], self._slices[1::2], strict=True):
            if one is not None and two is not None:
                one.merge(two)
            made.append(one or two)
        self._slices = made + [None] * (SLICES // 2)
        self.slice_ns *= 2
