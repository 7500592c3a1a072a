"""Completion: what Tab makes of the word before the cursor."""

from collections.abc import Iterable
from typing import Final, NamedTuple

MOST: Final = 200


class Completion(NamedTuple):
    """What can be done about a word."""

    text: str
    """What takes its place: as much as all that fits has in common."""
    options: tuple[str, ...]
    """What fits, where it is more than one."""


def completed(word: str, candidates: Iterable[str]) -> Completion | None:
    """Complete a word, in any case; None where nothing fits or nothing is left to complete."""
    begun = word.casefold()
    fitting = list(dict.fromkeys(one for one in candidates if one.casefold().startswith(begun)))[:MOST]
    if not fitting:
        return None
    if len(fitting) == 1:
        return None if fitting[0] == word else Completion(fitting[0], ())
    least, most = min(fitting), max(fitting)
    size = next((at for at, char in enumerate(least) if most[at] != char), len(least))
    common = least[:size]
    return Completion(common if len(common) > len(word) else word, tuple(fitting))
