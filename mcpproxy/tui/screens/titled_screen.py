"""The base of screens with a title, which begins with a breadcrumb."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.screen import Screen

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.breadcrumb import Crumb, fitted_pieces
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.host import Host
from mcpproxy.tui.screen_entries import word_of
from mcpproxy.tui.widgets.clickable_line import ClickableLine, Piece
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.spans import Span

MAX_NAME_CELLS: Final = 60
"""The maximum width of a capture's name in a title, in cells."""
MIN_BREADCRUMB_CELLS: Final = 16
"""The minimum width of the breadcrumb, in cells, even if the rest of the title must be cut."""
PADDING: Final = 2
"""The number of cells of the title line that stay empty."""

Breadcrumb = list[Crumb]


class TitledScreen(Screen[None]):
    """A screen that composes a `ClickableLine` with the id `title`."""

    app: Host

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("H", "app.sessions", "sessions", id="sessions"),
        Binding("full_stop", "app.places", "places", id="places"),
    ]

    @property
    def subject(self) -> Reading | None:
        """The capture that the screen shows, or None if it shows several."""
        return None

    @property
    def is_capture_itself(self) -> bool:
        """Whether the name of the capture is the crumb of this screen."""
        return False

    @property
    def session(self) -> int | None:
        """The number of the session at the cursor, or None if the capture has only one."""
        return None

    @property
    def part(self) -> str:
        """The part of the content that the user has opened, such as `frame 18`, or an empty text if none is open."""
        return ""

    @property
    def position(self) -> str:
        """Where the cursor is in the list, such as `3/1,204`, or an empty text if there is no list."""
        return ""

    def breadcrumb(self) -> Breadcrumb:
        """The crumbs from the list of sessions to this screen."""
        stack = self.app.screen_stack
        lower_screens = stack[: stack.index(self)] if self in stack else stack
        crumbs: Breadcrumb = []
        is_named = False
        for screen in [*(lower for lower in lower_screens if isinstance(lower, TitledScreen)), self]:
            is_named = screen._add_crumbs(crumbs, is_named=is_named)
        if self.part:
            crumbs.append(Crumb(self.part, self))
        return [*crumbs[:1], *(Crumb(text) for text in self.app.return_crumbs), *crumbs[1:]]

    def _add_crumbs(self, crumbs: Breadcrumb, *, is_named: bool) -> bool:
        """Add the crumbs of this screen, and the name of the capture once; returns whether the crumbs include it."""
        reading = self.subject
        is_name_due = reading is not None and not is_named
        if reading is not None and is_name_due:
            session = "" if self.session is None else f" · session {self.session:,}"
            target = self if self.is_capture_itself else None
            crumbs.append(Crumb(fit(sanitise(reading.name), MAX_NAME_CELLS), target, is_name=True, after=session))
        if not (is_name_due and self.is_capture_itself):
            crumbs.append(Crumb(word_of(self), self))
        return is_named or is_name_due

    def show_title(self) -> None:
        """Update the title to match the screen."""
        raise NotImplementedError

    @on(events.Resize)
    def _fit_title(self) -> None:
        """Fit the title."""
        self.show_title()

    def set_title(self, spans: Iterable[Span | Piece], fill: Callable[[int], Sequence[Span]] | None = None) -> None:
        """Show the title.

        Args:
            spans: what the screen shows, placed after the breadcrumb; a click on a piece runs the action that it names.
            fill: returns more spans, for the number of cells that are left.
        """
        try:
            line = self.query_one("#title", ClickableLine)
        except NoMatches:
            return  # the screen was closed
        width = self.app.size.width - PADDING
        pieces = [span if isinstance(span, Piece) else Piece(span) for span in spans]
        needed_cells = sum(cells(piece.span.text) for piece in pieces)
        crumbs = fitted_pieces(self.breadcrumb(), max(width - needed_cells, min(MIN_BREADCRUMB_CELLS, width)))
        cells_left = width - needed_cells - sum(cells(crumb.span.text) for crumb in crumbs)
        # The position never costs a place of the path.
        position = f"  [{self.position}]" if self.position else ""
        position = position if len(position) <= cells_left else ""
        last_spans = fill(cells_left - len(position)) if fill is not None else ()
        pieces = [*crumbs, *pieces, *map(Piece, last_spans)]
        if position:
            padding_cells = width - len(position) - sum(cells(piece.span.text) for piece in pieces)
            pieces.append(Piece(Span(" " * padding_cells + position, "dim")))
        line.show_pieces(pieces, width)

    @on(ClickableLine.Clicked, "#title")
    async def _go_to_place(self, event: ClickableLine.Clicked) -> None:
        event.stop()
        if isinstance(event.target, Screen):
            self.app.return_to(event.target)
        elif isinstance(event.target, str):
            await self.run_action(event.target)
