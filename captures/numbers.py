"""Finds the position of a record in a capture by its number.

The numbers ascend, unless they were forged. Forged numbers must not make each search examine a million numbers: a
number that a binary search does not find is looked up in a hash table, which takes another 8 to 16 bytes for each
number, and is built only if any number is out of order.
"""

import os
from array import array
from bisect import bisect_left
from threading import Lock
from typing import Final

_NUMBER_BITS: Final = 64
_MIN_SLOT_BITS: Final = 10
"""How many bits a slot number has in the smallest table."""


class NumberList:
    """A list of numbers below 2 ** 64. One thread may append to it while others search it."""

    def __init__(self) -> None:
        """Create an empty list."""
        self.values = array("Q")
        """All numbers, in the order of the file."""
        self.is_sorted = True
        """Whether the numbers ascend."""
        self._fill_lock = Lock()
        # A random factor prevents the writer of a capture from choosing numbers that share a slot.
        self._factor = int.from_bytes(os.urandom(_NUMBER_BITS // 8)) | 1
        self._bits = _MIN_SLOT_BITS
        self._slots = array("I", bytes(4 << _MIN_SLOT_BITS))
        """For each slot, one more than a position, or 0 if the slot is free."""
        self._filled_count = 0
        """How many positions have been entered. Only the first of several equal numbers has a slot."""

    def __len__(self) -> int:
        return len(self.values)

    def append(self, number: int) -> None:
        """Add a number."""
        numbers = self.values
        if numbers and number < numbers[-1]:
            self.is_sorted = False
        numbers.append(number)

    @property
    def last(self) -> int:
        """The last number, or 0 if there is none."""
        return self.values[-1] if self.values else 0

    def position_of(self, number: int) -> int | None:
        """Returns the position of a number, or None if it does not occur."""
        numbers = self.values
        count = len(numbers)
        position = bisect_left(numbers, number, 0, count)
        if position < count and numbers[position] == number:
            return position
        if self.is_sorted:
            return None
        with self._fill_lock:
            self._fill(count)
            entry = self._slots[self._slot(number)]
        return entry - 1 if entry else None

    def _fill(self, count: int) -> None:
        if 2 * count > len(self._slots):
            self._bits = (2 * count).bit_length()
            self._slots, self._filled_count = array("I", bytes(4 << self._bits)), 0
        for position in range(self._filled_count, count):
            slot = self._slot(self.values[position])
            if not self._slots[slot]:
                self._slots[slot] = position + 1
        self._filled_count = count

    def _slot(self, number: int) -> int:
        """Returns the slot of a number, or the free slot that it would get."""
        slots, numbers, mask = self._slots, self.values, len(self._slots) - 1
        slot = (number * self._factor & (1 << _NUMBER_BITS) - 1) >> _NUMBER_BITS - self._bits
        while (entry := slots[slot]) and numbers[entry - 1] != number:
            slot = slot + 1 & mask
        return slot
