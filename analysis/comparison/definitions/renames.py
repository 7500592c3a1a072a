"""Recognises renamed definitions: the same schemas and nearly the same description under another name.

The titles of schemas do not count: the official Python SDK derives them from the name of the tool. A pair is a rename
only if it is unique: of several definitions that fit equally well, none is.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from analysis.comparison.canonical import canonical_json
from analysis.comparison.definitions.definition_changes import SCHEMA_MEMBERS
from analysis.comparison.definitions.definition_lists import ListName
from analysis.comparison.schemas.schema_annotations import without_titles

MIN_LIKENESS: Final = 0.7
"""How much of the words of two descriptions must be the same, from 0 to 1."""
MIN_LIKENESS_ALONE: Final = 0.85
"""The same for definitions without arguments, which look alike but for their descriptions."""
MAX_WORDS: Final = 200
"""The most words of a description that are compared."""
MAX_COMPARED_PAIRS: Final = 10_000
"""The most pairs whose descriptions are compared; further pairs are renames only if the descriptions are the same."""

_find_words: Final = re.compile(r"\w+").findall


class Renaming(NamedTuple):
    """A definition that has another name on the new side."""

    old: int
    """Its position among the definitions that the old side alone has."""
    new: int
    """Its position among those that the new side alone has."""


class _Signature(NamedTuple):
    shape: bytes
    """What must be the same in both definitions."""
    description: str
    is_distinct: bool
    """Whether the shape says something by itself."""


def renamings(list_name: ListName, removed: Sequence[Any], added: Sequence[Any]) -> list[Renaming]:
    """Returns which of the definitions that went and came are the same ones, renamed.

    Args:
        list_name: the list that they are in.
        removed: the definitions, as JSON values, whose names only the old side has.
        added: those whose names only the new side has.
    """
    if not removed or not added:
        return []
    old_groups, new_groups = _groups(list_name, removed), _groups(list_name, added)
    found: list[Renaming] = []
    compared = 0
    for shape, old_signatures in old_groups.items():
        new_signatures = new_groups.get(shape, {})
        pairs = _equal_descriptions(old_signatures, new_signatures)
        found += pairs
        paired_old, paired_new = {pair.old for pair in pairs}, {pair.new for pair in pairs}
        old_left = {index: each for index, each in old_signatures.items() if index not in paired_old}
        new_left = {index: each for index, each in new_signatures.items() if index not in paired_new}
        pair_count = len(old_left) * len(new_left)
        if pair_count and compared + pair_count <= MAX_COMPARED_PAIRS:
            compared += pair_count
            found += _alike_descriptions(old_left, new_left)
    return sorted(found)


def untitled(schema: Any) -> Any:
    """Returns a schema without titles, or as it is if it is nested too deeply."""
    try:
        return without_titles(schema)
    except RecursionError:
        return schema


def with_following_titles(old: Any, new: Any) -> Any:
    """Returns a renamed tool's old definition; titles of schemas that only follow its name are those of the new one.

    The title `searchArguments` of the tool `search` follows its name if that of `find` is `findArguments`.

    Args:
        old: the definition on the old side, a JSON value.
        new: the definition on the new side.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old
    followed = dict(old)
    for member in SCHEMA_MEMBERS:
        before, after = old.get(member), new.get(member)
        if not isinstance(before, dict) or not isinstance(after, dict):
            continue
        if _follows(before.get("title"), old.get("name"), after.get("title"), new.get("name")):
            followed[member] = {**before, "title": after["title"]}
    return followed


def _follows(old_title: Any, old_name: Any, new_title: Any, new_name: Any) -> bool:
    """Whether both titles are the name with the same ending."""
    if not all(isinstance(text, str) and text for text in (old_title, old_name, new_title, new_name)):
        return False
    is_derived = old_title.startswith(old_name) and new_title.startswith(new_name)
    return bool(is_derived and old_title.removeprefix(old_name) == new_title.removeprefix(new_name))


def _groups(list_name: ListName, definitions: Sequence[Any]) -> dict[bytes, dict[int, _Signature]]:
    groups: defaultdict[bytes, dict[int, _Signature]] = defaultdict(dict)
    for index, definition in enumerate(definitions):
        signature = _signature(list_name, definition)
        if signature is not None:
            groups[signature.shape][index] = signature
    return groups


def _signature(list_name: ListName, definition: Any) -> _Signature | None:
    """Returns what identifies a definition apart from its name, or None if there is nothing."""
    if not isinstance(definition, dict):
        return None
    description = definition.get("description")
    text = description if isinstance(description, str) else ""
    if list_name == "tools":
        schema = definition.get("inputSchema")
        shape = [untitled(schema), untitled(definition.get("outputSchema"))]
        return _Signature(canonical_json(shape), text, isinstance(schema, dict) and bool(schema.get("properties")))
    if list_name == "prompts":
        arguments = definition.get("arguments")
        return _Signature(canonical_json(arguments), text, is_distinct=bool(arguments))
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        return None
    return _Signature(canonical_json([name, definition.get("mimeType")]), text, is_distinct=True)


def _equal_descriptions(old: dict[int, _Signature], new: dict[int, _Signature]) -> list[Renaming]:
    """Returns the pairs whose descriptions are the same, and are those of no other definition."""
    old_by_text, new_by_text = _by_description(old), _by_description(new)
    return [
        Renaming(indices[0], new_by_text[text][0])
        for text, indices in old_by_text.items()
        if len(indices) == 1 and len(new_by_text.get(text, ())) == 1
    ]


def _by_description(signatures: dict[int, _Signature]) -> dict[str, list[int]]:
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for index, signature in signatures.items():
        if signature.description or signature.is_distinct:
            by_text[signature.description].append(index)
    return by_text


def _alike_descriptions(old: dict[int, _Signature], new: dict[int, _Signature]) -> list[Renaming]:
    """Returns the pairs whose descriptions are nearly the same: each is the only best match of the other."""
    old_words, new_words = _words_of(old), _words_of(new)
    likeness = {
        Renaming(old_index, new_index): _likeness(words, other_words)
        for old_index, words in old_words.items()
        for new_index, other_words in new_words.items()
    }
    is_distinct = next(iter(old.values())).is_distinct
    least = MIN_LIKENESS if is_distinct else MIN_LIKENESS_ALONE
    best_of_old = _best({(pair.old, pair.new): value for pair, value in likeness.items()})
    best_of_new = _best({(pair.new, pair.old): value for pair, value in likeness.items()})
    return [
        pair
        for pair, value in likeness.items()
        if value >= least and best_of_old.get(pair.old) == pair.new and best_of_new.get(pair.new) == pair.old
    ]


def _best(likeness: dict[tuple[int, int], float]) -> dict[int, int]:
    """Returns the best match of each definition, unless another one is as good."""
    highest: dict[int, tuple[float, int | None]] = {}
    for (index, other), value in likeness.items():
        known, _ = highest.get(index, (-1.0, None))
        if value > known:
            highest[index] = value, other
        elif value == known:
            highest[index] = value, None
    return {index: other for index, (_, other) in highest.items() if other is not None}


def _words_of(signatures: dict[int, _Signature]) -> dict[int, Counter[str]]:
    """Returns the words of each description, without definitions that nothing identifies."""
    return {
        index: _words(signature)
        for index, signature in signatures.items()
        if signature.description or signature.is_distinct
    }


def _words(signature: _Signature) -> Counter[str]:
    return Counter(_find_words(signature.description[: 20 * MAX_WORDS].casefold())[:MAX_WORDS])


def _likeness(words: Counter[str], other: Counter[str]) -> float:
    """Returns the share of words that two texts have in common, from 0 to 1."""
    total = words.total() + other.total()
    return 2 * (words & other).total() / total if total else 1.0
