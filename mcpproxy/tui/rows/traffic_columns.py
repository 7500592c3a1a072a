"""The columns of the traffic: only as wide as the capture needs, so that the content has room even in 80 columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol.error_codes import INVALID_PARAMS
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.widgets.columns import Column
from mcpproxy.wording.units import since_start

Times: TypeAlias = Literal["rel", "delta", "abs"]
"""The times to show: since the capture opened, since the row above, or local wall clock."""

TIMES: Final[tuple[Times, ...]] = ("rel", "delta", "abs")
HEADINGS: Final[dict[Times, str]] = {"delta": "delta", "abs": "clock"}
"""The headings of the time column, unless times are since the start."""
MIN_WIDE_CELLS: Final = 99
"""The minimum width, in cells, at which the content gets more room than the names."""
MIN_HTTP_OUTCOME_CELLS: Final = 115
"""The minimum width, in cells, at which the outcome over HTTP has room for all of its text."""
LATENCY_CELLS: Final = 8
_CALL_CELLS: Final = len("tools/call read_file")
_SHORT_CALL_CELLS: Final = len("call read_file") + 1
"""This width leaves room for `{"a":1} ⇒ The sum is 3` in 80 columns."""
_CLOCK_CELLS: Final = len("23:59:59.99")
_OUTCOME_CELLS: Final = len(f"error {INVALID_PARAMS}")
_HTTP_OUTCOME_CELLS: Final = len("ok · 200 · 99 events")

ORDERS: Final = ("time", "latency", "size", "status")
"""The columns by which rows can be sorted; the first is the order of the capture."""


class RowOrder(NamedTuple):
    """An order of rows."""

    column: str = "time"
    is_descending: bool = False
    """Whether the largest value, the latest time or the worst outcome comes first."""

    @property
    def arrow(self) -> str:
        """The arrow that shows its direction."""
        return "▼" if self.is_descending else "▲"


CAPTURE_ORDER: Final = RowOrder()
"""The order in which the rows were recorded."""


class ColumnNeeds(NamedTuple):
    """The widths that the rows of a capture need."""

    number: int = 1
    """The number of digits of the largest record number."""
    time: int = 6
    """The width of the last time, in cells."""
    is_http: bool = False


def needs_of(reading: Reading) -> ColumnNeeds:
    """Returns the widths that the rows of a capture need now."""
    index = reading.index
    last = index.entry(len(index) - 1).seq if len(index) else 0
    return ColumnNeeds(len(str(last)), len(since_start(index.last_ns)), reading.http.has_any)


def traffic_columns(
    width: int, needs: ColumnNeeds, times: Times = "rel", order: RowOrder = CAPTURE_ORDER, *, is_exchanges: bool = False
) -> tuple[Column, ...]:
    """Returns the columns of the traffic.

    Args:
        width: the width of the table, in cells.
        needs: the widths that the capture needs.
        times: which times are shown.
        order: the order of the rows.
        is_exchanges: whether a line is an exchange.
    """
    is_wide = width >= MIN_WIDE_CELLS
    outcome_width = _HTTP_OUTCOME_CELLS if needs.is_http and width >= MIN_HTTP_OUTCOME_CELLS else _OUTCOME_CELLS
    name_width = 16 if not is_exchanges else _CALL_CELLS if is_wide else _SHORT_CALL_CELLS
    # A mark is shown before the time.
    time_width = 1 + (max(_CLOCK_CELLS, needs.time) if times == "abs" else needs.time)
    columns = [
        Column("number", "#", max(2, needs.number), is_right_aligned=True, drop=3),
        Column("time", "sent" if is_exchanges else "time", time_width, is_right_aligned=True, drop=1),
        Column("way", "", 2),
        Column("findings", "find", 4, drop=7),
        Column("what", "method / name", name_width, stretch=1 if is_wide else 0 if is_exchanges else 3),
        Column("id", "id", 6, drop=8),
        Column("status", "outcome" if is_exchanges else "status", outcome_width, drop=0 if is_exchanges else 2),
        Column("latency", "latency", LATENCY_CELLS, is_right_aligned=True, drop=4),
        Column("size", "response" if is_exchanges else "size", LATENCY_CELLS, is_right_aligned=True, drop=9),
        Column("more", "content", 12, stretch=2, drop=6),
    ]
    if not is_wide:
        # The content gets the room of these columns, but the column by which rows are sorted is always visible.
        dropped_names = ("id", "latency") if order.column == "size" else ("id", "size")
        columns = [column for column in columns if column.name not in dropped_names]
    return tuple(_sorted_by(column, order) for column in columns_with_times(columns, times))


def _sorted_by(column: Column, order: RowOrder) -> Column:
    """Returns the column, with an arrow in its heading if the rows are sorted by it."""
    if order == CAPTURE_ORDER or column.name != order.column:
        return column
    return replace(column, title=f"{column.title}{order.arrow}"[-column.width :])


def columns_with_times(columns: Sequence[Column], times: Times) -> tuple[Column, ...]:
    """Returns the columns, with a heading for the times that they show."""
    heading = HEADINGS.get(times)
    return tuple(replace(column, title=heading) if column.name == "time" and heading else column for column in columns)


def next_times(times: Times) -> Times:
    """Returns the kind of times that the key switches to."""
    return TIMES[(TIMES.index(times) + 1) % len(TIMES)]
