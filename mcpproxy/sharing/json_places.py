"""Finds the positions of names and values in a JSON text, to replace some of them and leave all other bytes unchanged.

Reads one value, or several in sequence, as some broken servers write them. It accepts everything that the judges of
frames accept: duplicate names, lone surrogates, NaN. It does not recurse, and its patterns cannot backtrack, so the
time is linear in the text.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from analysis.protocol.json_pointer import encode_step

_TOKEN: Final = re.compile(
    r"[ \t\n\r]*+(?:"
    r'(?P<string>"(?:[^"\\]++|\\.)*+")'
    r"|(?P<punctuation>[\[\]{}:,])"
    r"|(?P<other>-?[0-9][0-9.eE+-]*+|true|false|null|NaN|-?Infinity)"
    r"|(?P<end>\Z))",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u.{4}|.)", re.DOTALL)

Path: TypeAlias = "tuple[Path, str | int] | None"
"""The path to a value: the path to the object or array around it, and its name or index. None is the whole text."""


class JsonToken(NamedTuple):
    """A string, a number, or a member's name."""

    start: int
    """The offset of the token."""
    end: int
    text: str
    """The decoded string; for a number, the token itself."""
    path: Path
    """The path to the value; for a name, the path to the value that it names."""
    is_name: bool
    is_string: bool
    name: str
    """The name of the member that contains it, directly or in a list; empty if there is none."""


class Edit(NamedTuple):
    """A part of a text, and its replacement."""

    start: int
    end: int
    text: str


class NotJson(ValueError):
    """The text is not a sequence of JSON values."""


def pointer_of(path: Path) -> str:
    """Returns the JSON Pointer (RFC 6901) of a value."""
    steps: list[str] = []
    while path is not None:
        path, name_or_index = path
        steps.append(encode_step(str(name_or_index)))
    return "".join(f"/{name}" for name in reversed(steps))


def steps_of(path: Path) -> list[str]:
    """Returns the steps of the path to a value."""
    steps: list[str] = []
    while path is not None:
        path, name_or_index = path
        steps.append(str(name_or_index))
    return steps[::-1]


def tokens(text: str, base: Path = None) -> Iterator[JsonToken]:
    """Yields the strings, numbers and names in a JSON text, in order.

    Args:
        text: the JSON text.
        base: the path to the text, if it is a string in another JSON text.

    Raises:
        NotJson: the text is not JSON; the tokens before the error have been yielded.
    """
    reader = _StructureTracker(base)
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotJson(position)
        position = match.end()
        kind = match.lastgroup
        if kind == "end":
            if reader.expected != "value" or reader.stack or not reader.has_value:
                raise NotJson(position)
            return
        if kind == "punctuation":
            reader.add_punctuation(match["punctuation"])
        elif kind == "string":
            token = match["string"]
            decoded_text = decode_string(token)
            is_name = reader.expected in ("name", "first")
            if is_name:
                reader.begin_member(decoded_text)
            yield JsonToken(position - len(token), position, decoded_text, reader.path, is_name, True, reader.name)
            if not is_name:
                reader.end_value()
        else:
            token = match["other"]
            if token[-1].isdigit():
                yield JsonToken(position - len(token), position, token, reader.path, False, False, reader.name)
            reader.end_value()


class _StructureTracker:
    """Tracks the position of the next token in the structure of a JSON text."""

    def __init__(self, base: Path) -> None:
        self.stack: list[tuple[Path, bool, str]] = []
        """The open arrays and objects: the path to each, whether it is an object, and the name of its member."""
        self.path = base
        """The path to the next value."""
        self.name = ""
        self.expected = "value"
        """What may come next: `value`, `item` (a value or `]`), `name`, `first` (a name or `}`), `colon` or `next`."""
        self.has_value = False
        self._base = base

    def add_punctuation(self, character: str) -> None:
        """Process a bracket, a comma or a colon.

        Raises:
            NotJson: the character is not allowed here.
        """
        expected, stack = self.expected, self.stack
        if character in "[{" and expected in ("value", "item"):
            stack.append((self.path, character == "{", self.name))
            if character == "{":
                self.expected = "first"
            else:
                self.path, self.expected = (self.path, 0), "item"
        elif character == ":" and expected == "colon":
            self.expected = "value"
        elif character == "," and expected == "next":
            self._add_comma()
        elif stack and character == ("}" if stack[-1][1] else "]") and expected in ("first", "item", "next"):
            self.path, _, self.name = stack.pop()
            self._finish_value()
        else:
            raise NotJson(character)

    def _add_comma(self) -> None:
        parent, is_object, self.name = self.stack[-1]
        if is_object or self.path is None:
            self.expected = "name"
        else:
            self.path, self.expected = (parent, int(self.path[1]) + 1), "value"

    def begin_member(self, name: str) -> None:
        """Process the name of a member."""
        self.name = name
        self.path, self.expected = (self.stack[-1][0], name), "colon"

    def end_value(self) -> None:
        """Process a string, a number or a constant.

        Raises:
            NotJson: no value is allowed here.
        """
        if self.expected not in ("value", "item"):
            raise NotJson(self.expected)
        self._finish_value()

    def _finish_value(self) -> None:
        if self.stack:
            self.expected = "next"
        else:
            self.path, self.name, self.expected, self.has_value = self._base, "", "value", True


def decode_string(token: str) -> str:
    """Returns the text of a JSON string.

    Raises:
        NotJson: the string has an invalid escape, or a control character.
    """
    if "\\" not in token and token.isprintable():
        return token[1:-1]
    try:
        text: str = json.loads(token)
    except ValueError:
        raise NotJson(token[:20]) from None
    return text


def edits_in_json(token: str, edits: Iterable[Edit], token_start: int) -> list[Edit]:
    """Convert edits of a string's text to edits of the JSON text that contains the string.

    Args:
        token: the string in JSON, with its quotes and escapes.
        edits: the edits of the decoded text, in order.
        token_start: the offset of the token in the JSON text.
    """
    if "\\" not in token:
        return [Edit(token_start + 1 + start, token_start + 1 + end, _escaped_text(text)) for start, end, text in edits]
    escapes = [(match.start() - 1, match.end() - match.start()) for match in _ESCAPE.finditer(token, 1, len(token) - 1)]
    token_edits: list[Edit] = []
    index = shift = 0  # the next escape, and how many characters the escapes before it add

    def position_in_json(offset: int) -> int:
        nonlocal index, shift
        while index < len(escapes) and escapes[index][0] < offset + shift:
            shift += escapes[index][1] - 1
            index += 1
        return token_start + 1 + offset + shift

    for start, end, text in edits:
        token_edits.append(Edit(position_in_json(start), position_in_json(end), _escaped_text(text)))
    return token_edits


def _escaped_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits, which must be in order and must not overlap, to a text."""
    pieces: list[str] = []
    position = 0
    for start, end, replacement in edits:
        pieces += text[position:start], replacement
        position = end
    return "".join([*pieces, text[position:]])
