"""Recognises what replaced a secret in a redacted copy, which must not count as a change of the secret itself."""

import re
from typing import Any, Final

from analysis.comparison.values.varying_text import placeholder

_STAND_IN: Final = re.compile(
    rf"\b(?:(?P<whole>(?:value|text)-[1-9][0-9]{{0,8}})|(?:token|secret)-[1-9][0-9]{{0,8}}"
    r"|user-[1-9][0-9]{0,8}(?:@host-[1-9][0-9]{0,8}\.invalid)?|host-[1-9][0-9]{0,8}\.invalid)(?![\w-])"
    rf"|{re.escape(placeholder('redaction tag'))}",
    re.ASCII,
)
"""What stands for a secret in a normalised text; `whole` is what can stand for a value with spaces."""
_SECRET: Final = re.compile(r"(?:⟨[^⟨⟩]{1,40}⟩|[^\s⟨⟩])+").fullmatch
"""A secret in a normalised text, of which parts can be replaced by the names of their kinds."""


def is_same_but_redacted(redacted: Any, other: Any) -> bool:
    """Whether two different normalised values can be equal apart from secrets that were replaced in one of them.

    Args:
        redacted: the value in a redacted copy.
        other: the value on the other side, redacted or not.
    """
    if not isinstance(redacted, str):
        return False
    stand_ins = list(_STAND_IN.finditer(redacted))
    if not stand_ins:
        return False
    if not isinstance(other, str):
        return stand_ins[0]["whole"] == redacted
    ends = [match.end() for match in stand_ins]
    starts = [match.start() for match in stand_ins]
    words = [redacted[end:start] for end, start in zip(ends, [*starts[1:], len(redacted)], strict=True)]
    if not other.startswith(redacted[: starts[0]]):
        return False
    position = starts[0]
    for number, (match, word) in enumerate(zip(stand_ins, words, strict=True), 1):
        if number == len(words):
            end = len(other) - len(word)
            if not other.endswith(word):
                return False
        else:
            end = other.find(word, position + 1)
        secret = other[position:end] if end > position else ""
        if not secret or not (match["whole"] or _SECRET(secret)):
            return False
        position = end + len(word)
    return True
