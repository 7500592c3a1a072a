"""Finds what recording changed, by comparing a wrapped run with direct ones, which may themselves differ.

A run is what was received, in named parts. Where two direct runs differ in a word (a time, an id, a port), the wrapped
run may have any word; all other bytes must be the same. Parts that are not in every direct run are not required.
"""

import difflib
import re
from collections.abc import Sequence
from itertools import combinations

Run = dict[str, bytes]
"""Name of a part, such as `answer to tools/list` or `stderr` → its bytes."""

_WORD = re.compile(rb"[\w.:+-]+|[^\w.:+-]")
_ANY_WORD = rb"[\w.:+-]*"
_CLOCK = re.compile(rb"\[\d\d/\d\d/\d\d \d\d:\d\d:\d\d\]")
"""The time as Python's rich logs it: it is replaced with blanks if the second is that of the previous line."""


def differences(direct: Sequence[Run], wrapped: Run) -> dict[str, str]:
    """How the wrapped run differs from the direct ones: part → a short description of the difference."""
    always = set.intersection(*(set(run) for run in direct))
    ever = set().union(*direct)
    found = dict.fromkeys(sorted(always - wrapped.keys()), "missing")
    found |= {part: f"added {wrapped[part][:80]!r}" for part in sorted(wrapped.keys() - ever)}
    for part in sorted(always & wrapped.keys()):
        heard = [run[part] for run in direct]
        if not fits(heard, wrapped[part]):
            found[part] = _first_difference(heard[0], wrapped[part])
    return found


def fits(direct: Sequence[bytes], wrapped: bytes) -> bool:
    """Whether the bytes are those of a direct run, except for words that differ between two direct runs."""
    direct, wrapped = [_timeless(one) for one in direct], _timeless(wrapped)
    return wrapped in direct or any(_pattern(one, other).fullmatch(wrapped) for one, other in combinations(direct, 2))


def _timeless(text: bytes) -> bytes:
    return _CLOCK.sub(lambda time: b" " * len(time[0]), text)


def _pattern(one: bytes, other: bytes) -> re.Pattern[bytes]:
    left, right = _WORD.findall(one), _WORD.findall(other)
    if len(left) == len(right):
        words = (re.escape(word) if word == twin else _ANY_WORD for word, twin in zip(left, right, strict=True))
        return re.compile(b"".join(words), re.DOTALL)
    parts = []
    for kind, start, stop, _, _ in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        parts.append(re.escape(b"".join(left[start:stop])) if kind == "equal" else b".*?")
    return re.compile(b"".join(parts), re.DOTALL)


def _first_difference(direct: bytes, wrapped: bytes) -> str:
    at = next((at for at, (one, other) in enumerate(zip(direct, wrapped, strict=False)) if one != other), None)
    at = min(len(direct), len(wrapped)) if at is None else at
    around = slice(max(0, at - 20), at + 60)
    return f"at byte {at}, directly {direct[around]!r}, wrapped {wrapped[around]!r}"
