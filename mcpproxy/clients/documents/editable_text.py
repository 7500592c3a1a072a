"""Applies edits to the text of a file: the part that all formats share.

The subclass for a format finds the positions of values and spells words. All edits refer to the original text and are
applied together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from mcpproxy.clients.documents.edits import (
    AddMember,
    DropFirstItems,
    Edit,
    Item,
    Path,
    PrependItems,
    RemoveMember,
    ReplaceMember,
    SetValue,
    Value,
)
from mcpproxy.clients.documents.splice import Span, Splices, drop_inline, prepend_inline


class EditableText(ABC):
    """The text of a file, with its data; edits change only the bytes that they concern."""

    COMMENT_MARKS: ClassVar[tuple[str, ...]]
    """The characters that begin a comment in this format."""

    text: str
    """The text of the file, without a byte-order mark."""
    data: Any
    """The data of the file, as plain values."""

    def edited_text(self, edits: list[Edit]) -> str:
        """Returns the edited text.

        Raises:
            LookupError, TypeError: a path leads nowhere.
            ConfigError: a value is written in a form that cannot be edited in place.
        """
        splices = Splices(self.text)
        for edit in edits:
            self._apply_edit(edit, splices)
        return splices.result()

    def _apply_edit(self, edit: Edit, splices: Splices) -> None:
        match edit:
            case SetValue():
                splices.replace(self._value_span(edit.path), self._value_text(edit.value, edit.path))
            case ReplaceMember():
                splices.replace(self._key_span(edit.path), self._key_text(edit.key))
                splices.replace(self._value_span(edit.path), self._value_text(edit.value, edit.path))
            case PrependItems():
                self._prepend_items(edit, splices)
            case DropFirstItems():
                self._drop_items(edit, splices)
            case AddMember():
                self._add_member(edit, splices)
            case RemoveMember():
                self._remove_member(edit.path, splices)

    def _prepend_items(self, edit: PrependItems, splices: Splices) -> None:
        span, items = self._list_spans(edit.path)
        prepend_inline(splices, span, items, [self._word_text(item) for item in edit.items])

    def _drop_items(self, edit: DropFirstItems, splices: Splices) -> None:
        span, items = self._list_spans(edit.path)
        drop_inline(splices, items, span[1] - 1, edit.count, self.COMMENT_MARKS)

    def _value_text(self, value: Value, path: Path) -> str:
        """Returns a value in this format; `path` leads to the value that it replaces, or to an adjacent one."""
        if isinstance(value, tuple):
            return f"[{', '.join(self._word_text(item) for item in value)}]"
        return self._word_text_at(value, path)

    def _word_text_at(self, item: Item, _path: Path) -> str:
        """Returns a word in this format, as the value at a path."""
        return self._word_text(item)

    def _key_text(self, key: str) -> str:
        """Returns the name of a member in this format."""
        return key

    @abstractmethod
    def _word_text(self, item: Item) -> str:
        """Returns a word in this format, as an item of an inline list."""

    @abstractmethod
    def _value_span(self, path: Path) -> Span:
        """Returns the span of a value."""

    @abstractmethod
    def _key_span(self, path: Path) -> Span:
        """Returns the span of a member's name."""

    @abstractmethod
    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        """Returns the span of an inline list, brackets included, and the spans of its items."""

    @abstractmethod
    def _add_member(self, edit: AddMember, splices: Splices) -> None:
        """Add a member."""

    @abstractmethod
    def _remove_member(self, path: Path, splices: Splices) -> None:
        """Remove a member."""
