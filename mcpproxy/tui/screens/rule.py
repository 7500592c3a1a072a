"""Rule: the page of a rule, as `mcpproxy rule` prints it."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from analysis.rules import rules
from mcpproxy.report.rule_pages import addresses, facts, sections, summary_of
from mcpproxy.report.text import Span
from mcpproxy.report.wrapping import wrapped
from mcpproxy.tui.widgets.pane import Pane


class RuleScreen(ModalScreen[None]):
    """What a rule is, why it matters, how it looks on the wire, what to do instead."""

    DEFAULT_CSS = """
    RuleScreen { align: center middle; }
    RuleScreen Pane { width: 84; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,r", "app.pop_screen", "back")]

    def __init__(self, rule: str) -> None:
        """The page of a rule, by its id."""
        super().__init__()
        self.rule = rule

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="page")

    def on_mount(self) -> None:
        """Read it from there."""
        self.query_one("#page", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill it."""
        width = min(84, event.size.width * 96 // 100) - 5
        self.query_one("#page", Pane).say_lines(page_lines(self.rule, max(20, width)))


def page_lines(rule: str, width: int) -> list[list[Span]]:
    """The page in lines."""
    found = rules().get(rule)
    if found is None:
        return [[Span(f"there is no rule {rule}", "bad")]]
    made = [[Span(rule, "accent")], [], *([Span(line)] for line in wrapped(summary_of(found), width))]
    for heading, text in sections(found):
        made += [[], *([[Span(heading, "accent")]] if heading else [])]
        made += [[Span(f"  {line}")] for line in wrapped(text, width - 2)]
    made.append([])
    for name, text in facts(found):
        lines = wrapped(text, width - 12)
        made += [[Span(f"{'' if number else name:<12}", "dim"), Span(line)] for number, line in enumerate(lines)]
    return made + [[Span(f"  {address}", "dim")] for address in addresses(found.source)]
