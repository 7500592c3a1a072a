"""Actions on a result of SQL: going to the frame of a row, copying the rows, exporting them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from captures.paths import SUFFIX
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.client import WrittenResult
from mcpproxy.tui.copies.clipboard import copy
from mcpproxy.tui.copies.copy_forms import MAX_CLIPBOARD_BYTES, CopyForm
from mcpproxy.tui.data.capture_ids import capture_with_id, captures_by_id
from mcpproxy.tui.rows.sql_rows import FrameRef, ResultRows, row_lines
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.file_prompt import FileOffer, FilePrompt, NewFile
from mcpproxy.tui.screens.prompts import ChoiceScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.json_lines import escape_line

FORMS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The formats of an export, by the extension of the file."""
FORMAT_NAMES: Final = {"csv": "CSV", "json": "JSON lines"}
_MEANINGS: Final = {".csv": FORMAT_NAMES["csv"], ".jsonl": FORMAT_NAMES["json"], ".json": "", ".ndjson": ""}
"""What the extensions mean, for the prompt."""
COPIED_WIDTH: Final = 1000
"""The width, in cells, of a line of a row that is copied as displayed."""


class ResultActions:
    """What an SQL screen does with a result. To write it in full and unchanged, the client runs the query again."""

    def __init__(self, screen: TitledScreen, paths: Sequence[Path]) -> None:
        """Create the actions; no result is written yet.

        Args:
            screen: the screen over which prompts appear.
            paths: the captures that are queried.
        """
        self._screen, self._paths = screen, list(paths)
        self._written_to: Path | None = None
        """The file of an export under way, or of the last one; None if the result is copied."""
        self._written_format = ""
        self._thread = ThreadPoolExecutor(1, "files")
        self._captures: Mapping[str, Path] = {}
        """The captures by their ids, once their headers have been read."""

    def close(self) -> None:
        """Stop searching for frames."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ---- the names of captures

    def read_names(self, on_read: Callable[[], None]) -> None:
        """Read the ids of the captures in a thread; `on_read` is called once their names are known."""

        def read() -> None:
            self._captures = captures_by_id(self._paths)
            self._screen.call_later(on_read)

        self._thread.submit(read)

    @property
    def capture_names(self) -> Mapping[str, str]:
        """The file name of each capture without its suffix, by the id of the capture."""
        return {id_: sanitise(path.name.removesuffix(SUFFIX)) for id_, path in self._captures.items()}

    @property
    def capture_files(self) -> Mapping[str, str]:
        """The path of each capture, by its id."""
        return {id_: sanitise(str(path), None) for id_, path in self._captures.items()}

    # ---- the frame of a row

    def go_to_frame(self, ref: FrameRef) -> None:
        """Show the traffic at a frame. A thread looks for its capture: headers may be on a network."""

        def find_capture() -> None:
            only_path = self._paths[0] if len(self._paths) == 1 else None
            path = only_path
            if path is None and ref.capture is not None:
                path = capture_with_id(ref.capture, self._paths)
            self._screen.call_later(self._show, path, ref.frame)

        self._screen.app.key_queue.wait_for(self._thread.submit(find_capture))

    def _show(self, path: Path | None, frame: int) -> None:
        if path is None:
            notify(self._screen.app, "the row does not say which capture its frame is in", bad=True)
        else:
            self._screen.app.show_frame(frame, path)

    # ---- copying

    def copy(self, rows: ResultRows, row: int, sql: str) -> None:
        """Copy the result of SQL, or one row of it, in a chosen form."""
        shown_lines = row_lines(rows.result, row, COPIED_WIDTH, {})
        lines = ["".join(span.text for span in line).rstrip() for line in shown_lines]
        row_text = "\n".join(sanitise(line, None) for line in lines)
        choices = [
            CopyForm("c", "CSV", "csv", "all rows, formulas quoted; unsafe in a shell"),
            CopyForm("j", "JSON lines", "json", "all rows; unsafe in a shell"),
            CopyForm(
                "r",
                "this row, as shown",
                row_text if len(row_text.encode()) <= MAX_CLIPBOARD_BYTES else "",
                "unsafe in a shell",
            ),
        ]

        def copy_as(form: CopyForm | None) -> None:
            if form is not None and form.key == "r":
                copy(self._screen.app, form)
            elif form is not None:
                self._write(sql, form.text, None)

        self._screen.app.push_screen(ChoiceScreen("copy as", choices), copy_as)

    # ---- export

    def export(self, sql: str) -> None:
        """Prompt for a file, and export all rows of the result of SQL to it."""

        def begin(file: NewFile | None) -> None:
            if file is not None:
                self._write(sql, FORMS[file.path.suffix.lower()], file.path)

        offer = FileOffer("export all rows to", "query.csv")
        self._screen.app.push_screen(FilePrompt([offer], _MEANINGS), begin)

    # ---- the query, run again

    def _write(self, sql: str, form: str, path: Path | None) -> None:
        self._written_to, self._written_format = path, form
        self._screen.app.sql.write_result(self._paths, sql, form, path, MAX_CLIPBOARD_BYTES)
        self._screen.show_title()

    def on_written(self, written: WrittenResult) -> None:
        """Copy the result that the client has written, or tell the user where the file is."""
        if self._written_to is not None:
            notify(self._screen.app, f"exported {count_text(written.rows, 'row')} to {sanitise(str(self._written_to))}")
            return
        clean_line: Callable[[str], str] = escape_line if self._written_format == "json" else _plain
        lines = [clean_line(line) for line in written.text.splitlines()]
        fitting_lines = list(_lines_that_fit(lines))  # sanitising makes a line longer
        left_out_count = len(lines) - len(fitting_lines)
        rows, text = count_text(written.rows - left_out_count, "row"), "\n".join(fitting_lines)
        extent = f": the first {rows}; e exports all to a file" if written.is_cut or left_out_count else f", {rows}"
        if not text:
            notify(self._screen.app, "too large for the clipboard; e exports to a file", bad=True)
            return
        copy(self._screen.app, CopyForm("", f"{FORMAT_NAMES[self._written_format]}{extent}", text))


def _lines_that_fit(lines: Iterable[str]) -> Iterator[str]:
    """As many lines as fit into the clipboard together."""
    bytes_left = MAX_CLIPBOARD_BYTES
    for line in lines:
        bytes_left -= len(line.encode()) + 1
        if bytes_left < 0:
            return
        yield line


def _plain(line: str) -> str:
    return sanitise(line, None)
