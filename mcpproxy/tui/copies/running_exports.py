"""Exports under way: JSON lines from a thread, other formats from a process. The screen only asks how far they are."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from analysis.child_process import PythonChild, as_json, from_json
from captures.errors import CaptureError
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.copies.export_thread import Export
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size


class RunningExport(Protocol):
    """An export that has begun. Its file appears, or stays, only if it is complete."""

    target: Path
    """The file."""

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""

    @property
    def outcome(self) -> str:
        """What was written, in words, or an empty text until it is."""

    @property
    def problem(self) -> str:
        """Why nothing was written; empty if nothing is wrong."""

    def close(self) -> None:
        """Stop, unless it is complete."""


class LinesExport:
    """An export of rows as the lines that `show --json` prints."""

    def __init__(self, capture: Path, rows: Sequence[int] | None, target: Path, on_change: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            capture: the capture.
            rows: the rows, ascending; None for all.
            target: the file, which must not exist.
            on_change: called from the thread when there is news.
        """
        self.target = target
        self.problem = ""
        self._capture, self._rows, self._on_change = capture, rows, on_change
        self._export: Export | None = None
        self._thread = StepThread(self._step, on_change, self._fail, "export")

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return self._export.share if self._export is not None else 0.0

    @property
    def outcome(self) -> str:
        """What was written, in words, or an empty text until it is."""
        export = self._export
        return count_text(export.written_count, "row") if export is not None and export.has_ended else ""

    def close(self) -> None:
        """Stop, and delete the file if it is incomplete."""
        self._thread.stop()
        if self._export is not None:
            self._export.abandon()

    def _step(self) -> bool:
        try:
            if self._export is None:
                self._export = Export(self._capture, self._rows, self.target)
            return self._export.step()
        except OSError as error:
            # The text of an `OSError` begins with its number.
            raise CaptureError(error.strerror or str(error)) from error

    def _fail(self, reason: str) -> None:
        self.problem = reason
        self._on_change()


class DocumentExport:
    """An export that a process writes (`mcpproxy.exporters.worker`)."""

    def __init__(
        self,
        capture: Path,
        frames: Callable[[], Sequence[int] | None],
        format_: str,
        target: Path,
        on_change: Callable[[], None],
        filter_text: str = "",
    ) -> None:
        """Start the process, in a thread.

        Args:
            capture: the capture.
            frames: returns the numbers of the messages to export, or None for all; called in the thread.
            format_: the format, in the words of the worker.
            target: the file, which must not exist.
            on_change: called from a thread when there is news.
            filter_text: the expression that selects the messages, if any.
        """
        self.target = target
        self.share = 0.0
        self.outcome = self.problem = ""
        self._notes: list[str] = []
        self._temporary: Path | None = None
        """The file until it is complete."""
        self._on_change = on_change
        self._child: PythonChild | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        """Held while the process is started or ended."""

        def start() -> None:
            request = {"format": format_, "capture": str(capture.absolute()), "target": str(target.absolute())}
            try:
                message = as_json({**request, "frames": self._listed(frames()), "filter": filter_text})
                with self._lock:
                    if self._is_closed:
                        return
                    self._child = child = PythonChild("mcpproxy.exporters.worker")
                child.listen(self._on_message, self._on_end)
                child.send(message)
            except OSError as error:
                self._fail(error.strerror or str(error))

        threading.Thread(target=start, name="export", daemon=True).start()

    @staticmethod
    def _listed(frames: Sequence[int] | None) -> list[int] | None:
        return None if frames is None else list(frames)

    def close(self) -> None:
        """End the process, and delete what it has not completed."""
        with self._lock:
            self._is_closed = True
            child = self._child
        if child is not None:
            child.close()
        if self._temporary is not None and not self.outcome:
            with suppress(OSError):
                self._temporary.unlink()

    def _on_message(self, message: bytes) -> None:
        reply = from_json(message)
        if "temporary" in reply:
            self._temporary = Path(reply["temporary"])
        elif "progress" in reply:
            done, total = reply["progress"]
            self.share = min(1.0, done / max(1, total))
        elif "note" in reply:
            self._notes.append(sanitise(reply["note"]))
        elif "error" in reply:
            # The screen says which file cannot be written.
            reason = reply["error"].removeprefix(f"cannot write {self.target.absolute()}: ")
            self.problem = sanitise(reason, None)
        else:
            parts = [f"{reply['written']}, {size(reply['size'])}", *self._notes[-1:]]
            self.outcome = sanitise("; ".join(parts), None)
        self._on_change()

    def _on_end(self, _status: int, _fault: Exception | None) -> None:
        if not (self._is_closed or self.outcome or self.problem):
            self._fail("the process that writes it has ended")

    def _fail(self, reason: str) -> None:
        self.problem = reason
        self._on_change()
