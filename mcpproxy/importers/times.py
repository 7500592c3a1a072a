"""Times in logs, as nanoseconds since 1970."""

from datetime import UTC, datetime
from typing import Final

from mcpproxy.importers.capture_lines import MAX_NS

SECOND_NS: Final = 1_000_000_000


def stamp_of_date(value: object, *, is_local: bool = False) -> int | None:
    """Returns the time in an ISO 8601 text; None if it is not one from 1970 to 2115.

    Args:
        value: the text.
        is_local: whether a text without a zone is in the zone of this machine, and not in UTC.
    """
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or moment.year < 1970:
        return None
    if moment.tzinfo is None and not is_local:
        moment = moment.replace(tzinfo=UTC)
    stamp_ns = int(moment.timestamp()) * SECOND_NS + moment.microsecond * 1000
    return stamp_ns if 0 <= stamp_ns < MAX_NS else None
