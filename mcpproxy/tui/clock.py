"""The wall clock, for ages shown on the screen."""

import time


def since_ns(wall_ns: int | None) -> int:
    """How long ago a moment was; 0 if that is unknown or in the future."""
    return max(0, time.time_ns() - wall_ns) if wall_ns is not None else 0
