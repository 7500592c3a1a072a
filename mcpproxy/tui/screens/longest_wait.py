"""Longest wait: takes the user to the call that has waited longest, with its exchange open: why does it hang?"""

from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.widgets.clickable_line import Piece
from mcpproxy.tui.widgets.split import Split
from mcpproxy.wording.spans import Span
from mcpproxy.wording.waits import MIN_SHOWN_WAIT_NS, short_waiting_text, waiting_role

EXCHANGE_VIEW: Final = "exchange"
NOTHING_WAITS: Final = "nothing waits for a response"


class LongestWait:
    """Goes to the waiting calls of one capture, the oldest first."""

    def __init__(self, reading: Reading, split: Split, reach: Callable[[int], None], *, is_goal: bool) -> None:
        """Prepare to go to a call.

        Args:
            reading: the capture.
            split: the list and the detail.
            reach: puts the cursor on an entry, regardless of the filter.
            is_goal: whether to go to the oldest call as soon as everything recorded so far is understood.
        """
        self._reading, self._split, self._reach, self._is_goal = reading, split, reach, is_goal
        self._goal_count = 0
        """The number of rows when the end of the capture was first reached; 0 before that."""

    def arrive(self) -> None:
        """Go to the oldest call if the screen was opened for it, and what was recorded before that is understood."""
        reading = self._reading
        if not self._is_goal:
            return
        if reading.index.tail.is_at_end and not self._goal_count:
            self._goal_count = len(reading.index)
        if reading.has_ended or 0 < self._goal_count <= reading.interpreted_count:
            self._is_goal = False
            self.go()

    def go(self) -> None:
        """Go to the call that has waited longest or, from that call's exchange, to the one that was sent next."""
        reading, listing, detail = self._reading, self._split.listing, self._split.detail
        number = None if listing.entry is None else reading.call(listing.entry)
        is_shown = number is not None and detail.display and detail.view == EXCHANGE_VIEW
        waiting = reading.waiting
        is_next = is_shown and number is not None and waiting.is_waiting(number)
        goal = waiting.next_longest(number if is_next and number is not None else -1) if reading.is_live else None
        if goal is None:
            notify(self._split.app, NOTHING_WAITS)
            return
        self._reach(reading.calls.request[goal])
        self._split.show_view(EXCHANGE_VIEW)
        if self._split.screen.has_class("-low") and not self._split.is_full:
            # The share of the detail would show its first lines only, and not why the call waits.
            self._split.show_full()


def waiting_pieces(count: int, oldest_ns: int, action: str) -> list[Piece]:
    """How many calls wait, for a title, and the key that leads there; nothing while all waits are short.

    Args:
        count: how many wait.
        oldest_ns: how long the oldest has waited.
        action: the action of the screen that goes there, for a click.
    """
    if not count or oldest_ns < MIN_SHOWN_WAIT_NS:
        return []
    return [Piece(Span(f"  {short_waiting_text(count, oldest_ns)} · w", waiting_role(oldest_ns)), action)]


def session_with_longest_wait(
    selected: ListedCapture | None, captures: Sequence[ListedCapture]
) -> ListedCapture | None:
    """Returns the session at the cursor if a call hangs in it, or else the one whose call has waited longest.

    Args:
        selected: the session at the cursor.
        captures: all listed sessions.
    """
    if selected is not None and (_waited_ns(selected) or 0) >= MIN_SHOWN_WAIT_NS:
        return selected
    waiting = [capture for capture in captures if _waited_ns(capture) is not None]
    return max(waiting, key=lambda capture: _waited_ns(capture) or 0, default=None)


def _waited_ns(capture: ListedCapture) -> int | None:
    return capture.summary.waited_ns if capture.is_live and capture.summary is not None else None
