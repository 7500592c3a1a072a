"""The account of a share: what it replaced, where and why, and how that changed the findings."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from analysis.protocol.json_pointer import encode_step
from mcpproxy.sharing.json_places import Path as JsonPath
from mcpproxy.sharing.redaction import Replacement
from mcpproxy.sharing.staying import PersonalNumberCounter

MAX_PLACES: Final = 2000
"""Places that are counted separately. All others are counted as one."""
MAX_DISTINCT_SECRETS: Final = 200_000
OTHER_PLACES: Final = "(other places)"
_MAX_STEP_CHARS: Final = 40


@dataclass
class RedactionAccount:
    """Reports what a share replaced in a capture, and how the copy differs."""

    path: Path
    """The copy."""
    records: int = 0
    """The number of records in the copy."""
    frames: int = 0
    """The number of frames in the copy."""
    left_out_records: int = 0
    """The number of records in the original that the user left out of the copy."""
    left_out_unknown_records: int = 0
    """The number of these records whose type is unknown to this version, so that it could not judge them."""
    out_of_order_records: int = 0
    """The number of records that are not in the copy because their number is not above that of the record before."""
    left_out_values: int = 0
    """The number of recognised values that were not searched for elsewhere, because they are too many or too long."""
    is_damaged: bool = False
    """Whether the original has bytes that are not a record, or records are missing or repeated."""
    is_compared: bool = False
    """Whether the findings of the copy were compared with those of the original."""
    bytes_before: int = 0
    """The size of the frames in the original that are also in the copy."""
    bytes_kept: int = 0
    """The number of these bytes that are unchanged in the copy."""
    replacement_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of replacements, by kind and place."""
    unmatched_patterns: list[str] = field(default_factory=list)
    """Patterns of `--redact` that match nothing in the original, as the user wrote them."""
    personal_numbers: PersonalNumberCounter = field(default_factory=PersonalNumberCounter)
    """Counts the telephone numbers, bank accounts and MAC addresses in the copy, unless they are to be replaced."""
    keeps_unparsed: bool = False
    """Whether text that cannot be parsed was searched as plain text instead of being replaced whole."""
    unparsed_counts: Counter[str] = field(default_factory=Counter)
    """The number of frames and stderr lines that were replaced whole or searched as plain text, by reason."""
    changed_frames: list[int] = field(default_factory=list)
    """Numbers of frames whose verdict has changed."""
    findings_before: int = 0
    findings_kept: int = 0
    """The number of findings in the original that are also in the copy."""
    hidden_findings: Counter[str] = field(default_factory=Counter)
    """The number of findings in the original that are not in the copy, by rule."""
    created_findings: Counter[str] = field(default_factory=Counter)
    """The number of findings in the copy that are not in the original, by rule."""
    is_unchanged: bool = False
    """Whether the file already had this content, so that it was not touched."""
    _secrets: dict[str, set[int]] = field(default_factory=dict)

    renamed_members: dict[str, str] = field(default_factory=dict)
    """Names of members in the original, and their pseudonyms, so that places do not reveal them."""

    def count_replacements(self, replacements: list[Replacement], where: str = "") -> None:
        """Count replacements; `where` names a place that is not in a JSON document."""
        for kind, secret, _, path in replacements:
            place = where or pointer_pattern(path, self.renamed_members) or "text"
            key = (kind, place)
            if key not in self.replacement_counts and len(self.replacement_counts) >= MAX_PLACES:
                key = (kind, OTHER_PLACES)
            self.replacement_counts[key] += 1
            hashes = self._secrets.setdefault(kind, set())
            if len(hashes) < MAX_DISTINCT_SECRETS:
                hashes.add(hash(secret))

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """By kind, the number of replacements and the number of different secrets that they replace."""
        counts: Counter[str] = Counter()
        for (kind, _), count in self.replacement_counts.items():
            counts[kind] += count
        return {kind: (count, len(self._secrets[kind])) for kind, count in counts.most_common()}

    def places_of(self, kind: str) -> list[tuple[str, int]]:
        """Returns the places of a kind, each with its number of replacements, beginning with the highest number."""
        return Counter(
            {place: count for (counted_kind, place), count in self.replacement_counts.items() if counted_kind == kind}
        ).most_common()


def pointer_pattern(path: JsonPath, renamed: Mapping[str, str]) -> str:
    """Returns a JSON Pointer with `*` in place of every index, so that the items of a list count as one place."""
    steps: list[str] = []
    while path is not None:
        path, name_or_index = path
        steps.append(
            "*"
            if isinstance(name_or_index, int)
            else encode_step(renamed.get(name_or_index, name_or_index), _MAX_STEP_CHARS)
        )
    return "".join(f"/{name}" for name in reversed(steps))
