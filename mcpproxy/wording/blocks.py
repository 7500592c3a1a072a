"""Draws numbers on one line as blocks of eight heights: distributions, and values over time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"


def distribution_text(octaves: Mapping[int, int], cells: int, axis: tuple[int, int] | None = None) -> str:
    """A distribution as blocks; several octaves share a cell if there are many.

    Args:
        octaves: counts by octave.
        cells: the most blocks.
        axis: the first and last octaves to draw, with all others between them; None for the lowest and highest.
    """
    if not octaves:
        return ""
    low, high = axis if axis is not None else (min(octaves), max(octaves))
    octaves_per_cell = -(-(high - low + 1) // cells)
    counts = [0] * ((high - low) // octaves_per_cell + 1)
    for octave, count in octaves.items():
        counts[(octave - low) // octaves_per_cell] += count
    return blocks(counts)


def blocks(values: Sequence[int | None], full_value: int = 0) -> str:
    """Values as blocks of eight heights; any nonzero value is visible.

    Args:
        values: the values; 0 and None are blank.
        full_value: the value of a full block; 0 for the greatest of the values.
    """
    full_value = full_value or max((value or 0 for value in values), default=0)
    return "".join(BLOCKS[min(7, max(0, -(-8 * value // full_value) - 1))] if value else " " for value in values)


def stacked_blocks(values: Sequence[int | None], lines: int, full_value: int = 0) -> list[str]:
    """Values as columns of blocks; any nonzero value is visible.

    Args:
        values: the values; 0 and None are blank.
        lines: the height of the columns, in lines.
        full_value: the value of a full column; 0 for the greatest of the values.

    Returns:
        The lines, from the top.
    """
    full_value = full_value or max((value or 0 for value in values), default=0)
    heights = [-(-8 * lines * value // full_value) if value else 0 for value in values]
    return [
        "".join(f" {BLOCKS}"[max(0, min(8, height - 8 * line))] for height in heights)
        for line in reversed(range(lines))
    ]


def compress(values: Sequence[int | None], width: int) -> list[int | None]:
    """Values in at most `width` places; if several share a place, it has the greatest of them."""
    if len(values) <= width:
        return list(values)
    boundaries = [len(values) * index // width for index in range(width + 1)]
    return [
        max((value for value in values[start:end] if value is not None), default=None)
        for start, end in pairwise(boundaries)
    ]
