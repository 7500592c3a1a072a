"""How much a report holds. What is left out is counted, and the report says so."""

from collections.abc import Iterable
from typing import Final

FRAMES: Final = 100_000
"""Frames in the traffic table, of all captures together."""
PAYLOAD_BYTES: Final = 32 << 20
"""Bytes of payloads, before compression."""
FRAME_BYTES: Final = 256 << 10
"""Bytes of one payload."""
HEADS: Final = 20_000
"""HTTP exchanges with the fields of their heads."""
STDERR_LINES: Final = 20_000
STDERR_CHARACTERS: Final = 1_000
"""Characters of one line."""
SESSIONS: Final = 200
"""Sessions in the start-up path."""
LATENCIES: Final = 200
"""Rows of latencies."""
TOOLS: Final = 500
CHANGES: Final = 200
FINDINGS_OF_RULE: Final = 50
PROOFS: Final = 3
"""Other records that are shown as proof of one finding."""
EXCERPT_CELLS: Final = 240
"""Width of an excerpt of the bytes that prove a finding."""
SLOWEST: Final = 10
FIRST_ROWS: Final = 8
"""Rows of findings, of slow calls and of abandoned calls, on the first screen."""


def level(sizes: Iterable[tuple[int, int]], budget: int) -> int:
    """The largest cut at which everything fits: how much of each item may be kept, so that small items stay whole.

    Args:
        sizes: each size and how many items have it, the smallest first.
        budget: the size that all of them may take together.
    """
    counted = list(sizes)
    left, things = budget, sum(count for _, count in counted)
    for size, count in counted:
        if size * things > left:
            return left // things
        left -= size * count
        things -= count
    return counted[-1][0] if counted else budget
