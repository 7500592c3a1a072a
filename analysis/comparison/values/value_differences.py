"""Finds where two normalised results differ, and how."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import ABSENT
from analysis.comparison.kind import Kind
from analysis.comparison.kinds import values as kinds
from analysis.comparison.values.ignored_places import ANY_STEP
from analysis.comparison.values.mirrored_text import CONTENT, STRUCTURED, TEXT, fold_of, unfold
from analysis.comparison.values.normaliser import JSON_IN_TEXT, is_json_in_text, json_type

_UNORDERED: Final = frozenset({"tools", "prompts", "resources", "resourceTemplates", "required", "enum"})
"""Lists of the protocol and of JSON Schema whose order means nothing."""


class Difference(NamedTuple):
    """One place at which two normalised results differ."""

    kind: Kind
    steps: tuple[str, ...]
    """The steps of the pointer, with `*` for every index."""
    before: Any
    after: Any


def message_of(difference: Difference) -> str:
    """Returns a difference as a sentence. It contains no text from the traffic."""
    kind, _, before, after = difference
    if kind is kinds.TYPE_CHANGED:
        return f"the type changed from {json_type(before)} to {json_type(after)}"
    if kind in (kinds.LIST_SHORTER, kinds.LIST_LONGER):
        return f"{kind.title}: {len(after)} instead of {len(before)}"
    return kind.title


def differences(old: Any, new: Any) -> Iterator[Difference]:
    """Yields the differences between two normalised results, as `canonical_json` writes them and a parser reads them.

    They are folded (`mirrored_text.py`).
    """
    if fold_of(old) != fold_of(new):
        old, new = unfold(old), unfold(new)
    yield from _differences(old, new, ())


def _differences(old: Any, new: Any, steps: tuple[str, ...]) -> Iterator[Difference]:
    old_type, new_type = json_type(old), json_type(new)
    if old_type != new_type:
        yield Difference(kinds.TYPE_CHANGED, steps, old, new)
    elif isinstance(old, dict) and isinstance(new, dict):
        if is_json_in_text(old) != is_json_in_text(new):
            yield Difference(kinds.TEXT_CHANGED, steps, old, new)
        elif _is_other_block(old, new, steps):
            yield Difference(kinds.BLOCK_KIND_CHANGED, steps, old, new)
        else:
            yield from _member_differences(old, new, steps)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(old, new, steps)
    elif old != new:
        is_text = old_type == "string" and steps[-1:] == (TEXT,)
        yield Difference(kinds.TEXT_CHANGED if is_text else kinds.VALUE_CHANGED, steps, old, new)


def _is_other_block(old: dict[str, Any], new: dict[str, Any], steps: tuple[str, ...]) -> bool:
    is_block = steps[-2:] == (CONTENT, ANY_STEP) or steps[-1:] == (CONTENT,)
    types = old.get("type"), new.get("type")
    return is_block and isinstance(types[0], str) and isinstance(types[1], str) and types[0] != types[1]


def _member_differences(old: dict[str, Any], new: dict[str, Any], steps: tuple[str, ...]) -> Iterator[Difference]:
    for name in sorted(old.keys() | new.keys()):
        place = (*steps, name)
        if name not in new:
            is_structured = place == (STRUCTURED,)
            kind = kinds.STRUCTURED_CONTENT_LOST if is_structured else kinds.MEMBER_LOST
            yield Difference(kind, place, old[name], ABSENT)
        elif name not in old:
            yield Difference(kinds.MEMBER_ADDED, place, ABSENT, new[name])
        else:
            yield from _differences(old[name], new[name], place)


def _list_differences(old: list[Any], new: list[Any], steps: tuple[str, ...]) -> Iterator[Difference]:
    """Compare the elements that have no equal in the other list, in order."""
    old_keys, new_keys = [canonical_json(element) for element in old], [canonical_json(element) for element in new]
    if old_keys == new_keys:
        return
    old_rest, new_rest = _without_common(old, old_keys, new_keys), _without_common(new, new_keys, old_keys)
    if not old_rest and not new_rest:
        if _has_order(steps):
            yield Difference(kinds.LIST_REORDERED, steps, old, new)
        return
    if len(old) != len(new):
        yield Difference(kinds.LIST_SHORTER if len(new) < len(old) else kinds.LIST_LONGER, steps, old, new)
    for before, after in zip(old_rest, new_rest, strict=False):
        yield from _differences(before, after, (*steps, ANY_STEP))


def _has_order(steps: tuple[str, ...]) -> bool:
    """Whether the order of a list means something: always in what a tool itself defines."""
    return not steps or steps[-1] not in _UNORDERED or STRUCTURED in steps or JSON_IN_TEXT in steps


def _without_common(elements: list[Any], keys: list[bytes], other_keys: list[bytes]) -> list[Any]:
    """Returns the elements that have no equal in the other list."""
    surplus = Counter(keys)
    surplus.subtract(other_keys)
    rest = []
    for element, key in zip(reversed(elements), reversed(keys), strict=True):
        if surplus[key] > 0:
            surplus[key] -= 1
            rest.append(element)
    rest.reverse()
    return rest
