"""The patterns of `--keep` and `--redact`: values by JSON Pointer, by member name, or by regular expression."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from analysis.protocol.json_pointer import names
from mcpproxy.sharing.json_places import Path, steps_of
from mcpproxy.sharing.kinds import is_known_value
from mcpproxy.sharing.kingfisher import Secret

_REGEX: Final = "re:"
_ANY: Final = "*"


class InvalidPattern(ValueError):
    """A pattern that cannot be used; the text says why."""


class _Patterns(NamedTuple):
    """Patterns of one option."""

    pointers: list[list[str]]
    names: frozenset[str]
    regexes: list[re.Pattern[str]]

    def covers(self, path: Path) -> bool:
        """Whether a pattern names a place, or a value that contains it."""
        if not self.pointers and not self.names:
            return False
        steps = steps_of(path)
        if not self.names.isdisjoint(step.lower() for step in steps):
            return True
        return any(
            len(pattern) <= len(steps)
            and all(wanted in (_ANY, step) for wanted, step in zip(pattern, steps, strict=False))
            for pattern in self.pointers
        )


def _parsed(patterns: Iterable[str]) -> _Patterns:
    parsed = _Patterns([], frozenset(), [])
    for pattern in patterns:
        if pattern.startswith(_REGEX):
            try:
                parsed.regexes.append(re.compile(pattern.removeprefix(_REGEX)))
            except re.error as error:
                raise InvalidPattern(f"{pattern!r} is not a valid regular expression: {error}") from error
        elif pattern.startswith("/"):
            parsed.pointers.append(names(pattern))
        elif pattern:
            parsed = parsed._replace(names=parsed.names | {pattern.lower()})
        else:
            raise InvalidPattern("a pattern is empty")
    return parsed


class ShareChoices:
    """The choices of `--keep`, `--redact` and `--review`."""

    def __init__(
        self,
        keep: Sequence[str] = (),
        redact: Sequence[str] = (),
        review: Callable[[str, str, Path], bool] | None = None,
    ) -> None:
        """Read patterns: `/a/*/b` is a JSON Pointer, `re:…` a regular expression, all else the name of a member.

        Args:
            keep: patterns of what stays although it looks like a secret.
            redact: patterns of what is replaced although it does not.
            review: called once for each secret, with kind, text and place; returns whether to replace it. None replaces
                all.

        Raises:
            InvalidPattern: a pattern cannot be used.
        """
        self._keep, self._redact = _parsed(keep), _parsed(redact)
        self._review = review
        self._reviewed: dict[tuple[str, str], bool] = {}
        self._answers: dict[str, bool] = {}
        """The last answer about each secret, of any kind."""

    def redacts(self, path: Path) -> bool:
        """Whether a value is replaced whole."""
        return self._redact.covers(path)

    def matches(self, text: str) -> Iterator[Secret]:
        """What the user's expressions match."""
        for regex in self._redact.regexes:
            for match in regex.finditer(text):
                yield Secret(*match.span(), "chosen")

    def keeps(self, kind: str, secret: str, path: Path) -> bool:
        """Whether something stays although it looks like a secret."""
        if self._keep.covers(path) or any(regex.fullmatch(secret) for regex in self._keep.regexes):
            return True
        if self._review is None:
            return False
        known = self._reviewed.get((kind, secret))
        if known is None and is_known_value(kind):
            known = self._answers.get(secret)
        if known is None:
            known = self._reviewed[kind, secret] = self._answers[secret] = self._review(kind, secret, path)
        return not known

    def unreviewed(self) -> "ShareChoices":
        """The same choices, except that the user is not asked."""
        choices = ShareChoices()
        choices._keep, choices._redact = self._keep, self._redact
        return choices
