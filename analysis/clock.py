"""The time since a moment, and the duration of a capture, by the wall clock."""

import time


def age_ns(wall_ns: int | None) -> int:
    """How long ago a moment was; 0 if the moment is unknown or in the future."""
    return max(0, time.time_ns() - wall_ns) if wall_ns is not None else 0


def duration_ns(last_ns: int, wall_ns: int | None, *, is_live: bool) -> int:
    """How long a capture has lasted: up to its last record or, while it is being recorded, up to now.

    Args:
        last_ns: the stamp of its last record.
        wall_ns: when it began.
        is_live: whether it is being recorded.
    """
    return max(last_ns, age_ns(wall_ns)) if is_live else last_ns
