"""Compares the annotations of two schemas: texts, defaults, formats and everything else that rejects no value."""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from analysis.comparison.change import ABSENT
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.schema_keywords import CONSTRAINTS, DEFINITIONS
from analysis.comparison.schemas.schema_part import Undecidable, json_key

AnnotationName: TypeAlias = Literal[
    "default-changed", "default-added", "description-changed", "format-changed", "annotation-changed"
]
_SCHEMAS_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMA_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_SINGLE_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains"})
_TEXTS: Final = ("title", "description", "examples")
_MAX_BRANCHES: Final = 64

AnnotationDifference: TypeAlias = tuple[AnnotationName, str, Any, Any]
"""The name, the text, and the values on both sides."""


def annotation_differences(
    old_document: Document, old: Any, new_document: Document, new: Any
) -> Iterator[AnnotationDifference]:
    """Yields how the annotations of two schemas differ, without those of their members and items."""
    before, after = _annotations(old_document, old), _annotations(new_document, new)
    for keyword in dict.fromkeys((*before, *after)):
        old_values, new_values = before.get(keyword, {}), after.get(keyword, {})
        if old_values.keys() == new_values.keys():
            continue
        gone = [value for key, value in old_values.items() if key not in new_values]
        come = [value for key, value in new_values.items() if key not in old_values]
        old_value, new_value = gone[0] if gone else ABSENT, come[0] if come else ABSENT
        name: AnnotationName = "annotation-changed"
        if keyword == "default":
            name = "default-changed" if gone else "default-added"
        elif keyword == "format":
            name = "format-changed"
        elif keyword in _TEXTS:
            name = "description-changed"
        change = "has another" if gone and come else "has a new" if come else "has lost its"
        yield name, f"{change} `{keyword[:40]}`", old_value, new_value


def _annotations(document: Document, schema: Any) -> dict[str, dict[str, Any]]:
    """Returns the values of each annotation by their texts, with those of schemas that apply to the same value."""
    found: dict[str, dict[str, Any]] = {}
    pending, seen = [schema], 0
    while pending and seen < _MAX_BRANCHES:
        schema = pending.pop()
        seen += 1
        if not isinstance(schema, dict):
            continue
        for keyword, value in schema.items():
            if keyword not in CONSTRAINTS and keyword not in DEFINITIONS:
                sorted_value = (
                    sorted(value, key=json_key) if keyword == "examples" and isinstance(value, list) else value
                )
                found.setdefault(keyword, {}).setdefault(json_key(sorted_value), value)
            elif keyword in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
                pending += value[:_MAX_BRANCHES]
        if "$ref" in schema:
            try:
                pending.append(document.target(schema))
            except Undecidable:
                continue
    return found


def has_annotation(document: Document, schema: Any, keyword: str) -> bool:
    """Whether a schema has an annotation, or one that applies to the same value has it."""
    return keyword in _annotations(document, schema)


def without_annotations(schema: Any) -> Any:
    """Returns a schema without its annotations, and with its definitions.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _with_keywords(schema, lambda keyword: keyword in CONSTRAINTS or keyword in DEFINITIONS)


def without_titles(schema: Any) -> Any:
    """Returns a schema without its titles and those of its parts; errors as of `without_annotations`."""
    return _with_keywords(schema, lambda keyword: keyword != "title")


def _with_keywords(schema: Any, is_kept: Callable[[str], bool]) -> Any:
    """Returns a schema with those of its keywords that contain schemas, or that are to be kept."""
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            kept[keyword] = {name: _with_keywords(member, is_kept) for name, member in value.items()}
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            kept[keyword] = [_with_keywords(branch, is_kept) for branch in value]
        elif keyword in _SINGLE_SCHEMAS:
            kept[keyword] = _with_keywords(value, is_kept)
        elif is_kept(keyword):
            kept[keyword] = value
    return kept
