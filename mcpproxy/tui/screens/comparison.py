"""Comparison: what changed between two captures, the worst first, with the values of both side by side."""

from pathlib import Path
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from analysis.comparison.change import Place, SideSummary
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.capture_list import short_name
from mcpproxy.tui.data.comparing import ComparisonRun
from mcpproxy.tui.details.change_view import ChangeText, change_text
from mcpproxy.tui.messages import Progressed
from mcpproxy.tui.rows.comparison_rows import (
    COLUMNS,
    VIEWS,
    ChangeItem,
    ComparisonRows,
    ComparisonView,
    Item,
    count_of,
    item_lines,
    items_of,
)
from mcpproxy.tui.safe_text import SafeText, notify
from mcpproxy.tui.screens.change_kind import ChangeKindScreen
from mcpproxy.tui.screens.list_screen import TO_FILTER, ListScreen
from mcpproxy.tui.screens.titled_screen import PADDING
from mcpproxy.tui.widgets.clickable_line import ClickableLine, Piece
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.reader import Reader
from mcpproxy.tui.widgets.table import Table
from mcpproxy.tui.widgets.word_box import WordBox
from mcpproxy.wording.aligned_json import CONTEXT_LINES
from mcpproxy.wording.change_kinds import ROLES
from mcpproxy.wording.changes import counts_text, failures_of, gap_text, severity_counts, side_facts, verdict_text
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

TALL_HEIGHT: Final = 40
"""The height of the terminal, in lines, from which as much context as in reports is around each difference."""
LOW_CONTEXT_LINES: Final = 1
"""How many equal lines are around each difference in a lower terminal."""
MIN_DIFFERENCE_LINES: Final = 3
"""How many lines from the first difference on are in sight at first."""
MAX_WARNING_LINES: Final = 3
"""How many failures and warnings are listed above the list."""
SCROLL_BAR_CELLS: Final = 1
DETAIL_MARGIN: Final = 2 + SCROLL_BAR_CELLS
"""The cells of the detail that are not text: its padding and its scroll bar."""
EMPTY_TEXTS: Final[dict[ComparisonView, str]] = {
    "not compared": "everything that the captures contain was compared",
    "latency": "no call has latencies",
    "sizes": "no list of definitions is on both sides",
    "ignored": "no value was ignored",
}
"""What an empty list says."""


class ComparisonScreen(ListScreen):
    """A comparison of two captures."""

    DEFAULT_CSS = """
    ComparisonScreen {
        & #sides { height: auto; max-height: 6; padding: 0 1; }
        & #changes { min-height: 2; max-height: 40%; }
        & #nothing { padding: 1 2; display: none; height: 1fr; }
        & #reader { height: 1fr; border-top: solid $line; }
        & #detail { padding: 0 1; }
        &.-figures #changes { max-height: 60%; }
        &.-low #sides { max-height: 2; }
        &.-low #changes { max-height: 25%; }
        &.-full #reader { border-top: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        TO_FILTER,
        Binding("x", "swap", "swap", id="swap"),
        Binding("o", "old_frame", "old frame", id="old-frame"),
        Binding("r", "rule", "kind", id="rule"),
        Binding("tab", "panes", "pane", priority=True, id="panes"),
        Binding("z", "full", "full", id="full"),
        Binding("c", "again", "compare again", id="again"),
        Binding("1", "view(0)", "changes", show=False, id="view-1"),
        Binding("2", "view(1)", "not compared", show=False, id="view-2"),
        Binding("3", "view(2)", "latency", show=False, id="view-3"),
        Binding("4", "view(3)", "sizes", show=False, id="view-4"),
        Binding("5", "view(4)", "ignored", show=False, id="view-5"),
        Binding("n", "match(1)", "next", show=False, id="next"),
        Binding("N", "match(-1)", "previous", show=False, id="previous"),
    ]
    LIST = "#changes"
    DETAIL = "#detail"

    def __init__(self, old: Path, new: Path) -> None:
        """Create the screen of a comparison, which begins when it is shown.

        Args:
            old: the capture that was relied on.
            new: the capture that is to be judged.
        """
        super().__init__()
        self.box = WordBox("words in severity, kind, name, change", of="comparison", id="filter")
        self.view: ComparisonView = "changes"
        self.comparing = ComparisonRun(old, new, self._report_progress)
        self._rows = ComparisonRows()
        self._detail_state: object = None

    def compose(self) -> ComposeResult:
        """The sides, the list, and below it the detail of a row."""
        yield ClickableLine(id="title")
        yield SafeText(id="sides")
        yield ClickableLine(id="views")
        yield Table(COLUMNS[self.view], id="changes")
        yield SafeText(id="nothing")
        yield Reader(id="reader", pane="detail")
        yield self.box
        yield Foot()

    def on_mount(self) -> None:
        """Start comparing."""
        self.comparing.start()
        self.table.show(self._rows)
        self.table.focus()
        self.update_rows()

    def on_unmount(self) -> None:
        """Stop comparing."""
        self.comparing.close()

    def _report_progress(self) -> None:
        self.post_message(Progressed())

    @property
    def item(self) -> Item | None:
        """The item at the cursor."""
        return self._rows.at(self.table.cursor)

    @property
    def reader(self) -> Reader:
        """The reader that shows the detail, and searches it."""
        return self.query_one(Reader)

    # ---- updates

    @on(Progressed)
    @on(events.ScreenResume)
    @on(WordBox.WordsChanged)
    def update_rows(self) -> None:
        """Show the items of the list that match the words."""
        comparison = self.comparing.comparison
        items = items_of(comparison, self.view, self.box.words) if comparison is not None else []
        if items != self._rows.items:
            self.replace_rows(self._rows, items, key=lambda item: item)
        self.table.set_columns(self._rows.fit_columns(self.view, self.app.size.width - SCROLL_BAR_CELLS))
        self.table.styles.height = 1 + len(items)  # the detail gets the rest
        self.set_class(self.view != "changes", "-figures")
        self.show_title()
        self._show_sides()
        self._show_views()
        is_empty = not items
        self.display_table(is_shown=not is_empty and not self.has_class("-full"))
        self.reader.display = not is_empty
        nothing = self.query_one("#nothing", SafeText)
        nothing.display = is_empty
        nothing.show_lines(self._empty_lines())
        self._show()

    def show_title(self) -> None:
        """Update the title to match the screen."""
        comparing = self.comparing
        comparison = comparing.comparison
        if comparison is None and comparing.trouble:
            spans = [Span("  ✗ failed", "bad"), Span("  c: compare again", "dim")]
        elif comparison is None:
            spans = [Span(f"  {comparing.stage} …", "dim")]
        else:
            counts = severity_counts(comparison.changes)
            is_failed = bool(failures_of(comparison))
            spans = [Span("  ✗ could not be compared", "bad")] if is_failed else []
            spans += [Span(f"  {counts_text(counts)}", ROLES[max(counts)])] if counts else []
            spans += [Span(f"  {verdict_text(comparison)}")] if not counts and not is_failed else []
            spans += [Span(f"  {comparison.accepted:,} accepted", "dim")] if comparison.accepted else []
        if self.box.words:
            spans.append(Span(f"  filter: {self.box.words} ({len(self._rows):,})", "accent"))
        self.set_title(spans)

    def _show_sides(self) -> None:
        """Name both sides, and list what the user must know of them: failures first."""
        comparing, lines = self.comparing, list[list[Span]]()
        comparison = comparing.comparison
        sides: tuple[tuple[str, Path, SideSummary | None], ...] = (
            ("old", comparing.old, comparison.old if comparison is not None else None),
            ("new", comparing.new, comparison.new if comparison is not None else None),
        )
        problems: list[str] = []
        for word, path, side in sides:
            facts = " · ".join(side_facts(side)) if side is not None else ""
            lines.append([Span(f"{word}  ", "dim"), Span(short_name(path), "accent"), Span(f"  {facts}", "dim")])
            problems += [f"▲ {word}: {sanitise(text, 300)}" for text in (side.warnings if side is not None else ())]
        if comparison is not None:
            problems = [*(f"✗ not compared: {gap_text(gap)}" for gap in failures_of(comparison)), *problems]
        lines += [[Span(text, "bad")] for text in problems[:MAX_WARNING_LINES]]
        if len(problems) > MAX_WARNING_LINES:
            lines.append([Span(f"… {len(problems) - MAX_WARNING_LINES:,} more", "bad")])
        width = self.app.size.width - PADDING
        self.query_one("#sides", SafeText).show_lines(fit_spans(line, width)[0] for line in lines)

    def _show_views(self) -> None:
        pieces: list[Piece] = []
        comparison, totals = self.comparing.comparison, self.comparing.totals
        for number, view in enumerate(VIEWS, 1):
            count = f" {count_of(comparison, totals, view)}" if comparison is not None and totals is not None else ""
            role: Role = "accent" if view == self.view else "dim"
            pieces.append(Piece(Span(f"{'  ' if pieces else ''}{number} {view}{count}", role), view))
        self.query_one("#views", ClickableLine).show_pieces(pieces)

    def _empty_lines(self) -> list[str]:
        """Returns why the list is empty; that of a failed comparison never sounds like a clean one."""
        comparing = self.comparing
        comparison = comparing.comparison
        width = max(10, self.size.width - 6)
        if comparison is None and comparing.trouble:
            return [*wrapped(f"The comparison has failed: {sanitise(comparing.trouble, None)}", width)]
        if comparison is None:
            return [f"{comparing.stage} …"]
        if self.box.words:
            return ["nothing here contains all of these words; Esc shows all"]
        if self.view != "changes":
            return [EMPTY_TEXTS[self.view]]
        is_failed = bool(failures_of(comparison))
        return [*wrapped(verdict_text(comparison), width), *(["2: what was not compared"] if is_failed else [])]

    # ---- the detail

    def _show(self) -> None:
        item, width = self.item, max(20, self.size.width - DETAIL_MARGIN)
        if item is None:
            self._detail_state = None
            return
        detail = None
        if isinstance(item, ChangeItem):
            self.comparing.request_detail(item.number)
            detail = self.comparing.detail
        context = CONTEXT_LINES if self.app.size.height >= TALL_HEIGHT else LOW_CONTEXT_LINES
        state = (item, detail is not None, self.comparing.trouble, width, context)
        if state != self._detail_state:
            self._detail_state = state
            text = self._text(item, width, context)
            self.reader.show(text.lines)
            if text.first_difference is not None:
                # How much is in sight is known only after the next layout.
                self.call_after_refresh(self._show_difference, text.first_difference, state)

    def _show_difference(self, line: int, state: object) -> None:
        """Scroll to the first difference if it is not in sight, unless something else is shown by now."""
        if self._detail_state == state:
            pane = self.reader.pane
            pane.show_line(line + min(MIN_DIFFERENCE_LINES - 1, pane.size.height // 3))

    def _text(self, item: Item, width: int, context: int) -> ChangeText:
        comparing = self.comparing
        if isinstance(item, ChangeItem) and comparing.comparison is not None:
            return change_text(
                item.change, comparing.comparison, comparing.detail, width, comparing.trouble, context=context
            )
        lines = item_lines(item) if not isinstance(item, ChangeItem) else []
        return ChangeText([[Span(piece)] for line in lines for piece in wrapped(line, width)])

    @on(Table.RowHighlighted)
    def _moved(self) -> None:
        self._show()

    def on_resize(self) -> None:
        """Wrap lines for the new width."""
        self.update_rows()

    # ---- keys

    @on(Table.RowSelected)
    def _choose(self) -> None:
        """Go to the frame that shows the change: on the new side, or else on the old one."""
        item = self.item
        if isinstance(item, ChangeItem):
            place = item.change.new or item.change.old
            self._go_to(place, self.comparing.new if item.change.new is not None else self.comparing.old)

    def action_old_frame(self) -> None:
        """Go to the frame that shows the change on the old side."""
        item = self.item
        if isinstance(item, ChangeItem):
            self._go_to(item.change.old, self.comparing.old)

    def _go_to(self, place: Place | None, path: Path) -> None:
        if place is None or place.frame < 0:
            notify(self.app, "no frame of this side shows it")
        else:
            self.app.show_frame(place.frame, path)

    def action_view(self, number: int) -> None:
        """Show another list."""
        if self.view != VIEWS[number]:
            self.view = VIEWS[number]
            self.has_moved = False
            self.table.cursor = 0
            self.update_rows()

    @on(ClickableLine.Clicked, "#views")
    def _choose_view(self, event: ClickableLine.Clicked) -> None:
        if event.target in VIEWS:
            self.action_view(VIEWS.index(event.target))

    def action_swap(self) -> None:
        """Compare the other way round: the new side becomes the old one."""
        self.comparing.swap()
        self.update_rows()

    def action_again(self) -> None:
        """Compare both captures again, up to their present ends."""
        self.comparing.close()
        self.comparing = ComparisonRun(self.comparing.old, self.comparing.new, self._report_progress)
        self.comparing.start()
        self.update_rows()

    def action_rule(self) -> None:
        """Show the page of the kind of change."""
        item = self.item
        if isinstance(item, ChangeItem):
            self.app.push_screen(ChangeKindScreen(item.change.kind))

    def action_full(self) -> None:
        """Give the detail the whole screen, or only its share."""
        if self.reader.display:
            self._set_full(is_full=not self.has_class("-full"))

    def _set_full(self, *, is_full: bool) -> None:
        self.set_class(is_full, "-full")
        self.query_one("#sides").display = self.query_one("#views").display = not is_full
        self.display_table(is_shown=not is_full)
        (self.pane if is_full else self.table).focus()

    def action_panes(self) -> None:
        """Move between the list and the detail."""
        if self.has_class("-full"):
            self._set_full(is_full=False)
        else:
            super().action_panes()

    def action_match(self, by: int) -> None:
        """Go to the next or previous match in the detail."""
        self.reader.change_match(by)

    def action_filter(self) -> None:
        """Let the user type words that the rows must contain."""
        if self.has_class("-full"):
            self._set_full(is_full=False)
        self.box.edit()

    def clear_filter(self) -> bool:
        """Show all rows again; returns False if they all are shown already."""
        return self.box.clear_words()

    def close_detail(self) -> bool:
        """End the search in the detail, or make the detail smaller again; returns False if there was nothing to do."""
        if self.reader.is_finding:
            return self.reader.end_search()
        was_full = self.has_class("-full")
        if was_full:
            self._set_full(is_full=False)
        return was_full
