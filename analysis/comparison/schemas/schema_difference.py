"""Difference: one difference between two schemas, with whether it excludes or admits values."""

from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.comparison.change import ABSENT
from analysis.comparison.schemas.schema_annotations import AnnotationName
from analysis.protocol.json_pointer import encode_step


class Direction(Enum):
    """What a difference does to the values that are accepted."""

    NARROWED = "narrowed"
    """The new schema excludes values."""
    WIDENED = "widened"
    """The new schema admits values."""
    CHANGED = "changed"
    """Both, or it is not known which."""
    NEITHER = "neither"
    """The same values are accepted; an annotation changed."""
    UNDECIDED = "undecided"
    """One of the schemas cannot be compared."""


DifferenceName: TypeAlias = (
    Literal[
        "newly-required",
        "no-longer-required",
        "removed",
        "removed-from-closed",
        "added",
        "added-to-closed",
        "type-narrowed",
        "type-widened",
        "type-changed",
        "enum-narrowed",
        "enum-widened",
        "range-narrowed",
        "range-widened",
        "closed",
        "opened",
        "alternatives-narrowed",
        "alternatives-widened",
        "constraint-added",
        "constraint-removed",
        "constraint-changed",
        "undecided",
    ]
    | AnnotationName
)


class Step(NamedTuple):
    """One step from a schema to the schema of a part of its values."""

    keyword: Literal["properties", "patternProperties", "additionalProperties", "prefixItems", "items"]
    name: str = ""
    """The name of the member, the pattern of names, or the index of the item."""

    @property
    def pointer(self) -> str:
        """The step as part of a JSON Pointer into the schema."""
        has_name = self.keyword in ("properties", "patternProperties", "prefixItems")
        return f"/{self.keyword}/{encode_step(self.name)}" if has_name else f"/{self.keyword}"


Path: TypeAlias = tuple[Step, ...]

MEMBER_TEXTS: Final[dict[str, str]] = {
    "newly-required": "is required now",
    "no-longer-required": "is no longer required",
    "removed": "is no longer described",
    "removed-from-closed": "is no longer accepted",
    "added": "is new",
    "added-to-closed": "is new",
}


class Difference(NamedTuple):
    """One difference between two schemas."""

    name: DifferenceName
    direction: Direction
    path: Path
    """Where it is; for a member that comes or goes, the path of the member."""
    text: str
    """What differs, to complete a sentence that begins with the name of the place. It quotes untrusted text."""
    before: Any = ABSENT
    after: Any = ABSENT
    keyword: str = ""
    """The keyword that differs, if it is not clear from the name."""
    schemas: tuple[Any, Any] = (True, True)
    """The schemas of the place on both sides; of the whole object, if a member comes or goes."""

    @property
    def is_about_member(self) -> bool:
        """Whether a member came, went, or need no longer be there; its path ends with the member."""
        return self.name in MEMBER_TEXTS

    @property
    def pointer(self) -> str:
        """The place as a JSON Pointer into the schema, as if all references were replaced by what they name."""
        return "".join(step.pointer for step in self.path)


def narrows(difference: Difference) -> bool:
    """Whether a difference may exclude values that were accepted."""
    return difference.direction in (Direction.NARROWED, Direction.CHANGED, Direction.UNDECIDED)


def widens(difference: Difference) -> bool:
    """Whether a difference may admit values that were not accepted."""
    return difference.direction in (Direction.WIDENED, Direction.CHANGED, Direction.UNDECIDED)


def narrows_strictly(difference: Difference) -> bool:
    """Whether a difference may exclude any value, even one with a member that the old schema does not describe."""
    return narrows(difference) or difference.name == "added"


def widens_strictly(difference: Difference) -> bool:
    """Whether a difference may admit any value, even one with a member that the new schema does not describe."""
    return widens(difference) or difference.name == "removed"
