"""Counts the durations of operations and sessions, for each side, in the four histograms of the conventions.

Peers choose the names of methods and tools, so memory must be bounded: beyond `MAX_SERIES` series, everything is
counted in one series with the attribute `otel.metric.overflow`, as the SDK specification requires.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.exporters.otlp.conventions import Attributes, AttributeValue, CallSpan, Service

BUCKET_BOUNDS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""The bucket boundaries that the conventions recommend, in seconds."""
MAX_SERIES: Final = 2_000

OPERATION: Final = "operation"
SESSION: Final = "session"
DESCRIPTIONS: Final = {
    "mcp.client.operation.duration": "The duration of the MCP request as observed on the sender.",
    "mcp.server.operation.duration": "The duration of the MCP request as observed on the receiver.",
    "mcp.client.session.duration": "The duration of the MCP session as observed on the client.",
    "mcp.server.session.duration": "The duration of the MCP session as observed on the server.",
}
_OVERFLOW: Final[Attributes] = {"otel.metric.overflow": "true"}


class SeriesKey(NamedTuple):
    """Identifies a series."""

    service: Service
    metric: str
    attributes: tuple[tuple[str, AttributeValue], ...]


class HistogramSeries:
    """One series of a histogram."""

    __slots__ = ("buckets", "count", "end_ns", "largest", "smallest", "start_ns", "total")

    def __init__(self, start_ns: int) -> None:
        self.start_ns = self.end_ns = start_ns
        self.count = 0
        self.total = 0.0
        self.smallest, self.largest = float("inf"), 0.0
        self.buckets = [0] * (len(BUCKET_BOUNDS_S) + 1)

    def add(self, start_ns: int, end_ns: int) -> None:
        """Count one duration."""
        seconds = (end_ns - start_ns) / 1e9
        self.start_ns, self.end_ns = min(self.start_ns, start_ns), max(self.end_ns, end_ns)
        self.count += 1
        self.total += seconds
        self.smallest, self.largest = min(self.smallest, seconds), max(self.largest, seconds)
        self.buckets[bisect_left(BUCKET_BOUNDS_S, seconds)] += 1


class DurationHistograms:
    """All series so far; the values are cumulative."""

    def __init__(self) -> None:
        """Start without series."""
        self._series: dict[SeriesKey, HistogramSeries] = {}

    def add_span(self, span: CallSpan) -> None:
        """Count the duration of a span, unless its end was not observed."""
        if span.histogram_attributes is not None:
            self._count(
                span.service, OPERATION, span.histogram_attributes, span.start_ns, span.end_ns, is_server=span.is_server
            )

    def add_session(
        self, service: Service, attributes: Attributes, start_ns: int, end_ns: int, *, is_server: bool
    ) -> None:
        """Count the duration of a session, as one side observed it."""
        self._count(service, SESSION, attributes, start_ns, end_ns, is_server=is_server)

    def __iter__(self) -> Iterator[tuple[SeriesKey, HistogramSeries]]:
        """Iterate over the series, grouped by service and metric."""
        return iter(sorted(self._series.items(), key=lambda item: (item[0].service, item[0].metric)))

    def __len__(self) -> int:
        return len(self._series)

    def _count(
        self, service: Service, kind: str, attributes: Attributes, start_ns: int, end_ns: int, *, is_server: bool
    ) -> None:
        metric = f"mcp.{'server' if is_server else 'client'}.{kind}.duration"
        key = SeriesKey(service, metric, tuple(attributes.items()))
        if key not in self._series and len(self._series) >= MAX_SERIES:
            # A peer may invent the name of its service, too, and a series for each capture would not be bounded.
            key = SeriesKey(Service("unknown", "", ""), metric, tuple(_OVERFLOW.items()))
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = HistogramSeries(start_ns)
        series.add(start_ns, end_ns)
