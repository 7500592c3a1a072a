"""Sample: a table of bounded size of which both sides of a comparison keep the same entries.

Keeping the first entries would keep different ones if the sides come in another order, and each would look gone on one
side and new on the other. So the entries with the smallest digests are kept, whatever came first.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Sample(Generic[V]):
    """Values by digest: of more than `limit`, those with the smallest digests."""

    def __init__(self, limit: int) -> None:
        """Create an empty table.

        Args:
            limit: how many entries are kept at the end; up to twice as many are, while it is filled.
        """
        self._limit = limit
        self._ceiling: str | None = None
        """Digests from here on are not kept; None if all are."""
        self._values: dict[str, V] = {}

    def entry(self, digest: str, create: Callable[[], V]) -> V | None:
        """Return the value of a digest, created if it is new, or None if it is not kept."""
        value = self._values.get(digest)
        if value is not None or (self._ceiling is not None and digest >= self._ceiling):
            return value
        if len(self._values) >= 2 * self._limit:
            self._shrink()
            if self._ceiling is not None and digest >= self._ceiling:
                return None
        value = self._values[digest] = create()
        return value

    def kept(self) -> dict[str, V]:
        """Returns the entries that are kept, in the order of their digests."""
        if len(self._values) > self._limit:
            self._shrink()
        return {digest: self._values[digest] for digest in sorted(self._values)}

    @property
    def ceiling(self) -> str | None:
        """The digest from which on no entry is kept, after `kept`; None if all entries are."""
        return self._ceiling

    def _shrink(self) -> None:
        digests = sorted(self._values)
        self._ceiling = digests[self._limit]
        for digest in digests[self._limit :]:
            del self._values[digest]


def common_ceiling(old: str | None, new: str | None) -> str | None:
    """Returns the digest from which on a comparison of two samples is blind; None if both are complete."""
    ceilings = [ceiling for ceiling in (old, new) if ceiling is not None]
    return min(ceilings, default=None)
