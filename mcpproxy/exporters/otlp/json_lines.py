"""Writes lines of OTLP/JSON: `TracesData` messages, followed by at most one `MetricsData` message.

The OpenTelemetry File Exporter writes this format, and the Collector's `otlpjsonfile` receiver reads it. In OTLP/JSON,
ids are hexadecimal, 64-bit integers are strings, and enumerations are numbers (OTLP specification, JSON Protobuf
Encoding).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import orjson

from mcpproxy import __version__
from mcpproxy.exporters.otlp.conventions import SCHEMA_URL, Attributes, AttributeValue, CallSpan, Service
from mcpproxy.exporters.otlp.histograms import (
    BUCKET_BOUNDS_S,
    DESCRIPTIONS,
    DurationHistograms,
    HistogramSeries,
    SeriesKey,
)

BATCH_SPANS: Final = 512
"""The maximum number of spans in a line."""
_SCOPE: Final = {"name": "mcpproxy", "version": __version__}
_SERVER, _CLIENT, _ERROR, _CUMULATIVE = 2, 3, 2, 2
_KNOWN_REMOTE, _IS_REMOTE = 0x100, 0x200
"""Flags of a span: it is known whether the parent is in another process, and the parent is in another process."""


def trace_lines(spans: Iterable[CallSpan]) -> Iterator[bytes]:
    """Yield the lines of spans; none if there are no spans."""
    batch: list[CallSpan] = []
    for span in spans:
        batch.append(span)
        if len(batch) >= BATCH_SPANS:
            yield _line(traces_data(batch))
            batch = []
    if batch:
        yield _line(traces_data(batch))


def metric_lines(histograms: DurationHistograms) -> Iterator[bytes]:
    """Yield the line of the histograms; none if they are empty."""
    if len(histograms):
        yield _line(metrics_data(histograms))


def traces_data(spans: Iterable[CallSpan]) -> dict[str, Any]:
    """Return a `TracesData` message with these spans."""
    spans_by_service: dict[Service, list[CallSpan]] = {}
    for span in spans:
        spans_by_service.setdefault(span.service, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(service.attributes)},
                "scopeSpans": [{"scope": _SCOPE, "spans": [_span(span) for span in group], "schemaUrl": SCHEMA_URL}],
                "schemaUrl": SCHEMA_URL,
            }
            for service, group in spans_by_service.items()
        ]
    }


def metrics_data(histograms: DurationHistograms) -> dict[str, Any]:
    """Return a `MetricsData` message with the current values."""
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(service.attributes)},
                "scopeMetrics": [
                    {
                        "scope": _SCOPE,
                        "metrics": [
                            _metric(name, metric_series)
                            for name, metric_series in groupby(service_series, key=lambda item: item[0].metric)
                        ],
                        "schemaUrl": SCHEMA_URL,
                    }
                ],
                "schemaUrl": SCHEMA_URL,
            }
            for service, service_series in groupby(histograms, key=lambda item: item[0].service)
        ]
    }


def _span(span: CallSpan) -> dict[str, Any]:
    state = {"traceState": span.trace_state} if span.trace_state else {}
    parent = {} if span.parent_id is None else {"parentSpanId": span.parent_id.hex()}
    status: dict[str, Any] = {} if span.error is None else {"code": _ERROR}
    if span.error:
        status["message"] = span.error
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        **state,
        **parent,
        "name": span.name,
        "flags": _KNOWN_REMOTE if span.parent_id is None else _KNOWN_REMOTE | _IS_REMOTE,
        "kind": _SERVER if span.is_server else _CLIENT,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "status": status,
    }


def _metric(name: str, metric_series: Iterable[tuple[SeriesKey, HistogramSeries]]) -> dict[str, Any]:
    points = [
        {
            "attributes": _attributes(dict(key.attributes)),
            "startTimeUnixNano": str(series.start_ns),
            "timeUnixNano": str(series.end_ns),
            "count": str(series.count),
            "sum": series.total,
            "min": series.smallest,
            "max": series.largest,
            "bucketCounts": [str(count) for count in series.buckets],
            "explicitBounds": list(BUCKET_BOUNDS_S),
        }
        for key, series in metric_series
    ]
    histogram = {"aggregationTemporality": _CUMULATIVE, "dataPoints": points}
    return {"name": name, "description": DESCRIPTIONS[name], "unit": "s", "histogram": histogram}


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, str | float]:
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}


def _line(message: dict[str, Any]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
