"""The limits of a report. Everything beyond them is counted, and the report says so."""

from collections.abc import Iterable
from typing import Final

MAX_FRAMES: Final = 100_000
"""The maximum number of frames in the traffic table, for all captures together."""
MAX_PAYLOAD_BYTES: Final = 32 << 20
"""The maximum size of all payloads before compression, in bytes."""
MAX_BYTES_PER_PAYLOAD: Final = 256 << 10
"""The maximum size of one payload, in bytes."""
MAX_HTTP_HEADS: Final = 20_000
"""The maximum number of HTTP exchanges with the fields of their heads."""
MAX_LEGS: Final = 20_000
"""The maximum number of legs of logins that have rows."""
MAX_FAILED_LOGIN_KINDS: Final = 1_000
"""The maximum number of reasons by which logins that did not succeed are counted."""
MAX_STDERR_LINES: Final = 20_000
MAX_STDERR_CHARACTERS: Final = 1_000
"""The maximum length of one line, in characters."""
MAX_SESSIONS: Final = 200
"""The maximum number of sessions in the start-up path."""
MAX_LATENCIES: Final = 200
"""The maximum number of rows of latencies."""
MAX_TOOLS: Final = 500
MAX_TOOL_CHANGES: Final = 200
MAX_COUNTED_TURNS: Final = 100_000
"""The maximum number of turns that are counted."""
MAX_TURNS: Final = 200
"""The maximum number of turns that are listed."""
MAX_CALLS_PER_TURN: Final = 100
MAX_SERVERS_PER_TURN: Final = 20
MAX_ID_CHARACTERS: Final = 256
"""The maximum length of an id that a client sends, in characters."""
MAX_FINDINGS_PER_RULE: Final = 50
MAX_PROOFS: Final = 3
"""The maximum number of other records that are shown as proof of one finding."""
EXCERPT_CELLS: Final = 240
"""The width of an excerpt of the bytes that prove a finding."""
MAX_SLOWEST_CALLS: Final = 10
MAX_FIRST_ROWS: Final = 8
"""The maximum number of rows of findings, of slow calls and of abandoned calls on the first screen."""

MAX_CHANGES: Final = 10_000
"""The maximum number of changes of a comparison that are listed; the worst come first."""
MAX_COMPARED_CHARS: Final = 8 << 20
"""The maximum number of characters of the values of all changes that are laid out line by line: what is hostile takes
a second for two million."""
MAX_COMPARED_CHARS_PER_VALUE: Final = 1 << 20
MAX_CUT_VALUE_CHARS: Final = 2_000
"""The maximum length of what is shown of a larger value."""
MAX_DIFFERENCE_LINES: Final = 1_000
"""The maximum number of lines of the values of a change."""
MAX_WITNESS_CHARS: Final = 2_000
MAX_GAPS: Final = 500
MAX_IGNORED: Final = 500
"""The maximum number of rules that ignored values."""


def largest_cut(sizes: Iterable[tuple[int, int]], budget: int) -> int:
    """Returns the largest limit for the size of an item at which all items fit together; smaller items stay whole.

    Args:
        sizes: each size and how many items have it, the smallest first.
        budget: the maximum size of all items together.
    """
    size_counts = list(sizes)
    remaining, item_count = budget, sum(count for _, count in size_counts)
    for size, count in size_counts:
        if size * item_count > remaining:
            return remaining // item_count
        remaining -= size * count
        item_count -= count
    return size_counts[-1][0] if size_counts else budget
