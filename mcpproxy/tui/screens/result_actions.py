"""Actions on a result of SQL: go to the frame of a row, copy the rows, export them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType

from mcpproxy.sanitise import sanitise
from mcpproxy.sql.client import SqlClient, Written
from mcpproxy.tui.copies.clipboard import copy
from mcpproxy.tui.copies.copy_forms import LARGEST, CopyForm
from mcpproxy.tui.data.capture_ids import capture_with_id
from mcpproxy.tui.messages import FrameLocated
from mcpproxy.tui.rows.sql_rows import AnswerRows, Place, row_lines
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.placed_screen import PlacedScreen
from mcpproxy.tui.screens.prompts import ChoiceScreen, LineScreen
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.json_lines import harmless

FORMS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The formats of an export, by the end of the file's name."""
WORDS: Final = {"csv": "CSV", "json": "JSON lines"}
COPIED_WIDTH: Final = 1000
"""Cells of a line of a row that is copied as it is shown."""


class ResultActionsScreen(PlacedScreen):
    """A screen with a result of SQL, whose client runs the query again to write it: in full, and unchanged."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", "copy", id="copy"),
        Binding("e", "export", "export", id="export"),
    ]
    client: SqlClient

    def __init__(self, paths: Sequence[Path]) -> None:
        """The screen.

        Args:
            paths: the captures that are queried.
        """
        super().__init__()
        self.paths = list(paths)
        self.answer: AnswerRows | None = None
        self.answered_sql = ""
        """The statements whose result is shown."""
        self.written_to: Path | None = None
        """The file of an export under way, or of the last one; None if the result is copied."""
        self.written_as = ""
        self._files = ThreadPoolExecutor(1, "files")

    def on_unmount(self) -> None:
        """Look for no more frames."""
        self._files.shutdown(wait=False, cancel_futures=True)

    def selected_row(self) -> int | None:
        """The row of the result at the cursor; None if there is no result, or it is not in front."""
        raise NotImplementedError

    # ---- the frame of a row

    def go_to_frame(self, place: Place) -> None:
        """Show the traffic at a frame. A thread looks for its capture: headers may be on a network."""

        def work() -> None:
            only = self.paths[0] if len(self.paths) == 1 else None
            path = only if only is not None or place.capture is None else capture_with_id(place.capture, self.paths)
            self.post_message(FrameLocated(path, place.frame))

        self.app.key_queue.wait_for(self._files.submit(work))

    @on(FrameLocated)
    def _located(self, event: FrameLocated) -> None:
        if event.path is None:
            notify(self.app, "the row does not say which capture its frame is in", bad=True)
        else:
            self.app.show_frame(event.frame, event.path)

    # ---- copying

    def action_copy(self) -> None:
        """Copy the result, or the row at the cursor, in a chosen form."""
        row, rows = self.selected_row(), self.answer
        if row is None or rows is None:
            notify(self.app, "there is no result to copy")
            return
        lines = ["".join(span.text for span in line).rstrip() for line in row_lines(rows.answer, row, COPIED_WIDTH)]
        shown = "\n".join(sanitise(line, None) for line in lines)
        choices = [
            CopyForm("c", "CSV", "csv", "all rows, formulas quoted; unsafe in a shell"),
            CopyForm("j", "JSON lines", "json", "all rows; unsafe in a shell"),
            CopyForm("r", "this row, as shown", shown if len(shown.encode()) <= LARGEST else "", "unsafe in a shell"),
        ]
        self.app.push_screen(ChoiceScreen("copy as", choices), self._copy)

    def _copy(self, form: CopyForm | None) -> None:
        if form is None:
            return
        if form.key == "r":
            copy(self.app, form)
        else:
            self._write(form.text, None)

    # ---- export

    def action_export(self) -> None:
        """Prompt for a file, and export all rows to it."""
        if self.answer is None:
            notify(self.app, "there is no result to export")
            return
        label = "export all rows as CSV (.csv) or JSON lines (.jsonl) to"
        self.app.push_screen(LineScreen(label, "query.csv"), self._begin)

    def _begin(self, name: str | None) -> None:
        if not name or not name.strip():
            return
        place = Path(name.strip())
        form = FORMS.get(place.suffix.lower())
        if form is None:
            notify(self.app, "the name must end in .csv, .json, .jsonl or .ndjson", bad=True)
            return
        try:
            # RuntimeError: the user in ~user does not exist.
            place = place.expanduser()
        except RuntimeError as error:
            notify(self.app, f"cannot write {place}: {error}", bad=True)
            return
        self._write(form, place)

    # ---- the query, once more

    def _write(self, form: str, place: Path | None) -> None:
        self.written_to, self.written_as = place, form
        self.client.write(self.paths, self.answered_sql, form, place, LARGEST)
        self.show_title()

    def take_written(self, written: Written) -> None:
        """Copy what the client has written, or say where it is."""
        if self.written_to is not None:
            notify(self.app, f"exported {count_text(written.rows, 'row')} to {sanitise(str(self.written_to))}")
            return
        clean: Callable[[str], str] = harmless if self.written_as == "json" else _plain
        lines = [clean(line) for line in written.text.splitlines()]
        kept = list(_fitting(lines))  # what makes a line harmless makes it longer
        left_out = len(lines) - len(kept)
        rows, text = count_text(written.rows - left_out, "row"), "\n".join(kept)
        more = f": the first {rows}; e exports all to a file" if written.is_cut or left_out else f", {rows}"
        if not text:
            notify(self.app, "too large for the clipboard; e exports to a file", bad=True)
            return
        copy(self.app, CopyForm("", f"{WORDS[self.written_as]}{more}", text))


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """The lines that fit into the clipboard together."""
    room = LARGEST
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _plain(line: str) -> str:
    return sanitise(line, None)
