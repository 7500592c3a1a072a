"""Counts the personal numbers that stay in a copy which was made without `--personal`."""

from collections import Counter
from typing import Final

from mcpproxy.sharing.personal_numbers import personal_numbers

MAX_SEARCHED_BYTES: Final = 16 << 20
"""How much of a copy is searched: some 6 MB take a second."""


class StayingNumbers:
    """The telephone numbers, bank accounts and MAC addresses in the beginning of a copy."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How many there are, by kind."""
        self._left = MAX_SEARCHED_BYTES

    @property
    def is_partial(self) -> bool:
        """Whether there may be more, because the copy is too long to be searched to its end."""
        return self._left < 0

    def count(self, raw: bytes) -> None:
        """Count those in a frame or a line of the copy."""
        if self._left < 0:
            return
        self._left -= len(raw)
        if self._left >= 0:
            text = raw.decode("utf-8", "replace").replace("\\n", " ").replace('\\"', '"')
            self.counts.update(secret.kind for secret in personal_numbers(text))
