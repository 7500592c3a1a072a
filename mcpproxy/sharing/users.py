"""The names of the people whose home directories a capture mentions."""

from collections import Counter
from typing import Any, Final

from captures.reader import Capture
from captures.record import Record
from mcpproxy.sharing.patterns import HOME_MARKS, home_users
from mcpproxy.sharing.word_lists import ACCOUNTS

MAX_USER_NAMES: Final = 50
"""How many names are known; a capture can have any number of paths."""
SHORTEST: Final = 3
_MARKS: Final = tuple(mark.encode() for mark in HOME_MARKS)


def users_of(capture: Capture) -> frozenset[str]:
    """The names of users in the paths of a capture, in lower case; they are replaced wherever they are a word."""
    counts: Counter[str] = Counter()
    for item in capture:
        if isinstance(item, Record) and any(mark in item.line for mark in _MARKS):
            for text in _texts(item.members):
                counts.update(name.lower() for name in home_users(text.replace("\\\\", "\\")))
    names = (
        name
        for name, _ in counts.most_common()
        if len(name) >= SHORTEST and name not in ACCOUNTS and not name.isdigit()
    )
    return frozenset([name for name, _ in zip(names, range(MAX_USER_NAMES), strict=False)])


def _texts(value: Any) -> list[str]:
    """The texts in a record, as deep as records are."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return texts
