"""Limited: a table that holds so many entries at most, forgets the oldest first, and counts what it forgot.

Traffic decides how much most tables of an analysis would hold, so each has a limit. Whoever looks up an entry and finds
none must know whether it may have been forgotten: `forgotten` tells.
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
    """What was more than is remembered, in words."""
    effect: str
    """What that means for all that is said from then on."""

    @property
    def text(self) -> str:
        """All of it in a sentence."""
        return f"{self.times:,} {self.what} were forgotten: {self.limit}; {self.effect}"

    def members(self) -> dict[str, Any]:
        """The same for programs."""
        return {"what": self.what, "count": self.times}


class Limited(OrderedDict[K, V]):
    """A table with a limit. Entries that are replaced keep their place; `move_to_end` makes one the youngest."""

    __slots__ = ("forgotten", "limit")

    def __init__(self, limit: int) -> None:
        """An empty one.

        Args:
            limit: entries that it holds at most.
        """
        super().__init__()
        self.limit = limit
        self.forgotten = 0
        """Entries that had to be forgotten."""

    def keep(self, key: K, value: V) -> V | None:
        """Enter a value; the oldest one, where that had to be forgotten for it."""
        self[key] = value
        if len(self) <= self.limit:
            return None
        self.forgotten += 1
        return self.popitem(last=False)[1]
