"""Tool rows: cost and figures of each tool, in columns as wide as their texts; descriptions get what is left."""

from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.tool_definitions import MAX_VERSIONS_PER_TOOL, Tool
from mcpproxy.tui.rows.fitted_columns import fitted_columns
from mcpproxy.tui.rows.latency_lines import ABANDONED_COLUMN, abandoned_cell, columns_with
from mcpproxy.tui.widgets.table import Column, MemoryRows, TableLine
from mcpproxy.wording import units
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.units import brief_duration

COLUMNS: Final = (
    Column("name", "tool", 16, stretch=1),
    Column("size", "size", 8, is_right_aligned=True),
    Column("tokens", "~tokens", 7, is_right_aligned=True, drop=3),
    Column("calls", "calls", 7, is_right_aligned=True, drop=1),
    Column("errors", "err", 5, is_right_aligned=True, drop=2),
    ABANDONED_COLUMN,
    Column("p95", "p95", 6, is_right_aligned=True, drop=5),
    Column("description", "description", 14, stretch=1, drop=4),
)
MAX_NAME_CHARS: Final = 200
"""The maximum length of a name in a row, in characters."""
MAX_MEASURED_ROWS: Final = 200
"""How many rows are measured to fit the columns: the first ones, so that thousands of tools cost no more."""


class ToolRows(MemoryRows[Tool]):
    """Tools as the rows of a table."""

    def line(self, row: int) -> TableLine:
        """The cells of a tool."""
        tool = self.items[row]
        note, role = tool_note(tool)
        return TableLine(
            {
                "name": (Span(sanitise(tool.name, MAX_NAME_CHARS) or '""'),),
                "size": (Span(units.size(tool.last.size)) if tool.last is not None else Span("–", "dim"),),
                "tokens": (Span(f"~{tool.last.tokens_estimate:,}" if tool.last is not None else "–", "dim"),),
                "calls": (Span(f"{tool.calls:,}", "plain" if tool.calls else "dim"),),
                "errors": (Span(f"{tool.errors:,}", "bad" if tool.errors else "dim"),),
                "abandoned": abandoned_cell(tool.abandoned),
                "p95": (Span(brief_duration(tool.p95_ns), "dim" if tool.p95_ns is None else "plain"),),
                "description": (Span(f"{note}  " if note else "", role), Span(_first_line(tool), "dim")),
            }
        )

    def fit_columns(self, width: int) -> list[Column]:
        """Fit the columns to what the rows contain.

        Args:
            width: the width of the table, in cells.

        Returns:
            The columns.
        """
        columns = columns_with(COLUMNS, is_abandoned=any(tool.abandoned for tool in self.items))
        return fitted_columns(columns, map(self.line, range(min(len(self.items), MAX_MEASURED_ROWS))), width)


def _first_line(tool: Tool) -> str:
    """Returns the first line of the description of a tool."""
    return sanitise(tool.last.description.strip().partition("\n")[0]) if tool.last is not None else ""


def tool_note(tool: Tool) -> tuple[str, Role]:
    """The note on a tool: changed, or never listed. That it was never called, the number of its calls says."""
    if tool.last is None:
        return "never listed", "bad"
    if len(tool.versions) > 1:
        change_count = len(tool.versions) - 1
        return (
            "changed"
            if change_count == 1
            else f"changed {change_count}{'+' if change_count + 1 >= MAX_VERSIONS_PER_TOOL else ''} times"
        ), "bad"
    return "", "plain"
