"""Aligns two sequences: finds a longest common subsequence within a bounded number of steps (Myers, 1986)."""

from collections.abc import Sequence
from typing import Final

MAX_STEPS: Final = 2_000_000
"""The most comparisons of two elements; they take some tenths of a second."""


def aligned(old: Sequence[int], new: Sequence[int], max_steps: int = MAX_STEPS) -> list[tuple[int, int]] | None:
    """Returns the positions of the elements in a longest common subsequence, as pairs in order.

    Args:
        old: any sequence.
        new: another sequence.
        max_steps: how much work is acceptable; it grows with the length, and with the square of the differences.

    Returns:
        The pairs, or None if the sequences differ too much to find out.
    """
    shortest = min(len(old), len(new))
    start = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    left = shortest - start
    end = next((index for index in range(left) if old[-1 - index] != new[-1 - index]), left)
    middle = _aligned(old[start : len(old) - end], new[start : len(new) - end], max_steps)
    if middle is None:
        return None
    return [
        *((index, index) for index in range(start)),
        *((start + old_index, start + new_index) for old_index, new_index in middle),
        *((len(old) - index, len(new) - index) for index in range(end, 0, -1)),
    ]


def _aligned(old: Sequence[int], new: Sequence[int], max_steps: int) -> list[tuple[int, int]] | None:
    """Returns the pairs; elements of the old sequence lie along x, of the new one along y."""
    if not old or not new:
        return []
    old_size, new_size = len(old), len(new)
    furthest = {1: 0}
    """The furthest x that was reached on each diagonal (x - y)."""
    rounds: list[dict[int, int]] = []
    steps = 0
    for distance in range(old_size + new_size + 1):
        rounds.append(furthest.copy())
        steps += 2 * distance + 1
        for diagonal in range(-distance, distance + 1, 2):
            x = _start(furthest, diagonal, distance)
            y = x - diagonal
            begin = x
            while x < old_size and y < new_size and old[x] == new[y]:
                x += 1
                y += 1
            steps += x - begin
            furthest[diagonal] = x
            if x >= old_size and y >= new_size:
                return _pairs(rounds, old_size, new_size)
            if steps > max_steps:
                return None
    return None


def _start(furthest: dict[int, int], diagonal: int, distance: int) -> int:
    """Returns where a path reaches a diagonal: from above (an insertion) or from the left (a deletion)."""
    above, left = furthest.get(diagonal + 1, -1), furthest.get(diagonal - 1, -1)
    is_insertion = diagonal == -distance or (diagonal != distance and left < above)
    return above if is_insertion else left + 1


def _pairs(rounds: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Returns the pairs on the path that led to the end, from the furthest positions before each round."""
    pairs: list[tuple[int, int]] = []
    for distance in range(len(rounds) - 1, -1, -1):
        furthest = rounds[distance]
        diagonal = x - y
        start = _start(furthest, diagonal, distance)
        while x > start:
            x -= 1
            y -= 1
            pairs.append((x, y))
        above, left = furthest.get(diagonal + 1, -1), furthest.get(diagonal - 1, -1)
        if diagonal == -distance or (diagonal != distance and left < above):
            x, y = above, above - diagonal - 1
        else:
            x, y = left, left - diagonal + 1
    pairs.reverse()
    return pairs
