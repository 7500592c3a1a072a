"""Heat scale: which latencies each height of a block means in a heat map. It follows the values that are shown.

The limits are evenly spaced on a logarithmic axis over what nearly all cells contain: a few extreme calls do not push
all others into one class, and small differences between calls do not look large.
"""

from collections.abc import Iterable, Sequence
from math import log10
from typing import Final

from mcpproxy.wording.spans import Role
from mcpproxy.wording.units import brief_duration

CLASSES: Final[tuple[tuple[str, Role], ...]] = (
    ("▁", "dim"),
    ("▂", "dim"),
    ("▄", "accent"),
    ("▆", "accent"),
    ("█", "accent"),
)
"""The sign and the role of the cells of each class, the shortest latencies first."""
MIN_RATIO: Final = 16.0
"""The axis is at least this many times as long at its end as at its beginning, so that a class at least doubles it."""
DEFAULT_RANGE_NS: Final = (100_000, 10_000_000_000)
"""The axis while there are no latencies."""

Limits = tuple[int, ...]
"""The upper limits of all classes except the last, in nanoseconds, ascending."""


def limits_over(ranges: Iterable[tuple[int, int] | None]) -> Limits:
    """Returns the limits of the classes.

    Args:
        ranges: the shortest and longest usual latency of each map, in nanoseconds; None for a map without latencies.
    """
    known_ranges = [usual for usual in ranges if usual is not None]
    low = max(1, min((usual[0] for usual in known_ranges), default=DEFAULT_RANGE_NS[0]))
    high = max(low, max((usual[1] for usual in known_ranges), default=DEFAULT_RANGE_NS[1]))
    # Values that differ little are in the middle of the axis.
    middle, ratio = (low * high) ** 0.5, max(MIN_RATIO, high / low)
    first = middle / ratio**0.5
    return tuple(_rounded(first * ratio ** (number / len(CLASSES))) for number in range(1, len(CLASSES)))


def class_of(ns: int, limits: Limits) -> tuple[str, Role]:
    """Returns the sign and the role of a cell whose longest call lasted `ns`."""
    return CLASSES[sum(ns >= limit for limit in limits)]


def limit_texts(limits: Limits) -> Sequence[tuple[str, str]]:
    """Returns each sign with the latencies that it means: `<20ms`, and for the last `≥1.3s`."""
    texts = [f"<{brief_duration(limit)}" for limit in limits] + [f"≥{brief_duration(limits[-1])}"]
    return [(sign, text) for (sign, _), text in zip(CLASSES, texts, strict=True)]


def _rounded(value: float) -> int:
    """Returns a limit with as many digits as the legend shows."""
    unit = 10.0 ** max(0, int(log10(max(1.0, value))) - 1)
    return max(1, round(round(value / unit) * unit))
