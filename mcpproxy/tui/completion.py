"""Completion: the text that Tab inserts for the word before the cursor, and what of a filter is finished."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.filter import KEYS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.call_kinds import CallKind

MAX_COMPLETIONS: Final = 200
VALUES: Final = {name: key.words for name, key in KEYS.items() if key.words}
"""The values of the filter keys that accept only a few."""

_TERMS: Final = re.compile(r'[\s()]++|(?:[^\s()"]|"(?:[^"\\]|\\.)*+"?+)++', re.DOTALL)
_KEYED_TERM: Final = re.compile(r"([a-z_]+)([:=]|[<>]=?)(.*)", re.DOTALL)
_DANGLING_END: Final = re.compile(r"(?:(?:^|(?<=[\s()]))(?:and|or|not)|\()\s*$", re.IGNORECASE)
"""An operator or a parenthesis that nothing follows."""
_LAST_WORD: Final = re.compile(r"(?:^|(?<=[\s()]))[a-z_]+$", re.IGNORECASE)
_BARE_WORD: Final = re.compile(r"[\w./:@+-]+")


class Completion(NamedTuple):
    """How a word can be completed."""

    text: str
    """The replacement: the common prefix of all matches."""
    options: tuple[str, ...]
    """The matches, if there is more than one."""


def completion_of(word: str, candidates: Iterable[str]) -> Completion | None:
    """Complete a word, ignoring case; returns None if nothing matches, or nothing is left to complete."""
    prefix = word.casefold()
    matches = list(dict.fromkeys(candidate for candidate in candidates if candidate.casefold().startswith(prefix)))[
        :MAX_COMPLETIONS
    ]
    if not matches:
        return None
    if len(matches) == 1:
        return None if matches[0] == word else Completion(matches[0], ())
    lowest, highest = min(matches), max(matches)
    size = next((position for position, char in enumerate(lowest) if highest[position] != char), len(lowest))
    common = lowest[:size]
    return Completion(common if len(common) > len(word) else word, tuple(matches))


def finished_part(text: str) -> str:
    """Returns a filter without what is half-typed at its end: a word that may become a key, or an operator."""
    word = _LAST_WORD.search(text)
    if word is not None and any(name.startswith(word[0].lower()) for name in (*KEYS, "and", "or", "not")):
        text = text[: word.start()]
    while (match := _DANGLING_END.search(text)) is not None:
        text = text[: match.start()]
    return text.strip()


def filter_completion(
    text: str, kinds: Iterable[CallKind], saved_names: Iterable[str] = ()
) -> tuple[str, Completion | None]:
    """Complete the last term of a filter.

    Args:
        text: the text up to the cursor.
        kinds: the kinds of requests so far; their methods and names are the candidates.
        saved_names: the names of saved filters, which follow an `@`.

    Returns:
        The term, and its completion.
    """
    term = ["", *_TERMS.findall(text)][-1].lstrip(" \t()")
    match = _KEYED_TERM.fullmatch(term)
    if term.startswith("@"):
        return term, completion_of(term, [f"@{name}" for name in saved_names])
    if match is None:
        keys = [f"{key}{'>' if KEYS[key].is_ordered and key != 'level' else ':'}" for key in KEYS]
        return term, completion_of(term, [*keys, "and", "or", "not"])
    key, operator = match[1], match[2]
    if key == "method":
        values = [_filter_literal(kind.method) for kind in kinds if not kind.is_catch_all]
    elif key == "name":
        values = [_filter_literal(kind.name) for kind in kinds if kind.name is not None]
    else:
        values = list(VALUES.get(key, ()))
    return term, completion_of(term, [f"{key}{operator}{value}" for value in sorted(set(values)) if value])


def _filter_literal(text: str) -> str:
    """Returns a name as it is written in a filter, or an empty text if it cannot be typed."""
    if _BARE_WORD.fullmatch(text):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"' if text and sanitise(text) == text else ""
