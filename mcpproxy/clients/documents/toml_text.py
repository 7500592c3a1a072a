"""Edits TOML text in place.

tomlkit keeps every byte of a file, but does not report the position of a value. So each value is replaced by a mark,
and the mark is searched for in the text that tomlkit writes. If anything else differs, the file is refused. `tomllib`,
which shares no code with tomlkit, reads the data of the file.
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
    MovedValue,
    Path,
    PrependItems,
    ReplaceMember,
    SetValue,
)
from mcpproxy.clients.documents.splice import Span, Splices, insert_line, line_end, line_span, line_start

_MARK: Final = "\x7fmcpproxy\x7f"
_ESCAPED_MARK: Final = re.escape(tomlkit.string(_MARK).as_string().strip('"'))
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

    COMMENT_MARKS = ("#",)

    def __init__(self, text: str) -> None:
        """Parse a file.

        Raises:
            ConfigError: it is not TOML, or it is a form of TOML that cannot be edited exactly.
        """
        try:
            self.data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(_error_text(error)) from None
        try:
            self._document = tomlkit.parse(text)
            is_preserved = self._document.as_string() == text
        except (TOMLKitError, RecursionError):
            is_preserved = False
        if not is_preserved:
            raise ConfigError("this form of TOML cannot be edited without touching other parts of the file")
        self.text = text
        self._spans: dict[Path, Span] = {}

    def edited_text(self, edits: list[Edit]) -> str:
        """Returns the edited text.

        Raises:
            LookupError, TypeError: a path leads nowhere.
            ConfigError: the position of a value cannot be found exactly.
        """
        self._locate_values([path for edit in edits for path in _paths_to_locate(edit)])
        return super().edited_text(edits)

    def _add_member(self, edit: AddMember, splices: Splices) -> None:
        start, end = self._value_span(edit.after)
        value = self._value_text(edit.value, edit.after)
        if isinstance(self._parent(edit.after), InlineTable):
            splices.insert(end, f", {edit.key} = {value}")
            return
        key_span = self._key_span(edit.after)
        line = (
            f"{self.text[line_start(self.text, start) : key_span[0]]}{edit.key}{self.text[key_span[1] : start]}{value}"
        )
        insert_line(splices, line_end(self.text, end), line)

    def _key_span(self, path: Path) -> Span:
        """Returns the span of a member's name; of a dotted name, the span of its last part."""
        text_before = self.text[: self._value_span(path)[0]].rstrip()
        end = len(text_before.removesuffix("=").rstrip())
        start = end - len(str(path[-1]))
        if not text_before.endswith("=") or self.text[start:end] != path[-1]:
            raise ConfigError(f"the name {path[-1]!r} is written in a form that cannot be edited")
        return start, end

    def _remove_member(self, path: Path, splices: Splices) -> None:
        start, end = self._value_span(path)
        if isinstance(self._parent(path), InlineTable):
            comma = self.text.rfind(",", 0, start)
            opening_brace = self.text.rfind("{", 0, start)
            if comma < opening_brace:
                raise ConfigError(f"{path[-1]!r} is the first member of an inline table")
            splices.replace((comma, end), "")
            return
        splices.replace(line_span(self.text, (start, end)), "")

    def _parent(self, path: Path) -> Any:
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
        return span, self._item_spans(span)

    def _locate_values(self, paths: list[Path]) -> None:
        """Find the spans of all values together, because tomlkit takes a while to write a file."""
        originals: dict[Path, Any] = {path: self._parent(path)[path[-1]] for path in paths}
        marks = {path: tomlkit.string(f"{_MARK}{number}{_MARK}") for number, path in enumerate(originals)}
        try:
            for path, mark in marks.items():
                self._parent(path)[path[-1]] = mark
            marked_text = self._document.as_string()
            for path, value in originals.items():
                self._parent(path)[path[-1]] = value
        except (TOMLKitError, ValueError) as error:
            raise ConfigError(f"the place of a value cannot be found: {error}") from None
        path_of_mark = {mark.as_string(): path for path, mark in marks.items()}
        position = 0
        for part in re.split(f'("{_ESCAPED_MARK}[0-9]+{_ESCAPED_MARK}")', marked_text):
            marked_path = path_of_mark.get(part)
            source = part if marked_path is None else originals[marked_path].as_string()
            if not self.text.startswith(source, position):
                raise ConfigError("the place of a value cannot be found exactly")
            if marked_path is not None:
                self._spans[marked_path] = position, position + len(source)
            position += len(source)
        if position != len(self.text) or not self._spans.keys() >= originals.keys():
            raise ConfigError("the place of a value cannot be found exactly")

    def _item_spans(self, span: Span) -> list[Span]:
        """Returns the spans of the items of an array."""
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

    def _word_text(self, item: Item) -> str:
        if not isinstance(item, MovedValue):
            return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(item.path[-1], int):
            return self.text[slice(*self._list_spans(item.path[:-1])[1][item.path[-1]])]
        return self.text[slice(*self._value_span(item.path))]


def _paths_to_locate(edit: Edit) -> Iterator[Path]:
    """Yields the paths of the values whose spans an edit needs; for an item of a list, the path of the list."""
    path = edit.after if isinstance(edit, AddMember) else edit.path
    yield path[:-1] if isinstance(path[-1], int) else path
    values: tuple[Item, ...] = ()
    if isinstance(edit, PrependItems):
        values = edit.items
    elif isinstance(edit, SetValue | ReplaceMember | AddMember):
        values = edit.value if isinstance(edit.value, tuple) else (edit.value,)
    for value in values:
        if isinstance(value, MovedValue):
            yield value.path[:-1] if isinstance(value.path[-1], int) else value.path


def _error_text(error: Exception) -> str:
    """Returns the reason with the position in front, as in the other formats: `line 3, column 7: …`."""
    text, separator, position = str(error).partition(" (at ")
    return f"{position.rstrip(')')}: {text}" if separator else text
