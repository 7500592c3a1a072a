"""JSON, with or without comments and trailing commas, as text with the position of every value.

The grammar is that of VS Code's settings: RFC 8259 with `//` and `/* */` comments, and with a comma before a closing
bracket. A strict file takes neither. No library edits such a file in place: those that read comments lay it out anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import AddMember, ConfigError, Item, Moved, Path
from mcpproxy.clients.documents.splice import Span, Splices, blank_before

MAX_DEPTH: Final = 200
"""Deeper files are refused: no client's file comes near it, and the reader calls itself for each level."""

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR: Final = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+-])")


@dataclass(slots=True)
class Node:
    """One value of the text."""

    start: int
    end: int = -1
    members: dict[str, Node] | None = None
    """Of an object: its values; of a name that occurs twice, the last, which is what readers take."""
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of an object: where each name is."""
    items: list[Node] | None = None
    """Of an array."""


class JsonText(EditableText):
    """A JSON file."""

    COMMENTS = ("//", "/*")

    def __init__(self, text: str, *, strict: bool) -> None:
        """Read a file.

        Args:
            text: of the file, without a byte-order mark.
            strict: whether the client refuses comments and trailing commas.

        Raises:
            ConfigError: it is not JSON; the text says at which line.
        """
        self.text = text
        self._strict = strict
        self._nodes: Node | None = None
        try:
            # Most files hold neither comments nor edits to make, and some hold megabytes of a client's history.
            self.data = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.data = self._slowly_read()

    @property
    def _top(self) -> Node:
        """The positions of all values, read when they are first needed."""
        if self._nodes is None:
            self._nodes = _Reader(self.text, self._strict).document()
        return self._nodes

    def _slowly_read(self) -> Any:
        top = self._top
        try:
            return self._value(top)
        except ValueError:
            # Python reads no integer of more than 4300 digits.
            raise ConfigError("a number has too many digits") from None

    def _add(self, edit: AddMember, splices: Splices) -> None:
        start, end = self._value_span(edit.after)
        key = self._key_span(edit.after)
        blank = blank_before(self.text, key[0])
        colon = self.text[key[1] : start]
        separator = blank if "\n" in blank else " "
        colon = colon if colon.strip() == ":" else ": "
        value = self._written(edit.value, edit.after)
        splices.insert(end, f",{separator}{self._spelled_key(edit.key)}{colon}{value}")

    def _remove(self, path: Path, splices: Splices) -> None:
        parent = self._at(path[:-1])
        members = list((parent.members or {}).items())
        place = [name for name, _ in members].index(str(path[-1]))
        node = members[place][1]
        if place:
            splices.replace((members[place - 1][1].end, node.end), "")
        else:
            following = members[1][0] if len(members) > 1 else None
            end = parent.keys[following][0] if following is not None else node.end
            splices.replace((parent.keys[str(path[-1])][0], end), "")

    def _at(self, path: Path) -> Node:
        node = self._top
        for key in path:
            if node.members is not None:
                node = node.members[str(key)]
            elif node.items is not None and isinstance(key, int):
                node = node.items[key]
            else:
                raise TypeError(key)
        return node

    def _value_span(self, path: Path) -> Span:
        node = self._at(path)
        return node.start, node.end

    def _key_span(self, path: Path) -> Span:
        return self._at(path[:-1]).keys[str(path[-1])]

    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        node = self._at(path)
        return (node.start, node.end), [(item.start, item.end) for item in node.items or []]

    def _spelled_key(self, key: str) -> str:
        return json.dumps(key)

    def _spelled(self, item: Item) -> str:
        if isinstance(item, Moved):
            return self.text[slice(*self._value_span(item.path))]
        return json.dumps(item, ensure_ascii=False)

    def _value(self, node: Node) -> Any:
        if node.members is not None:
            return {name: self._value(child) for name, child in node.members.items()}
        if node.items is not None:
            return [self._value(child) for child in node.items]
        return json.loads(self.text[node.start : node.end])


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class _Reader:
    """One pass over a text."""

    def __init__(self, text: str, strict: bool) -> None:
        self._text = text
        self._strict = strict
        self._at = 0

    def document(self) -> Node:
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("there is more text behind the end of the file's value")
        return node

    def _value(self, depth: int) -> Node:
        self._skip()
        if depth > MAX_DEPTH:
            raise self._error(f"values are nested more than {MAX_DEPTH} deep")
        char = self._text[self._at : self._at + 1]
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        start = self._at
        matched = (_STRING if char == '"' else _SCALAR).match(self._text, start)
        if matched is None:
            raise self._error("a value is missing" if char in ("", ",", "}", "]", ":") else "this is not a JSON value")
        self._at = matched.end()
        return Node(start, self._at)

    def _object(self, depth: int) -> Node:
        node = Node(self._at, members={})
        assert node.members is not None
        self._at += 1
        while not self._closes("}", bool(node.members)):
            start = self._at
            matched = _STRING.match(self._text, start)
            if matched is None:
                raise self._error("the name of a member in double quotes is missing")
            name = json.loads(matched[0])
            self._at = matched.end()
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                raise self._error("a colon is missing behind the name of a member")
            self._at += 1
            child = self._value(depth + 1)
            node.members.pop(name, None)
            node.members[name], node.keys[name] = child, (start, matched.end())
        node.end = self._at
        return node

    def _array(self, depth: int) -> Node:
        node = Node(self._at, items=[])
        assert node.items is not None
        self._at += 1
        while not self._closes("]", bool(node.items)):
            node.items.append(self._value(depth + 1))
        node.end = self._at
        return node

    def _closes(self, bracket: str, begun: bool) -> bool:
        """Whether the bracket comes next; otherwise the next member or item does, behind its comma."""
        self._skip()
        char = self._text[self._at : self._at + 1]
        if char == bracket:
            self._at += 1
            return True
        if begun:
            if char != ",":
                raise self._error(f"a comma or {bracket} is missing" if char else f"the closing {bracket} is missing")
            comma = self._at
            self._at += 1
            self._skip()
            if self._text[self._at : self._at + 1] == bracket:
                if self._strict:
                    raise self._error("a comma before a closing bracket, which this client refuses", comma)
                self._at += 1
                return True
        elif not char:
            raise self._error(f"the closing {bracket} is missing")
        return False

    def _skip(self) -> None:
        while True:
            matched = _BLANK.match(self._text, self._at)
            assert matched is not None
            self._at = matched.end()
            mark = self._text[self._at : self._at + 2]
            if mark not in JsonText.COMMENTS:
                return
            if self._strict:
                raise self._error("a comment, which this client refuses")
            end = self._text.find("\n" if mark == "//" else "*/", self._at + 2)
            if end < 0 and mark == "/*":
                raise self._error("a comment is not closed")
            self._at = len(self._text) if end < 0 else end + (0 if mark == "//" else 2)

    def _error(self, reason: str, at: int | None = None) -> ConfigError:
        place = self._at if at is None else at
        line = self._text.count("\n", 0, place) + 1
        column = place - self._text.rfind("\n", 0, place)
        return ConfigError(f"line {line}, column {column}: {reason}")
