"""Sizes, durations and times for people: powers of 1000, the largest units that fit, local time."""

from datetime import UTC, datetime


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


def few(count: int) -> str:
    """A number in at most four characters: `999`, `1.2k`, `12k`, `3.4M`."""
    if count < 1000:
        return str(count)
    value, unit = count / 1000, "k"
    for larger in "MGT":
        # 999.6 would be written as 1000
        if value >= 999.5:
            value, unit = value / 1000, larger
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


def duration(t_ns: int) -> str:
    """A length of time in its two largest units: `41.2ms`, `12.3s`, `2m14s`, `3h05m`, `2d04h`."""
    seconds = t_ns / 1e9
    if seconds < 1:
        return f"{t_ns / 1e6:.1f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes}m{int(seconds) % 60:02d}s"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def since_start(t_ns: int) -> str:
    """A stamp as every list of messages has it: seconds since the capture opened, with milliseconds that are over."""
    return f"+{t_ns // 1_000_000_000:,}.{t_ns // 1_000_000 % 1000:03}"


def brief(ns: int | None) -> str:
    """A duration in at most six characters: `341µs`, `9.4ms`, `410ms`, `1.9s`."""
    if ns is None:
        return "–"
    if ns < 999_500:
        return f"{ns / 1000:.0f}µs"
    ms = ns / 1e6
    if ms < 999.5:
        return f"{ms:.0f}ms" if ms >= 9.95 else f"{ms:.1f}ms"
    return f"{ms / 1000:.1f}s" if ms < 999_500 else f"{ms / 60_000:,.0f}m"


def ms_text(ns: int) -> str:
    """A duration in milliseconds: `0.42 ms`, `41.2 ms`, `1,920 ms`."""
    ms = ns / 1_000_000
    digits = 2 if ms < 0.995 else 1 if ms < 99.95 else 0
    return f"{ms:,.{digits}f} ms"


def local_time(wall_ns: int) -> str:
    """A moment in local time, to the second."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def utc(wall_ns: int) -> str:
    """A moment in UTC as RFC 3339 has it, with all nine digits of a second."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09d}Z"
