"""Merges a change of a Python module into a later version of it, token by token, even if names have changed since."""

import io
import subprocess
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

SIMILAR: Final = 0.6
"""The least share of the tokens that an edit replaces, in both modules, that must be the same."""
_LAYOUT: Final = {tokenize.COMMENT, tokenize.NL}
_BEFORE_DOCSTRINGS: Final = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_DOCSTRING: Final = "a docstring"


class _Token(NamedTuple):
    key: str
    """What it is compared by: all docstrings are the same."""
    text: str
    start: int
    """Where it begins in the module, in characters."""
    end: int
    is_name: bool


class _Edit(NamedTuple):
    """A range of tokens that another range replaces."""

    at: int
    end: int
    first: int
    last: int


def merged_text(base: str, changed: str, later: str) -> str:
    """Returns `later` with what differs between `base` and `changed`, as far as it finds its place.

    An edit finds its place if the tokens on each side of it are still there, and most of those that it replaces. Names
    that `later` has in place of others are replaced in `base` and `changed` before they are compared.

    Raises:
        SyntaxError: one of them is no Python module.
        tokenize.TokenError: as above.
    """
    ours, before, after = _tokens(later), _tokens(base), _tokens(changed)
    new_names = _new_names(before, ours)
    before, after = _renamed(before, new_names), _renamed(after, new_names)
    place = _places(before, _edits(before, ours), len(ours))
    pieces: list[str] = []
    position = 0
    for at, end, first, last in _edits(before, after):
        if at == 0 or end >= len(before):
            continue
        start, stop = place[at - 1], place[end]
        kept = sum(each is not None for each in place[at:end])
        if start is None or stop is None or kept < SIMILAR * max(end - at, stop - start - 1):
            continue
        removed, added = ours[start + 1 : stop], after[first:last]
        begins = ours[start + 1].start
        if all(tokens[-1].text == "\n" for tokens in (removed, added) if tokens) and _begins_line(later, begins):
            begins = _line_start(later, begins)
            ends = removed[-1].end if removed else begins
            inserted = _text_of(changed, added, _line_start(changed, added[0].start)) if added else ""
        elif added:
            ends = removed[-1].end if removed else begins
            gap = "" if removed else changed[added[-1].end : after[last].start]
            inserted = _text_of(changed, added, added[0].start) + gap
        else:
            ends, inserted = ours[stop].start, ""
        so_far = "".join([*pieces, later[position:begins]])
        merged = so_far + _gap(so_far, inserted) + inserted
        pieces = [merged, _gap(merged, later[ends:])]
        position = ends
    return "".join(pieces) + later[position:]


def _tokens(text: str) -> list[_Token]:
    """Returns the tokens of a module, without comments and empty lines."""
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    taken = [each for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type not in _LAYOUT]
    tokens = []
    for index, token in enumerate(taken):
        (first_line, first_column), (last_line, last_column) = token.start, token.end
        is_docstring = token.type == tokenize.STRING and taken[index - 1].type in _BEFORE_DOCSTRINGS
        key = _DOCSTRING if is_docstring else token.string
        start, end = starts[first_line - 1] + first_column, starts[last_line - 1] + last_column
        tokens.append(_Token(key, token.string, start, end, token.type == tokenize.NAME))
    return tokens


def _edits(before: Sequence[_Token], after: Sequence[_Token]) -> list[_Edit]:
    """Returns the differences of two sequences of tokens, in order."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("before", "after")]
        for path, tokens in zip(paths, (before, after), strict=True):
            path.write_text("".join(f"{token.key!r}\n" for token in tokens), "utf-8")
        command = ["git", "diff", "--no-index", "--no-color", "--histogram", "-U0", *map(str, paths)]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    edits = []
    for line in lines:
        if line.startswith("@@ "):
            at, end = _range(line.split()[1])
            edits.append(_Edit(at, end, *_range(line.split()[2])))
    return edits


def _range(words: str) -> tuple[int, int]:
    """Returns the first token and the one after the last, of a range such as `-3,2` or `+7`."""
    line, _, count = words[1:].partition(",")
    size = int(count or 1)
    start = int(line) - (1 if size else 0)
    return start, start + size


def _new_names(before: Sequence[_Token], later: Sequence[_Token]) -> dict[str, str]:
    """Returns the names that are gone, with the name that most often stands in the place of each."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for at, end, first, last in _edits(before, later):
        if end - at == last - first:
            for old, new in zip(before[at:end], later[first:last], strict=True):
                if old.is_name and new.is_name:
                    votes[old.text][new.text] += 1
    present = {token.text for token in later}
    return {old: counter.most_common(1)[0][0] for old, counter in votes.items() if old not in present}


def _renamed(tokens: Sequence[_Token], new_names: dict[str, str]) -> list[_Token]:
    return [
        token._replace(key=new_names[token.text], text=new_names[token.text])
        if token.is_name and token.text in new_names
        else token
        for token in tokens
    ]


def _places(before: Sequence[_Token], edits: Sequence[_Edit], length: int) -> list[int | None]:
    """Returns for each token where it is in the later module, or None, and after them the end."""
    place: list[int | None] = []
    for at, end, first, _last in edits:
        offset = first - at
        place += [index + offset for index in range(len(place), at)]
        place += [None] * (end - at)
    offset = length - len(before)
    return place + [index + offset for index in range(len(place), len(before) + 1)]


def _gap(text: str, other: str) -> str:
    """Returns a space if two texts would otherwise become one word."""
    return " " if text and other and f"x{text[-1]}{other[0]}".isidentifier() else ""


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _begins_line(text: str, position: int) -> bool:
    return not text[_line_start(text, position) : position].strip()


def _text_of(text: str, tokens: Sequence[_Token], position: int) -> str:
    """Returns the source of a range of tokens from a position on, with today's names."""
    pieces = []
    for token in tokens:
        pieces += [text[position : token.start], token.text]
        position = token.end
    return "".join(pieces)
