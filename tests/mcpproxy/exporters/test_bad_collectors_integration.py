"""`export --to` with collectors that are broken or hostile: it ends, uses little memory, and counts what is lost."""

import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from mcpproxy.exporters.otlp.capture import SpanBuilder
from mcpproxy.exporters.otlp.conventions import CallSpan
from mcpproxy.exporters.otlp.histograms import DurationHistograms
from mcpproxy.exporters.otlp.sdk import Collector
from mcpproxy.exporters.otlp.sender import MAX_BATCH_BYTES, SpanSender
from mcpproxy.exporters.source import ExportSource
from tests.harness import DEADLINE_S, Place, wait_until
from tests.http_harness import Authority
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.test_collector_integration import ask, backend, following, talk
from tests.mcpproxy.exporters.test_otlp_integration import exported

MEASURED = """
import atexit, re, runpy, sys
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
atexit.register(lambda: print(peak() >> 10, file=sys.stderr))
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""
"""Prints at exit how many MiB it used. Unlike `ru_maxrss`, this omits the memory of the process it was forked from."""
Answer = Callable[[socket.socket, threading.Event], None]
"""What a collector does after it has read a request."""


@contextmanager
def listening(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a collector; yields its URL."""
    over = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    def serve(client: socket.socket) -> None:
        with suppress(OSError):
            # The TLS handshake happens at the first read.
            wire = tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False) if tls else client
            with wire:
                while read_request(wire):
                    answer(wire, over)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.getsockname()[1]}"
    finally:
        over.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def read_request(client: socket.socket) -> bool:
    read = b""
    while b"\r\n\r\n" not in read:
        piece = client.recv(65536)
        if not piece:
            return False
        read += piece
    head, _, body = read.partition(b"\r\n\r\n")
    size = re.search(rb"(?i)content-length: (\d+)", head)
    left = int(size[1]) - len(body) if size else 0
    while left > 0:
        left -= len(client.recv(65536)) or left
    return True


def drip(client: socket.socket, over: threading.Event, text: bytes) -> None:
    """Send a byte at a time, each well within the time-out of a read."""
    for at in range(len(text)):
        client.sendall(text[at : at + 1])
        if over.wait(0.2):
            return


def slow_head(client: socket.socket, over: threading.Event) -> None:
    drip(client, over, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000)


def half_head(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: x")
    over.wait(DEADLINE_S)


def slow_body(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    drip(client, over, bytes(10_000))


def endless_head(client: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def endless_body(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not over.is_set():
        client.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")


def endless_redirect(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n")
    while not over.is_set():
        client.sendall(bytes(1 << 20))


def closing(client: socket.socket, over: threading.Event) -> None:
    client.close()


def other_protocol(client: socket.socket, over: threading.Event) -> None:
    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    client.close()


def silent(client: socket.socket, over: threading.Event) -> None:
    over.wait()


@pytest.fixture(scope="module")
def count(stdio: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of spans in the capture."""
    return len(exported(tmp_path_factory.mktemp("out") / "spans", stdio).spans)


@pytest.fixture
def spans(stdio: Path) -> list[CallSpan]:
    """Some spans."""
    source = ExportSource(stdio)
    made = SpanBuilder("0" * 32, source.reading.fold, DurationHistograms())
    return [span for step in source for span in made.on_step(step)]


NO_ANSWER = "no connection, or no answer in time"


def dropped_by(
    url: str, spans: list[CallSpan], patch: pytest.MonkeyPatch, problem: str = NO_ANSWER, timeout_s: int = 1
) -> int:
    """Returns how many spans are dropped if the sender is closed after the first attempt.

    A second is too little for TLS on a busy machine: a deadline that passes between `connect` and the handshake makes
    the `ssl` module leave its socket to the garbage collector, which warns.
    """
    patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(timeout_s))
    heard: list[str] = []
    sender = SpanSender(Collector(url), heard.append)
    sender.queue_spans(spans)
    wait_until(lambda: bool(heard), "that the collector cannot be reached")
    assert re.fullmatch(f"cannot reach the collector: {problem}; spans are kept and sent again", heard[0])
    assert len(heard) == 1
    sent = sender.close(0.1)
    assert sent.sent_count == 0
    return sent.dropped_count


@pytest.mark.parametrize("answer", [slow_head, half_head, endless_head, closing, other_protocol, silent])
def test_a_request_without_an_answer_ends_in_time(
    answer: Answer, spans: list[CallSpan], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(answer) as url:
        assert dropped_by(url, spans, monkeypatch) == len(spans)


def test_a_certificate_that_is_not_trusted(
    spans: list[CallSpan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        authority = Authority(tmp_path)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make certificates with")
    problem = (
        r"its certificate is not trusted \(.*certificate.*\); for a private CA, set OTEL_EXPORTER_OTLP_CERTIFICATE to "
        "the file of its certificate"
    )
    with listening(closing, authority.context("IP:127.0.0.1")) as url:
        assert dropped_by(url, spans, monkeypatch, problem, int(DEADLINE_S)) == len(spans)
    # Once its certificate is trusted, the remaining failure is the collector's own.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(authority.file))
    with listening(closing, authority.context("IP:127.0.0.1")) as url:
        assert dropped_by(url, spans, monkeypatch, timeout_s=5) == len(spans)


def test_a_collector_that_never_accepts_costs_the_time_out(
    spans: list[CallSpan], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert dropped_by(url, spans, monkeypatch) == len(spans)


def test_closing_interrupts_the_request_under_way_and_counts_its_spans(spans: list[CallSpan]) -> None:
    asked = threading.Event()

    def noting(client: socket.socket, over: threading.Event) -> None:
        asked.set()
        slow_head(client, over)

    with listening(noting) as url:
        sender = SpanSender(Collector(url), lambda _: None)
        sender.queue_spans(spans)
        assert asked.wait(DEADLINE_S)
        assert sender.queued_count == 0
        sent = sender.close(0.1)
        assert (sent.sent_count, sent.dropped_count) == (0, len(spans))
    assert not any(thread.name.startswith("otlp") for thread in threading.enumerate())


def test_a_request_stays_below_what_collectors_accept(spans: list[CallSpan]) -> None:
    wide = [span._replace(attributes={"text": "\N{SNOWMAN}" * 65_536}) for span in spans]
    with backend() as there:
        sender = SpanSender(Collector(there.url), lambda _: None, queue_bytes=1 << 30)
        sender.queue_spans(wide * 10)
        sent = sender.close(DEADLINE_S)
        assert (sent.sent_count, sent.dropped_count) == (10 * len(spans), 0)
        assert len(there.bodies) > 1
        assert all(len(body) <= MAX_BATCH_BYTES for body in there.bodies)


@pytest.mark.parametrize("answer", [slow_body, endless_body])
def test_once_the_head_has_come_the_rest_of_the_answer_does_not_matter(answer: Answer, stdio: Path, count: int) -> None:
    with listening(answer) as url:
        done = mcpproxy("export", "--to", url, stdio)
    assert (done.returncode, complaints(done)) == (0, f"mcpproxy: sent {count} spans\n".encode())


@pytest.mark.parametrize("answer", [endless_body, endless_redirect])
def test_an_endless_answer_takes_no_memory(answer: Answer, stdio: Path) -> None:
    with listening(answer) as url:
        # Without a limit, hundreds of megabytes would arrive before the time-out.
        words = ["export", "--to", url, str(stdio)]
        done = subprocess.run([sys.executable, "-c", MEASURED, *words], capture_output=True, timeout=DEADLINE_S)
    assert done.returncode == (2 if answer is endless_redirect else 0), done.stderr
    assert int(done.stderr.splitlines()[-1]) < 250


def test_spans_that_the_collector_rejects_are_counted(stdio: Path, count: int) -> None:
    rejected = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2)
    ).SerializeToString()
    bodies = iter([rejected])

    def rejecting(client: socket.socket, over: threading.Event) -> None:
        body = next(bodies, b"")
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    with listening(rejecting) as url:
        done = mcpproxy("export", "--to", url, stdio)
    assert done.returncode == 2
    lines = complaints(done).decode()
    assert "the collector rejects some of the spans; they are dropped\n" in lines
    assert f"mcpproxy: sent {count - 2} spans\nmcpproxy: ▲ 2 spans dropped" in lines


def test_a_request_that_cannot_be_made_is_told_and_not_repeated(stdio: Path, count: int) -> None:
    with backend() as there:
        done = mcpproxy("export", "--to", there.url, stdio, OTEL_EXPORTER_OTLP_HEADERS="x-token=a%0Asecret")
    assert done.returncode == 2
    assert not there.bodies
    assert b"the exporter cannot build a request from them; check the variables OTEL_EXPORTER_OTLP_" in done.stderr
    assert f"{count} spans dropped".encode() in done.stderr
    assert b"secret" not in done.stderr


@pytest.mark.parametrize("answer", [half_head, endless_head, pytest.param(silent, marks=pytest.mark.soak)])
def test_ctrl_c_ends_a_live_export_however_bad_the_collector(answer: Answer, place: Place) -> None:
    asked = threading.Event()

    def noting(client: socket.socket, over: threading.Event) -> None:
        asked.set()
        answer(client, over)

    session = talk(place, 3)
    with listening(noting) as url, following("--to", url, session.capture, place=place) as process:
        assert asked.wait(DEADLINE_S)
        ask(session, 9)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        session.finish()
    assert (process.returncode, b"Traceback" in errors) == (130, False), errors
    assert b"sent 0 spans\n" in errors
    assert re.search(rb"\d spans dropped: the collector did not accept them\n", errors)
