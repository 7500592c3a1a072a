"""Rule: the page of a rule, as `mcpproxy rule` prints it, or the pages of several rules, one below the other."""

from mcpproxy.tui.rows.finding_lines import page_lines
from mcpproxy.tui.screens.page import PageScreen
from mcpproxy.wording.spans import Span


class RuleScreen(PageScreen):
    """The page of a rule: what it requires, why, how a violation looks on the wire, and what to do instead."""

    def __init__(self, *rules: str) -> None:
        """Create the pages of the rules with these ids."""
        super().__init__()
        self.rules = rules

    def lines(self, width: int) -> list[list[Span]]:
        """Returns the pages."""
        lines: list[list[Span]] = []
        for rule in self.rules:
            lines += [*([[], [Span("─" * width, "dim")], []] if lines else []), *page_lines(rule, width)]
        return lines
