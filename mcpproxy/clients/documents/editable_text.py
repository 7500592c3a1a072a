"""What the formats share: which parts of a text an edit replaces.

Each format says where these are, and how words are spelled. All edits refer to the text as it was read, and are made at
once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from mcpproxy.clients.documents.edits import (
    AddMember,
    DropHead,
    Edit,
    Item,
    Path,
    Prepend,
    RemoveMember,
    ReplaceMember,
    SetValue,
    Value,
)
from mcpproxy.clients.documents.splice import Span, Splices, drop_inline, prepend_inline


class EditableText(ABC):
    """A file: its data, and edits of just the bytes that they concern."""

    COMMENTS: ClassVar[tuple[str, ...]]
    """The characters that begin a comment in this format."""

    text: str
    """The text of the file, without a byte-order mark."""
    data: Any
    """What the file says, as plain values."""

    def apply(self, edits: list[Edit]) -> str:
        """The text with the edits made.

        Raises:
            LookupError, TypeError: a path leads nowhere.
            ConfigError: a value is written in a form that cannot be edited in place.
        """
        splices = Splices(self.text)
        for edit in edits:
            self._apply(edit, splices)
        return splices.result()

    def _apply(self, edit: Edit, splices: Splices) -> None:
        match edit:
            case SetValue():
                splices.replace(self._value_span(edit.path), self._written(edit.value, edit.path))
            case ReplaceMember():
                splices.replace(self._key_span(edit.path), self._spelled_key(edit.key))
                splices.replace(self._value_span(edit.path), self._written(edit.value, edit.path))
            case Prepend():
                self._prepend(edit, splices)
            case DropHead():
                self._drop(edit, splices)
            case AddMember():
                self._add(edit, splices)
            case RemoveMember():
                self._remove(edit.path, splices)

    def _prepend(self, edit: Prepend, splices: Splices) -> None:
        span, items = self._list_spans(edit.path)
        prepend_inline(splices, span, items, [self._spelled(item) for item in edit.items])

    def _drop(self, edit: DropHead, splices: Splices) -> None:
        span, items = self._list_spans(edit.path)
        drop_inline(splices, items, span[1] - 1, edit.count, self.COMMENTS)

    def _written(self, value: Value, at: Path) -> str:
        """A value as this format writes it; `at` is the place of the value that it replaces, or of one next to it."""
        if isinstance(value, tuple):
            return f"[{', '.join(self._spelled(item) for item in value)}]"
        return self._spelled_at(value, at)

    def _spelled_at(self, item: Item, _at: Path) -> str:
        """A word as this format writes it as the value at a place."""
        return self._spelled(item)

    def _spelled_key(self, key: str) -> str:
        """The name of a member as this format writes it."""
        return key

    @abstractmethod
    def _spelled(self, item: Item) -> str:
        """A word as this format writes it in an inline list."""

    @abstractmethod
    def _value_span(self, path: Path) -> Span:
        """Where a value is."""

    @abstractmethod
    def _key_span(self, path: Path) -> Span:
        """Where the name of a member is."""

    @abstractmethod
    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        """Where an inline list is, brackets included, and its items."""

    @abstractmethod
    def _add(self, edit: AddMember, splices: Splices) -> None:
        """Add a member."""

    @abstractmethod
    def _remove(self, path: Path, splices: Splices) -> None:
        """Remove a member."""
