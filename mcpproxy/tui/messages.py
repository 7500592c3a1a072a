"""The messages that threads post to screens, and some between screens and the app."""

from collections.abc import Sequence
from pathlib import Path

from textual.message import Message

from mcpproxy.wording.spans import Span


class CaptureGrown(Message):
    """An open capture has more entries, or more of its entries have been interpreted. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, CaptureGrown)


class Checked(Message):
    """There are more findings, or more rows have been checked. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, Checked)


class Progressed(Message):
    """The thread of a screen has more results, or has reached the end. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, Progressed)


class ListChanged(Message):
    """The list of captures, or the summary of one, has changed. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, ListChanged)


class RowsRead(Message):
    """Rows that a table waits for have been read."""

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, RowsRead)


class Sorted(Message):
    """The thread that sorts rows has sorted more of them, or has finished."""

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, Sorted)


class CaptureUnreadable(Message):
    """A capture cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason


class DetailRead(Message):
    """The content of the detail pane has been read."""

    def __init__(self, row: int, item: object) -> None:
        super().__init__()
        self.row, self.item = row, item


class OpenRequested(Message):
    """The user wants to see the traffic of a capture."""

    def __init__(self, path: Path, *, is_at_longest_wait: bool = False, filter_text: str | None = None) -> None:
        super().__init__()
        self.path, self.is_at_longest_wait, self.filter_text = path, is_at_longest_wait, filter_text


class SqlReplied(Message):
    """The SQL process has sent something. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Whether another message may replace this one: a burst becomes one message."""
        return isinstance(message, SqlReplied)


class ProofRead(Message):
    """The proof of a finding has been read."""

    def __init__(self, finding: object, lines: Sequence[Sequence[Span]]) -> None:
        super().__init__()
        self.finding, self.lines = finding, lines


class PeersRead(Message):
    """The introductions of the two sides have been read."""

    def __init__(self, introductions: Sequence[object]) -> None:
        super().__init__()
        self.introductions = introductions
