"""OTLP: OpenTelemetry's own message types parse the output, which has the counts and the causes of the capture."""

import base64
import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric, MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from analysis.conversation.trace_context import parse_traceparent
from analysis.reading import Reading
from captures.frame import Frame
from mcpproxy.cli import dispatch
from mcpproxy.exporters.otlp import histograms
from mcpproxy.exporters.otlp.capture import SpanBuilder
from mcpproxy.exporters.otlp.conventions import SCHEMA_URL
from mcpproxy.exporters.otlp.histograms import DurationHistograms
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import ROOT
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import (
    BY_LATE_RESPONSE,
    being_recorded,
    corpus,
    counted,
    late,
    never_answered,
)
from tests.mcpproxy.turn_captures import THREAD, TURN, write_turns

METRICS = {f"mcp.{side}.{what}.duration" for side in ("client", "server") for what in ("operation", "session")}


class Told:
    """The content of an OTLP/JSON file, parsed by the official message types."""

    def __init__(self, path: Path) -> None:
        self.spans: list[tuple[dict[str, Any], Span]] = []
        """The spans, each with the attributes of its resource."""
        self.points: list[tuple[Metric, HistogramDataPoint]] = []
        for line in path.read_bytes().splitlines():
            message = json.loads(line)
            if "resourceSpans" in message:
                self._take_spans(Parse(json.dumps(_with_base64(message)), TracesData()))
            else:
                self._take_metrics(Parse(line, MetricsData()))

    def _take_spans(self, data: TracesData) -> None:
        for resource in data.resource_spans:
            assert resource.schema_url == SCHEMA_URL
            for scope in resource.scope_spans:
                assert (scope.scope.name, scope.schema_url) == ("mcpproxy", SCHEMA_URL)
                self.spans += [(values(resource.resource.attributes), span) for span in scope.spans]

    def _take_metrics(self, data: MetricsData) -> None:
        for resource in data.resource_metrics:
            assert resource.schema_url == SCHEMA_URL
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.points += [(metric, point) for point in metric.histogram.data_points]

    def named(self, name: str) -> list[Span]:
        """Returns the spans with a name: first those of the senders of the requests, then those of the receivers."""
        found = [span for _, span in self.spans if span.name == name]
        return sorted(found, key=lambda span: span.kind, reverse=True)


def _with_base64(message: dict[str, Any]) -> dict[str, Any]:
    """Returns OTLP/JSON as protobuf's own JSON: ids are in base64 instead of hexadecimal, the only difference."""
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return message


def values(attributes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute in attributes:
        assert isinstance(attribute, KeyValue)
        assert attribute.key not in found
        kind = attribute.value.WhichOneof("value")
        assert kind is not None
        found[attribute.key] = getattr(attribute.value, kind)
    return found


def exported(out: Path, *arguments: str | Path) -> Told:
    done = mcpproxy("export", "--format", "otlp", "--force", "-o", out, *arguments)
    assert (done.returncode, b"\x1b" in done.stderr) == (0, False), complaints(done)
    return Told(out)


def test_each_call_is_a_span_of_both_sides(stdio: Path, http: Path, tmp_path: Path) -> None:
    for capture in (stdio, http):
        told = exported(tmp_path / "out", capture)
        calls = counted(capture, folder=tmp_path / "tables")
        assert Counter(span.kind for _, span in told.spans) == {
            Span.SPAN_KIND_CLIENT: calls,
            Span.SPAN_KIND_SERVER: calls,
        }
        assert len({span.span_id for _, span in told.spans}) == 2 * calls
        for _, span in told.spans:
            assert (len(span.trace_id), len(span.span_id)) == (16, 8)
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        servers = [span for _, span in told.spans if span.kind == Span.SPAN_KIND_SERVER]
        clients = {span.span_id: span for _, span in told.spans if span.kind == Span.SPAN_KIND_CLIENT}
        assert all(clients[span.parent_span_id].name == span.name for span in servers)


def check_corpus(every: int, folder: Path) -> None:
    """Check that each call of one in `every` conversations has its spans."""
    captures = corpus(folder / "captures", every)
    told = exported(folder / "out", folder / "captures")
    calls = counted(folder / "captures", folder=folder / "tables")
    assert len(captures) > 2000 / every
    assert len(told.spans) == 2 * calls
    assert len({(span.trace_id, span.span_id) for _, span in told.spans}) == 2 * calls
    for _, span in told.spans:
        assert (span.status.code == Status.STATUS_CODE_ERROR) == ("error.type" in values(span.attributes))


@pytest.mark.costly("it exports a share of the corpus")
def test_conversations_of_the_corpus_have_the_spans_of_their_exchanges(tmp_path: Path) -> None:
    check_corpus(40, tmp_path)


@pytest.mark.soak
def test_every_conversation_of_the_corpus_has_the_spans_of_its_exchanges(tmp_path: Path) -> None:
    check_corpus(1, tmp_path)


def test_the_attributes_of_a_call_are_those_of_the_conventions(http: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", http)
    client, server = told.named("tools/call add")
    assert {name: value for name, value in values(client.attributes).items() if name != "server.port"} == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-06-18",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": "127.0.0.1",
        "jsonrpc.request.id": "2",
        "mcp.session.id": values(client.attributes)["mcp.session.id"],
        "mcpproxy.session": 1,
        "mcpproxy.frame": values(client.attributes)["mcpproxy.frame"],
        "mcpproxy.response.frame": values(client.attributes)["mcpproxy.response.frame"],
    }
    assert values(client.attributes)["mcp.session.id"].startswith("hmac:")
    assert values(server.attributes)["client.address"] == "127.0.0.1"
    assert "server.address" not in values(server.attributes)
    services = {span.kind: service for service, span in told.spans if span.name == "tools/call add"}
    assert services[Span.SPAN_KIND_CLIENT]["service.name"] == "pen"
    assert (services[Span.SPAN_KIND_SERVER]["service.name"], services[Span.SPAN_KIND_SERVER]["service.version"]) == (
        "ink",
        "2",
    )


def released_names() -> set[str]:
    """Returns all names of attributes in the released semantic conventions."""
    modules = [
        import_module(f"{package.__name__}.{module.name}")
        for package in (
            import_module("opentelemetry.semconv._incubating.attributes"),
            import_module("opentelemetry.semconv.attributes"),
        )
        for module in iter_modules(package.__path__)
    ]
    return {value for module in modules for value in vars(module).values() if isinstance(value, str)}


def test_the_page_compares_each_attribute_with_the_released_conventions(
    stdio: Path, http: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs/exports/otlp.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]*)\|$", page.partition("### Attributes")[2], re.MULTILINE)
    difference_by_name = {name: difference for names, _, difference in rows for name in re.findall("`([^`]+)`", names)}
    written = {
        name
        for capture in (stdio, http, late(tmp_path / "late.mcpcap"), write_turns(tmp_path / "turns")[0])
        for _, span in exported(tmp_path / "out", "--payloads", capture).spans
        for name in values(span.attributes)
    }
    assert {re.sub(r"(prompt\.variable\.).*", r"\1…", name) for name in written} <= difference_by_name.keys()
    released = released_names()
    for name, difference in difference_by_name.items():
        assert (name in released) != difference.startswith(("mcpproxy's own", "not in ")), name


def test_spans_of_a_call_name_its_turn_and_its_conversation(tmp_path: Path) -> None:
    told = exported(tmp_path / "out", write_turns(tmp_path)[0])
    for span in told.named("tools/call write_file"):
        named = values(span.attributes)
        assert (named["gen_ai.conversation.id"], named["mcpproxy.turn.id"]) == (THREAD, TURN)
    for span in told.named("initialize"):
        assert not {"gen_ai.conversation.id", "mcpproxy.turn.id"} & values(span.attributes).keys()


def test_a_call_joins_the_trace_that_its_request_names(http: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", http)
    client, server = told.named("tools/call add")
    assert (client.trace_id.hex(), client.parent_span_id.hex()) == ("ab" * 16, "cd" * 8)
    assert server.trace_id == client.trace_id
    asking, asked = told.named("roots/list")
    assert {asked.trace_id, asking.trace_id} == {client.trace_id}
    # The server sends this request during the call, so its span is a child of the server's span of the call.
    assert asking.parent_span_id == server.span_id
    assert asked.parent_span_id == asking.span_id
    services = [service["service.name"] for service, span in told.spans if span.name == "roots/list"]
    assert sorted(services) == ["ink", "pen"]
    (opening, _) = told.named("initialize")
    assert opening.trace_id != client.trace_id
    assert opening.parent_span_id == b""


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        (f"00-{'ab' * 16}-{'cd' * 8}-01", True),
        (f"00-{'ab' * 16}-{'cd' * 8}-01-more", False),
        (f"cc-{'ab' * 16}-{'cd' * 8}-01-more", True),
        (f"ff-{'ab' * 16}-{'cd' * 8}-01", False),
        (f"00-{'00' * 16}-{'cd' * 8}-01", False),
        (f"00-{'ab' * 16}-{'00' * 8}-01", False),
        (f"00-{'AB' * 16}-{'cd' * 8}-01", False),
        ("", False),
        (None, False),
    ],
)
def test_an_invalid_trace_context_is_ignored(value: str | None, is_valid: bool) -> None:
    assert (parse_traceparent(value) is not None) == is_valid


def test_exporting_twice_gives_the_same_bytes(stdio: Path, tmp_path: Path) -> None:
    exported(tmp_path / "one", stdio)
    exported(tmp_path / "two", stdio)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_arguments_and_results_are_exported_on_request_only(stdio: Path, http: Path, tmp_path: Path) -> None:
    sensitive = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.prompt.variable.")
    for capture in (stdio, http):
        without = exported(tmp_path / "out", capture)
        assert not [name for _, span in without.spans for name in values(span.attributes) if name.startswith(sensitive)]
        assert b"two\\nlines" not in (tmp_path / "out").read_bytes()
    with_them = exported(tmp_path / "out", "--payloads", http)
    client, _ = with_them.named("tools/call add")
    assert values(client.attributes)["gen_ai.tool.call.arguments"] == '{"a":1}'
    assert json.loads(values(client.attributes)["gen_ai.tool.call.result"])["content"][0]["text"] == "two\nlines ü"
    # As attributes of metrics, they would make a separate series of each call.
    assert not [
        name for _, point in with_them.points for name in values(point.attributes) if name.startswith(sensitive)
    ]


def test_errors_have_their_type_and_the_servers_fault_is_the_servers(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "files", 1, 1_795_000_000_000_000_000)
    one.handshake()
    one.call(20, 2, "a")
    one.refuse(21, 2, -32602, "no such thing")
    one.call(30, 3, "b")
    one.answer(31, 3, content=[], isError=True)
    one.call(40, 4, "c")
    one.raw(9_000, "c2s", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4,"reason":"x"}}')
    one.call(9_010, 5, "d")
    one.close()
    told = exported(tmp_path / "out", tmp_path / "one.mcpcap")
    found = {
        (span.name, span.kind == Span.SPAN_KIND_SERVER): (
            values(span.attributes).get("error.type"),
            values(span.attributes).get("rpc.response.status_code"),
            span.status.message,
        )
        for _, span in told.spans
        if span.name.startswith("tools/call")
    }
    assert found["tools/call a", False] == ("-32602", "-32602", "no such thing")
    assert found["tools/call a", True] == (None, "-32602", "")  # the client's fault
    assert found["tools/call b", False] == ("tool_error", None, "")
    assert found["tools/call c", False] == ("timeout", None, "")
    assert found["tools/call d", False] == ("no_response", None, "")


def test_a_cancelled_call_ends_there_and_says_how_late_its_response_was(tmp_path: Path) -> None:
    told = exported(tmp_path / "out", late(tmp_path / "one.mcpcap"))
    for span in told.named("tools/call late"):
        assert span.end_time_unix_nano - span.start_time_unix_nano == 403_000_000
        attributes = values(span.attributes)
        assert (attributes["error.type"], attributes["mcpproxy.response.late_ms"]) == ("timeout", 605)
        assert attributes["mcpproxy.response.frame"] > attributes["mcpproxy.frame"]
        assert "rpc.response.status_code" not in attributes
    counts = [point for metric, point in told.points if metric.name == "mcp.client.operation.duration"]
    assert sum(point.count for point in counts) == 2  # including the handshake


def test_a_span_that_is_sent_live_does_not_wait_for_a_late_response(tmp_path: Path) -> None:
    reading = Reading(late(tmp_path / "one.mcpcap"))
    made = SpanBuilder("0" * 32, reading.fold, DurationHistograms(), is_live=True)
    ends = {span.name: (step.record, span) for step in reading.to_end() for span in made.on_step(step)}
    record, span = ends["tools/call late"]
    assert isinstance(record, Frame)
    assert record.verdict.method == "notifications/cancelled"
    assert span.attributes["error.type"] == "timeout"
    assert "mcpproxy.response.late_ms" not in span.attributes
    assert span.end_ns - span.start_ns == 403_000_000


def test_an_unanswered_call_ends_with_its_server_or_now(tmp_path: Path) -> None:
    told = exported(tmp_path / "out", never_answered(tmp_path / "one.mcpcap"))
    for span in told.named("tools/call hung"):
        assert span.end_time_unix_nano - span.start_time_unix_nano == 600_000_000
    with being_recorded(tmp_path / "live.mcpcap") as path:
        told = exported(tmp_path / "out", path)
    for span in told.named("tools/call hung"):
        assert span.end_time_unix_nano - span.start_time_unix_nano >= 59_900_000_000


def test_a_filter_selects_a_call_by_its_late_response(tmp_path: Path) -> None:
    path = late(tmp_path / "one.mcpcap")
    for text in BY_LATE_RESPONSE:
        told = exported(tmp_path / "out", "--filter", text, path)
        assert {span.name for _, span in told.spans} == {"tools/call late"}, text


def test_the_four_histograms_count_what_the_spans_show(stdio: Path, http: Path, tmp_path: Path) -> None:
    for capture in (stdio, http):
        told = exported(tmp_path / "out", capture)
        assert {metric.name for metric, _ in told.points} == METRICS
        assert {metric.unit for metric, _ in told.points} == {"s"}
        counts: Counter[str] = Counter()
        for metric, point in told.points:
            counts[metric.name] += point.count
            assert sum(point.bucket_counts) == point.count
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            assert 0 <= point.min <= point.sum / point.count <= point.max
            assert "mcp.method.name" in values(point.attributes) or "session" in metric.name
        ended = [span for _, span in told.spans if values(span.attributes).get("error.type") != "no_response"]
        assert counts["mcp.client.operation.duration"] == sum(span.kind == Span.SPAN_KIND_CLIENT for span in ended)
        assert counts["mcp.server.operation.duration"] == sum(span.kind == Span.SPAN_KIND_SERVER for span in ended)
        sessions = counted(capture, folder=tmp_path / "tables", table="sessions", where="delimited <> 'peer'")
        assert counts["mcp.client.session.duration"] == counts["mcp.server.session.duration"] == sessions


def test_a_filter_selects_calls(stdio: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", "--filter", "method:tools/call", stdio)
    calls = counted(stdio, folder=tmp_path / "tables", where="method = 'tools/call'")
    assert len(told.spans) == 2 * calls
    assert {values(span.attributes)["mcp.method.name"] for _, span in told.spans} == {"tools/call"}
    done = mcpproxy("export", "--format", "otlp", "--filter", "method:nothing", "-o", tmp_path / "none", stdio)
    assert (done.returncode, complaints(done)) == (
        2,
        b"mcpproxy: no message matches the filter; nothing was written\n",
    )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("wall_ns", [-5, 1 << 70, (1 << 63) - 1, True, None])
def test_times_that_no_reader_can_hold_are_bounded(wall_ns: Any, tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "files", 1, wall_ns)
    one.handshake()
    told = exported(tmp_path / "out", one.close())
    assert len(told.spans) == 2
    for _, span in told.spans:
        assert 0 <= span.start_time_unix_nano <= span.end_time_unix_nano < 1 << 63


def test_names_of_peers_cannot_make_series_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert histograms.MAX_SERIES == 2_000
    kept = 50
    monkeypatch.setattr(histograms, "MAX_SERIES", kept)
    one = CaptureWriter(tmp_path / "one.mcpcap", "files", 1, 1_795_000_000_000_000_000)
    one.handshake()
    for number in range(kept + 200):
        one.call(20 + number, number + 2, f"tool-{number}")
        one.answer(20 + number, number + 2, content=[])
    one.close()
    other = CaptureWriter(tmp_path / "other.mcpcap", "files", 2, 1_795_000_000_000_000_000)
    other.handshake()
    other.close()
    words = ["--format", "otlp", "-o", tmp_path / "out", tmp_path / "one.mcpcap", tmp_path / "other.mcpcap"]
    assert dispatch(["export", *map(str, words)]) == 0, capfd.readouterr()
    told = Told(tmp_path / "out")
    assert len(told.points) <= kept + 4
    overflow = [point for _, point in told.points if "otel.metric.overflow" in values(point.attributes)]
    total = sum(point.count for metric, point in told.points if metric.name == "mcp.client.operation.duration")
    assert len(overflow) == 4, "one for each histogram, however many captures have them"
    assert total == kept + 202  # including a handshake of each
