"""The account of a share: what was replaced, where and why, and what that changed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from analysis.protocol.json_pointer import step
from mcpproxy.sharing.json_places import Path as Way
from mcpproxy.sharing.redaction import Replacement
from mcpproxy.sharing.staying import StayingNumbers

MAX_PLACES: Final = 2000
"""How many places are counted separately; a capture can have any number."""
MAX_DISTINCT: Final = 200_000
OTHER_PLACES: Final = "(other places)"
_MAX_STEP_CHARS: Final = 40


@dataclass
class RedactionAccount:
    """What a share did to a capture."""

    path: Path
    """The copy."""
    records: int = 0
    """Records of the copy."""
    frames: int = 0
    """Frames of the copy."""
    left_out: int = 0
    """Records of the original that the user left out of the copy."""
    unknown_left_out: int = 0
    """How many of these have a type unknown to this version, so that they could not be judged."""
    out_of_order: int = 0
    """Records of the original whose number is not above the one before them; the copy lacks them."""
    left_out_values: int = 0
    """Recognised values that were not searched for elsewhere, because there were too many or they are too long."""
    is_damaged: bool = False
    """Whether bytes of the original are not a record, or records are missing or repeated."""
    is_compared: bool = False
    """Whether findings were compared."""
    bytes_before: int = 0
    """Bytes of the frames in the original, as far as they are in the copy."""
    bytes_kept: int = 0
    """How many of these bytes are unchanged in the copy."""
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many replacements there are, by kind and place."""
    unmatched: list[str] = field(default_factory=list)
    """Patterns of `--redact` that match nothing in the original. Text of the user."""
    staying: StayingNumbers = field(default_factory=StayingNumbers)
    """The telephone numbers, bank accounts and MAC addresses that are in the copy, if they are not to be replaced."""
    keeps_unparsed: bool = False
    """Whether what cannot be parsed was searched as plain text, and not replaced whole."""
    unparsed: Counter[str] = field(default_factory=Counter)
    """How many frames, and lines of stderr, were replaced whole or searched as plain text, by the reason."""
    changed: list[int] = field(default_factory=list)
    """Numbers of frames whose own verdict has changed."""
    findings_before: int = 0
    findings_kept: int = 0
    """How many findings of the original are in the copy."""
    hidden: Counter[str] = field(default_factory=Counter)
    """Findings of the original that are not in the copy, by rule."""
    created: Counter[str] = field(default_factory=Counter)
    """Findings of the copy that are not in the original, by rule."""
    _secrets: dict[str, set[int]] = field(default_factory=dict)

    renamed: dict[str, str] = field(default_factory=dict)
    """Names of members in the original, and their pseudonyms, so that places do not reveal them."""

    def add(self, made: list[Replacement], where: str = "") -> None:
        """Count replacements; `where` names a place that is not in a JSON document."""
        for kind, secret, _, path in made:
            place = where or pointer_pattern(path, self.renamed) or "text"
            key = (kind, place)
            if key not in self.replaced and len(self.replaced) >= MAX_PLACES:
                key = (kind, OTHER_PLACES)
            self.replaced[key] += 1
            known = self._secrets.setdefault(kind, set())
            if len(known) < MAX_DISTINCT:
                known.add(hash(secret))

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """Kind → how many replacements there are, and of how many different secrets."""
        counts: Counter[str] = Counter()
        for (kind, _), count in self.replaced.items():
            counts[kind] += count
        return {kind: (count, len(self._secrets[kind])) for kind, count in counts.most_common()}

    def places_of(self, kind: str) -> list[tuple[str, int]]:
        """The places of a kind with the number of replacements at each, most first."""
        return Counter({place: count for (of, place), count in self.replaced.items() if of == kind}).most_common()


def pointer_pattern(path: Way, renamed: Mapping[str, str]) -> str:
    """A JSON Pointer in which `*` stands for every index, so that the items of a list count as one place."""
    steps: list[str] = []
    while path is not None:
        path, last = path
        steps.append("*" if isinstance(last, int) else step(renamed.get(last, last), _MAX_STEP_CHARS))
    return "".join(f"/{name}" for name in reversed(steps))
