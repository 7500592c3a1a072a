"""Creates a text that probably matches a regular expression; the validator decides whether it does."""

from bisect import bisect_left
from typing import Final

MAX_PATTERN_CHARS: Final = 500
"""The longest pattern that is read."""
MAX_SAMPLE_CHARS: Final = 300
"""The longest text that is created."""
_MAX_GROUPS: Final = 20
_CLASSES: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": " ", "S": "a", "n": "\n", "t": "\t", "r": "\r"}
_NEGATED: Final = "aA0-_ .é"
"""Characters of which one is probably not in a negated set."""


class _UnsupportedPattern(Exception):
    """Raised if a pattern contains something that is not read here."""


def sample_of(pattern: str, repetitions: int = 1) -> str | None:
    """Returns a short text for a pattern, or None if the pattern is long or unusual.

    Of alternatives, it takes the first; of repetitions, as many as given, or as many as the pattern allows.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    try:
        return _Sample(pattern, repetitions).text
    except (_UnsupportedPattern, IndexError, ValueError):
        return None


def sample_with_length(pattern: str, length: int) -> str | None:
    """Returns a text of a length for a pattern, or None if no number of repetitions yields one."""
    if sample_of(pattern) is None:
        return None

    def length_with(repetitions: int) -> int:
        text = sample_of(pattern, repetitions)
        return MAX_SAMPLE_CHARS + 1 if text is None else len(text)

    repetitions = 1 + bisect_left(range(1, MAX_SAMPLE_CHARS + 1), length, key=length_with)
    text = sample_of(pattern, repetitions)
    return text if text is not None and len(text) == length else None


class _Sample:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, repetitions: int) -> None:
        self._pattern = pattern
        self._repetitions = repetitions
        self._at = 0
        self._groups = 0
        self.text = self._alternatives()
        if self._at < len(pattern):
            raise _UnsupportedPattern

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _is_next(self, characters: str) -> bool:
        return self._at < len(self._pattern) and self._pattern[self._at] in characters

    def _alternatives(self) -> str:
        first = self._sequence()
        while self._is_next("|"):
            self._at += 1
            self._sequence()
        return first

    def _sequence(self) -> str:
        text = ""
        while self._at < len(self._pattern) and not self._is_next("|)"):
            text += self._repeated(self._atom())
            if len(text) > MAX_SAMPLE_CHARS:
                raise _UnsupportedPattern
        return text

    def _atom(self) -> str:
        character = self._next()
        if character in "^$":
            return ""
        if character == ".":
            return "a"
        if character == "(":
            return self._group()
        if character == "[":
            return self._set()
        return self._escaped() if character == "\\" else character

    def _group(self) -> str:
        self._groups += 1
        if self._groups > _MAX_GROUPS:
            raise _UnsupportedPattern
        if self._is_next("?"):
            self._at += 1
            if self._next() != ":":
                raise _UnsupportedPattern
        text = self._alternatives()
        if self._next() != ")":
            raise _UnsupportedPattern
        return text

    def _escaped(self) -> str:
        character = self._next()
        if character in "bB":
            return ""
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum():
            raise _UnsupportedPattern
        return character

    def _set(self) -> str:
        is_negated = self._is_next("^")
        self._at += is_negated
        characters = ""
        while not self._is_next("]") or not characters:
            character = self._next()
            characters += self._escaped() if character == "\\" else character
        self._at += 1
        if not is_negated:
            return characters[0]
        return next((character for character in _NEGATED if character not in characters), "")

    def _repeated(self, text: str) -> str:
        if self._is_next("?*+"):
            text *= 1 if self._next() == "?" else min(self._repetitions, MAX_SAMPLE_CHARS)
        elif self._is_next("{"):
            end = self._pattern.index("}", self._at)
            fewest, comma, most = self._pattern[self._at + 1 : end].partition(",")
            count = max(int(fewest), min(self._repetitions, int(most or MAX_SAMPLE_CHARS))) if comma else int(fewest)
            self._at = end + 1
            text *= min(count, MAX_SAMPLE_CHARS) or 1
        self._at += self._is_next("?")  # not greedy
        return text
