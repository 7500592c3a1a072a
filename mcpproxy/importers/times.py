"""Converts times in logs to nanoseconds since 1970."""

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from mcpproxy.importers.capture_lines import MAX_STAMP_NS

SECOND_NS: Final = 1_000_000_000


def stamp_of_date(value: object, *, is_local: bool = False) -> int | None:
    """Returns the time in an ISO 8601 text; None if the text is not a time from 1970 to 2115.

    Args:
        value: the text.
        is_local: whether a text without a zone is in the zone of this machine; otherwise it is in UTC.
    """
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or not 1970 <= moment.year <= 2115:
        return None
    if moment.tzinfo is None and not is_local:
        moment = moment.replace(tzinfo=UTC)
    stamp_ns = int(moment.timestamp()) * SECOND_NS + moment.microsecond * 1000
    return stamp_ns if 0 <= stamp_ns < MAX_STAMP_NS else None


_DATE_AND_TIME: Final = re.compile(
    r"(?P<day>\d{4}([-/])\d\d\2\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d{1,9})?"
    r" ?(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
).search


class LoggedTime(NamedTuple):
    """A time in a log."""

    stamp_ns: int | None
    """Nanoseconds since 1970; None if there is no time."""
    is_exact: bool
    """Whether it has fractions of a second."""


def time_in_text(text: str) -> LoggedTime:
    """Returns the first date and time in a text, such as the beginning of a line of a log.

    A time without a zone is assumed to be in the zone of this machine.
    """
    match = _DATE_AND_TIME(text)
    if match is None:
        return LoggedTime(None, False)
    day, time, fraction, zone = match.group("day", "time", "fraction", "zone")
    iso_text = f"{day.replace('/', '-')}T{time}{(fraction or '').replace(',', '.')}{zone or ''}"
    return LoggedTime(stamp_of_date(iso_text, is_local=True), fraction is not None)
