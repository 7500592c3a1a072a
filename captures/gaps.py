"""What a `gap` record claims about losses, as far as it can be true: a capture may be untrusted.

A range of lost numbers ends before the number of the gap itself. No more frames can be lost than the range has numbers;
where there is no range, and for all sums, counts end at `MAX_LOST_RECORDS`.
"""

from typing import Any, Final

from captures.record import Record

MAX_LOST_RECORDS: Final = 10**12
"""The most records that are counted as lost: a year's worth, at 30,000 a second."""
MAX_LOST_BYTES: Final = 1 << 60


def lost_range(gap: Record) -> tuple[int, int] | None:
    """The first and the last number of a gap's range, inclusive, or None if it names no possible range."""
    first, last = gap.members.get("first"), gap.members.get("last")
    if type(first) is int and type(last) is int and 0 <= first <= last < gap.seq:
        return first, last
    return None


def lost_count(gap: Record) -> int:
    """How many numbers a gap accounts for: those of its range, or one."""
    span = lost_range(gap)
    return min(MAX_LOST_RECORDS, span[1] - span[0] + 1) if span is not None else 1


def lost_traffic(gap: Record) -> dict[str, dict[str, int]] | None:
    """The possible part of a gap's `lost` member: counts by `c2s`, `s2c` and `other`, or None without that member."""
    lost = gap.members.get("lost")
    if not isinstance(lost, dict):
        return None
    most = lost_count(gap) if lost_range(gap) is not None else MAX_LOST_RECORDS
    bounds = {"frames": most, "records": most, "bytes": MAX_LOST_BYTES}
    sides: dict[str, dict[str, Any]] = {
        side: value for side in ("c2s", "s2c", "other") if isinstance(value := lost.get(side), dict)
    }
    return {
        side: {
            name: count for name, most in bounds.items() if type(count := value.get(name)) is int and 0 <= count <= most
        }
        for side, value in sides.items()
    }
