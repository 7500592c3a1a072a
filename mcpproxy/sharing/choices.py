"""The patterns of `--keep` and `--redact`, which select values by JSON Pointer, member name or regular expression."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from analysis.protocol.json_pointer import decode_steps
from mcpproxy.sharing.json_places import Path, steps_of
from mcpproxy.sharing.kinds import is_known_value
from mcpproxy.sharing.kingfisher import Secret

_REGEX: Final = "re:"
_ANY: Final = "*"


class InvalidPattern(ValueError):
    """A pattern is invalid; the text says why."""


class _Patterns(NamedTuple):
    """The patterns of one option, by their text as the user wrote it."""

    pointers: dict[str, list[str]]
    names: dict[str, str]
    """In lower case."""
    regexes: dict[str, re.Pattern[str]]
    matched_texts: set[str]
    """The texts of patterns that have matched something."""

    def match_path(self, path: Path) -> bool:
        """Returns whether a pattern names a place, or a value that contains it, and notes which ones do."""
        if not self.pointers and not self.names:
            return False
        steps = steps_of(path)
        lower_steps = {step.lower() for step in steps}
        matching_texts = [text for text, name in self.names.items() if name in lower_steps]
        matching_texts += [text for text, pointer in self.pointers.items() if _is_above(pointer, steps)]
        self.matched_texts.update(matching_texts)
        return bool(matching_texts)

    @property
    def unmatched(self) -> list[str]:
        """The texts of patterns that have not matched anything."""
        return [text for text in (*self.pointers, *self.names, *self.regexes) if text not in self.matched_texts]


def _is_above(pointer: Sequence[str], steps: Sequence[str]) -> bool:
    """Whether a pointer names a place, or one above it."""
    return len(pointer) <= len(steps) and all(name in (_ANY, step) for name, step in zip(pointer, steps, strict=False))


def _parse_patterns(patterns: Iterable[str]) -> _Patterns:
    parsed_patterns = _Patterns({}, {}, {}, set())
    for pattern in patterns:
        if pattern.startswith(_REGEX):
            try:
                parsed_patterns.regexes[pattern] = re.compile(pattern.removeprefix(_REGEX))
            except re.error as error:
                raise InvalidPattern(f"{pattern!r} is not a valid regular expression: {error}") from error
        elif pattern.startswith("/"):
            parsed_patterns.pointers[pattern] = decode_steps(pattern)
        elif pattern:
            parsed_patterns.names[pattern] = pattern.lower()
        else:
            raise InvalidPattern("a pattern is empty")
    return parsed_patterns


class ShareChoices:
    """The user's choices, by `--keep`, `--redact` and `--review`."""

    def __init__(
        self,
        keep: Sequence[str] = (),
        redact: Sequence[str] = (),
        review: Callable[[str, str, Path], bool] | None = None,
    ) -> None:
        """Parse patterns: `/a/*/b` is a JSON Pointer, `re:…` a regular expression, anything else the name of a member.

        Args:
            keep: patterns for texts that stay although they look like secrets.
            redact: patterns for texts that are replaced although they do not look like secrets.
            review: called once for each secret, with kind, text and place; returns whether to replace it. Without it,
                all are replaced.

        Raises:
            InvalidPattern: a pattern is invalid.
        """
        self._keep, self._redact = _parse_patterns(keep), _parse_patterns(redact)
        self._review = review
        self._reviewed: dict[tuple[str, str], bool] = {}
        self._answers: dict[str, bool] = {}
        """The last answer about each secret, of any kind."""

    @property
    def unmatched(self) -> list[str]:
        """The patterns of `redact` that have matched nothing so far, here or in `unreviewed`."""
        return self._redact.unmatched

    def redacts(self, path: Path) -> bool:
        """Whether a value must be replaced whole."""
        return self._redact.match_path(path)

    def matches(self, text: str) -> Iterator[Secret]:
        """Yields the stretches of a text that the user's regular expressions match."""
        for pattern, regex in self._redact.regexes.items():
            for match in regex.finditer(text):
                self._redact.matched_texts.add(pattern)
                yield Secret(*match.span(), "chosen")

    def keeps(self, kind: str, secret: str, path: Path) -> bool:
        """Returns whether a text stays although it looks like a secret. May ask the user."""
        if self._keep.match_path(path) or any(regex.fullmatch(secret) for regex in self._keep.regexes.values()):
            return True
        if self._review is None:
            return False
        is_replaced = self._reviewed.get((kind, secret))
        if is_replaced is None and is_known_value(kind):
            is_replaced = self._answers.get(secret)
        if is_replaced is None:
            is_replaced = self._reviewed[kind, secret] = self._answers[secret] = self._review(kind, secret, path)
        return not is_replaced

    def unreviewed(self) -> "ShareChoices":
        """Returns the same choices without the review."""
        choices = ShareChoices()
        choices._keep, choices._redact = self._keep, self._redact
        return choices
