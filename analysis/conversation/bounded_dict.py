"""BoundedDict: a table with a maximum size that forgets its oldest entries first and counts them.

The size of most tables of an analysis depends on the traffic, so each has a limit. A caller that does not find an entry
must know whether it may have been forgotten: see `forgotten`.
"""

from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ForgottenEntries(NamedTuple):
    """Entries of one kind that an analysis had to forget."""

    what: str
    """The kind of the entries, in the plural: `requests`."""
    times: int
    """How many entries were forgotten."""
    limit: str
    """What exceeded the limit, in words."""
    effect: str
    """The consequence for all later results."""

    @property
    def text(self) -> str:
        """Returns the loss as a sentence."""
        return f"{self.times:,} {self.what} were forgotten: {self.limit}; {self.effect}"

    def members(self) -> dict[str, Any]:
        """Returns the loss as members of JSON output."""
        return {"what": self.what, "count": self.times}


class BoundedDict(OrderedDict[K, V]):
    """A table with a limit. A replaced entry keeps its position; `move_to_end` makes an entry the newest."""

    __slots__ = ("forgotten", "limit")

    def __init__(self, limit: int) -> None:
        """Create an empty table.

        Args:
            limit: the most entries that the table keeps.
        """
        super().__init__()
        self.limit = limit
        self.forgotten = 0
        """How many entries had to be forgotten."""

    def put(self, key: K, value: V) -> V | None:
        """Set a value; return the oldest value if the table had to forget it, or else None."""
        self[key] = value
        if len(self) <= self.limit:
            return None
        self.forgotten += 1
        return self.popitem(last=False)[1]
