"""Sequences whose items are created on demand: lines to draw, rows to list."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemandSequence(Sequence[T]):
    """A sequence that needs to know only its length and one item at a time."""

    @abstractmethod
    def item(self, at: int) -> T:
        """Returns the item at a valid index."""

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        """Returns one item, or the items of a slice as a list."""
        if isinstance(at, slice):
            return [self.item(number) for number in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(at)
        return self.item(at)
