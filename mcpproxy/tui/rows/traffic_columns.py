"""The columns of the traffic: only as wide as the capture needs, so that the content has room even in 80 columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol.error_codes import INVALID_PARAMS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_text import short_call
from mcpproxy.tui.widgets.columns import Column
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span
from mcpproxy.wording.units import offset_text

Times: TypeAlias = Literal["rel", "delta", "abs"]
"""The times to show: since the capture opened, since the row above, or local wall clock."""

TIMES: Final[tuple[Times, ...]] = ("rel", "delta", "abs")
HEADINGS: Final[dict[Times, str]] = {"delta": "delta", "abs": "clock"}
"""The headings of the time column, unless times are since the start."""
MIN_WHOLE_NAME_CELLS: Final = 99
"""The minimum width, in cells, at which tool calls have room for the whole method."""
MIN_WIDE_CELLS: Final = 119
"""The minimum width, in cells, at which the content leaves room for ids and sizes."""
MIN_HTTP_OUTCOME_CELLS: Final = 115
"""The minimum width, in cells, at which the outcome over HTTP has room for all of its text."""
MAX_NAME_PERCENT: Final = 30
"""The maximum share of the names in the width, in percent; the content gets what they leave."""
MAX_NAME_CELLS: Final = 60
"""The maximum width of the names, in cells."""
MAX_NARROW_EXCHANGE_NAME_PERCENT: Final = 25
"""The same for exchanges where tool calls are shown without `tools/`: `call list_directory` fits in 80 columns."""
LATENCY_CELLS: Final = 8
_NAME_HEADING: Final = "method / name"
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
    name: int = len("tools/call read_file")
    """The width of the longest method with its name, in cells."""
    short_name: int = len("call read_file")
    """The same if tool calls are shown without `tools/`."""
    has_findings: bool = True
    """Whether any row has a finding."""
    has_server_requests: bool = False
    """Whether the server has sent requests, too."""


class NameCells:
    """Measures the names of requests, each kind once: a capture can have thousands of kinds, and gets more."""

    def __init__(self, reading: Reading) -> None:
        """Start without kinds."""
        self._reading = reading
        self._measured_count = 0
        self.has_server_requests = False
        self.widest = self.widest_short = 0
        """The widths of the longest method with its name, as it is and without `tools/`, in cells; at most
        `MAX_NAME_CELLS`.
        """

    def measure(self) -> None:
        """Measure the kinds that have been added."""
        kinds = self._reading.kinds.all
        for kind in kinds[self._measured_count :]:
            self.has_server_requests |= kind.side == "server"
            spans = [Span(sanitise(kind.method, MAX_NAME_CELLS))]
            spans += [Span(f" {sanitise(kind.name, MAX_NAME_CELLS)}")] if kind.name else []
            self.widest = min(MAX_NAME_CELLS, max(self.widest, _cells(spans)))
            self.widest_short = min(MAX_NAME_CELLS, max(self.widest_short, _cells(short_call(spans))))
        self._measured_count = len(kinds)

    @property
    def prefix_cells(self) -> int:
        """The width of the number of a session before its first message, in cells; 0 if there is only one session."""
        session_count = len(self._reading.columns.session_start_numbers)
        return len(f"session {session_count:,}  ") if session_count > 1 else 0


def _cells(spans: Sequence[Span]) -> int:
    return sum(cells(span.text) for span in spans)


def needs_of(reading: Reading, names: NameCells) -> ColumnNeeds:
    """Returns the widths that the rows of a capture need now."""
    index = reading.index
    last = index.entry(len(index) - 1).seq if len(index) else 0
    names.measure()
    return ColumnNeeds(
        len(str(last)),
        len(offset_text(index.last_ns)),
        reading.http.has_any,
        min(MAX_NAME_CELLS, names.widest + names.prefix_cells),
        min(MAX_NAME_CELLS, names.widest_short + names.prefix_cells),
        len(reading.findings) > 0,
        names.has_server_requests,
    )


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
    # A mark is shown before the time.
    time_width = 1 + (max(_CLOCK_CELLS, needs.time) if times == "abs" else needs.time)
    latency_width = LATENCY_CELLS if is_wide or order.column == "latency" else len("latency")
    # In narrow tables, the content gets the room of these columns, but that by which rows are sorted is always visible.
    narrow_extras = () if is_wide else ("id", "latency") if order.column == "size" else ("id", "size")
    columns = [
        Column("number", "#", max(2, needs.number), is_right_aligned=True, drop=3),
        Column("time", "sent" if is_exchanges else "time", time_width, is_right_aligned=True, drop=1),
        Column("way", "", 2, is_extra=is_exchanges and not needs.has_server_requests, label="direction"),
        Column("findings", "find", 4, drop=7, is_extra=not needs.has_findings),
        Column("what", _NAME_HEADING, _name_width(width, needs, is_exchanges=is_exchanges)),
        Column("id", "id", 6, drop=8, is_extra="id" in narrow_extras),
        Column("status", "outcome" if is_exchanges else "status", outcome_width, drop=0 if is_exchanges else 2),
        Column("latency", "latency", latency_width, is_right_aligned=True, drop=4, is_extra="latency" in narrow_extras),
        Column("size", "size", LATENCY_CELLS, is_right_aligned=True, drop=9, is_extra="size" in narrow_extras),
        Column("more", "content", 12, stretch=1, drop=6),
        Column("clock", "clock", _CLOCK_CELLS, is_right_aligned=True, is_extra=True, label="wall clock"),
        Column("session", "session", len("session"), is_right_aligned=True, is_extra=True),
        Column("http", "http", len("http"), is_right_aligned=True, is_extra=True, label="HTTP status"),
        Column("turn", "turn", 12, is_extra=True),
    ]
    if is_exchanges:
        columns = [replace(column, title="response") if column.name == "size" else column for column in columns]
        request_size = Column("asked", "request", LATENCY_CELLS, is_right_aligned=True, is_extra=True)
        columns.insert([column.name for column in columns].index("size"), request_size)
    return tuple(_sorted_by(column, order) for column in columns_with_times(columns, times))


def _name_width(width: int, needs: ColumnNeeds, *, is_exchanges: bool) -> int:
    """Returns how wide the names are: as they are if they fit, or else as wide as tool calls need without `tools/`."""
    limit, has_room = width * MAX_NAME_PERCENT // 100, width >= MIN_WHOLE_NAME_CELLS
    if is_exchanges and not has_room:
        limit = width * MAX_NARROW_EXCHANGE_NAME_PERCENT // 100
    needed = needs.name if has_room and needs.name <= limit else min(needs.short_name, limit)
    return max(len(_NAME_HEADING), needed)


def _sorted_by(column: Column, order: RowOrder) -> Column:
    """Returns the column, with an arrow in its heading if the rows are sorted by it."""
    if order == CAPTURE_ORDER or column.name != order.column:
        return column
    return replace(column, title=f"{column.title}{order.arrow}"[-column.width :])


def columns_with_times(columns: Sequence[Column], times: Times) -> tuple[Column, ...]:
    """Returns the columns, with a heading for the times that they show."""
    heading = HEADINGS.get(times)
    return tuple(replace(column, title=heading) if column.name == "time" and heading else column for column in columns)


def columns_with_fitted_times(columns: Sequence[Column], times: Times, last_ns: int) -> tuple[Column, ...]:
    """Returns the columns with that heading, and a time column that is as wide as the times need.

    Args:
        columns: the columns.
        times: which times are shown.
        last_ns: the stamp of the last record.
    """
    width = max(len("delta"), _CLOCK_CELLS if times == "abs" else len(offset_text(last_ns)))
    return tuple(
        replace(column, width=width) if column.name == "time" else column
        for column in columns_with_times(columns, times)
    )


def next_times(times: Times) -> Times:
    """Returns the kind of times that the key switches to."""
    return TIMES[(TIMES.index(times) + 1) % len(TIMES)]
