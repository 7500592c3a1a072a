"""Exporting: writes the rows that a screen lists to a file, as JSON lines, while the screen stays usable."""

from collections.abc import Callable, Sequence
from pathlib import Path

from captures.errors import CaptureError
from captures.paths import SUFFIX, safe_name
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.export_thread import Export
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.prompts import LineScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.counts import count_text


class RowExporter:
    """Exports rows for a screen, one export at a time."""

    def __init__(
        self, screen: TitledScreen, reading: Reading, rows: Callable[[], Sequence[int]], progressed: Callable[[], None]
    ) -> None:
        """Start without an export.

        Args:
            screen: the screen over which the prompt for the file appears.
            reading: the capture.
            rows: returns the entries to export, ascending.
            progressed: called when the export has progressed or ended.
        """
        self._screen, self._reading, self._rows, self._progressed = screen, reading, rows, progressed
        self._running: tuple[Export, StepThread] | None = None

    def close(self) -> None:
        """Stop the export, and delete it if it is incomplete."""
        if self._running is not None:
            export, step_thread = self._running
            self._running = None
            step_thread.stop()
            export.abandon()

    @property
    def progress(self) -> str:
        """The progress, in words, or an empty text if no export is running."""
        if self._running is None:
            return ""
        export = self._running[0]
        return f"exporting {100 * export.written_count // max(1, len(export.rows))}%"

    def prompt_and_export(self) -> None:
        """Prompt for a file and export the rows to it."""
        if self._running is not None:
            notify(self._screen.app, f"{self.progress} to {self._running[0].target.name}")
            return
        count = count_text(len(self._rows()), "row")
        name = safe_name(self._reading.name)
        stem = self._reading.path.name.removesuffix(SUFFIX)
        prompt = LineScreen(f"export {count} as JSON lines to", f"{name}-{stem}.jsonl")
        self._screen.app.push_screen(prompt, self._start_export)

    def _start_export(self, name: str | None) -> None:
        if not name or not name.strip():
            return
        path = Path(name.strip())
        try:
            # RuntimeError: the user in ~user does not exist.
            path = path.expanduser()
            export = Export(self._reading.path, list(self._rows()), path)
        except FileExistsError:
            notify(self._screen.app, f"{path.name} already exists; choose another name", bad=True)
        except (OSError, CaptureError, ValueError, RuntimeError) as error:
            notify(self._screen.app, f"cannot write {path}: {getattr(error, 'strerror', None) or error}", bad=True)
        else:
            self._running = export, StepThread(export.step, self._report, self._report, "export")

    def _report(self, problem: str = "") -> None:
        """Report progress or a problem to the screen; called from the thread."""
        self._screen.call_later(self._on_report, problem)

    def _on_report(self, problem: str) -> None:
        if self._running is None:
            return
        export = self._running[0]
        if problem or export.has_ended:
            self.close()
            summary = f"exported {count_text(export.written_count, 'row')} to {sanitise(str(export.target))}"
            failure = problem and f"cannot write {export.target}: {problem}"
            notify(self._screen.app, failure or summary, bad=bool(problem))
        self._progressed()
