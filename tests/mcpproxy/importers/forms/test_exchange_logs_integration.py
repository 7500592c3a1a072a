"""HAR and flow files: what other tools have logged becomes a capture like a recorded one, and what it lacks is told."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from captures.frame import Frame
from captures.reader import Capture
from captures.record import MAX_LINE_BYTES
from mcpproxy.importers.capture_lines import CaptureLines
from mcpproxy.importers.forms.mitmproxy import MAX_FLOW_BYTES
from mcpproxy.importers.source import InvalidLine
from tests.examples import examples
from tests.harness import Place, frames, members_of
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import over_http
from tests.mcpproxy.importers.logs import imported as imported_in_memory
from tests.readers import read_by_mitmproxy


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = Place(tmp_path_factory.mktemp("http"))
    yield over_http(place)
    assert not place.clear()


@pytest.fixture(scope="module")
def har(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("har") / "out.har"
    assert mcpproxy("export", "--format", "har", "-o", out, recorded).returncode == 0
    return out


def imported(form: str, file: Path, out: Path) -> tuple[list[Path], list[str]]:
    done = mcpproxy("import", "--from", form, file, "-o", out)
    assert done.returncode == 0, done.stderr.decode()
    made = sorted(out.glob("*.mcpcap"))
    assert mcpproxy("verify", out).returncode == 0
    return made, [line.removeprefix("mcpproxy: ") for line in complaints(done).decode().splitlines()]


def crossed(capture: Path) -> list[tuple[str, bytes, str | None]]:
    return [(frame.dir, frame.raw, frame.event_id) for frame in frames(capture)]


def test_what_was_exported_comes_back(recorded: Path, har: Path, tmp_path: Path) -> None:
    (made,), told = imported("har", har, tmp_path / "out")
    assert crossed(made) == crossed(recorded)
    assert told == [
        "skipped 1 exchange that is not with an MCP server",
        "HAR files do not record how bodies were compressed, or connections that failed before a request",
    ]
    header = Capture(made).header.members
    assert (header["imported"], header["transport"], header["observed_start"]) == ("har", "http", True)

    # Times are those of the recording, to the microsecond, from the first request on.
    def times(capture: Path) -> list[int]:
        stamps = [frame.t_ns for frame in frames(capture) if frame.unit == "sse_event"]
        return [stamp - stamps[0] for stamp in stamps]

    assert all(abs(one - other) < 2_000 for one, other in zip(times(made), times(recorded), strict=True))
    assert abs(Capture(recorded).header.members["wall_ns"] - header["wall_ns"]) < 60 * 10**9


def test_findings_of_the_copy_are_those_of_the_recording(recorded: Path, har: Path, tmp_path: Path) -> None:
    (made,), _ = imported("har", har, tmp_path / "out")

    def rules(capture: Path) -> list[str]:
        done = mcpproxy("check", "--json", capture)
        return sorted(json.loads(line)["rule"] for line in done.stdout.splitlines() if b'"rule"' in line)

    assert rules(made) == rules(recorded)


def test_a_flow_file_of_mitmproxy_comes_back(recorded: Path, har: Path, tmp_path: Path) -> None:
    flows = tmp_path / "out.flow"
    assert read_by_mitmproxy(har, flows)
    (made,), told = imported("mitmproxy", flows, tmp_path / "out")
    assert crossed(made) == crossed(recorded)
    assert told == [
        "skipped 1 exchange that is not with an MCP server",
        "no event times in 1 event stream: each event gets the time at which its stream ended",
        "flow files do not record how bodies were split into chunks, or connections that failed before a request",
    ]
    assert Capture(made).header.members["imported"] == "mitmproxy"


def entry(url: str, body: Any, answer: str, kind: str = "application/json", **more: Any) -> dict[str, Any]:
    accept = "image/*" if body is None else "application/json, text/event-stream"
    posted = {"postData": {"mimeType": "application/json", "text": json.dumps(body)}} if body is not None else {}
    return {
        "startedDateTime": "2026-11-20T10:15:02.123Z",
        "time": 12.5,
        "request": {
            "method": "POST" if body is not None else "GET",
            "url": url,
            "httpVersion": "h2",
            "headers": [{"name": ":authority", "value": "x"}, {"name": "accept", "value": accept}],
            **posted,
        },
        "response": {
            "status": 200,
            "statusText": "",
            "headers": [{"name": "content-type", "value": kind}, {"name": "content-encoding", "value": "br"}],
            "content": {"mimeType": kind, "text": answer},
        },
        "timings": {"send": 1, "wait": 1.5, "receive": 10},
        **more,
    }


def headed(url: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
    """An entry with these headers on both sides."""
    made = entry(url, PING, PONG)
    for side in ("request", "response"):
        made[side]["headers"] += [{"name": name, "value": value} for name, value in headers]
    return made


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = '{"jsonrpc":"2.0","id":1,"result":{}}'


def written(folder: Path, *entries: Any) -> Path:
    (folder / "in.har").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return folder / "in.har"


def test_each_server_of_a_browsers_log_is_a_capture(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        entry("https://one.example/mcp", PING, PONG),
        entry("https://two.example:8443/mcp", PING, PONG),
        entry("https://one.example/picture", None, "", "image/png"),
        entry("https://one.example/.well-known/oauth-protected-resource", None, "{}"),
        entry("https://shop.example/", {"no": "rpc"}, "{}"),
        entry("data:text/plain,x", None, ""),
    )
    made, told = imported("har", file, tmp_path / "out")
    assert [path.name for path in made] == ["one.example.mcpcap", "two.example-8443.mcpcap"]
    assert told[0] == "skipped 3 exchanges that are not with an MCP server"
    assert [frame.raw.decode() for frame in frames(made[0])] == [json.dumps(PING), PONG]
    assert len({members["exchange"] for members in members_of(made[0], "exchange")}) == 2
    assert Capture(made[0]).header.members["wall_ns"] == 1_795_169_702_123_000_000


def test_entries_that_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        entry("http://[::1/mcp", PING, PONG),
        entry("https://a.example/mcp", PING, PONG),
        headed("https://a.example/mcp", [("a", "b")] * 100_000),
        {},
        entry("blob:https://a.example/1", None, ""),
        entry("data:,x", None, ""),
        entry("https://shop.example/", None, "") | {"startedDateTime": None},
    )
    done = mcpproxy("import", "--from", "har", log, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.decode().replace("mcpproxy: ", "").replace(f"not imported from {log}: ", "").splitlines()[
        :4
    ] == [
        "entry 0: its URL is invalid",
        "entry 2: the head of the request has 1,000,072 bytes; the limit is 524,288",
        "entry 3: expected an object in `request`",
        "skipped 3 exchanges that are not with an MCP server",
    ]
    (made,) = (tmp_path / "out").glob("*.mcpcap")
    assert len(frames(made)) == 2


@pytest.mark.parametrize("value", ["x" * 250_000, "\x01" * 250_000, "\u2028" * 80_000])
def test_the_largest_heads_make_a_sound_capture(value: str, tmp_path: Path) -> None:
    log = written(tmp_path, headed("https://a.example/mcp", [("a", value), ("b", value)]))
    (made,), _ = imported("har", log, tmp_path / "out")
    assert len(frames(made)) == 2


def test_a_record_that_no_reader_accepts_is_never_written() -> None:
    with pytest.raises(InvalidLine, match=r"record 0 has 8,\d{3},\d{3} bytes; the limit is 8,388,608"):
        CaptureLines().header_line("har", "http", "x" * (MAX_LINE_BYTES - 100))


@pytest.mark.parametrize("by", ["client", "server", "error", "proxy"])
@pytest.mark.parametrize(
    ("kind", "status"), [("application/json", 200), ("text/event-stream", 200), ("application/json", 0)]
)
def test_who_ended_an_exchange_comes_back(by: str, kind: str, status: int, tmp_path: Path) -> None:
    broken = entry(
        "https://x/mcp", PING, "data: {}\n\n" if "event" in kind else '{"jsonrpc"', kind, _mcp={"endedBy": by}
    )
    broken["response"]["status"] = status
    (made,), _ = imported("har", written(tmp_path, broken), tmp_path / "out")
    assert members_of(made, "exchange")[-1]["ended_by"] == ("server" if by == "error" else by)


def test_events_of_a_browser_have_their_times(tmp_path: Path) -> None:
    began = 1_795_169_702.123
    messages = [{"time": began + 0.004, "eventName": "message", "eventId": "7", "data": PONG}]
    streamed = entry("https://x/mcp", PING, "", "text/event-stream", _eventSourceMessages=messages)
    (made,), told = imported("har", written(tmp_path, streamed), tmp_path / "out")
    _, event = frames(made)
    assert isinstance(event, Frame)
    assert (event.raw.decode(), event.event_id, abs(event.t_ns - 4_000_000) < 1000) == (PONG, "7", True)
    assert not any("without the times" in line for line in told)


def test_events_without_times_have_that_of_the_end_and_that_is_told(tmp_path: Path) -> None:
    streamed = entry("https://x/mcp", PING, f"data: {{}}\n\ndata: {PONG}\n\n", "text/event-stream")
    (made,), told = imported("har", written(tmp_path, streamed), tmp_path / "out")
    assert [frame.t_ns for frame in frames(made)] == [0, 12_500_000, 12_500_000]
    assert told[0].startswith("no event times in 1 event stream")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"{", "not JSON"),
        (b"[]", "expected a list in `log.entries`"),
        (json.dumps({"log": {"entries": [{}]}}).encode(), "entry 0: expected an object in `request`"),
        (
            json.dumps({"log": {"entries": [{**entry("https://x/", PING, PONG), "startedDateTime": "x"}]}}).encode(),
            "entry 0: expected a date and time from 1970 to 2115",
        ),
        (
            json.dumps({"log": {"entries": [{**entry("https://x/", PING, PONG), "time": "x"}]}}).encode(),
            "entry 0: expected a number of milliseconds",
        ),
        *(
            (
                json.dumps({"log": {"entries": [{**entry("https://x/", PING, PONG), **late}]}}).encode(),
                "entry 0: expected a date and time from 1970 to 2115 in `startedDateTime`",
            )
            for late in ({"startedDateTime": "2262-04-12T00:00:00Z"}, {"startedDateTime": "9999-12-31T23:59:59Z"})
        ),
        (
            json.dumps({"log": {"entries": [entry("http://[::1/mcp", PING, PONG)]}}).encode(),
            "entry 0: its URL is invalid",
        ),
        (
            json.dumps({"log": {"entries": [entry(f"http://{'x' * 2000}/", PING, PONG)] * 3}}).encode(),
            "entry 0: its URL is invalid",
        ),
        (
            json.dumps({"log": {"entries": [entry("https://x/", None, "")]}}).encode(),
            "it contains no HTTP exchange with an MCP server",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_its_place(content: bytes, place: str, tmp_path: Path) -> None:
    (tmp_path / "in.har").write_bytes(content)
    done = mcpproxy("import", "--from", "har", tmp_path / "in.har", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert f"cannot import {tmp_path / 'in.har'}: {place}".encode() in done.stderr
    assert not (tmp_path / "out").exists()


# ---- hostile flow files


def netstring(value: Any) -> bytes:
    """As mitmproxy writes it."""
    if isinstance(value, dict):
        data, kind = b"".join(netstring(key) + netstring(item) for key, item in value.items()), b"}"
    elif isinstance(value, list | tuple):
        data, kind = b"".join(map(netstring, value)), b"]"
    elif isinstance(value, bool):
        data, kind = str(value).lower().encode(), b"!"
    elif isinstance(value, bytes):
        data, kind = value, b","
    elif isinstance(value, str):
        data, kind = value.encode(), b";"
    elif value is None:
        data, kind = b"", b"~"
    else:
        data, kind = repr(value).encode(), b"#" if isinstance(value, int) else b"^"
    return b"%d:%b%b" % (len(data), data, kind)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "expected a flow"),
        (b"x", "byte 0: expected a flow"),
        (b"99999999999:", "byte 0: expected a flow"),
        (b"%d:" % (MAX_FLOW_BYTES + 1), "byte 0: expected a flow"),
        (b"10:abc", "ends within a flow"),
        (b"3:abc,", "flow 0: expected a flow"),
        (b"3:abc?", "expected the type"),
        (b"5:9:abc]", "longer than the value that contains it"),
        (netstring({"type": "http", "request": 1}), "flow 0: expected a dictionary in `request`"),
        (netstring({"type": "http", "request": {}}), "flow 0: expected a number of seconds"),
        (
            netstring(
                {
                    "type": "http",
                    "request": {"timestamp_start": 1.5, "scheme": b"http", "host": "[", "port": 80, "method": b"GET"},
                }
            ),
            "flow 0: expected scheme, host and port of a request",
        ),
        (b"4:nope!", "expected a value of the type '!'"),
        (b"50:" + b"9" * 50 + b"#", "expected a value of the type '#'"),
    ],
)
def test_a_file_that_is_no_flow_file_is_told_with_its_place(data: bytes, why: str) -> None:
    with pytest.raises(InvalidLine, match=why.replace("?", ".")):
        imported_in_memory("mitmproxy", data)


def test_deep_nesting_ends_in_an_error_and_not_in_a_crash() -> None:
    value: Any = []
    for _ in range(100):
        value = [value]
    with pytest.raises(InvalidLine, match="nested too deeply"):
        imported_in_memory("mitmproxy", netstring(value))


@examples(60)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda data: b"%d:%b}" % (len(data), data)))
def test_any_bytes_are_flows_or_an_error(data: bytes) -> None:
    with contextlib.suppress(InvalidLine):
        imported_in_memory("mitmproxy", data)


def test_a_body_that_was_not_kept_is_told(tmp_path: Path) -> None:
    request = {
        "scheme": b"http", "host": "h", "port": 8000, "path": b"/mcp", "method": b"POST", "http_version": b"HTTP/1.1",
        "headers": [(b"Accept", b"text/event-stream")], "content": json.dumps(PING).encode(),
        "timestamp_start": 1_795_169_702.5, "timestamp_end": 1_795_169_702.6,
    }  # fmt: skip
    response = {
        "status_code": 200, "reason": b"OK", "headers": [(b"Content-Type", b"text/event-stream")], "content": None,
        "timestamp_start": 1_795_169_703.0, "timestamp_end": 1_795_169_704.0,
    }  # fmt: skip
    connection = {"peername": ["127.0.0.1", 5000]}
    flows = [
        {"type": "http", "request": request, "response": response, "client_conn": connection, "error": None},
        {"type": "http", "request": request, "response": None, "error": {"msg": "x", "timestamp": 1_795_169_705.0}},
        {"type": "tcp"},
    ]
    (tmp_path / "in.flow").write_bytes(b"".join(map(netstring, flows)))
    (made,), told = imported("mitmproxy", tmp_path / "in.flow", tmp_path / "out")
    assert told[:2] == [
        "skipped 1 exchange that is not with an MCP server",
        "1 body missing: mitmproxy streamed it without keeping it",
    ]
    ended = [members for members in members_of(made, "exchange") if members["stage"] == "end"]
    assert [members.get("peer") for members in ended] == ["127.0.0.1:5000", None]
    assert [members.get("missing") for members in ended] == [["response"], None]
    with analysis.open(made) as tables:
        assert tables.sql("select outcome from exchanges order by request").fetchall() == [
            ("not_recorded",),
            ("failed",),
        ]


def test_a_har_file_without_bodies_blames_nobody(recorded: Path, har: Path, tmp_path: Path) -> None:
    """As browsers and debuggers write it that keep no content, or none of streams."""
    log = json.loads(har.read_text())
    for one in log["log"]["entries"]:
        one.pop("_mcp", None)
        one["response"]["content"].pop("text", None)
    bare = tmp_path / "bare.har"
    bare.write_text(json.dumps(log))
    (made,), _ = imported("har", bare, tmp_path / "out")
    done = mcpproxy("check", made, "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    whole = [json.loads(line) for line in mcpproxy("check", recorded, "--json").stdout.splitlines()]
    blamed = [{(one["rule"], one["blames"]) for one in all_ if one["level"] != "note"} for all_ in (told, whole)]
    assert blamed[0] <= blamed[1]
    assert b"not in the import); rules are silent where these could matter" in complaints(done)
    with analysis.open(made) as tables:
        outcomes = dict(tables.sql("select outcome, count(*) from exchanges group by all").fetchall())
    assert outcomes.keys() <= {"not_recorded", "failed", "cancelled"}
    assert outcomes["not_recorded"]
