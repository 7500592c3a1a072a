"""Deletion of captures, from a list of them: with a question that names what goes, and never of a live one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from captures.listing import segments
from mcpproxy.removal import Removable, is_recorded, removable, remove
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.capture_list import short_name
from mcpproxy.tui.messages import Removing
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.confirm import ConfirmScreen
from mcpproxy.tui.screens.word_filter import WordFilterScreen
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size


class DeletionScreen(WordFilterScreen):
    """A list with a capture at the cursor, which can be deleted. Threads examine and delete the files."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "delete", "delete", show=False, id="delete")]

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[Path] = set()
        """The captures that were deleted here, which the next search will not find."""
        self._deleter = ThreadPoolExecutor(1, "deletion")

    def on_unmount(self) -> None:
        """Delete nothing that is still to be deleted."""
        self._deleter.shutdown(wait=False, cancel_futures=True)

    def selected_path(self) -> Path | None:
        """The capture at the cursor."""
        raise NotImplementedError

    def action_delete(self) -> None:
        """Find out what would be deleted with the capture at the cursor, and ask."""
        path = self.selected_path()
        if path is None:
            notify(self.app, "nothing is selected")
            return

        def work() -> None:
            capture = removable(path)
            problem = ""
            if capture is None:
                why = "it is still being recorded" if is_recorded(segments(path)) else "its files cannot be read"
                problem = f"{short_name(path)} cannot be deleted: {why}"
            self.post_message(Removing(capture, problem=problem))

        self.app.key_queue.wait_for(self._deleter.submit(work))

    @on(Removing)
    def _removing(self, event: Removing) -> None:
        if event.problem:
            notify(self.app, event.problem, bad=True)
        elif event.deleted is not None:
            self.deleted.add(event.deleted)
            notify(self.app, f"deleted {short_name(event.deleted)}")
            self.renew()
        elif isinstance(event.capture, Removable):
            self._ask(event.capture)

    def _ask(self, capture: Removable) -> None:
        files = f"{count_text(len(capture.files), 'file')}, {size(capture.size)}"
        details = [sanitise(str(capture.files[0]), None)]
        details += [
            f"{files}, and its cached data",
            *(["your marks and notes on it"] if capture.has_marks else []),
        ]

        def answer(is_wanted: bool | None) -> None:
            if is_wanted:
                self.app.close_capture(capture.path)
                self._deleter.submit(self._delete, capture)

        self.app.push_screen(ConfirmScreen(f"Delete {short_name(capture.path)}?", details), answer)

    def _delete(self, capture: Removable) -> None:
        try:
            remove(capture)
        except OSError as error:
            name = short_name(capture.path)
            self.post_message(Removing(problem=f"cannot delete {name}: {error.strerror or error}"))
        else:
            self.post_message(Removing(deleted=capture.path))
