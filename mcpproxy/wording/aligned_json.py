"""Two JSON values as lines next to each other, for people who look for the difference.

Members of objects are aligned by name, so their order does not matter. Elements of arrays are aligned by position; if
all are scalars, as in `required` and `enum`, by value. Nothing recurses, so values may be nested to any depth. The
texts are sanitised.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final, Literal, NamedTuple

from analysis.comparison.change import ABSENT
from analysis.conversation.message import Number, number_text
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.exact_json import quoted

MAX_TEXT_CHARS: Final = 4000
"""The most characters of a string; of a longer one, the part that differs is shown."""
MAX_EXAMINED_LINES: Final = 20_000
"""The most lines that are examined for a difference."""
CONTEXT_LINES: Final = 3
"""How many equal lines are shown before and after those that differ."""
_CONTEXT_CHARS: Final = 100
"""How many equal characters are shown before the first that differs, if a string is cut."""
_TAB_WIDTH: Final = 4


class AlignedLine(NamedTuple):
    """A line on both sides."""

    depth: int
    """How deeply its value is nested."""
    old: str | None
    """The text on the old side; None if the old side has no such line."""
    new: str | None
    """The text on the new side."""
    is_equal: bool
    """Whether both sides have the same value here; for a bracket, whether both have one."""
    omitted: int = 0
    """How many equal lines this one replaces; it then has no text."""


class _Item(NamedTuple):
    """A value on both sides that is still to be written."""

    depth: int
    label: str
    old: Any
    new: Any
    old_comma: str = ""
    """A comma if another value of the same container follows on the old side; else empty."""
    new_comma: str = ""


def aligned_lines(before: Any, after: Any, max_lines: int) -> tuple[list[AlignedLine], bool]:
    """Align the lines of two values, with long runs of equal lines replaced by their number.

    Args:
        before: a JSON value, or ABSENT.
        after: the value to compare it with, or ABSENT.
        max_lines: the most lines to return.

    Returns:
        The lines, and whether these are all.
    """
    is_text = "\n" in f"{before if isinstance(before, str) else ''}{after if isinstance(after, str) else ''}"
    lines = _text_lines(before, after) if is_text else _value_lines(before, after)
    collapsed_lines = collapsed(islice(lines, MAX_EXAMINED_LINES), CONTEXT_LINES)
    kept_lines = list(islice(collapsed_lines, max_lines))
    is_whole = next(collapsed_lines, None) is None and next(lines, None) is None
    return kept_lines, is_whole


def _value_lines(before: Any, after: Any) -> Iterator[AlignedLine]:
    levels: list[Iterator[_Item]] = [iter([_Item(0, "", before, after)])]
    while levels:
        item = next(levels[-1], None)
        if item is None:
            levels.pop()
            continue
        kinds = {_kind(item.old), _kind(item.new)} - {"absent"}
        if len(kinds) > 1:
            levels.append(iter([item._replace(new=ABSENT), item._replace(old=ABSENT)]))
        elif kinds & {"scalar", "bracket"}:
            old_text, new_text = _texts(item.old, item.new)
            yield AlignedLine(
                item.depth,
                None if old_text is None else item.label + old_text + item.old_comma,
                None if new_text is None else item.label + new_text + item.new_comma,
                _are_same(item.old, item.new),
            )
        elif kinds:
            opening, closing = (_OPENING_BRACE, _CLOSING_BRACE) if "object" in kinds else (_OPENING, _CLOSING)
            levels.append(
                chain(
                    [_Item(item.depth, item.label, _bracket(opening, item.old), _bracket(opening, item.new))],
                    _separated(_object_items(item) if "object" in kinds else _array_items(item), item),
                    [item._replace(label="", old=_bracket(closing, item.old), new=_bracket(closing, item.new))],
                )
            )


class _Bracket(str):
    """A bracket, which is written as it is."""

    __slots__ = ()


_OPENING_BRACE, _CLOSING_BRACE, _OPENING, _CLOSING = map(_Bracket, "{}[]")


def _bracket(bracket: _Bracket, side: Any) -> Any:
    return ABSENT if side is ABSENT else bracket


def _kind(value: Any) -> Literal["absent", "bracket", "object", "array", "scalar"]:
    if value is ABSENT:
        return "absent"
    if isinstance(value, _Bracket):
        return "bracket"
    if isinstance(value, dict) and value:
        return "object"
    return "array" if isinstance(value, list | tuple) and value else "scalar"


def _separated(items: Iterator[_Item], container: _Item) -> Iterator[_Item]:
    """Yield the items of a container, with commas between those of each side."""
    old_left, new_left = (0 if side is ABSENT else len(side) for side in (container.old, container.new))
    for item in items:
        old_left -= item.old is not ABSENT
        new_left -= item.new is not ABSENT
        yield item._replace(old_comma="," if old_left else "", new_comma="," if new_left else "")


def _object_items(item: _Item) -> Iterator[_Item]:
    old: dict[str, Any] = {} if item.old is ABSENT else item.old
    new: dict[str, Any] = {} if item.new is ABSENT else item.new
    for name in chain(old, (name for name in new if name not in old)):
        label = f"{quoted(str(name)[:MAX_TEXT_CHARS])}: "
        yield _Item(item.depth + 1, label, old.get(name, ABSENT), new.get(name, ABSENT))


def _array_items(item: _Item) -> Iterator[_Item]:
    old: Sequence[Any] = () if item.old is ABSENT else item.old
    new: Sequence[Any] = () if item.new is ABSENT else item.new
    pairs: Iterator[tuple[Any, Any]] = zip_longest(old, new, fillvalue=ABSENT)
    if old and new and all(_kind(value) == "scalar" for value in chain(old, new)):
        new_counts, old_counts = Counter(map(_scalar_key, new)), Counter(map(_scalar_key, old))
        if new_counts != old_counts:
            pairs = _pairs_by_value(old, new, new_counts)
    for old_value, new_value in pairs:
        yield _Item(item.depth + 1, "", old_value, new_value)


def _pairs_by_value(old: Sequence[Any], new: Sequence[Any], unpaired: Counter[object]) -> Iterator[tuple[Any, Any]]:
    """Yield each old scalar with an equal new one, if there is any, and then the new ones that are left."""
    paired: Counter[object] = Counter()
    for value in old:
        key = _scalar_key(value)
        is_paired = unpaired[key] > paired[key]
        paired[key] += is_paired
        yield value, value if is_paired else ABSENT
    for value in new:
        key = _scalar_key(value)
        if paired[key]:
            paired[key] -= 1
        else:
            yield ABSENT, value


def _scalar_key(value: Any) -> object:
    """Returns what equal scalars share: in JSON, 1 and 1.0 are equal, but 1 and true are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _scalar_text(value)
    return "number", number_text(_scalar_text(value))


def _are_same(old: Any, new: Any) -> bool:
    if isinstance(old, str) and isinstance(new, str):
        return old == new
    return ABSENT not in (old, new) and _scalar_key(old) == _scalar_key(new)


def _texts(old: Any, new: Any) -> tuple[str | None, str | None]:
    """Returns the texts of two scalars; of strings that are too long, the parts around the first difference."""
    start = 0
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > MAX_TEXT_CHARS:
        start = max(0, first_difference(old, new) - _CONTEXT_CHARS)
    old_text, new_text = (None if side is ABSENT else _scalar_text(side, start) for side in (old, new))
    return old_text, new_text


def _scalar_text(value: Any, start: int = 0) -> str:
    if isinstance(value, _Bracket):
        return str(value)
    if isinstance(value, str):
        text = quoted(value[start : start + MAX_TEXT_CHARS])
        return f"{'…' if start else ''}{text}{'…' if len(value) > start + MAX_TEXT_CHARS else ''}"
    if isinstance(value, Number):
        return value.token[:MAX_TEXT_CHARS]
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    try:
        return json.dumps(value)
    except (TypeError, ValueError):  # Python writes no numbers of more than 4300 digits
        return "…"


def first_difference(old: str, new: str) -> int:
    """Returns how many characters two texts share at their beginning."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _text_lines(before: Any, after: Any) -> Iterator[AlignedLine]:
    """Yield the lines of two texts: those at the beginning and the end that are equal, and the others by position."""
    old, new = ([] if side is ABSENT else _split(side) for side in (before, after))
    shorter = min(len(old), len(new))
    head = next((number for number in range(shorter) if old[number] != new[number]), shorter)
    tail = next((number for number in range(shorter - head) if old[-1 - number] != new[-1 - number]), shorter - head)
    pairs: Iterator[tuple[str | None, str | None]] = chain(
        zip(old[:head], new[:head], strict=True),
        zip_longest(old[head : len(old) - tail], new[head : len(new) - tail]),
        zip(old[len(old) - tail :], new[len(new) - tail :], strict=True),
    )
    for old_line, new_line in pairs:
        yield AlignedLine(0, old_line, new_line, old_line == new_line)


def _split(value: Any) -> list[str]:
    if not isinstance(value, str):
        return [_scalar_text(value)]
    lines = value.split("\n", MAX_EXAMINED_LINES)[:MAX_EXAMINED_LINES]
    return [sanitise(line.removesuffix("\r").expandtabs(_TAB_WIDTH), MAX_TEXT_CHARS) for line in lines]


def collapsed(lines: Iterable[AlignedLine], context: int) -> Iterator[AlignedLine]:
    """Yield lines; of long runs of equal ones, only those next to a difference, and those that lead to it.

    Args:
        lines: the lines; of a long run, some may be left out already, but none that are to be shown.
        context: how many equal lines are shown before and after those that differ.
    """
    run: list[AlignedLine] = []
    is_first = True
    for line in lines:
        if line.is_equal:
            run.append(line)
            continue
        yield from _shortened(run, context if not is_first else 0, context)
        yield line
        run, is_first = [], False
    yield from _shortened(run, context, 0)


def _shortened(run: list[AlignedLine], first: int, last: int) -> Iterator[AlignedLine]:
    """Yield the first and the last lines of a run, and those between that open what the last ones are in."""
    if len(run) <= first + last + 1:
        yield from run
        return
    end = len(run) - last
    openings: list[AlignedLine] = []
    depth = min((line.depth for line in run[end:]), default=0)
    for line in reversed(run[first:end]):
        if line.depth < depth and not line.omitted:
            openings.append(line)
            depth = line.depth
    omitted_count = sum(line.omitted or 1 for line in run[first:end]) - len(openings)
    if omitted_count <= 1:  # its number would take a line, too
        yield from run
        return
    yield from run[:first]
    yield AlignedLine(0, None, None, is_equal=True, omitted=omitted_count)
    yield from reversed(openings)
    yield from run[end:]
