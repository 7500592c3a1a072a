"""Every message between the parts of the screen: what reader threads report, and what widgets report to screens."""

from collections.abc import Sequence
from pathlib import Path

from textual.message import Message


class Grown(Message):
    """An open capture has more entries, or more of them are understood. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Grown)


class Checked(Message):
    """The rules have found or checked more. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Checked)


class Progressed(Message):
    """A filter has selected more rows, or has reached the end. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Progressed)


class ListChanged(Message):
    """The list of captures, or what is known of one, has changed. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, ListChanged)


class RowsRead(Message):
    """Rows that a table waits for have been read."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, RowsRead)


class Failed(Message):
    """A capture cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason


class DetailRead(Message):
    """The content for the detail pane has been read."""

    def __init__(self, row: int, item: object) -> None:
        super().__init__()
        self.row, self.item = row, item


class OpenRequested(Message):
    """The user wants to see the traffic of a capture."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


class Replied(Message):
    """The SQL process has sent something. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Replied)


class Marked(Message):
    """The marks have been read or changed, or that failed."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem


class Copied(Message):
    """The forms in which a row can be copied have been made."""

    def __init__(self, forms: Sequence[object]) -> None:
        super().__init__()
        self.forms = forms


class Exported(Message):
    """An export has progressed, ended, or failed."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem
