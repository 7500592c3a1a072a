"""The time since a moment, and the duration of a capture, by the wall clock."""

import time
from typing import Final

MAX_WRITING_NS: Final = 1_000_000_000
"""How long after its stamp a record is in the file, if the recorder is not overloaded."""


def age_ns(wall_ns: int | None) -> int:
    """How long ago a moment was; 0 if the moment is unknown or in the future."""
    return max(0, time.time_ns() - wall_ns) if wall_ns is not None else 0


def reached_ns(last_ns: int, wall_ns: int | None) -> int:
    """Returns the time up to which all records of a capture that is being recorded have been read.

    Args:
        last_ns: the stamp of the last record that was read.
        wall_ns: when the capture began.
    """
    return max(last_ns, age_ns(wall_ns) - MAX_WRITING_NS)


def duration_ns(last_ns: int, wall_ns: int | None, *, is_live: bool) -> int:
    """How long a capture has lasted: up to its last record or, while it is being recorded, up to now.

    Args:
        last_ns: the stamp of its last record.
        wall_ns: when it began.
        is_live: whether it is being recorded.
    """
    return max(last_ns, age_ns(wall_ns)) if is_live else last_ns
