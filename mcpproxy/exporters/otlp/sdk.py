"""Sends spans and histograms with the official OpenTelemetry exporter, which needs the extra `otel`.

The exporter reads its own environment variables: OTEL_EXPORTER_OTLP_HEADERS for a token, …_CERTIFICATE for a private
CA, …_TIMEOUT, …_COMPRESSION. It retries within that time-out, and logs problems; mcpproxy suppresses these logs and
reports the problems itself.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from mcpproxy import __version__
from mcpproxy.exporters.otlp.connection import BoundedAdapter
from mcpproxy.exporters.otlp.conventions import SCHEMA_URL, CallSpan, Service
from mcpproxy.exporters.otlp.histograms import (
    BUCKET_BOUNDS_S,
    DESCRIPTIONS,
    DurationHistograms,
    HistogramSeries,
    SeriesKey,
)

_SCOPE: Final = InstrumentationScope("mcpproxy", __version__, SCHEMA_URL)
_RETRIED_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses after which the collector may accept the same request later."""


class Collector:
    """A collector that accepts OTLP over HTTP."""

    def __init__(self, url: str) -> None:
        """`url` is the base to which `/v1/traces` and `/v1/metrics` are appended."""
        for library in ("opentelemetry", "urllib3"):
            logger = logging.getLogger(library)
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        self._status: int | None = None
        self._response_body = b""
        self._is_unsendable = False
        self._adapter = BoundedAdapter()
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._adapter)
        # A response, the count of rejected spans, is only a few bytes long, so compression is useless.
        self._session.headers["Accept-Encoding"] = "identity"
        self._session.hooks["response"].append(self._on_response)
        base = url.rstrip("/")
        self._traces = OTLPSpanExporter(f"{base}/v1/traces", session=self._session)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", session=self._session)
        if isinstance(self._session.verify, str):
            self._adapter.authority_file = self._session.verify

    @property
    def problem(self) -> str:
        """Why the last request failed."""
        if self._is_unsendable:
            return "the exporter cannot build a request from them; check the variables OTEL_EXPORTER_OTLP_…"
        if self._adapter.distrust is not None:
            return (
                f"its certificate is not trusted ({self._adapter.distrust}); for a private CA, set "
                "OTEL_EXPORTER_OTLP_CERTIFICATE to the file of its certificate"
            )
        if self._status is None and self._adapter.is_refused:
            return "connection refused: nothing listens there"
        if self._status is None:
            return "no connection, or no answer in time"
        is_redirect = 300 <= self._status < 400
        return f"it answered {self._status}{'; redirects are not followed' if is_redirect else ''}"

    @property
    def is_refusal(self) -> bool:
        """Whether the content of the last request made it fail, so that another attempt is pointless."""
        return self._is_unsendable or (self._status is not None and self._status not in _RETRIED_STATUSES)

    @property
    def is_missing(self) -> bool:
        """Whether the collector responded that it does not support this signal: some back ends accept only spans."""
        return self._status in (404, 405, 501)

    def send_spans(self, spans: Sequence[CallSpan]) -> int | None:
        """Send spans; returns the number of accepted spans, or None if the request failed."""
        if not self._export(
            lambda: self._traces.export([sdk_span(span) for span in spans]) is SpanExportResult.SUCCESS
        ):
            return None
        try:
            rejected_count = ExportTraceServiceResponse.FromString(self._response_body).partial_success.rejected_spans
        except DecodeError:
            rejected_count = 0
        return len(spans) - max(0, min(rejected_count, len(spans)))

    def send_metrics(self, metrics: MetricsData) -> bool | None:
        """Send histograms; returns whether all were accepted, or None if the request failed."""
        if not self._export(lambda: self._metrics.export(metrics) is MetricExportResult.SUCCESS):
            return None
        try:
            return (
                ExportMetricsServiceResponse.FromString(self._response_body).partial_success.rejected_data_points <= 0
            )
        except DecodeError:
            return True

    def close(self) -> None:
        """Stop waiting for the collector, and close the connections."""
        self._traces.shutdown()  # type: ignore[no-untyped-call] # it has no annotation
        self._metrics.shutdown()

    @property
    def _is_accepted(self) -> bool:
        # The exporter treats every status below 400 as success, but follows no redirect, so a 3xx delivers nothing.
        return self._status is not None and 200 <= self._status < 300

    def _export(self, export: Callable[[], bool]) -> bool:
        """Make a request; returns whether it succeeds."""
        self._status, self._response_body = None, b""
        # The reason must survive retries within this export: the deadline can end the last attempt at any point.
        self._adapter.distrust = None
        requests_before = self._adapter.request_count
        is_exported = export()
        self._is_unsendable = not is_exported and self._adapter.request_count == requests_before
        return is_exported and self._is_accepted

    def _on_response(self, response: requests.Response, *_: object, **__: object) -> None:
        self._status, self._response_body = response.status_code, response.content


def sdk_span(span: CallSpan) -> ReadableSpan:
    """Return a span as an object of the SDK."""
    trace_id, state = int.from_bytes(span.trace_id), TraceState.from_header([span.trace_state])

    def context(span_id: bytes, *, is_remote: bool = False) -> SpanContext:
        return SpanContext(trace_id, int.from_bytes(span_id), is_remote, TraceFlags(TraceFlags.SAMPLED), state)

    return ReadableSpan(
        span.name,
        context(span.span_id),
        None if span.parent_id is None else context(span.parent_id, is_remote=True),
        _resource(span.service),
        dict(span.attributes),
        kind=SpanKind.SERVER if span.is_server else SpanKind.CLIENT,
        status=Status() if span.error is None else Status(StatusCode.ERROR, span.error or None),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=_SCOPE,
    )


def sdk_metrics(histograms: DurationHistograms) -> MetricsData:
    """Return the current values of histograms as objects of the SDK."""
    return MetricsData(
        [
            ResourceMetrics(
                _resource(service),
                [
                    ScopeMetrics(
                        _SCOPE,
                        [
                            _metric(name, metric_series)
                            for name, metric_series in groupby(service_series, key=lambda item: item[0].metric)
                        ],
                        SCHEMA_URL,
                    )
                ],
                SCHEMA_URL,
            )
            for service, service_series in groupby(histograms, key=lambda item: item[0].service)
        ]
    )


def _metric(name: str, metric_series: Iterable[tuple[SeriesKey, HistogramSeries]]) -> Metric:
    points = [
        HistogramDataPoint(
            dict(key.attributes),
            series.start_ns,
            series.end_ns,
            series.count,
            series.total,
            tuple(series.buckets),
            BUCKET_BOUNDS_S,
            series.smallest,
            series.largest,
        )
        for key, series in metric_series
    ]
    return Metric(name, DESCRIPTIONS[name], "s", Histogram(points, AggregationTemporality.CUMULATIVE))


def _resource(service: Service) -> Resource:
    # `Resource.create` would add attributes of this process from the environment.
    return Resource(dict(service.attributes), SCHEMA_URL)
