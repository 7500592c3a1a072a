"""Folds the text blocks of a tool result that only repeat its structured content, as the protocol recommends.

Each change of the structured content would otherwise be reported twice, and ignored twice by the user.
"""

from typing import Any, Final

from analysis.comparison.canonical import canonical_json
from analysis.comparison.normaliser import JSON_IN_TEXT, is_json_in_text
from analysis.comparison.varying_text import placeholder

STRUCTURED: Final = "structuredContent"
CONTENT: Final = "content"
TEXT: Final = "text"
_SDK_WRAPPER: Final = "result"
"""The only member of the structured content that SDKs make of a result that is not an object."""


def fold(result: Any) -> Any:
    """Returns a normalised result in which a placeholder stands for each text that repeats structured content."""
    if not _has_both(result):
        return result
    mirrored = {key: placeholder(place) for key, (place, _) in _mirrored(result[STRUCTURED]).items()}
    return result | {CONTENT: [_folded(block, mirrored) for block in result[CONTENT]]}


def unfold(result: Any) -> Any:
    """Returns a folded result with its texts."""
    if not _has_both(result):
        return result
    texts = {placeholder(place): value for place, value in _mirrored(result[STRUCTURED]).values()}
    return result | {CONTENT: [_unfolded(block, texts) for block in result[CONTENT]]}


def has_structured_content(result: Any) -> bool:
    """Whether a result has structured content."""
    return isinstance(result, dict) and STRUCTURED in result


def _has_both(result: Any) -> bool:
    return (
        isinstance(result, dict) and isinstance(result.get(STRUCTURED), dict) and isinstance(result.get(CONTENT), list)
    )


def _mirrored(structured: dict[str, Any]) -> dict[bytes, tuple[str, Any]]:
    """Returns the values that a text may repeat, with their places, by their canonical JSON."""
    values: list[tuple[str, Any]] = [(STRUCTURED, structured)]
    if len(structured) == 1 and _SDK_WRAPPER in structured:
        wrapped = structured[_SDK_WRAPPER]
        place = f"{STRUCTURED}/{_SDK_WRAPPER}"
        values.append((place, wrapped))
        if isinstance(wrapped, list):
            values += [(f"{place}/{index}", element) for index, element in enumerate(wrapped)]
    return {canonical_json(value): (place, value) for place, value in reversed(values)}


def _folded(block: Any, mirrored: dict[bytes, str]) -> Any:
    if not isinstance(block, dict) or TEXT not in block:
        return block
    text = block[TEXT]
    if isinstance(text, dict) and is_json_in_text(text):
        mark = mirrored.get(canonical_json(text[JSON_IN_TEXT]))
    elif isinstance(text, str):
        # SDKs write a number or a boolean as JSON, and a string as it is.
        mark = mirrored.get(canonical_json(text)) or mirrored.get(text.encode("utf-8", "surrogatepass"))
    else:
        mark = None
    return block if mark is None else block | {TEXT: mark}


def _unfolded(block: Any, texts: dict[str, Any]) -> Any:
    text = block.get(TEXT) if isinstance(block, dict) else None
    if not isinstance(text, str) or text not in texts:
        return block
    value = texts[text]
    if isinstance(value, dict | list):
        return block | {TEXT: {JSON_IN_TEXT: value}}
    return block | {TEXT: value if isinstance(value, str) else canonical_json(value).decode()}
