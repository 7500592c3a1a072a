"""The base of screens that show one capture, with a thread that computes what they show."""

from collections.abc import Callable
from concurrent.futures import Future

from textual import on
from textual.css.query import NoMatches

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.messages import CaptureUnreadable, Progressed
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.list_screen import ListScreen


class CaptureScreen(ListScreen):
    """A screen that receives `Progressed` whenever its thread has more results."""

    def __init__(self, reading: Reading) -> None:
        """Create the screen of a capture, without a thread."""
        super().__init__()
        self.reading = reading
        self._step_thread: StepThread | None = None
        self._first_result: Future[None] = Future()
        self._is_on_top = True

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

    def start_thread(self, step: Callable[[], bool], name: str, *, holds_keys: bool = True) -> None:
        """Start a thread that calls `step` again and again, and stop any other thread of the screen.

        Args:
            step: does some work; returns False if there is nothing to do yet.
            name: the name of the thread.
            holds_keys: whether keys wait for the first result, as they may apply to it.
        """
        self.stop_thread()
        self._first_result = Future()
        if holds_keys:
            self.app.key_queue.wait_for(self._first_result)
        self._step_thread = StepThread(step, self._report_progress, self._report_failure, name)

    def hold_keys(self) -> None:
        """Let keys wait for the first result of the thread, unless it has come."""
        if self._step_thread is not None and not self._first_result.done():
            self.app.key_queue.wait_for(self._first_result)

    def stop_thread(self) -> None:
        """Stop the thread."""
        if self._step_thread is not None:
            self._step_thread.stop()
            self._step_thread = None
            self._release_keys()

    @property
    def is_working(self) -> bool:
        """Whether there is work left."""
        return self._step_thread is not None and self._step_thread.is_busy

    def on_unmount(self) -> None:
        """Stop the thread."""
        self.stop_thread()

    def on_screen_resume(self) -> None:
        """Show the results that came in while the screen was suspended."""
        self._is_on_top = True
        self.post_message(Progressed())

    def on_screen_suspend(self) -> None:
        """Stop drawing: a lower screen's output would be drawn over the top one."""
        self._is_on_top = False

    def draw_later(self, draw: Callable[[], None]) -> None:
        """Draw after the next layout, unless the screen is closed before that."""

        def draw_if_open() -> None:
            try:
                draw()
            except NoMatches:
                if self.is_active:
                    raise

        self.call_after_refresh(draw_if_open)

    def _report_progress(self) -> None:
        if self._is_on_top:
            self.post_message(Progressed())
        self._release_keys()

    def _report_failure(self, reason: str) -> None:
        self.post_message(CaptureUnreadable(self.reading.path, reason))
        self._release_keys()

    def _release_keys(self) -> None:
        """Release the waiting keys. Called by the thread or by the code that ended it, never by both at once."""
        if not self._first_result.done():
            self._first_result.set_result(None)

    @on(CaptureUnreadable)
    def _failed(self, event: CaptureUnreadable) -> None:
        notify(self.app, event.reason, bad=True)
