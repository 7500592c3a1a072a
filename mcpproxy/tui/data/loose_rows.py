"""Loose rows: what filters ask about the messages that belong to no call, such as notifications.

The columns do not say which method a notification has, so it is read from the file once, and then kept as a number of
two bytes. Many rows say the same. What is too long, or differs in too many rows, is not kept.
"""

from array import array
from threading import Lock
from typing import Final, NamedTuple

from analysis.filter import Facts

MAX_TEXT_CHARS: Final = 256
"""The maximum length of a method and a name that are kept, in characters."""
_MAX_CODE: Final = (1 << 16) - 1


class LooseMessage(NamedTuple):
    """What filters ask about a message without a call, besides what its columns say."""

    method: str | None
    name: str | None
    kind: str | None
    is_error: bool


class LooseRows:
    """The messages of the loose rows of one capture, as far as they have been read. Any thread may add some."""

    def __init__(self) -> None:
        """Start without messages."""
        self._codes = array("H")
        self._code_of: dict[LooseMessage, int] = {}
        self._lock = Lock()

    def codes(self, first: int, last: int) -> "array[int]":
        """Returns a number for each row of a range: equal ones for equal messages, 0 for messages that are not kept."""
        codes = self._codes[first:last]
        codes.frombytes(bytes(codes.itemsize * (last - first - len(codes))))
        return codes

    def note(self, row: int, facts: Facts) -> None:
        """Keep the message of a row."""
        message = LooseMessage(facts.method, facts.name, facts.kind, facts.is_error)
        if len(message.method or "") + len(message.name or "") > MAX_TEXT_CHARS:
            return
        with self._lock:
            code = self._code_of.get(message) or len(self._code_of) + 1
            if code > _MAX_CODE:
                return
            self._code_of[message] = code
            missing_count = row + 1 - len(self._codes)
            if missing_count > 0:
                self._codes.frombytes(bytes(self._codes.itemsize * missing_count))
            self._codes[row] = code
