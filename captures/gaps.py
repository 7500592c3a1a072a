"""Reads the losses that a `gap` record reports, as far as they are possible: a capture may be untrusted.

A range of lost numbers ends before the number of the gap itself, and at most as many frames are lost as the range has
numbers. Without a range, and for all sums, `MAX_LOST_RECORDS` is the limit.
"""

from typing import Any, Final

from captures.frame import Frame
from captures.record import Record

MAX_LOST_RECORDS: Final = 10**12
"""The most records that are counted as lost: a year's worth, at 30,000 a second."""
MAX_LOST_BYTES: Final = 1 << 60


def lost_range(gap: Record) -> tuple[int, int] | None:
    """Returns the first and the last number of a gap's range, inclusive, or None if it names no possible range."""
    first, last = gap.members.get("first"), gap.members.get("last")
    if type(first) is int and type(last) is int and 0 <= first <= last < gap.seq:
        return first, last
    return None


def skipped_range(item: Frame | Record) -> tuple[int, int]:
    """Returns the first and the last of the numbers that are missing right before an item that skips some."""
    return item.seq - item.skipped, item.seq - 1


def lost_count(gap: Record) -> int:
    """Returns how many numbers a gap accounts for: all in its range, or one."""
    range_ = lost_range(gap)
    return min(MAX_LOST_RECORDS, range_[1] - range_[0] + 1) if range_ is not None else 1


def lost_traffic(gap: Record) -> dict[str, dict[str, int]] | None:
    """Returns the possible counts in a gap's `lost` member, by `c2s`, `s2c` and `other`; None without the member."""
    lost = gap.members.get("lost")
    if not isinstance(lost, dict):
        return None
    max_records = lost_count(gap) if lost_range(gap) is not None else MAX_LOST_RECORDS
    bounds = {"frames": max_records, "records": max_records, "bytes": MAX_LOST_BYTES}
    sides: dict[str, dict[str, Any]] = {
        side: value for side in ("c2s", "s2c", "other") if isinstance(value := lost.get(side), dict)
    }
    return {
        side: {
            name: count
            for name, limit in bounds.items()
            if type(count := value.get(name)) is int and 0 <= count <= limit
        }
        for side, value in sides.items()
    }
