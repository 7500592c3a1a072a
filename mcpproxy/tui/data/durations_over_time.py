"""Durations over time, by slice."""

from typing import Final

from analysis.conversation.durations import Durations

SLICES: Final = 64
"""Number of equal time slices."""

_MIN_SLICE_NS: Final = 1 << 20


class DurationsOverTime:
    """The durations in each of `SLICES` time slices, which become longer as the total time grows."""

    def __init__(self) -> None:
        self.slice_ns = _MIN_SLICE_NS
        """The length of a slice."""
        self._slices: list[Durations | None] = [None] * SLICES

    def add(self, t_ns: int, ns: int) -> None:
        """Add a duration that ended at `t_ns`."""
        t_ns = max(0, t_ns)
        while t_ns >= SLICES * self.slice_ns:
            self._widen()
        durations = self._slices[t_ns // self.slice_ns]
        if durations is None:
            durations = self._slices[t_ns // self.slice_ns] = Durations()
        durations.add(ns)

    def quantiles(self, part: float) -> list[int | None]:
        """Returns the quantile of each slice, up to the last slice with durations."""
        quantiles = [None if durations is None else durations.quantiles(part)[0] for durations in self._slices]
        while quantiles and quantiles[-1] is None:
            quantiles.pop()
        return quantiles

    def _widen(self) -> None:
        slices: list[Durations | None] = []
        for first, second in zip(self._slices[::2], self._slices[1::2], strict=True):
            if first is not None and second is not None:
                first.merge(second)
            slices.append(first or second)
        self._slices = slices + [None] * (SLICES // 2)
        self.slice_ns *= 2
