"""Folds the content of a tool result that only repeats its structured content, as the protocol recommends.

Each change of the structured content would otherwise be reported twice, and have to be ignored twice.
"""

from typing import Any, Final

from analysis.comparison.canonical import canonical_json
from analysis.comparison.values.normaliser import JSON_IN_TEXT, is_json_in_text
from analysis.comparison.values.varying_text import placeholder

STRUCTURED: Final = "structuredContent"
CONTENT: Final = "content"
TEXT: Final = "text"


def fold(result: Any) -> Any:
    """Returns a normalised result in which a placeholder stands for each text that repeats structured content."""
    if not _has_both(result) or isinstance(result[CONTENT], str):
        return result
    structured, content = result[STRUCTURED], result[CONTENT]
    if len(structured) == 1:
        ((name, wrapped),) = structured.items()
        if isinstance(wrapped, list) and canonical_json(wrapped) == canonical_json(content):
            return result | {CONTENT: placeholder(f"{STRUCTURED}/{name}")}
    marks = {canonical_json(text): placeholder(place) for place, text in reversed(_texts(structured))}
    return result | {CONTENT: [_folded(block, marks) for block in content]}


def unfold(result: Any) -> Any:
    """Returns a folded result with its texts."""
    if not _has_both(result):
        return result
    structured, content = result[STRUCTURED], result[CONTENT]
    if isinstance(content, str):
        wrapped = next(iter(structured.values()), None)
        return result | {CONTENT: wrapped if isinstance(wrapped, list) else []}
    texts = {placeholder(place): text for place, text in _texts(structured)}
    return result | {CONTENT: [_unfolded(block, texts) for block in content]}


def fold_of(result: Any) -> tuple[bool, bool]:
    """Returns whether a result has structured content, and whether a placeholder stands for its content.

    Results for which this differs are compared unfolded.
    """
    if not isinstance(result, dict):
        return False, False
    return STRUCTURED in result, isinstance(result.get(CONTENT), str)


def _has_both(result: Any) -> bool:
    return (
        isinstance(result, dict)
        and isinstance(result.get(STRUCTURED), dict)
        and isinstance(result.get(CONTENT), list | str)
    )


def _texts(structured: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the texts that repeat structured content, each with the place of what it repeats."""
    values: list[tuple[str, Any]] = [(STRUCTURED, structured)]
    if len(structured) == 1:
        # SDKs put a result that is not an object into one member, and each element of a list into a block.
        ((name, wrapped),) = structured.items()
        values.append((f"{STRUCTURED}/{name}", wrapped))
        if isinstance(wrapped, list):
            values += [(f"{STRUCTURED}/{name}/{index}", element) for index, element in enumerate(wrapped)]
    return [(place, _text_of(value)) for place, value in values]


def _text_of(value: Any) -> Any:
    """Returns the normalised text that repeats a normalised value: a string as it is, all else as JSON."""
    if isinstance(value, dict | list):
        return value if isinstance(value, dict) and is_json_in_text(value) else {JSON_IN_TEXT: value}
    return value if isinstance(value, str) else canonical_json(value).decode()


def _folded(block: Any, marks: dict[bytes, str]) -> Any:
    mark = marks.get(canonical_json(block[TEXT])) if isinstance(block, dict) and TEXT in block else None
    return block if mark is None else block | {TEXT: mark}


def _unfolded(block: Any, texts: dict[str, Any]) -> Any:
    text = block.get(TEXT) if isinstance(block, dict) else None
    return block | {TEXT: texts[text]} if isinstance(text, str) and text in texts else block
