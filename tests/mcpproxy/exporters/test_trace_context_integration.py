"""The trace of a call, as its request names it in the head or in `_meta`: recorded by `serve`, exported and queried."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.harness import Place
from tests.http_harness import STREAM, Upstream, Wire, chunked, post, serving
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.test_collector_integration import backend
from tests.mcpproxy.exporters.test_otlp_integration import exported

HEAD = f"00-{'ab' * 16}-{'cd' * 8}-01"
META = f"00-{'12' * 16}-{'34' * 8}-00"
STATE = "rojo=00f067aa0ba902b7,congo=a b"
CASES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "head": (
        (f"traceparent: {HEAD}", "tracestate: rojo=00f067aa0ba902b7 , ,congo=a b", "baggage: userId=s3cr3t-1"),
        {},
    ),
    "both": ((f"Traceparent: {HEAD}", f"tracestate: {STATE}"), {"traceparent": META}),
    "meta": ((), {"traceparent": META, "tracestate": STATE}),
    "meta-broken": ((f"traceparent: {HEAD}",), {"traceparent": "s3cr3t", "tracestate": STATE}),
    "state-broken": ((f"traceparent: {HEAD}", "tracestate: S3cr3t"), {}),
    "head-broken": (("traceparent: s3cr3t-2", f"tracestate: {STATE}"), {}),
    "twice": ((f"traceparent: {HEAD}", f"traceparent: {HEAD}"), {}),
    "neither": ((), {}),
}
"""For each tool, the header fields and `_meta` of its call."""


def answer(wire: Wire) -> None:
    """Answer each call on a stream, after a request of the server's own."""
    while request := wire.request():
        id_ = json.loads(request.partition(b"\r\n\r\n")[2])["id"]
        asked = b'data: {"jsonrpc":"2.0","id":"s%d","method":"roots/list"}\n\n' % id_
        wire.say(STREAM + chunked(asked, b'data: {"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\n\n' % id_))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = Place(tmp_path_factory.mktemp("traced"))
    with Upstream(answer) as upstream, serving(place, upstream.url) as served:
        with served.client() as client:
            for number, (tool, (fields, meta)) in enumerate(CASES.items()):
                params = {"name": tool, "arguments": {}, "_meta": meta}
                call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                client.say(post(json.dumps(call).encode(), *(field.encode() for field in fields)))
                client.head()
                client.through(b"0\r\n\r\n")
        served.ended(len(CASES))
        served.stop()
        yield served.capture
    assert not place.clear()


def place_of(span: Span) -> tuple[str, str, str]:
    return span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state


def test_spans_are_below_the_span_that_a_head_or_else_meta_names(traced: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", traced)
    by_head, by_meta = ("ab" * 16, "cd" * 8), ("12" * 16, "34" * 8)
    expected = {
        "head": (*by_head, STATE),
        "both": (*by_meta, ""),
        "meta": (*by_meta, STATE),
        "meta-broken": (*by_head, ""),
        "state-broken": (*by_head, ""),
    }
    for tool in CASES:
        client, server = told.named(f"tools/call {tool}")
        assert (server.trace_id, server.trace_state) == (client.trace_id, client.trace_state), tool
        if tool in expected:
            assert place_of(client) == expected[tool], tool
        else:
            assert place_of(client)[1:] == ("", ""), tool
            assert client.trace_id.hex() not in (by_head[0], by_meta[0]), tool
        (asking,) = [span for span in told.named("roots/list") if span.parent_span_id == server.span_id]
        assert (asking.trace_id, asking.trace_state) == (client.trace_id, client.trace_state), tool


def test_a_collector_gets_the_same_state(traced: Path, tmp_path: Path) -> None:
    told = exported(tmp_path / "out", traced)
    with backend() as there:
        done = mcpproxy("export", "--to", there.url, traced)
        assert done.returncode == 0, complaints(done)
        assert sorted(map(place_of, there.spans)) == sorted(place_of(span) for _, span in told.spans)


def test_sql_and_show_take_the_trace_that_the_spans_have(traced: Path) -> None:
    done = mcpproxy("query", "--json", "select name, trace, trace_id from exchanges where asked_by = 'client'", traced)
    rows = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    by_head, by_meta = "ab" * 16, "12" * 16
    expected = {"head": by_head, "both": by_meta, "meta": by_meta, "meta-broken": by_head, "state-broken": by_head}
    assert {tool: row["trace_id"] for tool, row in rows.items()} == dict.fromkeys(CASES) | expected
    assert (rows["meta-broken"]["trace"], rows["twice"]["trace"]) == (HEAD, None)
    shown = mcpproxy("show", "--json", "--filter", f"trace:{by_head}", traced).stdout.decode()
    assert [tool for tool in CASES if f'"{tool}"' in shown] == ["head", "meta-broken", "state-broken"]


def test_a_field_that_is_sent_twice_is_shown_twice(traced: Path) -> None:
    done = mcpproxy("query", "--json", "select request from exchanges where name = 'twice'", traced)
    number = json.loads(done.stdout)["request"]
    for options, repeated in (
        (("--frame",), b"traceparent: " + HEAD.encode()),
        (("--as", "curl", "--frame"), b"'traceparent: " + HEAD.encode() + b"'"),
    ):
        assert mcpproxy("show", *options, number, traced).stdout.count(repeated) == 2


def test_the_trace_of_a_head_can_be_queried_and_nothing_else_of_it_is_stored(traced: Path) -> None:
    done = mcpproxy("query", "--json", "select name, trace from exchanges where asked_by = 'client'", traced)
    trace_by_tool = {row["name"]: row["trace"] for row in map(json.loads, done.stdout.splitlines())}
    assert (trace_by_tool["head"], trace_by_tool["both"], trace_by_tool["neither"]) == (HEAD, META, None)
    assert trace_by_tool["head-broken"].startswith("hmac:")
    stored = traced.read_bytes()
    assert b'["baggage","userId=hmac:' in stored
    for secret in (b"s3cr3t-1", b"s3cr3t-2", b"S3cr3t"):
        assert secret not in stored
