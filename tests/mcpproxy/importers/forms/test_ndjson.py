"""Plain frames become one conversation, as they come."""

import json
from base64 import b64encode
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.frame import Frame
from captures.reader import assembled_items
from captures.record import Record
from mcpproxy.importers.conversations import MAX_HELD_BYTES, MAX_HELD_EVENTS
from mcpproxy.importers.source import InvalidLine
from tests.analysis.judged import Judged
from tests.mcpproxy.importers.logs import imported

START = '{"t":0,"dir":"c2s","raw":"{}"}'


def noted(*frames: tuple[int, str, bytes]) -> list[bytes]:
    return [
        json.dumps({"t": t, "dir": side, "raw_b64": b64encode(raw).decode()}).encode() + b"\n"
        for t, side, raw in frames
    ]


def read(lines: Iterable[bytes]) -> list[Record]:
    (capture,) = imported("ndjson", b"".join(lines), "pen.ndjson").captures
    return capture.records


@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), st.binary(max_size=30))))
def test_the_bytes_of_each_direction_come_back(frames: list[tuple[str, bytes]]) -> None:
    found = read(noted((0, "c2s", b""), *((n, side, raw) for n, (side, raw) in enumerate(frames))))
    assert [record.seq for record in found] == list(range(len(found)))
    for side in ("c2s", "s2c"):
        wanted = b"".join(raw + b"\n" for told, raw in [("c2s", b""), *frames] if told == side)
        got = [item for item in assembled_items(found) if isinstance(item, Frame) and item.dir == side]
        assert b"".join(frame.raw + frame.delim for frame in got) == wanted
        totals = found[-1].members["totals"][side]
        assert totals == {"frames": len(got), "bytes": len(wanted)}


def test_header_and_close_say_that_nobody_recorded_it() -> None:
    header, frame, close = read([START.encode()])
    assert {name: header.members[name] for name in ("transport", "name", "imported", "observed_start")} == {
        "transport": "stdio",
        "name": "pen",
        "imported": "ndjson",
        "observed_start": False,
    }
    assert "wall_ns" not in header.members
    assert frame.members["raw"] == "{}"
    assert close.members["ending"] == "import"


INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
MODERN = b'{"id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}'
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


@pytest.mark.parametrize(
    ("frames", "is_whole"),
    [
        ([("c2s", INITIALIZE)], True),
        ([("c2s", b'{"id":1,"method":"server/discover"}')], True),
        ([("c2s", MODERN)], True),
        ([("c2s", b"[" + INITIALIZE + b"]")], True),
        ([("s2c", b"Loaded 5 tools"), ("c2s", b" "), ("c2s", INITIALIZE)], True),
        ([("c2s", CALL), ("c2s", INITIALIZE)], False),
        ([("c2s", b'{"method":"notifications/initialized"}')], False),
        ([("c2s", b'{"id":1,"method":"ping","params":{"_meta":{}}}')], False),
        ([("s2c", b"{}")], False),
        ([("c2s", b"hello"), ("c2s", INITIALIZE)], False),
        ([("c2s", b"[]")], False),
        ([("c2s", b'{"id":1,"method":["initialize"]}')], False),
        ([("c2s", b'{"method":"initialize","x":"' + b"x" * (1 << 20) + b'"}')], False),
        ([("s2c", b"{}")] * (MAX_HELD_EVENTS - 1) + [("c2s", INITIALIZE)], True),
        ([("s2c", b"{}")] * MAX_HELD_EVENTS + [("c2s", INITIALIZE)], False),
        ([("s2c", b"x" * MAX_HELD_BYTES), ("c2s", INITIALIZE)], False),
    ],
)
def test_a_conversation_is_whole_where_the_client_opens_it(frames: list[tuple[str, bytes]], is_whole: bool) -> None:
    found = read(noted(*((0, side, raw) for side, raw in frames)))
    assert found[0].members["observed_start"] is is_whole
    wanted = b"".join(raw + b"\n" for side, raw in frames if side == "c2s")
    got = [item for item in assembled_items(found) if isinstance(item, Frame) and item.dir == "c2s"]
    assert b"".join(frame.raw + frame.delim for frame in got) == wanted


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.booleans())
def test_any_first_word_of_a_client_is_taken(raw: bytes, is_batched: bool) -> None:
    read(noted((0, "c2s", b"[%b]" % raw if is_batched else raw)))


def test_an_excerpt_is_not_blamed_for_what_may_have_come_before() -> None:
    def rules_in(*frames: tuple[int, str, bytes]) -> set[str]:
        checker = Judged()
        found = [one for item in assembled_items(read(noted(*frames))) for one in checker.feed(item)]
        return {one.rule for one in [*found, *checker.finish("closed")]}

    call, answer = (1, "c2s", CALL), (2, "s2c", b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}')
    assert not any(rule.startswith("lifecycle/") for rule in rules_in(call, answer))
    assert "lifecycle/request-before-initialize-result" in rules_in((0, "c2s", INITIALIZE), call, answer)


def test_stamps_are_those_since_the_start() -> None:
    found = read(noted((5, "c2s", b"a"), (5, "s2c", b"b"), (10**17, "s2c", b"c")))
    assert [record.t_ns for record in found] == [0, 5, 5, 10**17, 10**17]


def test_stamps_since_1970_are_wall_time() -> None:
    start = 1_795_000_000_000_000_000
    found = read(noted((start, "c2s", b"a"), (start + 7, "s2c", b"b")))
    assert found[0].members["wall_ns"] == start
    assert [record.t_ns for record in found] == [0, 0, 7, 7]


def test_a_giant_frame_is_written_in_parts() -> None:
    raw = b"x" * 2_500_000
    found = read(noted((0, "s2c", raw), (1, "s2c", b"y")))
    assert [record.rec for record in found] == ["header", "part", "part", "part", "frame", "frame", "close"]
    frames = [item for item in assembled_items(found) if isinstance(item, Frame)]
    assert [frame.raw for frame in frames] == [raw, b"y"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON object"),
        ('{"dir":"c2s","raw":"{}"}', "in `t`"),
        ('{"t":true,"dir":"c2s","raw":"{}"}', "in `t`"),
        ('{"t":1.5,"dir":"c2s","raw":"{}"}', "in `t`"),
        ('{"t":-1,"dir":"c2s","raw":"{}"}', "in `t`"),
        ('{"t":4611686018427387904,"dir":"c2s","raw":"{}"}', "in `t`"),
        ('{"t":6,"dir":"stderr","raw":"{}"}', "in `dir`"),
        ('{"t":6,"dir":["c2s"],"raw":"{}"}', "in `dir`"),
        ('{"t":6,"dir":"c2s"}', "in `raw`"),
        ('{"t":4,"dir":"c2s","raw":"{}"}', "`t` is earlier than in the line above"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_expected(line: str, expected: str) -> None:
    with pytest.raises(InvalidLine, match=f"^line 3: .*{expected}"):
        read([b'{"t":5,"dir":"c2s","raw":"{}"}\n', b"\n", line.encode()])


@pytest.mark.parametrize("lines", [[], [b"\n", b"  \n"]])
def test_nothing_at_all_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(InvalidLine, match="expected lines such as"):
        read(lines)
