"""Row comparison: two rows of a capture side by side, with their differences; for calls, the whole exchanges."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.detail import entry_name
from mcpproxy.tui.details.row_comparison import RowComparison, compare_rows
from mcpproxy.tui.details.row_comparison_view import ComparisonText, comparison_text
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import bind_switches
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.wording.cells import cells
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Span

PANE_MARGIN: Final = 4
"""The cells of the pane that are not text: its padding, its scroll bar, and the sign of the current difference."""
CURRENT_SIGN: Final = "▸"
"""The sign before the difference to which a key has led."""


class RowComparisonScreen(TitledScreen):
    """A comparison of two rows."""

    DEFAULT_CSS = """
    RowComparisonScreen {
        & #reader { height: 1fr; }
        & #compared { padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "match(1)", "next difference", id="next"),
        Binding("N", "match(-1)", "previous difference", show=False, id="previous"),
        Binding("enter", "new_frame", "new frame", priority=True, id="open"),
        Binding("o", "old_frame", "old frame", id="old-frame"),
        Binding("x", "swap", "swap", id="swap"),
        Binding("escape", "back", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]

    def __init__(self, reading: Reading, old_row: int, new_row: int) -> None:
        """Create the screen; a thread reads both rows.

        Args:
            reading: the capture.
            old_row: the row that is shown as the old side.
            new_row: the row that is shown as the new side.
        """
        super().__init__()
        self.reading, self.old_row, self.new_row = reading, old_row, new_row
        self.comparison: RowComparison | None = None
        """The comparison; None until both rows have been read."""
        self._text = ComparisonText([], [])
        self._current_line = -1
        """The line of the difference to which a key has led; -1 before that."""
        self._trouble = ""
        """Why the rows cannot be compared; empty if they can."""
        self._thread = ThreadPoolExecutor(1, "row comparison")
        bind_switches(self._bindings, "")

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

    @property
    def entry(self) -> int:
        """The row from which other screens are opened."""
        return self.new_row

    @property
    def reader(self) -> Reader:
        """The reader that shows the comparison, and searches it."""
        return self.query_one(Reader)

    def compose(self) -> ComposeResult:
        """The title and the text."""
        yield ClickableLine(id="title")
        yield Reader(id="reader", pane="compared")
        yield Foot()

    def on_mount(self) -> None:
        """Read both rows."""
        self.reader.pane.focus()
        self._compare()

    def on_unmount(self) -> None:
        """Cancel work that has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _compare(self) -> None:
        old_row, new_row = self.old_row, self.new_row

        def compare() -> None:
            try:
                self.call_later(self._show, compare_rows(self.reading, old_row, new_row), "")
            except OSError as error:
                self.call_later(self._show, None, error.strerror or str(error))

        self.app.key_queue.wait_for(self._thread.submit(compare))

    def _show(self, comparison: RowComparison | None, trouble: str) -> None:
        self.comparison, self._trouble = comparison, trouble
        self._lay_out()

    def _lay_out(self) -> None:
        """Show the comparison in the width of the terminal."""
        if self.comparison is not None:
            self._text = comparison_text(self.comparison, self.app.size.width - PANE_MARGIN)
            self._current_line = -1
            self.reader.show(self._lines())
        self.show_title()

    def _lines(self) -> Sequence[Sequence[Span]]:
        """The lines, with a sign before the current difference."""
        return [
            [Span(CURRENT_SIGN if number == self._current_line else " ", "accent"), *line]
            for number, line in enumerate(self._text.lines)
        ]

    def on_resize(self) -> None:
        """Fit the comparison to the new width."""
        self._lay_out()

    def show_title(self) -> None:
        """Say what is compared, and how many differences there are."""
        comparison = self.comparison
        if comparison is None:
            self.set_title([Span(f"  ✗ cannot be compared: {self._trouble}" if self._trouble else "  …", "bad")])
            return
        count = comparison.difference_count
        more = "" if comparison.is_whole else "+" if count else " in what was compared"
        if count:
            differences = Span(f"  {count:,}{more} {count_text(count, 'difference').partition(' ')[2]}", "warm")
        else:
            differences = Span(f"  no difference{more}", "accent")
        rows = " and ".join(entry_name(self.reading.index.entry(row)) for row in (self.old_row, self.new_row))

        def name_rows(room: int) -> list[Span]:
            return [Span(f"  {rows}", "dim")] if cells(rows) + 2 <= room else []

        self.set_title([differences, Span(f"  {comparison.subject}")], name_rows)

    # ---- keys

    def action_match(self, by: int) -> None:
        """Go to the next or previous difference; during a search, to the next or previous match."""
        if self.reader.is_finding:
            self.reader.change_match(by)
            return
        pane, lines, line = self.reader.pane, self._text.difference_lines, self._current_line
        if not pane.is_shown(line):
            line = pane.top - (by > 0)
        position = bisect_right(lines, line) if by > 0 else bisect_left(lines, line) - 1
        if 0 <= position < len(lines):
            self._current_line = lines[position]
            pane.renew_lines(self._lines())
            pane.show_line(self._current_line)
        else:
            notify(self.app, f"no difference {'below' if by > 0 else 'above'}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Leave Enter to the box for a text to find while it has the focus."""
        return action != "new_frame" or not isinstance(self.focused, Input)

    def action_new_frame(self) -> None:
        """Go to the new row in the traffic."""
        self.app.show(self.new_row)

    def action_old_frame(self) -> None:
        """Go to the old row in the traffic."""
        self.app.show(self.old_row)

    def action_swap(self) -> None:
        """Compare the other way round: the new side becomes the old one."""
        self.old_row, self.new_row = self.new_row, self.old_row
        self._compare()

    def action_back(self) -> None:
        """End the search, or else go back to the traffic."""
        if not self.reader.end_search():
            self.app.pop_screen()
