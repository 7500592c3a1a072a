"""Durations: how they changed over time, and how that and their distribution are drawn with blocks."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from analysis.histogram import Histogram

BARS: Final = "▁▂▃▄▅▆▇█"
SLICES: Final = 64
"""Stretches of time that are told apart, equally long."""

_SHORTEST_NS: Final = 1 << 20


class Course:
    """How durations changed: a histogram for each stretch of time; the stretches grow with the time."""

    def __init__(self) -> None:
        self.slice_ns = _SHORTEST_NS
        """How long a stretch is."""
        self._slices: list[Histogram | None] = [None] * SLICES

    def add(self, t_ns: int, ns: int) -> None:
        """A duration, and when it ended."""
        t_ns = max(0, t_ns)
        while t_ns >= SLICES * self.slice_ns:
            self._widen()
        held = self._slices[t_ns // self.slice_ns]
        if held is None:
            held = self._slices[t_ns // self.slice_ns] = Histogram()
        held.add(ns)

    def quantiles(self, part: float) -> list[int | None]:
        """By stretch, up to the last one in which there are any."""
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


def brief(ns: int | None) -> str:
    """A duration in at most six characters: `341µs`, `9.4ms`, `410ms`, `1.9s`."""
    if ns is None:
        return "–"
    if ns < 999_500:
        return f"{ns / 1000:.0f}µs"
    ms = ns / 1e6
    if ms < 999.5:
        return f"{ms:.0f}ms" if ms >= 9.95 else f"{ms:.1f}ms"
    return f"{ms / 1000:.1f}s" if ms < 999_500 else f"{ms / 60_000:,.0f}m"


def shape(octaves: Mapping[int, int], cells: int) -> str:
    """A distribution as blocks, from its lowest octave to its highest; several share a cell where there are many."""
    if not octaves:
        return ""
    low, high = min(octaves), max(octaves)
    share = -(-(high - low + 1) // cells)
    counts = [0] * ((high - low) // share + 1)
    for octave, count in octaves.items():
        counts[(octave - low) // share] += count
    return blocks(counts)


def blocks(values: Sequence[int | None], most: int = 0) -> str:
    """Values as blocks of eight heights; what is there at all is seen.

    Args:
        values: 0 or None where there is nothing.
        most: what a full block stands for; the greatest of them where it is 0.
    """
    most = most or max((value or 0 for value in values), default=0)
    return "".join(BARS[min(7, max(0, -(-8 * value // most) - 1))] if value else " " for value in values)


def stretched(values: Sequence[int | None], width: int) -> list[int | None]:
    """The same in fewer places, each the greatest of those that share it."""
    if len(values) <= width:
        return list(values)
    cuts = [len(values) * place // width for place in range(width + 1)]
    return [
        max((value for value in values[start:end] if value is not None), default=None) for start, end in pairwise(cuts)
    ]
