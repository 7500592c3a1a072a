"""A trace becomes the records that a recorder would have written, each of them with the frame that it stands for."""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.frame import Frame
from captures.reader import read_frames
from captures.record import MAX_LINE_BYTES, Record, decode
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from mcpproxy.importers.log_items import LeftOut
from tests.captures.samples import tables

ROOT = Path(__file__).parents[4]
CORPUS = ROOT / "tests/corpus/traces/import.ndjson"
SHARED = ROOT.parent / "shared/protocol/traces.ndjson"

GET = "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n"
POST = 'POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"ping"}'
OPENED = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{}}'

Told = tuple[int | None, Record]


def read(*frames: object, transport: str = "stdio", **more: object) -> Case | LeftOut:
    line = json.dumps({"name": "x", "transport": transport, "frames": frames, **more})
    (found,) = cases([line.encode()])
    return found


def case(*frames: object, transport: str = "stdio", **more: object) -> Case:
    found = read(*frames, transport=transport, **more)
    assert isinstance(found, Case), found
    return found


def told(of: Case) -> list[Told]:
    """The records of a case with their frames; every line is whole, numbered and stamped in order, and not too long."""
    found: list[Told] = []
    for index, line in of.records():
        record = decode(line.removesuffix(b"\n"), 0, orjson.loads)
        assert record is not None
        assert len(line) <= MAX_LINE_BYTES
        assert record.seq == len(found)
        assert not found or record.t_ns >= found[-1][1].t_ns
        found.append((index, record))
    assert [(index, found[at][1].rec) for at, (index, _) in enumerate(found) if index is None] == [
        (None, "header"),
        (None, "close"),
    ]
    return found


def outline(of: Case) -> list[tuple[int | None, str]]:
    """Frame by frame, the types of the records, with the stage or event where they have one."""
    rows = []
    for index, record in told(of):
        more = record.members.get("stage") or (record.rec == "stream" and record.members["event"])
        rows.append((index, f"{record.rec} {more}" if more else record.rec))
    return rows


def frames_of(of: Case) -> list[Frame]:
    return [item for item in read_frames(record for _, record in told(of)) if isinstance(item, Frame)]


def line(raw: str, dir: str = "c2s", **more: object) -> dict[str, object]:  # noqa: A002 - the name of the member
    return {"dir": dir, "raw": raw, **more}


def http(k: str, raw: str = "", x: int = 1, **more: object) -> dict[str, object]:
    return {"dir": "c2s" if k == "req" else "s2c", "x": x, "k": k, "raw": raw, **more}


# ---- stdio


@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c", "stderr"]), st.binary(max_size=30), st.booleans())))
def test_the_bytes_of_each_pipe_come_back(frames: list[tuple[str, bytes, bool]]) -> None:
    found = case(*({"dir": d, "raw_b64": b64encode(raw).decode(), "noeol": noeol} for d, raw, noeol in frames))
    records = told(found)
    for pipe in ("c2s", "s2c"):
        wanted = b"".join(raw + b"\n" * (not noeol) for d, raw, noeol in frames if d == pipe)
        got = [frame for frame in frames_of(found) if frame.dir == pipe]
        assert b"".join(frame.raw + frame.delim for frame in got) == wanted
        assert records[-1][1].members["totals"][pipe] == {"frames": len(got), "bytes": len(wanted)}
        # Each line is told of the frame that completes it.
        ends = [
            n
            for n, (d, raw, noeol) in enumerate(frames)
            if d == pipe
            for _ in (raw + b"\n" * (not noeol)).split(b"\n")[1:]
        ]
        told_of = [index for index, record in records if record.rec == "frame" and record.members["dir"] == pipe]
        assert told_of[: len(ends)] == ends
        assert len(told_of) - len(ends) == (wanted != b"" and not wanted.endswith(b"\n"))


def test_a_last_line_without_lf_is_told_as_the_recorder_tells_it() -> None:
    found = case(line("{}", "s2c", noeol=True), {"dir": "s2c", "k": "eof", "code": 0}, {"dir": "c2s", "k": "eof"})
    rows = told(found)
    assert [(index, record.rec) for index, record in rows][1:-1] == [
        (0, "frame"),
        (1, "eof"),
        (1, "process"),
        (2, "eof"),
    ]
    assert (rows[1][1].members["whole"], rows[1][1].members["delim"]) == (False, "")
    assert {name: rows[2][1].members[name] for name in ("dir", "by", "bytes")} == {
        "dir": "s2c",
        "by": "sender",
        "bytes": 2,
    }
    assert rows[-1][1].members["status"] == 0


def test_a_line_goes_on_where_its_lf_is_missing() -> None:
    found = case(line("[1", noeol=True), line("x", "s2c"), line(",2]"), line("y", "stderr", noeol=True))
    assert [(frame.dir, frame.raw, frame.whole) for frame in frames_of(found)] == [
        ("s2c", b"x", True),
        ("c2s", b"[1,2]", True),
    ]
    assert [index for index, _ in told(found)] == [None, 1, 2, 3, None]


@pytest.mark.parametrize(
    ("code", "members"), [(3, {"status": 3}), (-9, {"signal": "SIGKILL"}), (-1000, {"signal": "SIG1000"})]
)
def test_how_the_server_ended_is_told(code: int, members: dict[str, object]) -> None:
    rows = told(case({"dir": "s2c", "k": "eof", "code": code}))
    for record in (rows[2][1], rows[3][1]):
        assert {name: record.members[name] for name in ("status", "signal") if name in record.members} == members


def test_a_giant_line_is_written_in_parts() -> None:
    raw = "é" * 1_500_000
    found = case(line(raw), line("{}"))
    assert [record.rec for _, record in told(found)][1:-1] == ["part", "part", "part", "frame", "frame"]
    assert [frame.raw for frame in frames_of(found)] == [raw.encode(), b"{}"]


def test_times_are_those_of_the_trace() -> None:
    found = case(line("a"), line("b"), line("c", t=12.5), line("d"), line("e", t=100), line("f", t=100))
    assert [record.t_ns // 1000 for _, record in told(found)] == [
        0,
        0,
        10_000,
        12_500,
        22_500,
        100_000,
        100_000,
        100_000,
    ]


def test_the_header_tells_what_is_known() -> None:
    (_, header), _ = told(case(name="ä/b", start_observed=False))
    assert {
        name: header.members.get(name) for name in ("name", "transport", "observed_start", "imported", "wall_ns")
    } == {
        "name": "ä/b",
        "transport": "stdio",
        "observed_start": False,
        "imported": "trace",
        "wall_ns": None,
    }
    assert told(case(transport="legacy-sse"))[0][1].members["transport"] == "http"


# ---- HTTP


def test_an_answer_in_json_is_a_frame_and_the_end_of_its_exchange() -> None:
    found = case(http("req", POST), http("res", ANSWER, t=30), transport="http")
    assert outline(found)[1:-1] == [(0, "exchange request"), (0, "frame"), (1, "frame"), (1, "exchange end")]
    end = told(found)[4][1].members
    assert end["request"]["target"] == "/mcp"
    assert end["response"] == {
        "status": 200,
        "reason": "OK",
        "version": "HTTP/1.1",
        "headers": [["Content-Type", "application/json"]],
    }
    assert end["times"] == {
        "request_head": 0,
        "request_end": 0,
        "response_head": 30_000_000,
        "first_byte": 30_000_000,
        "response_end": 30_000_000,
    }
    assert (end["ended_by"], "peer" in end) == ("complete", False)
    assert [(frame.unit, frame.exchange, frame.dir) for frame in frames_of(found)] == [
        ("http_body", 1, "c2s"),
        ("http_body", 1, "s2c"),
    ]


def test_events_are_cut_as_a_client_cuts_them_and_told_of_the_frame_that_completes_them() -> None:
    found = case(
        http("req", GET),
        http("head", OPENED),
        http("sse", ": wait\n\n"),
        http("sse", "id: 1\r\nevent: message\r\ndata: [\r\nda"),
        http("sse", "ta: ]\n\nevent: other\ndata: x\n\n"),
        http("end", by="client"),
        transport="http",
    )
    assert outline(found)[1:-1] == [
        (0, "exchange request"),
        (1, "exchange response"),
        (1, "stream opened"),
        (4, "frame"),
        (4, "frame"),
        (5, "stream ended"),
        (5, "exchange end"),
    ]
    first, second = frames_of(found)
    assert (first.raw, first.event_id, first.event) == (b"[\n]", "1", None)
    assert (second.raw, second.event_id, second.event, second.verdict.kind) == (b"x", "1", "other", "unjudged")
    assert [told(found)[at][1].members["ended_by"] for at in (6, 7)] == ["client", "client"]


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress)])
def test_bodies_with_a_content_coding_are_decoded(coding: str, pack: Callable[[bytes], bytes]) -> None:
    def coded(k: str, text: str, x: int = 1) -> dict[str, object]:
        head, _, body = text.partition("\r\n\r\n")
        raw = f"{head}\r\nContent-Encoding: {coding}\r\n\r\n".encode() + pack(body.encode())
        return {"dir": "c2s" if k == "req" else "s2c", "x": x, "k": k, "raw_b64": b64encode(raw).decode()}

    events = pack(b"data: []\n\ndata: {}\n\n")
    pieces = [
        {"dir": "s2c", "x": 2, "k": "sse", "raw_b64": b64encode(events[at : at + 5]).decode()}
        for at in range(0, len(events), 5)
    ]
    found = case(
        coded("req", POST),
        coded("res", ANSWER),
        http("req", GET, x=2),
        http("head", OPENED.replace("\r\n\r\n", f"\r\nContent-Encoding: {coding}\r\n\r\n"), x=2),
        *pieces,
        http("end", by="server", x=2),
        transport="http",
    )
    assert [frame.raw for frame in frames_of(found)] == [
        POST.partition("\r\n\r\n")[2].encode(),
        ANSWER.partition("\r\n\r\n")[2].encode(),
        b"[]",
        b"{}",
    ]
    assert not [record for _, record in told(found) if "missing" in record.members]


@pytest.mark.parametrize(
    ("answer", "end", "ended_by"),
    [
        ([], http("end", by="server"), "server"),
        ([], http("end", by="client"), "client"),
        ([http("head", OPENED)], http("end", by="server"), "complete"),
        ([http("head", OPENED)], http("end"), "complete"),
        ([http("head", OPENED)], http("end", cut=True), "server"),
        ([http("head", OPENED)], http("end", dir="c2s"), "client"),
    ],
)
def test_who_ends_an_exchange(answer: list[object], end: object, ended_by: str) -> None:
    found = told(case(http("req", POST), *answer, end, transport="http"))
    assert (found[-2][1].rec, found[-2][1].members["ended_by"]) == ("exchange", ended_by)


def test_an_exchange_ends_once() -> None:
    found = case(http("req", POST), http("res", ANSWER), http("end"), http("end"), transport="http")
    assert [index for index, _ in told(found)] == [None, 0, 0, 1, 1, None]


def test_exchanges_of_one_peer_share_a_connection() -> None:
    peers = ["a", None, "b", "a", None]
    found = case(*(http("req", POST, x=n, peer=peer) for n, peer in enumerate(peers, 1)), transport="http")
    requests = [record.members for _, record in told(found) if record.rec == "exchange"]
    assert [(one["conn"], one.get("peer")) for one in requests] == [(1, "a"), (2, None), (3, "b"), (1, "a"), (4, None)]


def test_an_informational_head_is_none() -> None:
    found = case(
        http("req", POST), http("head", "HTTP/1.1 103 Early Hints\r\n\r\n"), http("res", ANSWER), transport="http"
    )
    assert [index for index, _ in told(found)] == [None, 0, 0, 2, 2, None]


def test_a_body_that_nothing_ended_is_told_at_the_end_of_its_last_frame() -> None:
    plain = OPENED.replace("event-stream", "plain")
    found = case(
        http("req", POST),
        http("head", plain),
        http("sse", '{"jsonrpc":"2.0","method":"x"}'),
        http("req", POST, x=2),
        transport="http",
    )
    assert outline(found)[3:-1] == [
        (1, "exchange response"),
        (3, "exchange request"),
        (3, "frame"),
        (2, "frame"),
    ]
    assert frames_of(found)[-1].whole is False


def test_only_what_is_said_to_the_server_is_a_frame() -> None:
    (found,) = [one for one in cases(CORPUS.read_bytes().splitlines()) if isinstance(one, Case) and "two" in one.name]
    assert [frame.exchange for frame in frames_of(found)] == [1, 2, 2, 1, 3]
    ends = {one["exchange"]: one for _, record in told(found) if (one := record.members).get("stage") == "end"}
    assert ends[4]["metadata"] == '{"resource":"http://127.0.0.1:8000/mcp"}'
    assert set(ends[5]["body_hash"]) == {"request", "response"}
    assert not any("flags" in end for end in ends.values())


def test_headers_and_queries_are_kept_as_they_came() -> None:
    (found,) = [one for one in cases(CORPUS.read_bytes().splitlines()) if isinstance(one, Case) and "two" in one.name]
    request = told(found)[1][1].members["request"]
    assert request["target"] == "/mcp?key=s3cret"
    assert ["Authorization", "Bearer abc"] in request["headers"]


def test_the_older_transport_is_linked_by_the_address_that_its_stream_announces() -> None:
    (found,) = [one for one in cases(CORPUS.read_bytes().splitlines()) if isinstance(one, Case) and "older" in one.name]
    keys = {
        (one["exchange"], one["uri_key"]) for _, record in told(found) if (one := record.members) and "uri_key" in one
    }
    assert {exchange for exchange, _ in keys} == {1, 2}
    assert len({key for _, key in keys}) == 1
    assert [frame.exchange for frame in frames_of(found)] == [2, 1]


def test_announcements_without_end_make_no_records_without_end() -> None:
    events = "event: endpoint\ndata: /a\n\nevent: endpoint\ndata: /b\n\n" * 100
    found = case(http("req", GET), http("head", OPENED), http("sse", events), transport="legacy-sse")
    assert outline(found)[4:-1] == [(2, "exchange response")] * 2  # the first, and that there is a second


def test_a_stream_that_was_open_before_is_read_without_its_head() -> None:
    (found,) = [
        one for one in cases(CORPUS.read_bytes().splitlines()) if isinstance(one, Case) and "middle" in one.name
    ]
    assert outline(found)[1:-1] == [(0, "frame"), (1, "stream ended")]
    assert frames_of(found)[0].event_id == "41"


def test_heads_may_end_their_lines_in_lf() -> None:
    found = case(http("req", POST.replace("\r\n", "\n")), transport="http")
    assert frames_of(found)[0].raw == b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


# ---- what is no case


@pytest.mark.parametrize(
    ("told_wrong", "expected"),
    [
        ({"name": 1}, "text of at most 1024 characters in `name`"),
        ({"name": ""}, "text in `name`"),
        ({"name": "n" * 1025}, "in `name`"),
        ({"transport": None}, "`stdio`, `http` or `legacy-sse` in `transport`"),
        ({"transport": ["stdio"]}, "in `transport`"),
        ({"start_observed": "no"}, "in `start_observed`"),
        ({"frames": {}}, "a list in `frames`"),
        ({"frames": [1]}, "frame 0: expected an object"),
        ({"frames": [line("a"), line("b", "up")]}, "frame 1: expected `c2s`, `s2c` or `stderr` in `dir`"),
        ({"frames": [{"dir": "c2s"}]}, "frame 0: .*`raw`"),
        ({"frames": [line("a", noeol=1)]}, "in `noeol`"),
        ({"frames": [line("a", k="res")]}, "`eof` in `k`, or no `k`, on stdio"),
        ({"frames": [line("", k="eof", code=1)]}, "in `code`"),
        ({"frames": [line("", "s2c", k="eof", code="1")]}, "in `code`"),
        ({"frames": [line("", k="eof"), line("a")]}, "c2s has already ended"),
        ({"frames": [line("a", t="1")]}, "in `t`"),
        ({"frames": [line("a", t=True)]}, "in `t`"),
        ({"frames": [line("a", t=-1)]}, "in `t`"),
        ({"frames": [line("a", t=1e300)]}, "in `t`"),
        ({"frames": [line("a", t=(1 << 62) / 1e6 - 5), line("b")]}, "earlier time"),
        ({"frames": [line("a", t=5), line("b", t=4)]}, "frame 1: `t` is earlier than in the frame above"),
    ],
)
def test_a_wrong_case_is_refused_with_what_is_expected(told_wrong: dict[str, Any], expected: str) -> None:
    good = {"name": "x", "transport": "stdio", "frames": []}
    first, second, third = cases([json.dumps(good).encode(), json.dumps(good | told_wrong).encode(), b"{"])
    assert isinstance(first, Case)
    assert isinstance(second, LeftOut)
    assert (second.place, second.name) == ("line 2", "x" if "name" not in told_wrong else "")
    assert re.search(expected, second.reason)
    assert isinstance(third, LeftOut)
    assert (third.place, third.name) == ("line 3", "")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([line("a")], "`req`, `res`, `head`, `sse` or `end` in `k`"),
        ([http("eof")], "in `k`"),
        ([http("req", POST, dir="s2c")], "`c2s` in `dir`"),
        ([http("end", dir="stderr")], "`c2s` or `s2c` in `dir`"),
        ([http("req", POST, x=0)], "in `x`"),
        ([{"dir": "c2s", "k": "req", "raw": POST}], "in `x`"),
        ([http("req", POST, x=2**53)], "in `x`"),
        ([http("req", POST), http("req", POST)], "exchange 1 already exists"),
        ([http("res", ANSWER), http("req", POST)], "exchange 1 has already ended"),
        ([http("sse", ""), http("req", POST)], "exchange 1 already exists"),
        ([http("sse", ""), http("head", OPENED)], "exchange 1 already has a response"),
        ([http("head", OPENED), http("res", ANSWER)], "exchange 1 already has a response"),
        ([http("end"), http("sse", "")], "exchange 1 has already ended"),
        ([http("end", by="proxy")], "`client` or `server` in `by`"),
        ([http("req", POST, peer=5)], "in `peer`"),
        ([http("req", "GET /mcp HTTP/1.1")], "empty line"),
        ([http("req", "GET /mcp\r\n\r\n")], "METHOD TARGET"),
        ([http("req", "GET /mcp HTTP/1.1\r\nno colon\r\n\r\n")], "name: value"),
        ([http("req", f"GET /{'a' * 70_000} HTTP/1.1\r\n\r\n")], "65,536 bytes"),
        ([http("res", "HTTP/1.1 OK\r\n\r\n")], "STATUS"),
        ([http("res", "HTTP/1.1 099 x\r\n\r\n")], "STATUS"),
        ([http("res")], "empty line"),
    ],
)
def test_what_cannot_happen_over_http_is_refused(frames: list[object], expected: str) -> None:
    found = read(*frames, transport="http")
    assert isinstance(found, LeftOut)
    assert found.reason.startswith(f"frame {len(frames) - 1}: ")
    assert expected in found.reason


def test_blank_lines_count_and_mean_nothing() -> None:
    (found,) = cases([b"\n", b" \r\n", b'{"name":"x","transport":"stdio","frames":[]}\n'])
    assert isinstance(found, Case)
    assert found.line_number == 3


_LETTERS = " :/\r\n{}\x00aé\u2028"
_HEADS = st.sampled_from(
    [GET, POST, OPENED, ANSWER, "HTTP/1.1 204 No\r\n\r\n", "data: {}\n\n", "event: endpoint\ndata: //[\n\n"]
)
_FRAMES = st.fixed_dictionaries(
    {"k": st.sampled_from(["req", "res", "head", "sse", "end"]), "x": st.integers(1, 3)},
    optional={
        "dir": st.sampled_from(["c2s", "s2c"]),
        "raw": _HEADS | st.text(_LETTERS, max_size=20),
        "by": st.sampled_from(["client", "server"]),
        "peer": st.text(_LETTERS, max_size=3),
        "t": st.integers(0, 50) | st.floats(),
    },
)


@given(st.lists(_FRAMES, max_size=8), st.sampled_from(["http", "legacy-sse"]))
def test_whatever_the_frames_a_case_is_refused_or_becomes_records(frames: list[dict[str, Any]], transport: str) -> None:
    for frame in frames:
        frame.setdefault("dir", "c2s" if frame["k"] == "req" else "s2c")
    line = json.dumps({"name": "x", "transport": transport, "frames": frames})
    (found,) = cases([line.encode()])
    if isinstance(found, Case):
        told(found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(_LETTERS, max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "transport", "frames", "dir", "raw"]), inner, max_size=4)
        ),
    )
)
def test_any_json_is_a_case_or_refused(value: object) -> None:
    (found,) = cases([json.dumps(value).encode()])
    assert isinstance(found, LeftOut) or told(found)


# ---- all of them


TRACES = [
    pytest.param(CORPUS, id="corpus"),
    pytest.param(
        SHARED, id="protocol", marks=pytest.mark.skipif(not SHARED.exists(), reason="the protocol traces are not here")
    ),
]


@pytest.mark.parametrize("path", TRACES)
def test_every_trace_becomes_records_with_members_in_the_order_of_the_page(path: Path) -> None:
    found = list(cases(path.read_bytes().splitlines()))
    assert len(found) >= 4
    listed = tables()
    for one in found:
        assert isinstance(one, Case), one
        for _, record in told(one):
            names = [name for name in record.members if name not in ("seq", "rec", "t_ns", "crc")]
            assert names == [name for name in listed[record.rec] if name in names]


@pytest.mark.parametrize("path", TRACES)
def test_every_line_of_a_stdio_trace_is_one_frame(path: Path) -> None:
    for one in cases(path.read_bytes().splitlines()):
        if isinstance(one, Case) and one.transport == "stdio":
            lines = [step.raw.removesuffix(b"\r") for step in one.steps if step.kind == "line" and step.dir != "stderr"]
            assert [frame.raw for frame in frames_of(one)] == lines
