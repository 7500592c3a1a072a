"""The problems that the recorder notes for a single frame, and the framing, jsonrpc, id and batch rules' findings."""

import json
from base64 import b64decode
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from analysis.rules.finding import Finding
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import Direction, Unit
from tests.analysis.judged import Judged
from tests.analysis.traces import check, stdio
from tests.examples import examples

ENVELOPES = Path(__file__).parents[2] / "corpus" / "envelope" / "frames.ndjson"
MIB = 1 << 20


def frame_of(raw: bytes, direction: Direction = "c2s", unit: Unit = "line", *, whole: bool = True) -> Frame:
    verdict = judge(raw, direction, unit, whole=whole)
    return Frame(1, 0, direction, raw, verdict, delim=b"\n" if whole else b"", whole=whole, unit=unit)


def found_in(frame: Frame) -> list[Finding]:
    checker = Judged()
    found = [*checker.feed(frame), *checker.finish()]
    assert checker.faults == {}
    return found


def test_what_the_recorder_notes_of_a_frame_is_found_in_it() -> None:
    for case in map(json.loads, ENVELOPES.read_text().splitlines()):
        raw = b64decode(case["raw_b64"]) if "raw_b64" in case else case["raw"].encode()
        frame = frame_of(raw, case["dir"], case.get("unit", "line"), whole=case.get("whole", True))
        problem = frame.verdict.problem
        if problem is not None and not problem.startswith("sse/"):
            assert problem in {one.rule for one in found_in(frame)}, case["name"]


members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", 2.0, None]),
        "id": st.sampled_from([1, "a", None, 1.5, True, {}, [], 2**60]),
        "method": st.sampled_from(["ping", "notifications/initialized", "rpc.x", "", 5, None]),
        "params": st.sampled_from([{}, [], None, "x", 5]),
        "result": st.sampled_from([{}, None, [], "x"]),
        "error": st.sampled_from([{"code": -32600, "message": "x"}, {"code": []}, {"message": {}}, None, "x"]),
        "more": st.sampled_from([float("nan"), "\ud800", {"\ud800": [float("inf")]}]),
    },
)
texts = st.one_of(
    members.map(json.dumps),
    st.lists(st.one_of(members, st.integers()), max_size=3).map(json.dumps),
    st.lists(members.map(json.dumps), min_size=2, max_size=3).map("".join),
    st.tuples(st.sampled_from(["\ufeff", "Content-Length: 5", '{"a":1,"a":', "", " "]), members.map(json.dumps)).map(
        "".join
    ),
)


@examples(60)
@given(texts, st.sampled_from(["c2s", "s2c"]), st.booleans())
@example('\ufeff{"jsonrpc":"2.0","id":1}', "c2s", True)
@example('{"jsonrpc":"2.0","error":{"code":[]}}', "s2c", True)
def test_what_the_recorder_notes_of_any_frame_is_found_in_it(text: str, direction: Direction, whole: bool) -> None:
    frame = frame_of(text.encode(), direction, whole=whole)
    problem = frame.verdict.problem
    found = {one.rule for one in found_in(frame)}
    assert problem is None or problem in found


def test_the_two_steps_of_size_say_which_is_passed() -> None:
    sizes = {MIB: None, MIB + 1: "1 MiB", 10 * MIB: "1 MiB", 10 * MIB + 1: "10 MiB", 17 * MIB: "10 MiB"}
    for size, limit in sizes.items():
        head, tail = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"', b'"}}'
        raw = head + b"x" * (size - len(head) - len(tail)) + tail
        told = [one.message for one in found_in(frame_of(raw)) if one.rule == "framing/oversized-message"]
        assert [f" {limit}," in message for message in told] == ([True] if limit else []), size


def test_a_name_that_comes_twice_is_shown_where_it_stands() -> None:
    places = {
        '{"id":1,"id":2}': ("/id", None),
        '{"params":{"a/b":[{},{"~":1,"~":2}]}}': ("/params/a~1b/1/~0", None),
        '[{"id":1},{"id":2,"id":3}]': ("/id", 1),
        '{"id":1}{"x":1,"x":2}': ("/x", 1),
        f'{{"x":{{"{"a" * 300}":1,"{"a" * 300}":2}}}}': ("", None),
    }
    for text, place in places.items():
        (found,) = [one for one in found_in(frame_of(text.encode())) if one.rule == "framing/duplicate-key"]
        assert (found.pointer, found.item) == place
        assert len(found.message) < 200


def test_an_array_of_numbers_is_told_of_a_hundred_times() -> None:
    opening = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "pen", "version": "1"}}
    answer = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "ink", "version": "1"}}
    found = check(
        stdio(
            "numbers",
            ("c2s", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}),
            ("s2c", {"jsonrpc": "2.0", "id": 0, "result": answer}),
            ("c2s", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
            ("c2s", list(range(1000))),
            ("c2s", [1]),
        )
    )
    told = [one.frame for one in found if one.rule == "batch/item-not-object"]
    assert told == [3] * 100 + [4]
