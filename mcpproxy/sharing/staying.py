"""Counts the personal numbers that stay in a copy that was made without `--personal`."""

from collections import Counter
from typing import Final

from mcpproxy.sharing.personal_numbers import personal_numbers

MAX_SEARCHED_BYTES: Final = 16 << 20
"""The part of a copy that is searched. The search of some 6 MB takes a second."""


class PersonalNumberCounter:
    """Counts the telephone numbers, bank accounts and MAC addresses at the beginning of a copy."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The numbers found so far, by kind."""
        self._remaining_bytes = MAX_SEARCHED_BYTES

    @property
    def is_partial(self) -> bool:
        """Whether the copy is too long to be searched to its end, so that there may be more."""
        return self._remaining_bytes < 0

    def count_numbers(self, raw: bytes) -> None:
        """Count the numbers in a frame or a line of the copy."""
        if self._remaining_bytes < 0:
            return
        self._remaining_bytes -= len(raw)
        if self._remaining_bytes >= 0:
            text = raw.decode("utf-8", "replace").replace("\\n", " ").replace('\\"', '"')
            self.counts.update(secret.kind for secret in personal_numbers(text))
