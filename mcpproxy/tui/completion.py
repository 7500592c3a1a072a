"""Completion: the text that Tab inserts for the word before the cursor."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.filter import KEYS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.call_kinds import CallKind

MAX_COMPLETIONS: Final = 200
VALUES: Final = {
    "dir": ("c2s", "s2c"),
    "kind": ("request", "response", "error", "notification", "invalid", "unjudged", "batch"),
    "has": ("id", "answer", "error", "problem", "finding", "mark"),
    "level": ("note", "warning", "error"),
}
"""The values of the filter keys that accept only a few."""

_TERMS: Final = re.compile(r'[\s()]++|(?:[^\s()"]|"(?:[^"\\]|\\.)*+"?+)++', re.DOTALL)
_KEYED: Final = re.compile(r"([a-z]+)([:=]|[<>]=?)(.*)", re.DOTALL)
_BARE: Final = re.compile(r"[\w./:@+-]+")


class Completion(NamedTuple):
    """How a word can be completed."""

    text: str
    """The replacement: the common prefix of all matches."""
    options: tuple[str, ...]
    """The matches, if there is more than one."""


def completion_of(word: str, candidates: Iterable[str]) -> Completion | None:
    """Complete a word, ignoring case; returns None if nothing matches, or nothing is left to complete."""
    prefix = word.casefold()
    fitting = list(dict.fromkeys(candidate for candidate in candidates if candidate.casefold().startswith(prefix)))[
        :MAX_COMPLETIONS
    ]
    if not fitting:
        return None
    if len(fitting) == 1:
        return None if fitting[0] == word else Completion(fitting[0], ())
    least, most = min(fitting), max(fitting)
    size = next((at for at, char in enumerate(least) if most[at] != char), len(least))
    common = least[:size]
    return Completion(common if len(common) > len(word) else word, tuple(fitting))


def filter_completion(before: str, calls: Iterable[CallKind]) -> tuple[str, Completion | None]:
    """Complete the last term of a filter.

    Args:
        before: the text up to the cursor.
        calls: the kinds of requests so far; their methods and names are the candidates.

    Returns:
        The term, and its completion.
    """
    term = ["", *_TERMS.findall(before)][-1].lstrip(" \t()")
    keyed = _KEYED.fullmatch(term)
    if keyed is None:
        keys = [f"{key}{'>' if KEYS[key].is_ordered and key != 'level' else ':'}" for key in KEYS]
        return term, completion_of(term, [*keys, "and", "or", "not"])
    key, operator = keyed[1], keyed[2]
    if key == "method":
        values = [_written(call.method) for call in calls if not call.is_rest]
    elif key == "name":
        values = [_written(call.name) for call in calls if call.name is not None]
    else:
        values = list(VALUES.get(key, ()))
    return term, completion_of(term, [f"{key}{operator}{value}" for value in sorted(set(values)) if value])


def _written(text: str) -> str:
    """A name as it is written in a filter; an empty text if it cannot be typed."""
    if _BARE.fullmatch(text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"' if text and sanitise(text) == text else ""
