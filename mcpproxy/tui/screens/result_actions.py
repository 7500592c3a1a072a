"""Actions on a result of SQL: go to the frame of a row, copy the rows, export them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.sql.client import WrittenResult
from mcpproxy.tui.copies.clipboard import copy
from mcpproxy.tui.copies.copy_forms import MAX_CLIPBOARD_BYTES, CopyForm
from mcpproxy.tui.data.capture_ids import capture_with_id
from mcpproxy.tui.rows.sql_rows import AnswerRows, FrameRef, row_lines
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.prompts import ChoiceScreen, LineScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.json_lines import harmless

FORMS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The formats of an export, by the end of the file's name."""
WORDS: Final = {"csv": "CSV", "json": "JSON lines"}
COPIED_WIDTH: Final = 1000
"""The width, in cells, of a line of a row that is copied as displayed."""


class ResultActions:
    """What an SQL screen does with a result; to write it in full and unchanged, the client runs the query again."""

    def __init__(self, screen: TitledScreen, paths: Sequence[Path]) -> None:
        """Start; no result is written yet.

        Args:
            screen: the screen above which questions are asked.
            paths: the captures that are queried.
        """
        self._screen, self._paths = screen, list(paths)
        self._written_to: Path | None = None
        """The file of an export under way, or of the last one; None if the result is copied."""
        self._written_as = ""
        self._thread = ThreadPoolExecutor(1, "files")

    def close(self) -> None:
        """Stop searching for frames."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ---- the frame of a row

    def go_to_frame(self, place: FrameRef) -> None:
        """Show the traffic at a frame. A thread looks for its capture: headers may be on a network."""

        def work() -> None:
            only = self._paths[0] if len(self._paths) == 1 else None
            path = only if only is not None or place.capture is None else capture_with_id(place.capture, self._paths)
            self._screen.call_later(self._show, path, place.frame)

        self._screen.app.key_queue.wait_for(self._thread.submit(work))

    def _show(self, path: Path | None, frame: int) -> None:
        if path is None:
            notify(self._screen.app, "the row does not say which capture its frame is in", bad=True)
        else:
            self._screen.app.show_frame(frame, path)

    # ---- copying

    def copy(self, rows: AnswerRows, row: int, sql: str) -> None:
        """Copy the result of SQL, or one row of it, in a chosen form."""
        lines = ["".join(span.text for span in line).rstrip() for line in row_lines(rows.answer, row, COPIED_WIDTH)]
        shown = "\n".join(sanitise(line, None) for line in lines)
        choices = [
            CopyForm("c", "CSV", "csv", "all rows, formulas quoted; unsafe in a shell"),
            CopyForm("j", "JSON lines", "json", "all rows; unsafe in a shell"),
            CopyForm(
                "r",
                "this row, as shown",
                shown if len(shown.encode()) <= MAX_CLIPBOARD_BYTES else "",
                "unsafe in a shell",
            ),
        ]

        def take(form: CopyForm | None) -> None:
            if form is not None and form.key == "r":
                copy(self._screen.app, form)
            elif form is not None:
                self._write(sql, form.text, None)

        self._screen.app.push_screen(ChoiceScreen("copy as", choices), take)

    # ---- export

    def export(self, sql: str) -> None:
        """Prompt for a file, and export all rows of the result of SQL to it."""
        label = "export all rows as CSV (.csv) or JSON lines (.jsonl) to"
        self._screen.app.push_screen(LineScreen(label, "query.csv"), lambda name: self._begin(sql, name))

    def _begin(self, sql: str, name: str | None) -> None:
        if not name or not name.strip():
            return
        place = Path(name.strip())
        form = FORMS.get(place.suffix.lower())
        if form is None:
            notify(self._screen.app, "the name must end in .csv, .json, .jsonl or .ndjson", bad=True)
            return
        try:
            # RuntimeError: the user in ~user does not exist.
            place = place.expanduser()
        except RuntimeError as error:
            notify(self._screen.app, f"cannot write {place}: {error}", bad=True)
            return
        self._write(sql, form, place)

    # ---- the query, run again

    def _write(self, sql: str, form: str, place: Path | None) -> None:
        self._written_to, self._written_as = place, form
        self._screen.app.sql.write(self._paths, sql, form, place, MAX_CLIPBOARD_BYTES)
        self._screen.show_title()

    def on_written(self, written: WrittenResult) -> None:
        """Copy the result that the client has written, or tell the user where the file is."""
        if self._written_to is not None:
            notify(self._screen.app, f"exported {count_text(written.rows, 'row')} to {sanitise(str(self._written_to))}")
            return
        clean: Callable[[str], str] = harmless if self._written_as == "json" else _plain
        lines = [clean(line) for line in written.text.splitlines()]
        kept = list(_fitting(lines))  # sanitising makes a line longer
        left_out = len(lines) - len(kept)
        rows, text = count_text(written.rows - left_out, "row"), "\n".join(kept)
        more = f": the first {rows}; e exports all to a file" if written.is_cut or left_out else f", {rows}"
        if not text:
            notify(self._screen.app, "too large for the clipboard; e exports to a file", bad=True)
            return
        copy(self._screen.app, CopyForm("", f"{WORDS[self._written_as]}{more}", text))


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """As many lines as fit into the clipboard together."""
    room = MAX_CLIPBOARD_BYTES
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return
        yield line


def _plain(line: str) -> str:
    return sanitise(line, None)
