"""Pane: lines of text, wrapped or foldable, drawn line by line; shows the detail of one row."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mcpproxy.tui.details.find import Matches, MatchPosition
from mcpproxy.tui.safe_text import cursor_styles, marked_strip, role_styles, segments, strip
from mcpproxy.tui.widgets.tree import Tree
from mcpproxy.wording.spans import Span


class Pane(ScrollView, can_focus=True):
    """Lines to read, with a cursor if they fold."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "pane--plain", "pane--accent", "pane--server", "pane--dim", "pane--warm", "pane--bad",
        "pane--cursor", "pane--found", "pane--match",
    }  # fmt: skip
    DEFAULT_CSS = """
    Pane {
        background: $surface; color: $foreground; scrollbar-size-vertical: 1; overflow-x: hidden;
        & .pane--plain { color: $foreground; }
        & .pane--accent { color: $accent; }
        & .pane--server { color: $server; }
        & .pane--dim { color: $dim; }
        & .pane--warm { color: $text-warning; text-style: bold; }
        & .pane--bad { color: $text-error; text-style: bold; }
        & .pane--cursor { background: $primary-muted; text-style: bold; }
        & .pane--found { text-style: underline; color: $foreground; background: $primary-muted; }
        & .pane--match { text-style: bold reverse; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="up"),
        Binding("down,j", "move(1)", "Down", show=False, id="down"),
        Binding("pageup,ctrl+u,ctrl+b", "page(-1)", "Page up", show=False, id="page-up"),
        Binding("pagedown,ctrl+d,ctrl+f,space", "page(1)", "Page down", show=False, id="page-down"),
        Binding("home,g", "edge(-1)", "First", show=False, id="first"),
        Binding("end,G", "edge(1)", "Last", show=False, id="last"),
        Binding("left,h", "fold(True)", "Fold", show=False, id="fold"),
        Binding("right,l", "fold(False)", "Unfold", show=False, id="unfold"),
        Binding("enter", "turn", "Fold or unfold", show=False, id="fold-or-unfold"),
    ]

    class LeaveRequested(Message):
        """The key for the list was pressed, and there is nothing to fold."""

    class EndPassed(Message):
        """A key led to the first or last line, or beyond it: there may be more pages."""

        def __init__(self, by: int, *, to_edge: bool) -> None:
            super().__init__()
            self.by = by
            """-1 for up, 1 for down."""
            self.to_edge = to_edge
            """Whether the key leads to the very first or last line."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._lines: Sequence[Sequence[Span]] = ()
        self.folding_tree: Tree | None = None
        self.cursor = 0
        self.matches = Matches()
        """The matches that are marked."""
        self._current_match: MatchPosition | None = None

    def show_lines(self, lines: Sequence[Sequence[Span]]) -> None:
        """Show lines as they are."""
        self._lines, self.folding_tree = lines, None
        self._go_to_top()

    def renew_lines(self, lines: Sequence[Sequence[Span]]) -> None:
        """Update the text of the lines; keep the scroll position."""
        if self.folding_tree is None and lines == self._lines:
            return
        self._lines, self.folding_tree = lines, None
        self.virtual_size = Size(1, len(self))
        self.refresh()

    def show_tree(self, tree: Tree) -> None:
        """Show the lines of a tree, which fold."""
        self._lines, self.folding_tree = (), tree
        self._go_to_top()

    def show_matches(self, matches: Matches) -> None:
        """Mark matches."""
        self.matches, self._current_match = matches, None
        self.refresh()

    def mark_match(self, match: MatchPosition) -> None:
        """Mark a match as the current one, without going there."""
        self._current_match = match
        self.refresh()

    @property
    def top(self) -> int:
        """The line at the cursor, or the first line that is shown if there is no cursor."""
        return self.folding_tree.visible_lines[self.cursor] if self.folding_tree is not None else int(self.scroll_y)

    @property
    def match_line(self) -> int | None:
        """The line of the current match, or None if there is none."""
        return self._current_match.line if self._current_match is not None else None

    def go_to(self, match: MatchPosition) -> None:
        """Show a match, and mark it as the current one."""
        self._current_match = match
        tree = self.folding_tree
        if tree is not None:
            tree.reveal(match.line)
            if match.part >= 0 and match.line not in tree.unfolded_texts:
                tree.unfold(match.line)
            self.virtual_size = Size(1, len(self))
            self._move_cursor_to(tree.visible_index(match.line, match.part))
        else:
            self.show_line(match.line)
        self.refresh()

    def is_shown(self, line: int) -> bool:
        """Whether a line is in sight."""
        return int(self.scroll_y) <= line < int(self.scroll_y) + max(1, self.scrollable_content_region.height)

    def show_line(self, line: int) -> None:
        """Scroll to a line, unless it is in sight."""
        if not self.is_shown(line):
            height = max(1, self.scrollable_content_region.height)
            self.scroll_to(y=max(0, line - height // 3), animate=False, immediate=True, force=True)

    def go_to_line(self, line: int) -> None:
        """Put the cursor on a visible line of a tree."""
        if self.folding_tree is not None:
            self._move_cursor_to(self.folding_tree.visible_lines.index(line))

    def __len__(self) -> int:
        return len(self.folding_tree.visible_lines) if self.folding_tree is not None else len(self._lines)

    def __bool__(self) -> bool:
        return True

    def _go_to_top(self) -> None:
        self.cursor = 0
        self.virtual_size = Size(1, len(self))
        self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move one line up or down."""
        if self.folding_tree is None:
            self._scroll_by(by)
        else:
            self._move_cursor_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move one screenful up or down."""
        if self.folding_tree is None:
            self._scroll_by(by * self.scrollable_content_region.height)
        else:
            self._move_cursor_to(self.cursor + by * self.scrollable_content_region.height)

    def _scroll_by(self, lines: int) -> None:
        if self.scroll_y >= self.max_scroll_y if lines > 0 else self.scroll_y <= 0:
            self.post_message(self.EndPassed(1 if lines > 0 else -1, to_edge=False))
        else:
            self.scroll_relative(y=lines, animate=False, immediate=True)

    def action_edge(self, direction: int) -> None:
        """Go to the first or the last line."""
        last_line = max(0, len(self) - 1)
        if self.folding_tree is None:
            self.scroll_to(y=0 if direction < 0 else last_line, animate=False, immediate=True, force=True)
            self.post_message(self.EndPassed(direction, to_edge=True))
        else:
            self._move_cursor_to(0 if direction < 0 else last_line)

    def action_fold(self, fold: bool) -> None:
        """Fold or unfold the part that the line opens or belongs to; if nothing folds, leave the pane."""
        if fold and self.folding_tree is None:
            self.post_message(self.LeaveRequested())
        self._toggle(fold)

    def action_turn(self) -> None:
        """Toggle the fold."""
        self._toggle(None)

    def _toggle(self, fold: bool | None) -> None:
        if self.folding_tree is None:
            return
        self.cursor = self.folding_tree.toggle(self.cursor, fold=fold)
        self.virtual_size = Size(1, len(self))
        if self.folding_tree.visible_lines[self.cursor] in self.folding_tree.unfolded_texts:
            # The unfolded lines are below.
            height = max(1, self.scrollable_content_region.height)
            top = self.cursor - height // 3
            if top > int(self.scroll_y):
                self.scroll_to(y=top, animate=False, immediate=True, force=True)
        self._move_cursor_to(self.cursor)

    def _move_cursor_to(self, line: int) -> None:
        self.cursor = max(0, min(line, len(self) - 1))
        top, height = int(self.scroll_y), max(1, self.scrollable_content_region.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True, force=True)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the line; another click, or a click on the sign of a fold, folds or unfolds the line."""
        offset, tree = event.get_content_offset(self), self.folding_tree
        line = int(self.scroll_y) + offset.y if offset is not None else len(self)
        if offset is None or tree is None or line >= len(self):
            return
        is_repeated = line == self.cursor and event.chain > 1
        self._move_cursor_to(line)
        if is_repeated or tree.is_on_sign(line, offset.x):
            self._toggle(None)

    def validate_scroll_y(self, value: float) -> float:
        """Start at a whole line: a dragged scroll bar may stop within one, which would leave lines undrawn."""
        return round(super().validate_scroll_y(value))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Keep the cursor in sight when the mouse scrolls."""
        super().watch_scroll_y(old_value, new_value)
        if self.folding_tree is not None:
            top, height = int(new_value), max(1, self.scrollable_content_region.height)
            self.cursor = max(0, min(max(self.cursor, top), top + height - 1, len(self) - 1))

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width, line = self.scrollable_content_region.width, int(self.scroll_y) + y
        base = self.rich_style
        spans: Sequence[Span] = ()
        if line < len(self):
            spans = self.folding_tree.spans(line) if self.folding_tree is not None else self._lines[line]
        is_current = self.folding_tree is not None and line == self.cursor and self.has_focus
        styles = cursor_styles(self, base, "pane") if is_current else role_styles(self, base, "pane")
        line_strip = strip(segments(spans, width, styles), width)
        if self.matches.pattern is None:
            return line_strip
        text = "".join(span.text for span in spans)
        found_style, match_style = (
            self.get_component_rich_style(f"pane--{name}", partial=True) for name in ("found", "match")
        )
        marks = [
            (start, end, match_style if self._is_match(line, start) else found_style)
            for start, end in self.matches.ranges_in_line(line, text)
        ]
        return marked_strip(line_strip, text, marks)

    def _is_match(self, line: int, start: int) -> bool:
        """Whether the current match begins at a character of a line."""
        match, tree = self._current_match, self.folding_tree
        if match is None:
            return False
        if tree is not None:
            return (tree.visible_lines[line], tree.parts[line]) == (match.line, match.part)
        return (line, start) == (match.line, match.start)
