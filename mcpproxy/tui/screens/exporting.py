"""Exporting: writes a capture, or the rows that a screen lists, to a new file while the screen stays usable.

The extension of the name decides what is written: JSON lines, or a format of `mcpproxy export` or `mcpproxy report`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from captures.paths import SUFFIX, safe_name
from mcpproxy.exporters.formats import FORMAT_OF_SUFFIX
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.running_exports import DocumentExport, LinesExport, RunningExport
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.file_prompt import FileOffer, FilePrompt, NewFile
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.counts import count_text

REPORT_SUFFIX: Final = ".html"
LINES_SUFFIX: Final = ".jsonl"
_FORMATS: Final = {
    LINES_SUFFIX: "JSON lines",
    ".json": "",
    ".ndjson": "",
    ".md": "Markdown",
    ".har": "HTTP exchanges",
    REPORT_SUFFIX: "report of the whole capture",
}
"""What each extension means; those without a meaning are JSON lines, too."""
_WHOLE: Final = "the whole capture"
_DOCUMENTS: Final = {**FORMAT_OF_SUFFIX, REPORT_SUFFIX: "html"}
"""The formats that a process writes, by extension."""


class ExportedRows(NamedTuple):
    """Rows that can be exported."""

    words: str
    """What they are, such as `12 rows`."""
    rows: Callable[[], Sequence[int] | None]
    """Returns the rows, ascending; None for all of the capture."""
    suffix: str = ""
    """What is appended to the name of the file."""
    filter_text: str = ""
    """The expression that selects them, if any."""


class Exporter:
    """Exports captures for a screen, one at a time."""

    def __init__(self, screen: TitledScreen, progressed: Callable[[], None]) -> None:
        """Start without an export.

        Args:
            screen: the screen over which the prompt for the file appears.
            progressed: called when the export has progressed or ended.
        """
        self._screen, self._progressed = screen, progressed
        self._running: RunningExport | None = None

    def close(self) -> None:
        """Stop the export; an incomplete file is deleted."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    @property
    def progress(self) -> str:
        """The progress, in words, or an empty text if no export is running."""
        return f"exporting {int(100 * self._running.share)}%" if self._running is not None else ""

    def prompt_for_capture(self, path: Path, name: str, transport: str | None) -> None:
        """Prompt for a file, and export a whole capture to it; a report is suggested.

        Args:
            path: the capture.
            name: the name of its server.
            transport: its transport, if that is known.
        """
        rows = [ExportedRows(_WHOLE, lambda: None)]
        self._prompt_for_file(path, name, rows, REPORT_SUFFIX, _formats_of(transport), lambda _: None)

    def prompt_for_rows(self, reading: Reading, choices: Sequence[ExportedRows]) -> None:
        """Prompt for a file, and export rows of a capture to it.

        Args:
            reading: the capture.
            choices: the rows; the first are offered at first.
        """
        formats = _formats_of(reading.conversation.capture.transport)
        self._prompt_for_file(
            reading.path, reading.name, choices, LINES_SUFFIX, formats, lambda rows: frame_numbers(reading, rows)
        )

    def _prompt_for_file(
        self,
        path: Path,
        name: str,
        choices: Sequence[ExportedRows],
        suffix: str,
        formats: Mapping[str, str],
        frames: Callable[[Sequence[int] | None], Sequence[int] | None],
    ) -> None:
        stem = f"{safe_name(name)}-{path.name.removesuffix(SUFFIX)}"
        labels = {REPORT_SUFFIX: f"export {_WHOLE} to"}
        offers = [
            FileOffer(f"export {choice.words} to", f"{stem}{choice.suffix}{suffix}", f"{choice.words} instead", labels)
            for choice in choices
        ]

        def start(file: NewFile, report: Callable[[], None]) -> RunningExport:
            choice = choices[file.offer]
            rows = choice.rows()
            format_ = _DOCUMENTS.get(file.path.suffix.lower())
            if format_ is None:
                return LinesExport(path, None if rows is None else list(rows), file.path, report)
            return DocumentExport(path, lambda: frames(rows), format_, file.path, report, choice.filter_text)

        self.prompt(offers, formats, start)

    def prompt(
        self,
        offers: Sequence[FileOffer],
        formats: Mapping[str, str] | None,
        start: Callable[[NewFile, Callable[[], None]], RunningExport],
    ) -> None:
        """Prompt for a file, and start an export to it; if one is running, say so instead.

        Args:
            offers: what can be exported.
            formats: as for `FilePrompt`.
            start: starts the export; it gets the file, and a function to call when there is news.
        """
        if self._running is not None:
            notify(self._screen.app, f"{self.progress} to {self._running.target.name}")
            return

        def begin(file: NewFile | None) -> None:
            if file is not None:
                self._running = start(file, self._report)

        self._screen.app.push_screen(FilePrompt(offers, formats), begin)

    def _report(self) -> None:
        """Report progress or the end to the screen; called from a thread."""
        self._screen.call_later(self._on_report)

    def _on_report(self) -> None:
        running = self._running
        if running is not None and (running.outcome or running.problem):
            self.close()
            target = sanitise(str(running.target))
            failure = running.problem and f"cannot write {target}: {running.problem}"
            notify(self._screen.app, failure or f"exported {running.outcome} to {target}", bad=bool(running.problem))
        if self._screen.is_current:
            self._progressed()


def _formats_of(transport: str | None) -> dict[str, str]:
    """Returns what the extensions that suit a transport mean."""
    return {suffix: text for suffix, text in _FORMATS.items() if suffix != ".har" or transport == "http"}


def row_choices(
    listed: Callable[[], Sequence[int]], marked: Callable[[], Sequence[int]], filter_text: str
) -> list[ExportedRows]:
    """Returns the rows that a list can export: those that it lists and, if any are marked, those.

    Args:
        listed: returns the rows that are listed, ascending.
        marked: returns the marked rows, ascending.
        filter_text: the expression that selects the rows of the list, if any.
    """
    choices = [ExportedRows(count_text(len(listed()), "row"), listed, filter_text=filter_text)]
    if count := len(marked()):
        choices.append(ExportedRows(count_text(count, "marked row"), marked, "-marked"))
    return choices


def frame_numbers(reading: Reading, rows: Sequence[int] | None) -> Sequence[int] | None:
    """Returns the numbers of the frames in some rows; None if these are all frames of the capture."""
    if rows is None:
        return None
    index = reading.index
    numbers = [index.entry(row).seq for row in rows if index.is_frame(row)]
    return None if len(numbers) == index.frame_count else numbers
