"""Limit: figures of only the calls that the filter of the traffic selects, or of all calls."""

from typing import Final

from textual.binding import Binding

from analysis.filter import FilterError, parse
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.reading import Reading
from mcpproxy.wording.cells import fit
from mcpproxy.wording.spans import Span

TO_LIMIT: Final = Binding("A", "limit", "all/limited", id="limit")
"""The key of screens whose figures can be limited; it does nothing if the traffic had no filter."""
MAX_FILTER_SHARE: Final = 3
"""The maximum width of the filter is that of the title divided by this."""


class Limit:
    """The filter to which the figures of a screen are limited, if any, and whether it applies now."""

    def __init__(self, filter_text: str) -> None:
        """Apply the filter.

        Args:
            filter_text: a valid expression in the filter language, or an empty text for all calls.
        """
        self.row_filter = parse(filter_text) if filter_text else None
        self.is_on = self.row_filter is not None

    def selection(self, reading: Reading) -> CallSelection | None:
        """Returns a new selection of the calls of a capture; None if the figures are those of all calls."""
        return CallSelection(reading, self.row_filter) if self.row_filter is not None and self.is_on else None

    def toggle(self) -> None:
        """Apply the filter, or show the figures of all calls again."""
        self.is_on = self.row_filter is not None and not self.is_on

    def narrowed(self, expression: str) -> str:
        """Returns an expression that selects only rows that this limit selects as well."""
        if self.row_filter is None or not self.is_on:
            return expression
        try:
            return parse(f"({self.row_filter.text}) {expression}").text
        except FilterError:
            return expression  # together they are too long

    def title_spans(self, width: int, *, is_searching: bool) -> list[Span]:
        """Returns what the title says about the filter.

        Args:
            width: the width of the terminal, in cells.
            is_searching: whether the filter may still select more calls.
        """
        if self.row_filter is None:
            return []
        text = fit(self.row_filter.text, max(8, width // MAX_FILTER_SHARE))
        if not self.is_on:
            return [Span("  all calls, not only ", "dim"), Span(text, "dim")]
        return [Span("  limited to "), Span(text, "accent"), *([Span(" …", "accent")] if is_searching else [])]
