"""The numbers of a capture's records, in the order of the file, with the position of each.

They ascend, unless they were forged. Numbers that are out of order, whether one or all, must not make every search
examine a million of them: a number that a binary search does not find is looked up in a hash table, which takes another
8 to 16 bytes for each number, and is built only if numbers are out of order.
"""

import os
from array import array
from bisect import bisect_left
from threading import Lock
from typing import Final

_BITS: Final = 64
_SMALLEST: Final = 10
"""Bits of the number of a slot in the smallest table."""


class Numbers:
    """Some numbers below 2 ** 64. One thread may append to them while others search."""

    def __init__(self) -> None:
        """Start without numbers."""
        self.all = array("Q")
        """All of them."""
        self.is_sorted = True
        """Whether they ascend."""
        self._filling = Lock()
        # Unknown to the writers of captures, so that no one can choose numbers that share their slots.
        self._factor = int.from_bytes(os.urandom(_BITS // 8)) | 1
        self._bits = _SMALLEST
        self._slots = array("I", bytes(4 << _SMALLEST))
        """One more than a position, or 0 if the slot is free."""
        self._filled = 0
        """How many positions have been entered; of equal numbers, only the first has a slot."""

    def __len__(self) -> int:
        return len(self.all)

    def append(self, number: int) -> None:
        """Add a number."""
        numbers = self.all
        if numbers and number < numbers[-1]:
            self.is_sorted = False
        numbers.append(number)

    @property
    def last(self) -> int:
        """The last number; 0 if there is none."""
        return self.all[-1] if self.all else 0

    def position_of(self, number: int) -> int | None:
        """The position of a number, or None if it does not occur."""
        numbers = self.all
        count = len(numbers)
        at = bisect_left(numbers, number, 0, count)
        if at < count and numbers[at] == number:
            return at
        if self.is_sorted:
            return None
        with self._filling:
            self._fill(count)
            found = self._slots[self._slot(number)]
        return found - 1 if found else None

    def _fill(self, count: int) -> None:
        if 2 * count > len(self._slots):
            self._bits = (2 * count).bit_length()
            self._slots, self._filled = array("I", bytes(4 << self._bits)), 0
        for place in range(self._filled, count):
            slot = self._slot(self.all[place])
            if not self._slots[slot]:
                self._slots[slot] = place + 1
        self._filled = count

    def _slot(self, number: int) -> int:
        """The slot of a number, or the free one that it would get."""
        slots, numbers, last = self._slots, self.all, len(self._slots) - 1
        slot = (number * self._factor & (1 << _BITS) - 1) >> _BITS - self._bits
        while (found := slots[slot]) and numbers[found - 1] != number:
            slot = slot + 1 & last
        return slot
