"""The messages that threads post to screens, and some between screens and the app."""

from collections.abc import Sequence
from pathlib import Path

from textual.message import Message

from mcpproxy.wording.spans import Span


class Grown(Message):
    """An open capture has more entries, or more of them are understood. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Grown)


class Checked(Message):
    """There are more findings, or more rows are checked. Only the newest counts."""

    bubble = True

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Checked)


class Progressed(Message):
    """The thread of a screen has more results, or has reached the end. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Progressed)


class ListChanged(Message):
    """The list of captures, or the summary of one, has changed. Only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, ListChanged)


class RowsRead(Message):
    """Rows that a table waits for have been read."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, RowsRead)


class Sorted(Message):
    """The thread that sorts rows has got further, or has finished."""

    def can_replace(self, message: Message) -> bool:
        """A burst becomes one."""
        return isinstance(message, Sorted)


class Pointed(Message):
    """The terms of a filter that a row offers are known."""

    def __init__(self, terms: Sequence[tuple[str, str]], *, excludes: bool, problem: str = "") -> None:
        super().__init__()
        self.terms, self.excludes, self.problem = terms, excludes, problem


class Failed(Message):
    """A capture cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason


class DetailRead(Message):
    """The content of the detail pane has been read."""

    def __init__(self, row: int, item: object) -> None:
        super().__init__()
        self.row, self.item = row, item


class AttachmentsRead(Message):
    """The images, sounds and blobs of a row have been read."""

    def __init__(self, seq: int, attachments: Sequence[object]) -> None:
        super().__init__()
        self.seq, self.attachments = seq, attachments


class Saved(Message):
    """An attachment has been saved, or could not be."""

    def __init__(self, words: str, *, is_bad: bool = False) -> None:
        super().__init__()
        self.words, self.is_bad = words, is_bad


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


class FrameLocated(Message):
    """The search for a frame's capture has ended; None if no searched capture has the frame."""

    def __init__(self, path: Path | None, frame: int) -> None:
        super().__init__()
        self.path, self.frame = path, frame


class ProofRead(Message):
    """The proof of a finding has been read."""

    def __init__(self, finding: object, lines: Sequence[Sequence[Span]]) -> None:
        super().__init__()
        self.finding, self.lines = finding, lines


class Removing(Message):
    """What would be deleted with a capture is known, or it has been deleted, or cannot be."""

    def __init__(self, capture: object = None, *, deleted: Path | None = None, problem: str = "") -> None:
        super().__init__()
        self.capture, self.deleted, self.problem = capture, deleted, problem


class PeersRead(Message):
    """What the sides say about themselves has been read."""

    def __init__(self, said: Sequence[object]) -> None:
        super().__init__()
        self.said = said


class Marked(Message):
    """The marks have been read or changed, or could not be."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem


class Copied(Message):
    """The forms in which a row can be copied are ready."""

    def __init__(self, forms: Sequence[object]) -> None:
        super().__init__()
        self.forms = forms


class Exported(Message):
    """An export has progressed, ended, or failed."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem
