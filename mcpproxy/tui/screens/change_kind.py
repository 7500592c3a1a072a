"""Change kind: the page of a kind of change, as `mcpproxy compare --explain` prints it."""

from analysis.comparison.kind import Kind
from mcpproxy.tui.rows.code_spans import code_lines
from mcpproxy.tui.screens.page import PageScreen
from mcpproxy.wording.change_kinds import page_spans
from mcpproxy.wording.spans import Span


class ChangeKindScreen(PageScreen):
    """The page of a kind of change: what happened, why it matters, and an example."""

    def __init__(self, kind: Kind) -> None:
        """Create the page of a kind."""
        super().__init__()
        self.kind = kind

    @property
    def title_spans(self) -> list[Span]:
        """The kind."""
        return [Span(self.kind.id, "accent")]

    def lines(self, width: int) -> list[list[Span]]:
        """Returns the page, without the id of the kind and the empty line with which it begins."""
        return code_lines(page_spans(self.kind, width))[2:]
