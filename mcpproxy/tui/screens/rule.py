"""Rule: the page of a rule, as `mcpproxy rule` prints it, or the pages of several rules, one below the other."""

from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.rows.finding_lines import page_lines, rule_title
from mcpproxy.tui.screens.page import PageScreen
from mcpproxy.wording.spans import Span


class RuleScreen(PageScreen):
    """The page of a rule: what it requires, why, how a violation looks on the wire, and what to do instead."""

    def __init__(self, findings: Findings, *rules: str) -> None:
        """Create the pages of the rules with these ids, with the number of their findings in a capture."""
        super().__init__()
        self.findings, self.rules = findings, rules

    @property
    def title_spans(self) -> list[Span]:
        """The first rule."""
        return rule_title(self.rules[0], self.findings)

    def lines(self, width: int) -> list[list[Span]]:
        """Returns the pages."""
        lines: list[list[Span]] = []
        for rule in self.rules:
            # The title of the first page is above it, where it stays.
            head = [[], [Span("─" * width, "dim")], rule_title(rule, self.findings), []] if lines else []
            lines += [*head, *page_lines(rule, width)]
        return lines
