"""Change kind: the page of a kind of change, as `mcpproxy compare --explain` prints it."""

from analysis.comparison.kind import Kind
from mcpproxy.tui.screens.page import PageScreen
from mcpproxy.wording.change_kinds import page_spans
from mcpproxy.wording.spans import Span


class ChangeKindScreen(PageScreen):
    """The page of a kind of change: what happened, why it matters, and an example."""

    def __init__(self, kind: Kind) -> None:
        """Create the page of a kind."""
        super().__init__()
        self.kind = kind

    def lines(self, width: int) -> list[list[Span]]:
        """Returns the page."""
        return [*page_spans(self.kind, width)]
