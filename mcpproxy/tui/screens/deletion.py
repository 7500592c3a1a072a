"""Deletion of captures: asks first, naming what will be deleted, and never deletes a live capture."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from captures.listing import segments
from mcpproxy.removal import RemovableCapture, is_recorded, removable_capture, remove_capture
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.capture_list import short_name
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.confirm import ConfirmScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size


class Deletion:
    """Deletes captures for a screen that lists them. A thread examines and deletes the files."""

    def __init__(self, screen: TitledScreen, renew: Callable[[], None]) -> None:
        """Prepare deletions; nothing is deleted yet.

        Args:
            screen: the screen over which the question is asked.
            renew: called when a capture has been deleted.
        """
        self.deleted_paths: set[Path] = set()
        """The captures that were deleted here; a list may contain them until the next search."""
        self._screen, self._renew = screen, renew
        self._thread = ThreadPoolExecutor(1, "deletion")

    def close(self) -> None:
        """Cancel deletions that have not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask_and_delete(self, path: Path) -> None:
        """Determine what a deletion would remove, and ask for confirmation; keys wait for the question."""

        def prepare() -> None:
            capture = removable_capture(path)
            if capture is not None:
                self._screen.call_later(self._ask_question, capture)
                return
            reason = "it is still being recorded" if is_recorded(segments(path)) else "its files cannot be read"
            self._screen.call_later(self._report_failure, f"{short_name(path)} cannot be deleted: {reason}")

        self._screen.app.key_queue.wait_for(self._thread.submit(prepare))

    def _ask_question(self, capture: RemovableCapture) -> None:
        files = f"{count_text(len(capture.files), 'file')}, {size(capture.size)}"
        details = [sanitise(str(capture.files[0]), None)]
        details += [
            f"{files}, and its cached data",
            *(["your marks and notes on it"] if capture.has_marks else []),
        ]

        def on_answer(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._screen.app.close_capture(capture.path)
                self._thread.submit(self._delete, capture)

        self._screen.app.push_screen(ConfirmScreen(f"Delete {short_name(capture.path)}?", details), on_answer)

    def _delete(self, capture: RemovableCapture) -> None:
        name = short_name(capture.path)
        try:
            remove_capture(capture)
        except OSError as error:
            self._screen.call_later(self._report_failure, f"cannot delete {name}: {error.strerror or error}")
        else:
            self._screen.call_later(self._on_deleted, capture.path)

    def _on_deleted(self, path: Path) -> None:
        self.deleted_paths.add(path)
        notify(self._screen.app, f"deleted {short_name(path)}")
        self._renew()

    def _report_failure(self, problem: str) -> None:
        notify(self._screen.app, problem, bad=True)
