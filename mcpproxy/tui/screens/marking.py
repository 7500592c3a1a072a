"""Marking: marks and notes on the rows of a capture, in a file next to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mcpproxy.marks import MarkError, Marks
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen


class RowMarker:
    """Marks rows for a screen that lists them. A thread reads and writes the file, which may be on a network."""

    def __init__(self, screen: TitledScreen, reading: Reading, changed: Callable[[], None]) -> None:
        """Start without marks; `load` reads them.

        Args:
            screen: the screen over which the user types notes.
            reading: the capture.
            changed: called when the marks may have changed.
        """
        id_ = reading.index.header.members.get("capture")
        self.marks = Marks(reading.path, id_ if isinstance(id_, str) else "")
        self._screen, self._reading, self._changed = screen, reading, changed
        self._thread = ThreadPoolExecutor(1, "marks")

    def close(self) -> None:
        """Cancel work that has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def load(self) -> None:
        """Read the marks."""
        self._change(self.marks.load)

    def toggle_mark(self, entry: int | None) -> None:
        """Mark an entry, or remove its mark; an entry with a note keeps both."""
        seq = self._seq(entry)
        if seq is not None:
            if self.marks.notes.get(seq):
                notify(self._screen.app, "to remove the note and the mark, clear the note (M)")
            self._change(lambda: self.marks.toggle(seq))

    def edit_note(self, entry: int | None) -> None:
        """Add a note to an entry."""
        seq = self._seq(entry)
        if seq is None:
            return

        def save_note(text: str | None) -> None:
            if text is not None:
                self._change(lambda: self.marks.set_note(seq, text))

        self._screen.app.push_screen(LineScreen(f"note on {seq:,}", self.marks.notes.get(seq, "")), save_note)

    def find_next(self, entry: int | None) -> int | None:
        """Returns the next marked entry, and shows its note; after the last comes the first."""
        seq = self._reading.index.entry(entry).seq if entry is not None else -1
        next_seq = self.marks.next_after(seq)
        row = self._reading.index.entry_of_seq(next_seq) if next_seq is not None else None
        note = self.marks.notes.get(next_seq or 0)
        if next_seq is None:
            notify(self._screen.app, "no row is marked; press m to mark this row")
        elif row is None:
            notify(self._screen.app, "the marked row is gone")
        elif note:
            notify(self._screen.app, note)
        return row

    def marked_rows(self) -> list[int]:
        """Returns the marked entries that still exist, ascending."""
        rows = (self._reading.index.entry_of_seq(seq) for seq in self.marks.notes)
        return sorted(row for row in rows if row is not None)

    def _seq(self, entry: int | None) -> int | None:
        """The record number of an entry, or None if it cannot be marked."""
        if entry is None:
            notify(self._screen.app, "nothing is selected")
            return None
        row = self._reading.index.entry(entry)
        if row.kind == "damage":
            notify(self._screen.app, "damage has no record number, so it cannot be marked")
            return None
        return row.seq

    def _change(self, change: Callable[[], object]) -> None:
        def apply_change() -> None:
            problem = ""
            try:
                change()
            except MarkError as error:
                problem = str(error)
            self._screen.call_later(self._show, problem)

        self._thread.submit(apply_change)

    def _show(self, problem: str) -> None:
        if problem:
            notify(self._screen.app, problem, bad=True)
        self._changed()
