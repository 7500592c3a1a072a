"""BoundedDict: a table with a maximum size that forgets the oldest entries first and counts them.

The size of most tables of an analysis depends on the traffic, so each has a limit. A caller that does not find an entry
must know whether it may have been forgotten: see `forgotten`.
"""

from collections import OrderedDict
from typing import Any, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Forgotten(NamedTuple):
    """Entries of one kind that an analysis had to forget."""

    what: str
    """What they are, in the plural: `requests`."""
    times: int
    """How many."""
    limit: str
    """What exceeded the limit, in words."""
    effect: str
    """What that means for all later results."""

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return f"{self.times:,} {self.what} were forgotten: {self.limit}; {self.effect}"

    def members(self) -> dict[str, Any]:
        """The same for programs."""
        return {"what": self.what, "count": self.times}


class BoundedDict(OrderedDict[K, V]):
    """A table with a limit. Replaced entries keep their place; `move_to_end` makes an entry the newest."""

    __slots__ = ("forgotten", "limit")

    def __init__(self, limit: int) -> None:
        """Create an empty table.

        Args:
            limit: the most entries that it holds.
        """
        super().__init__()
        self.limit = limit
        self.forgotten = 0
        """Entries that had to be forgotten."""

    def put(self, key: K, value: V) -> V | None:
        """Set a value; return the oldest value if that had to be forgotten for it."""
        self[key] = value
        if len(self) <= self.limit:
            return None
        self.forgotten += 1
        return self.popitem(last=False)[1]
