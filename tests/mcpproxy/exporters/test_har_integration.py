"""HAR: valid by the schema of the format, readable by mitmproxy, and with every exchange and message of the capture."""

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.analysis.store.capture_writer import CaptureWriter
from tests.captures.samples import header
from tests.harness import Place, frames, wait_until
from tests.http_harness import STREAM, Upstream, Wire, chunked, post, serving
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import corpus, counted
from tests.mcpproxy.tui import http_talk
from tests.mcpproxy.tui.stage import CALL, END, record
from tests.npm import installed
from tests.readers import read_by_mitmproxy


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> jsonschema_rs.Validator:
    """The schema of HAR 1.2 that many programs use."""
    folder = installed("har-schema", "2.0.0", tmp_path_factory.mktemp("npm")) / "lib"
    parts = {path.name: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    registry = jsonschema_rs.Registry([(f"json-schema:///{name}", part) for name, part in parts.items()])
    return jsonschema_rs.Draft6Validator(parts["har.json"], registry=registry)


def entries(out: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    done = mcpproxy("export", "--format", "har", "--force", "-o", out, *arguments)
    assert done.returncode == 0, complaints(done)
    har = json.loads(out.read_bytes())
    assert list(har) == ["log"]
    assert har["log"]["version"] == "1.2"
    found: list[dict[str, Any]] = har["log"]["entries"]
    return found


def test_every_exchange_is_an_entry_in_the_order_of_their_beginnings(http: Path, tmp_path: Path) -> None:
    found = entries(tmp_path / "out.har", http)
    assert len(found) == counted(http, folder=tmp_path / "tables", table="http_exchanges") == 4
    starts = [datetime.fromisoformat(entry["startedDateTime"]) for entry in found]
    assert starts == sorted(starts)
    opening, ready, call, picture = found
    assert (opening["request"]["method"], opening["response"]["status"]) == ("POST", 200)
    assert json.loads(opening["request"]["postData"]["text"])["method"] == "initialize"
    assert json.loads(opening["response"]["content"]["text"])["result"]["serverInfo"]["name"] == "ink"
    assert ready["response"]["status"] == 202
    assert call["response"]["content"]["mimeType"] == "text/event-stream"
    assert picture["request"]["method"] == "GET"
    assert "text" not in picture["response"]["content"]
    assert picture["_mcp"]["notStored"]["response"]["size"] == len(b"\x89PNG no picture")
    for entry in found:
        assert entry["time"] == sum(entry["timings"][phase] for phase in ("send", "wait", "receive"))


def test_a_stream_is_its_text_and_each_event_has_its_time(http: Path, tmp_path: Path) -> None:
    _, _, call, _ = entries(tmp_path / "out.har", http)
    text = call["response"]["content"]["text"]
    recorded = [frame for frame in frames(http, "s2c") if frame.unit == "sse_event"]
    assert text.count("\n\n") == len(recorded) == 3
    for block, frame in zip(text.split("\n\n"), recorded, strict=False):
        assert block == f"id: {frame.event_id}\ndata: {frame.raw.decode()}"
    sent, *messages = call["_mcp"]["messages"]
    assert (sent["dir"], sent["method"]) == ("c2s", "tools/call")
    assert [(message["frame"], message.get("eventId")) for message in messages] == [
        (frame.seq, frame.event_id) for frame in recorded
    ]
    times = [message["time"] for message in call["_mcp"]["messages"]]
    assert times == sorted(times)
    assert times[0] >= 0


def test_it_fits_the_schema_of_the_format(http: Path, schema: jsonschema_rs.Validator, tmp_path: Path) -> None:
    entries(tmp_path / "out.har", http)
    schema.validate(json.loads((tmp_path / "out.har").read_bytes()))
    with pytest.raises(jsonschema_rs.ValidationError):
        schema.validate({"log": {"version": "1.2", "creator": {}, "entries": []}})


def test_mitmproxy_reads_what_crossed(http: Path, tmp_path: Path) -> None:
    found = entries(tmp_path / "out.har", http)
    flows = read_by_mitmproxy(tmp_path / "out.har", tmp_path / "out.flow")
    assert len(flows) == len(found)
    for entry, (method, url, sent, status, got) in zip(found, flows, strict=True):
        request, response = entry["request"], entry["response"]
        assert (method, url, status) == (request["method"], request["url"], response["status"])
        assert sent == request.get("postData", {}).get("text", "")
        assert got == response["content"].get("text", "")
    (streamed,) = [got for *_, got in flows if "id: 7" in got]
    assert "two\\nlines \\u00fc" in streamed


def check_corpus(every: int, schema: jsonschema_rs.Validator, folder: Path) -> None:
    """Export one in `every` conversations over HTTP, and check that all are read."""
    made = corpus(folder / "captures", every)
    http = [path for path in made if b'"transport":"http"' in path.read_bytes()[:400]]
    found = entries(folder / "out.har", *http)
    assert len(http) > 300 / every
    tables = folder / "tables"
    left_out = counted(*http, folder=tables, table="http_exchanges", where="method is null")
    assert len(found) == counted(*http, folder=tables, table="http_exchanges") - left_out
    schema.validate(json.loads((folder / "out.har").read_bytes()))
    inside = {(entry["_mcp"]["capture"], message["frame"]) for entry in found for message in entry["_mcp"]["messages"]}
    carried = "frames join http_exchanges using (capture, exchange)"
    assert len(inside) == counted(*http, folder=tables, table=carried, where="http_exchanges.method is not null")
    assert len(read_by_mitmproxy(folder / "out.har", folder / "out.flow")) == len(found)


@pytest.mark.costly("mitmproxy reads a share of the corpus")
def test_conversations_of_the_corpus_fit_schema_and_mitmproxy(schema: jsonschema_rs.Validator, tmp_path: Path) -> None:
    check_corpus(20, schema, tmp_path)


@pytest.mark.soak
def test_every_conversation_of_the_corpus_fits_schema_and_mitmproxy(
    schema: jsonschema_rs.Validator, tmp_path: Path
) -> None:
    check_corpus(1, schema, tmp_path)


def test_a_body_that_is_not_text_is_base64(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1, transport="http", upstream="http://h/mcp")
    head = {"method": "POST", "target": "/mcp", "version": "HTTP/1.1", "headers": []}
    answer = {"status": 200, "reason": "OK", "version": "HTTP/1.1", "headers": [["Content-Type", "application/json"]]}
    one.record(1, "exchange", conn=1, exchange=1, stage="request", request=head)
    one.record(2, "frame", dir="s2c", conn=1, exchange=1, unit="http_body", kind="invalid", size=3, raw_b64="/w7/")
    one.record(3, "exchange", conn=1, exchange=1, stage="end", request=head, response=answer, ended_by="complete")
    (entry,) = entries(tmp_path / "out.har", one.close())
    content = entry["response"]["content"]
    assert (content["encoding"], base64.b64decode(content["text"])) == ("base64", b"\xff\x0e\xff")


JSON = [["Content-Type", "application/json"]]
EVENTS = [["Content-Type", "text/event-stream"]]


def exchange(
    one: CaptureWriter,
    number: int,
    until_ms: float,
    *,
    headers: list[list[str]] | None,
    answer_ms: float | None = None,
    by: str = "client",
) -> None:
    """Record a call over HTTP, with or without a response head and a response, until one side ends it."""
    at_ms = number * 10_000
    head = {"method": "POST", "target": "/mcp", "version": "HTTP/1.1", "headers": []}
    place: dict[str, Any] = {"conn": 1, "exchange": number}
    one.record(at_ms, "exchange", **place, stage="request", request=head)
    raw = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "dig"}})
    one.record(at_ms, "frame", dir="c2s", **place, unit="http_body", kind="request", size=len(raw), raw=raw)
    times: dict[str, float] = {"request_head": at_ms, "request_end": at_ms + 1}
    response: dict[str, Any] = {} if headers is None else {"response": {"status": 200, "headers": headers}}
    if headers is not None:
        times["response_head"] = at_ms + 100
        one.record(at_ms + 100, "exchange", **place, stage="response", **response)
    if answer_ms is not None:
        times["first_byte"] = at_ms + answer_ms
        raw = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": []}})
        unit = "sse_event" if headers == EVENTS else "http_body"
        one.record(at_ms + answer_ms, "frame", dir="s2c", **place, unit=unit, kind="response", size=len(raw), raw=raw)
    times["response_end"] = at_ms + until_ms
    stamps = {name: round(ms * 1e6) for name, ms in times.items()}
    end = {"request": head, **response, "times": stamps, "ended_by": by}
    one.record(at_ms + until_ms, "exchange", **place, stage="end", **end)


def test_a_stream_without_events_keeps_the_time_at_which_it_was_opened(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1, transport="http", upstream="http://h/mcp")
    head = {"method": "GET", "target": "/mcp", "version": "HTTP/1.1", "headers": []}
    response = {"response": {"status": 200, "reason": "OK", "version": "HTTP/1.1", "headers": EVENTS}}
    times = {"request_head": 0, "request_end": 0, "response_head": 99 * 10**6, "response_end": 403 * 10**6}
    one.record(0, "exchange", exchange=1, conn=1, stage="request", request=head)
    one.record(99, "exchange", exchange=1, conn=1, stage="response", **response)
    one.record(403, "exchange", exchange=1, conn=1, stage="end", request=head, **response, times=times)
    (found,) = entries(tmp_path / "out.har", one.close())
    assert (found["timings"]["wait"], found["timings"]["receive"]) == (99, 304)


def test_an_exchange_that_its_client_gave_up_says_so_and_one_that_was_answered_does_not(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1, transport="http", upstream="http://h/mcp")
    exchange(one, 1, 403, headers=None)
    exchange(one, 2, 403, headers=EVENTS)
    exchange(one, 3, 403, headers=EVENTS, answer_ms=200)
    exchange(one, 4, 403, headers=JSON, answer_ms=200, by="complete")
    found = entries(tmp_path / "out.har", one.close())
    gave_up = "the client closed it before the response"
    assert [(entry.get("_error"), entry["_mcp"]["endedBy"]) for entry in found] == [
        (gave_up, "client"),
        (gave_up, "client"),
        (None, "complete"),
        (None, "complete"),
    ]
    # If nothing arrived, the receive time is 0.
    assert [(entry["timings"]["wait"], entry["timings"]["receive"]) for entry in found] == [
        (402, 0),
        (402, 0),
        (99, 303),
        (99, 303),
    ]
    assert {entry["time"] for entry in found} == {403}


@pytest.mark.parametrize("upstream", ["http://[", "http://h:x/", "", "\x00", "x" * 10_000])
def test_an_upstream_that_is_no_url_costs_only_the_origin(upstream: str, tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1, transport="http", upstream=upstream)
    head = {"method": "GET", "target": "/mcp?a=%ff&b", "version": "HTTP/1.1", "headers": [["Host", "h:1"]]}
    one.record(1, "exchange", conn=1, exchange=1, stage="end", request=head, ended_by="client", peer="[::")
    (entry,) = entries(tmp_path / "out.har", one.close())
    assert entry["request"]["url"].endswith("/mcp?a=%ff&b")
    done = mcpproxy("export", "--format", "otlp", "-o", tmp_path / "out.jsonl", one.path)
    assert done.returncode == 0, complaints(done)


def test_a_capture_of_stdio_is_refused_with_what_to_do(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    one.handshake()
    one.close()
    done = mcpproxy("export", "--format", "har", "-o", tmp_path / "out.har", tmp_path / "one.mcpcap")
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaints(done) == (
        b"mcpproxy: there are no HTTP exchanges to write as HAR; export sessions over stdio as otlp, perfetto or "
        b"markdown; nothing was written\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["one.mcpcap"]


def test_a_filter_selects_exchanges(http: Path, tmp_path: Path) -> None:
    (entry,) = entries(tmp_path / "out.har", "--filter", "method:tools/call", http)
    assert json.loads(entry["request"]["postData"]["text"])["method"] == "tools/call"


def test_a_filter_selects_an_exchange_by_its_late_response(tmp_path: Path) -> None:
    cancel = {"requestId": 1, "reason": "Request timed out"}
    cancelled = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}).encode()
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"too late"}}'
    called = http_talk.post(2, CALL % (1, 1), error, stream=True)
    before, late = called[:-3], called[-3:]  # the response, the end of the stream, that of the exchange
    start = ("header", header(transport="http", name="library"))
    path = record(tmp_path / "one.mcpcap", [start, *before, *http_talk.post(3, cancelled), *late, END])
    for text in ("has:error", "kind:error", "code:-32603", "latency>1ms", '"too late"'):
        (entry,) = entries(tmp_path / "out.har", "--filter", text, path)
        assert entry["_mcp"]["exchange"] == 2, text


def test_an_exchange_that_is_open_is_there_as_far_as_it_goes(place: Place, tmp_path: Path) -> None:
    def never_ends(wire: Wire) -> None:
        wire.request()
        wire.say(
            STREAM + chunked(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n').removesuffix(b"0\r\n\r\n")
        )
        wire.end()

    with Upstream(never_ends) as upstream, serving(place, upstream.url) as served, served.client() as client:
        client.say(post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"Accept: text/event-stream"))
        wait_until(lambda: len(frames(served.capture)) == 2, "the event")
        (entry,) = entries(tmp_path / "out.har", served.capture)
        assert entry["_mcp"]["endedBy"] is None
        assert entry["response"]["content"]["text"].startswith("data: ")
