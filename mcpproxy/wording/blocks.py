"""Numbers drawn on one line as blocks of eight heights: distributions, and values over time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"


def shape(octaves: Mapping[int, int], cells: int, axis: tuple[int, int] | None = None) -> str:
    """A distribution as blocks; several octaves share a cell if there are many.

    Args:
        octaves: counts by octave.
        cells: the most blocks.
        axis: the first and last octave that are drawn, which include all; None for the lowest and highest that occur.
    """
    if not octaves:
        return ""
    low, high = axis if axis is not None else (min(octaves), max(octaves))
    share = -(-(high - low + 1) // cells)
    counts = [0] * ((high - low) // share + 1)
    for octave, count in octaves.items():
        counts[(octave - low) // share] += count
    return blocks(counts)


def blocks(values: Sequence[int | None], most: int = 0) -> str:
    """Values as blocks of eight heights; any nonzero value is visible.

    Args:
        values: 0 or None for nothing.
        most: the value of a full block; 0 for the greatest of them.
    """
    most = most or max((value or 0 for value in values), default=0)
    return "".join(BLOCKS[min(7, max(0, -(-8 * value // most) - 1))] if value else " " for value in values)


def stretched(values: Sequence[int | None], width: int) -> list[int | None]:
    """Values in at most `width` places; where several share one, the greatest of them."""
    if len(values) <= width:
        return list(values)
    cuts = [len(values) * place // width for place in range(width + 1)]
    return [
        max((value for value in values[start:end] if value is not None), default=None) for start, end in pairwise(cuts)
    ]
