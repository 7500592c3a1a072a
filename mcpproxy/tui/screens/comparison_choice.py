"""Comparison choice: the capture that is marked in the list of sessions, to be compared with another one."""

from collections.abc import Sequence
from pathlib import Path

from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screens.comparison import ComparisonScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen


class ComparisonChoice:
    """Chooses two captures for a screen that lists them, and opens their comparison."""

    def __init__(self, screen: TitledScreen) -> None:
        """Start without a mark.

        Args:
            screen: the screen that lists the captures.
        """
        self.marked: Path | None = None
        """The marked capture."""
        self._screen = screen

    def choose(self, capture: ListedCapture, captures: Sequence[ListedCapture]) -> None:
        """Mark a capture or, if one is marked, compare the two; the one that began earlier is the old side.

        If the marked capture is chosen again, it is compared with the previous one of the same server.

        Args:
            capture: the chosen capture.
            captures: all captures.
        """
        if not capture.is_readable:
            notify(self._screen.app, "this capture cannot be read", bad=True)
            return
        marked_capture = next((candidate for candidate in captures if candidate.path == self.marked), None)
        if marked_capture is None:
            self.marked = capture.path
            return
        other = previous_capture(capture, captures) if capture is marked_capture else marked_capture
        if other is None:
            notify(self._screen.app, "this server has no earlier capture")
            return
        self.marked = None
        old, new = sorted((capture, other), key=_age_order)
        self._screen.app.push_screen(ComparisonScreen(old.path, new.path))

    def clear(self) -> bool:
        """Remove the mark; returns False if there was none."""
        was_marked = self.marked is not None
        self.marked = None
        return was_marked


def previous_capture(capture: ListedCapture, captures: Sequence[ListedCapture]) -> ListedCapture | None:
    """Returns the newest capture of the same server that began before this one, or None if there is none."""
    earlier_captures = [
        candidate
        for candidate in captures
        if candidate.is_readable and candidate.server == capture.server and _age_order(candidate) < _age_order(capture)
    ]
    return max(earlier_captures, key=_age_order, default=None)


def _age_order(capture: ListedCapture) -> tuple[int, str]:
    return capture.began_ns, str(capture.path)
