"""Reader: a pane with a search, whose box is below it."""

import re
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from mcpproxy.tui.details.byte_pages import Page
from mcpproxy.tui.details.find import Lines, Matches, MatchPosition, find, pattern_of
from mcpproxy.tui.host import Host
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.filter_box import LineBox
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.tree import Tree
from mcpproxy.wording.spans import Span


class FindBox(LineBox):
    """The line for the text to find."""

    DEFAULT_CSS = """
    FindBox { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    FindBox:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "to the matches"),
        Binding("escape", "leave", "cancel"),
    ]


class Reader(Vertical):
    """A pane, and the box below it during a search."""

    app: Host

    DEFAULT_CSS = """
    Reader {
        width: 1fr;
        & Pane { height: 1fr; }
        & #finding { height: 1; display: none; padding: 0 1; background: $panel; }
        & #finding-word { width: auto; }
        & #finding-count { width: auto; min-width: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "find", "find", id="filter")]

    class Searched(Message):
        """The thread has finished a search."""

        def __init__(self, number: int, found: Matches, *, is_new: bool) -> None:
            super().__init__()
            self.number, self.found = number, found
            self.is_new = is_new
            """Whether the matches were not known before."""

    class PatternChanged(Message):
        """The text to find has changed."""

        def __init__(self, pattern: re.Pattern[str] | None) -> None:
            super().__init__()
            self.pattern = pattern

    class PageChanged(Message):
        """A match is on another page."""

        def __init__(self, page: int) -> None:
            super().__init__()
            self.page = page

    def __init__(self, *, id: str, pane: str, what: str = "a text in this detail") -> None:  # noqa: A002 - Textual's name
        """Create an empty reader.

        Args:
            id: the id of the widget.
            pane: the id of its pane.
            what: what the box says it searches for.
        """
        super().__init__(id=id)
        self._pane_id, self._placeholder = pane, what
        self._content: Lines | Tree = ()
        self._text = ""
        self._search_number = 0
        """The number of the last search; the results of earlier searches are ignored."""
        self._start_line = 0
        """The line from which the first match is searched for."""
        self._matches = Matches()
        self._match_number = -1
        """The number of the current match."""
        self._thread = ThreadPoolExecutor(1, "find")

    def compose(self) -> ComposeResult:
        """The pane and the box."""
        yield Pane(id=self._pane_id)
        with Horizontal(id="finding"):
            yield SafeText(id="finding-word")
            yield FindBox(self._placeholder, id="find")
            yield SafeText(id="finding-count")

    def on_mount(self) -> None:
        """Label the box."""
        self.query_one("#finding-word", SafeText).show([Span("find ", "accent")])

    def on_unmount(self) -> None:
        """Stop searching."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def pane(self) -> Pane:
        """The pane."""
        return self.query_one(Pane)

    @property
    def is_finding(self) -> bool:
        """Whether a search is active."""
        return self.query_one("#finding").display

    def show(self, content: Lines | Tree) -> None:
        """Show other content; a search continues in it."""
        previous_content, self._content = self._content, content
        self.pane.show_matches(Matches())
        if isinstance(content, Tree):
            self.pane.show_tree(content)
        else:
            self.pane.show_lines(content)
        self._start_line = 0
        if self.is_finding and self._is_next_page(previous_content):
            self._search(self._matches)
        elif self.is_finding:
            self._search()

    def renew(self, lines: Lines) -> None:
        """Update the text of lines that grow with time; the scroll position and the current match of a search stay."""
        if self.is_finding and isinstance(lines, Page):
            return  # its search, which reads the file, found the matches in all pages
        self._content = lines
        self.pane.renew_lines(lines)
        if self.is_finding and self._text:
            self._matches = find(lines, pattern_of(self._text))
            self.pane.show_matches(self._matches)
            if 0 <= self._match_number < len(self._matches.positions):
                self.pane.mark_match(self._matches.positions[self._match_number])
            self._show_count()

    def _is_next_page(self, previous_content: Lines | Tree) -> bool:
        """Whether the content is another page of the same row, all pages of which were already searched."""
        content = self._content
        if not (isinstance(content, Page) and isinstance(previous_content, Page)):
            return False
        return content.key == previous_content.key and self._matches.pattern is not None

    # ---- the box

    def action_find(self) -> None:
        """Open the box for the text to find."""
        self.open_box()

    def open_box(self) -> None:
        """Open the box for the text to find."""
        if not self.is_finding:
            self._start_line = self.pane.top
        self.query_one("#finding").display = True
        self.query_one(FindBox).open(self._text)

    def end_search(self) -> bool:
        """End the search; returns False if there was none."""
        was_finding = self.is_finding
        self.query_one("#finding").display = False
        self._search_number += 1
        self._matches, self._match_number = Matches(), -1
        self.pane.show_matches(self._matches)
        self.post_message(self.PatternChanged(None))
        return was_finding

    @on(LineBox.Cancelled)
    def _box_left(self, event: LineBox.Cancelled) -> None:
        event.stop()
        self.end_search()
        self.pane.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._text or self._matches.pattern is None:
            self._text = event.value
            self._search()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value:
            self.pane.focus()
        else:
            self._box_left(LineBox.Cancelled())

    # ---- searching

    def _search(self, known_matches: Matches | None = None) -> None:
        """Search all of the content or, if all matches are known, only mark those on the current page."""
        self._search_number += 1
        number, content, text = self._search_number, self._content, self._text

        def search() -> None:
            if number != self._search_number:
                return
            if not isinstance(content, Page) or not text:
                matches = find(content, pattern_of(text))
            elif known_matches is not None:
                matches = content.with_ranges(text, known_matches)
            else:
                matches = content.find(text, lambda: number == self._search_number)
            self.post_message(self.Searched(number, matches, is_new=known_matches is None))

        future: Future[None] = self._thread.submit(search)
        self.app.key_queue.wait_for(future)

    @on(Searched)
    def _searched(self, event: Searched) -> None:
        event.stop()
        if event.number != self._search_number:
            return
        self._matches = event.found
        self.post_message(self.PatternChanged(event.found.pattern))
        self.pane.show_matches(event.found)
        if event.is_new or self._page_of_match != self._page:
            self._match_number = self._first_match_number()
        if event.is_new or self._page_of_match == self._page:
            self._show_match()
        else:
            # The user has turned to a page without a match.
            self._show_count()

    @property
    def _page(self) -> int:
        return self._content.page if isinstance(self._content, Page) else 0

    @property
    def _page_of_match(self) -> int:
        places = self._matches.positions
        return places[self._match_number].page if 0 <= self._match_number < len(places) else -1

    def _position_in_content(self, match: MatchPosition) -> MatchPosition:
        """The position of a match in the content that is shown."""
        return self._content.position_of(match) if isinstance(self._content, Page) else match

    def _first_match_number(self) -> int:
        """The number of the first match from the start line on, or else of the very first match; -1 without matches."""
        places, page = self._matches.positions, self._page
        for number, match in enumerate(places):
            if match.page > page or (match.page == page and self._position_in_content(match).line >= self._start_line):
                return number
        return 0 if places else -1

    def change_match(self, by: int) -> None:
        """Go to the next or previous match; after the last comes the first."""
        if self._matches.positions:
            self._match_number = (self._match_number + by) % len(self._matches.positions)
            self._show_match()

    def _show_match(self) -> None:
        """Go to the current match; if it is on another page, request that page."""
        if self._page_of_match == self._page:
            self.pane.go_to(self._position_in_content(self._matches.positions[self._match_number]))
        elif self._page_of_match >= 0:
            self.post_message(self.PageChanged(self._page_of_match))
        self._show_count()

    def _show_count(self) -> None:
        places = self._matches.positions
        if 0 <= self._match_number < len(places):
            count = f"{self._match_number + 1:,} of {len(places):,}{'+' if self._matches.is_cut else ''}   n N"
        else:
            count = "not found" if self._text else ""
        self.query_one("#finding-count", SafeText).show([Span(f" {count}", "plain" if places else "bad")])
