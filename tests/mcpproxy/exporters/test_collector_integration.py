"""`export --to`: a real collector on loopback gets the spans, live or afterwards, even if it was down."""

import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mcpproxy.exporters.otlp.capture import SpanBuilder
from mcpproxy.exporters.otlp.conventions import CallSpan
from mcpproxy.exporters.otlp.histograms import DurationHistograms
from mcpproxy.exporters.otlp.sdk import Collector
from mcpproxy.exporters.otlp.sender import SPAN_BYTES, SpanSender
from mcpproxy.exporters.source import ExportSource
from tests.harness import DEADLINE_S, Place, peer, wait_until
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import counted
from tests.mcpproxy.exporters.test_otlp_integration import METRICS, exported


class Backend:
    """A collector that accepts OTLP over HTTP, and keeps what it got."""

    def __init__(self, listener: socket.socket | None, statuses: Iterator[int] | None, *, no_metrics: bool) -> None:
        self.spans: list[Any] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                status = next(statuses, 200) if statuses is not None else 200
                status = 405 if no_metrics and self.path == "/v1/metrics" else status
                backend.heads.append(dict(self.headers))
                backend.bodies.append(body)
                if status == 200:
                    backend.take(self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=listener is None)
        if listener is not None:
            self._server.socket.close()
            self._server.socket = listener
            self._server.server_port = listener.getsockname()[1]
            self._server.server_activate()
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    self.spans += scope.spans
        else:
            assert path == "/v1/metrics"
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))

    def measured(self) -> dict[str, int]:
        """Returns the counts of the latest histograms."""
        counts: dict[str, int] = {}
        for resource in self.metrics[-1].resource_metrics if self.metrics else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = metric.histogram.data_points
                    counts[metric.name] = counts.get(metric.name, 0) + sum(point.count for point in points)
        return counts

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def backend(
    listener: socket.socket | None = None, statuses: Iterator[int] | None = None, *, no_metrics: bool = False
) -> Iterator[Backend]:
    made = Backend(listener, statuses, no_metrics=no_metrics)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def nothing_listens() -> Iterator[tuple[str, socket.socket]]:
    """Yields the URL of a reserved port that refuses connections until its socket listens."""
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{ours.getsockname()[1]}", ours


def test_the_collector_gets_the_spans_of_the_file(stdio: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", stdio)
    with backend() as there:
        done = mcpproxy("export", "--to", there.url, stdio, OTEL_EXPORTER_OTLP_HEADERS="x-token=abc")
        assert (done.returncode, complaints(done)) == (0, f"mcpproxy: sent {len(told.spans)} spans\n".encode())
        assert sorted(span.SerializeToString(deterministic=True) for span in there.spans) == sorted(
            span.SerializeToString(deterministic=True) for _, span in told.spans
        )
        assert set(there.measured()) == METRICS
        in_file: dict[str, int] = {}
        for metric, point in told.points:
            in_file[metric.name] = in_file.get(metric.name, 0) + point.count
        assert there.measured() == in_file
        assert all(head["x-token"] == "abc" for head in there.heads)


@contextmanager
def following(*arguments: str | Path, place: Place, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a live export as a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "export", "--follow", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **place.environment, **environment},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def talk(place: Place, count: int) -> Any:
    """Record a server that responds to that many pings; returns the session."""
    session = place.start(peer("echo"))
    for number in range(count):
        ask(session, number)
    return session


def ask(session: Any, number: int) -> None:
    """Send a ping, and wait for its response."""
    session.send(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number)
    assert session.line()


@pytest.mark.costly("a recorder and a live export start")
def test_spans_are_sent_as_they_come_and_the_histograms_at_the_end(place: Place) -> None:
    session = talk(place, 2)
    with backend() as there, following("--to", there.url, session.capture, place=place) as process:
        wait_until(lambda: len(there.spans) >= 4, "the spans of what was there")
        before = len(there.spans)
        assert before == 4
        ask(session, 7)
        wait_until(lambda: len(there.spans) > before, "the spans of what came meanwhile")
        assert process.poll() is None
        session.finish()
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, errors
        assert f"mcpproxy: sent {len(there.spans)} spans".encode() in errors
        calls = counted(session.capture, folder=place.root / "tables")
        assert len(there.spans) == 2 * calls
        assert len({span.span_id for span in there.spans}) == 2 * calls
        assert there.measured()["mcp.client.session.duration"] == 1


@pytest.mark.costly("a recorder and a live export start")
def test_spans_wait_for_a_collector_that_is_down(place: Place) -> None:
    session = talk(place, 3)
    with nothing_listens() as (url, listener), following("--to", url, session.capture, place=place) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        while b"cannot reach" not in told:
            assert told, "it ended"
            told = process.stderr.readline()
        assert told == (
            b"mcpproxy: cannot reach the collector: connection refused: nothing listens there; "
            b"spans are kept and sent again\n"
        )
        ask(session, 9)
        with backend(listener) as there:
            wait_until(lambda: len(there.spans) >= 8, "the spans that waited")
            session.finish()
            _, errors = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, errors
            assert b"mcpproxy: the collector accepts spans again\n" in errors
            assert b"dropped" not in errors
            assert len(there.spans) == 2 * counted(session.capture, folder=place.root / "tables")


def test_what_never_arrives_is_counted(stdio: Path, tmp_path: Path) -> None:
    spans = len(exported(tmp_path / "out", stdio).spans)
    with nothing_listens() as (url, _):
        done = mcpproxy("export", "--to", url, stdio, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert done.returncode == 2
    assert complaints(done).splitlines()[1:] == [
        b"mcpproxy: sent 0 spans",
        f"mcpproxy: \xe2\x96\xb2 {spans} spans dropped: the collector did not accept them".encode("latin-1"),
        b"mcpproxy: \xe2\x96\xb2 the latest histograms did not arrive",
    ]


def test_a_refusal_is_told_and_not_repeated(stdio: Path) -> None:
    with backend(statuses=iter([401] * 100)) as there:
        done = mcpproxy("export", "--to", there.url, stdio)
        assert done.returncode == 2
        assert b"the collector refuses" in complaints(done)
        assert b": it answered 401; they are dropped\n" in complaints(done)
        assert complaints(done).count(b"refuses spans: ") == complaints(done).count(b"refuses the histograms: ") == 1
        assert len(there.bodies) == len(set(there.bodies)) > 0


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_delivers_nothing_and_that_is_told(status: int, stdio: Path) -> None:
    with backend(statuses=iter([status] * 100)) as there:
        done = mcpproxy("export", "--to", there.url, stdio)
    assert done.returncode == 2
    lines = complaints(done).decode()
    assert f"refuses spans: it answered {status}; redirects are not followed; they are dropped\n" in lines
    assert "sent 0 spans\n" in lines
    assert "spans dropped: the collector did not accept them\n" in lines


def test_a_back_end_that_takes_spans_only_is_told_and_fine(stdio: Path) -> None:
    with backend(no_metrics=True) as there:
        done = mcpproxy("export", "--to", there.url, stdio)
        assert (done.returncode, there.metrics) == (0, [])
        assert complaints(done).decode().splitlines() == [
            "mcpproxy: the collector accepts no histograms, only spans",
            f"mcpproxy: sent {len(there.spans)} spans",
        ]


def test_a_collector_that_is_busy_gets_them_later(stdio: Path) -> None:
    with backend(statuses=iter([503, 429])) as there:
        done = mcpproxy("export", "--to", there.url, stdio)
        assert (done.returncode, complaints(done).count(b"\n")) == (0, 1)
        assert len({span.span_id for span in there.spans}) == len(there.spans) > 0


def test_memory_is_bounded_while_a_collector_is_down(stdio: Path) -> None:
    source = ExportSource(stdio)
    made = SpanBuilder("0" * 32, source.reading.fold, DurationHistograms())
    spans: list[CallSpan] = [span for step in source for span in made.on_step(step)]
    heard: list[str] = []
    rounds = 50
    with nothing_listens() as (url, _):
        sender = SpanSender(_slow(url), heard.append, queue_bytes=100 * SPAN_BYTES)
        for _ in range(rounds):
            sender.queue_spans(spans)
            assert sender.queued_count <= 100
        sent = sender.close(0.1)
    assert (sent.sent_count, sent.dropped_count) == (0, rounds * len(spans))


def _slow(url: str) -> Collector:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        return Collector(url)


def test_ctrl_c_ends_it_and_sends_what_waits(place: Place) -> None:
    session = talk(place, 1)
    with backend() as there, following("--to", there.url, session.capture, place=place) as process:
        wait_until(lambda: len(there.spans) >= 2, "the spans")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, b"Traceback" in errors) == (130, False), errors
        assert b"sent 2 spans" in errors
        wait_until(lambda: bool(there.metrics), "the histograms")
    session.finish()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--to", "localhost:4318"], b"--to takes the URL of a collector"),
        (["--to", "ftp://x"], b"--to takes the URL of a collector"),
        (["--to", "http://[::1"], b"--to takes the URL of a collector"),
        (["--to", "http://user:secret@x"], b"give a token in OTEL_EXPORTER_OTLP_HEADERS"),
        (["--to", "http://x/v1/traces"], b"--to takes the base URL"),
        (["--to", "http://x", "-o", "f"], b"--to writes no file"),
        (["--to", "http://x", "--format", "har"], b"--to sends otlp, not har"),
        (["--follow", "--format", "otlp", "-o", "f"], b"--follow needs --to"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], complaint: bytes) -> None:
    done = mcpproxy("export", *words)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert complaint in done.stderr
    assert b"secret" not in done.stderr


WITHOUT_EXPORTER = """
import runpy, sys
sys.modules["opentelemetry"] = None
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""


def test_without_the_exporter_the_extra_is_named(stdio: Path) -> None:
    words = ["export", "--to", "http://127.0.0.1:9", str(stdio)]
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXPORTER, *words], capture_output=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert done.stderr.endswith(b"which is not installed; in your clone of mcpproxy, run: pip install '.[otel]'\n")
