"""TOML as text with the position of the values that an edit concerns.

tomlkit keeps every byte of a file, but does not say where a value is. So a value is replaced by a mark, and the mark is
searched for in the text that tomlkit writes. If anything else differs, the file is refused. The data of a file is read
by `tomllib`, which shares no code with tomlkit.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import (
    AddMember,
    ConfigError,
    Edit,
    Item,
    Moved,
    Path,
    Prepend,
    ReplaceMember,
    SetValue,
)
from mcpproxy.clients.documents.splice import Span, Splices, insert_line, line_end, line_start, whole_lines

_MARK: Final = "\x7fmcpproxy\x7f"
_ESCAPED: Final = re.escape(tomlkit.string(_MARK).as_string().strip('"'))
"""The mark as tomlkit writes it."""

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|'
    r"'''.*?'''|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|"
    r"#[^\n]*|[\[\]{},]|[^\s\[\]{},#\"']+",
    re.DOTALL,
)


class TomlText(EditableText):
    """A TOML file."""

    COMMENTS = ("#",)

    def __init__(self, text: str) -> None:
        """Read a file.

        Raises:
            ConfigError: it is not TOML, or a form of it that cannot be edited exactly.
        """
        try:
            self.data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(_reason(error)) from None
        try:
            self._document = tomlkit.parse(text)
            whole = self._document.as_string() == text
        except (TOMLKitError, RecursionError):
            whole = False
        if not whole:
            raise ConfigError("this form of TOML cannot be edited without touching other parts of the file")
        self.text = text
        self._spans: dict[Path, Span] = {}

    def apply(self, edits: list[Edit]) -> str:
        """The text with the edits made.

        Raises:
            LookupError, TypeError: a path leads nowhere.
            ConfigError: the place of a value cannot be found exactly.
        """
        self._locate([path for edit in edits for path in _places(edit)])
        return super().apply(edits)

    def _add(self, edit: AddMember, splices: Splices) -> None:
        start, end = self._value_span(edit.after)
        value = self._written(edit.value, edit.after)
        if isinstance(self._container(edit.after), InlineTable):
            splices.insert(end, f", {edit.key} = {value}")
            return
        name = self._key_span(edit.after)
        line = f"{self.text[line_start(self.text, start) : name[0]]}{edit.key}{self.text[name[1] : start]}{value}"
        insert_line(splices, line_end(self.text, end), line)

    def _key_span(self, path: Path) -> Span:
        """The span of a member's own name: the last part of a dotted one."""
        front = self.text[: self._value_span(path)[0]].rstrip()
        end = len(front.removesuffix("=").rstrip())
        start = end - len(str(path[-1]))
        if not front.endswith("=") or self.text[start:end] != path[-1]:
            raise ConfigError(f"the name {path[-1]!r} is written in a form that cannot be edited")
        return start, end

    def _remove(self, path: Path, splices: Splices) -> None:
        start, end = self._value_span(path)
        if isinstance(self._container(path), InlineTable):
            comma = self.text.rfind(",", 0, start)
            opening = self.text.rfind("{", 0, start)
            if comma < opening:
                raise ConfigError(f"{path[-1]!r} is the first member of an inline table")
            splices.replace((comma, end), "")
            return
        splices.replace(whole_lines(self.text, (start, end)), "")

    def _container(self, path: Path) -> Any:
        container: Any = self._document
        for key in path[:-1]:
            container = container[key]
        return container

    def _value_span(self, path: Path) -> Span:
        if isinstance(path[-1], int):
            return self._list_spans(path[:-1])[1][path[-1]]
        return self._spans[path]

    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        span = self._value_span(path)
        return span, self._items(span)

    def _locate(self, paths: list[Path]) -> None:
        """Find where values are: all at once, because tomlkit takes a while to write a file."""
        originals: dict[Path, Any] = {path: self._container(path)[path[-1]] for path in paths}
        marks = {path: tomlkit.string(f"{_MARK}{number}{_MARK}") for number, path in enumerate(originals)}
        try:
            for path, mark in marks.items():
                self._container(path)[path[-1]] = mark
            marked = self._document.as_string()
            for path, value in originals.items():
                self._container(path)[path[-1]] = value
        except (TOMLKitError, ValueError) as error:
            raise ConfigError(f"the place of a value cannot be found: {error}") from None
        inverse = {mark.as_string(): path for path, mark in marks.items()}
        at = 0
        for part in re.split(f'("{_ESCAPED}[0-9]+{_ESCAPED}")', marked):
            place = inverse.get(part)
            source = part if place is None else originals[place].as_string()
            if not self.text.startswith(source, at):
                raise ConfigError("the place of a value cannot be found exactly")
            if place is not None:
                self._spans[place] = at, at + len(source)
            at += len(source)
        if at != len(self.text) or not self._spans.keys() >= originals.keys():
            raise ConfigError("the place of a value cannot be found exactly")

    def _items(self, span: Span) -> list[Span]:
        """The spans of the items of an array."""
        items: list[Span] = []
        depth, start, end = 0, -1, -1
        for token in _TOKEN.finditer(self.text, *span):
            word = token[0]
            if word.startswith("#"):
                continue
            if depth == 1 and word in ",]":
                if start >= 0:
                    items.append((start, end))
                start = -1
            elif depth >= 1:
                start, end = (token.start() if start < 0 else start), token.end()
            depth += (word in ("[", "{")) - (word in ("]", "}"))
        return items

    def _spelled(self, item: Item) -> str:
        if not isinstance(item, Moved):
            return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(item.path[-1], int):
            return self.text[slice(*self._list_spans(item.path[:-1])[1][item.path[-1]])]
        return self.text[slice(*self._value_span(item.path))]


def _places(edit: Edit) -> Iterator[Path]:
    """The values whose places an edit needs; for an item of a list, the list."""
    place = edit.after if isinstance(edit, AddMember) else edit.path
    yield place[:-1] if isinstance(place[-1], int) else place
    values: tuple[Item, ...] = ()
    if isinstance(edit, Prepend):
        values = edit.items
    elif isinstance(edit, SetValue | ReplaceMember | AddMember):
        values = edit.value if isinstance(edit.value, tuple) else (edit.value,)
    for value in values:
        if isinstance(value, Moved):
            yield value.path[:-1] if isinstance(value.path[-1], int) else value.path


def _reason(error: Exception) -> str:
    """The reason with its place first, as in the other formats: `line 3, column 7: …`."""
    text, place, where = str(error).partition(" (at ")
    return f"{where.rstrip(')')}: {text}" if place else text
