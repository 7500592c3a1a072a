"""Sizes, durations and times for people: powers of 1000, the largest units that fit, local time."""

from datetime import UTC, datetime
from typing import Final

MS_NS: Final = 1_000_000
_S_NS: Final = 1_000_000_000
_FULL_MS_NS: Final = 999_500_000
"""The lowest duration that would be rounded to a thousand milliseconds."""
_FULL_S_NS: Final = 59_950_000_000
"""The lowest duration that would be rounded to sixty seconds."""


def size(count: int) -> str:
    """A number of bytes: `17 B`, `7.9 kB`, `4.2 MB`."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB"):
        # 999.96 would be written as 1000.0
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:,.1f} {unit}"


def short_count(count: int) -> str:
    """A number in at most four characters: `999`, `1.2k`, `12k`, `3.4M`."""
    if count < 1000:
        return str(count)
    value, unit = count / 1000, "k"
    for larger in "MGT":
        # 999.6 would be written as 1000
        if value >= 999.5:
            value, unit = value / 1000, larger
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


def duration(ns: int) -> str:
    """A length of time for people: `0.42 ms`, `41.2 ms`, `605 ms`, `12.3 s`, `2 min 14 s`, `3 h 05 min`, `2 d 04 h`.

    All figures of durations are rounded once, from nanoseconds, and halves up. The report's JavaScript does the same.

    Args:
        ns: the duration in nanoseconds, not negative.
    """
    if ns < _FULL_MS_NS:
        return f"{_figure(ns, MS_NS)} ms"
    if ns < _FULL_S_NS:
        return f"{_figure(ns, _S_NS)} s"
    (large, large_unit), (small, small_unit) = _two_units(ns)
    return f"{large:,} {large_unit} {small:02} {small_unit}"


def brief_duration(ns: int | None) -> str:
    """A duration for a narrow cell, in at most six characters: `341µs`, `9.4ms`, `410ms`, `1.9s`, `2m14s`, `3h05m`."""
    if ns is None:
        return "–"
    if ns < 999_500:
        return f"{_rounded(ns, 1000)}µs"
    if ns < _FULL_MS_NS:
        return f"{_rounded(ns, MS_NS)}ms" if ns >= 9_950_000 else f"{_figure(ns, MS_NS)}ms"
    if ns < _FULL_S_NS:
        return f"{_figure(ns, _S_NS)}s"
    (large, large_unit), (small, small_unit) = _two_units(ns)
    text = f"{large}{large_unit[0]}"
    return text if large > 99 else f"{text}{small:02}{small_unit[0]}"


def ms_text(ns: int) -> str:
    """A duration in a column of milliseconds: `0.42 ms`, `41.2 ms`, `1,920 ms`."""
    return f"{ms_figure(ns)} ms"


def ms_figure(ns: int) -> str:
    """The same without the unit, for a column whose heading names that."""
    return _figure(ns, MS_NS) if ns >= 0 else f"-{_figure(-ns, MS_NS)}"


def nanoseconds(ms: float) -> int:
    """Convert milliseconds with a fraction, as SQL returns them, to nanoseconds."""
    return round(ms * MS_NS)


def _figure(ns: int, unit_ns: int) -> str:
    """The number of units, with at most three significant digits unless there are at least a thousand units."""
    if ns == 0:
        return "0"
    for digits, limit in ((3, 100), (2, 100), (1, 1000)):
        count = _rounded(ns, unit_ns // 10**digits)
        if count < limit:
            return f"{count // 10**digits}.{count % 10**digits:0{digits}}"
    return f"{_rounded(ns, unit_ns):,}"


def _rounded(ns: int, unit_ns: int) -> int:
    return (ns + unit_ns // 2) // unit_ns


def _two_units(ns: int) -> tuple[tuple[int, str], tuple[int, str]]:
    """A duration of at least a minute in the largest unit that fits, and the next smaller unit."""
    seconds, minutes = _rounded(ns, _S_NS), _rounded(ns, 60 * _S_NS)
    if seconds < 3600:
        return (seconds // 60, "min"), (seconds % 60, "s")
    if minutes < 24 * 60:
        return (minutes // 60, "h"), (minutes % 60, "min")
    hours = _rounded(ns, 3600 * _S_NS)
    return (hours // 24, "d"), (hours % 24, "h")


def since_start(t_ns: int) -> str:
    """A stamp as every list of messages shows it: seconds since the capture opened, with full milliseconds."""
    return f"+{t_ns // 1_000_000_000:,}.{t_ns // 1_000_000 % 1000:03}"


def local_time(wall_ns: int) -> str:
    """A moment in local time, to the second."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def utc(wall_ns: int) -> str:
    """A moment in UTC in the format of RFC 3339, with all nine digits of a second."""
    seconds, fraction_ns = divmod(wall_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{fraction_ns:09d}Z"
