"""Tells which differences between schemas refuse values by the letter, but hardly ever a value that somebody sends."""

from typing import Final

from analysis.comparison.schemas.schema_annotations import has_annotation
from analysis.comparison.schemas.schema_difference import Difference, Direction
from analysis.comparison.schemas.schema_document import Document

MAX_EXACT_INTEGER: Final = 2**53 - 1
"""The largest integer that all JSON parsers read exactly (RFC 8259, 6). Generators of schemas write it as a limit."""

HAS_DEFAULT: Final = "the argument has a default, which most servers fill in if it is absent"
BEYOND_EXACT_INTEGERS: Final = f"only numbers beyond ±{MAX_EXACT_INTEGER} show it, which many JSON parsers round"


def mitigation(difference: Difference, new: Document) -> str:
    """Returns why a difference that is breaking by its kind probably breaks nothing, as a clause; empty if it may.

    Args:
        difference: the difference.
        new: the new schema, in which the difference was found.
    """
    if difference.name == "newly-required" and _has_default(difference, new):
        return HAS_DEFAULT
    limit = difference.after if difference.direction is Direction.NARROWED else difference.before
    if isinstance(limit, int | float) and (
        (difference.keyword == "maximum" and limit >= MAX_EXACT_INTEGER)
        or (difference.keyword == "minimum" and limit <= -MAX_EXACT_INTEGER)
    ):
        return BEYOND_EXACT_INTEGERS
    return ""


def _has_default(difference: Difference, new: Document) -> bool:
    name = difference.path[-1].name
    return any(
        has_annotation(new, part.properties[name], "default")
        for part in new.parts(difference.schemas[1])
        if name in part.properties
    )
