"""The columns of the list of sessions: names first, then bars that are no wider than they need, with the reason."""

from mcpproxy.tui.rows.session_columns import MAX_BARS, SessionColumns
from mcpproxy.tui.screens.sessions import COLUMNS
from mcpproxy.tui.widgets.columns import TableLine, layout
from mcpproxy.wording.spans import Span

NAME = "filesystem/20261118T110640Z-4f2a"
LINES = (
    TableLine({"capture": (Span(NAME, "dim"),), "traffic": (Span("▁" * 9, "accent"),)}),
    TableLine({"capture": (Span("db/20261117T110640Z-0001", "dim"),), "traffic": (Span("29 lost", "bad"),)}),
)


def test_names_of_captures_get_their_room_before_the_bars() -> None:
    columns = SessionColumns(COLUMNS)
    for width in range(100, 300):
        sizes = {column.name: size for column, size in layout(columns.fitted(LINES, width), width)}
        assert sizes.get("capture", len(NAME)) == len(NAME) or sizes["traffic"] <= 9, width
        assert sum(sizes.values()) + len(sizes) - 1 <= width
        assert sizes.get("traffic", 0) <= MAX_BARS + len(" 29 lost"), width
        # The bars are as wide as possible, and leave room for the reason only where both fit.
        bars = columns.bars_width(sizes["traffic"]) if "traffic" in sizes else 0
        assert bars <= MAX_BARS
        assert bars + len(" 29 lost") <= sizes.get("traffic", 0) or bars == sizes.get("traffic", 0), width
