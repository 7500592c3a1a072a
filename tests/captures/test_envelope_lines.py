"""Many lines encoded at once give the records of each alone, for any bytes, with few calls for a flood of lines."""

import json
import sys
from collections.abc import Iterator
from itertools import product
from types import FrameType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.envelope import MethodMembers, judge_before_forwarding, judge_exactly, lines_members
from captures.flawless import MAX_METHOD_NAMES
from captures.limits import MAX_DEPTH, MAX_ENVELOPE_TEXT_BYTES, MAX_EXACTLY_JUDGED_BYTES, MAX_RECORDER_JUDGED_BYTES
from captures.record import frame_members, line_members
from captures.verdict import Direction
from tests.captures.verdicts import (
    CASES,
    HOSTILE,
    STEP,
    objects_like_messages,
    one_byte_off,
    request,
    sound_messages,
)

DIRECTIONS: Final[tuple[Direction, ...]] = ("c2s", "s2c")


def one_by_one(direction: Direction, lines: list[bytes]) -> list[bytes]:
    """The expected records: each line is judged and encoded alone."""
    return [line_members(direction, raw, judge_before_forwarding(raw, direction)) for raw in lines]


def exactly(direction: Direction, lines: list[bytes]) -> list[bytes]:
    """The expected records, by the exact verdict and the general encoding; for short lines."""
    return [frame_members(direction, raw, judge_exactly(raw, direction)) for raw in lines]


def spelt(message: object, *, spaced: bool = False) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=None if spaced else (",", ":")).encode()


# --- the same as one by one -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_frames_of_the_table_get_their_records(direction: Direction) -> None:
    lines = [case.raw for case in CASES]
    assert lines_members(direction, lines) == one_by_one(direction, lines)


def test_frames_that_one_byte_makes_of_sound_ones_get_their_records() -> None:
    lines = list(one_byte_off(STEP))
    assert lines_members("s2c", lines) == exactly("s2c", lines)


@pytest.mark.soak
def test_every_frame_that_one_byte_makes_of_a_sound_one_gets_its_record() -> None:
    lines = list(one_byte_off(1))
    assert lines_members("s2c", lines) == exactly("s2c", lines)


USUAL: Final[list[dict[str, Any]]] = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": {"id": 2}}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 0.5}},
    {"jsonrpc": "2.0", "id": "a", "result": {"method": "x", "error": None}},
]
"""Messages for which the fast path is taken."""
NAMES: Final = ["jsonrpc", "id", "method", "params", "result", "error", "x"]
NUMBERS: Final = [0, -0.0, 1.5, 2**53 - 1, 2**53, 1 - 2**53, -(2**53), 2**63, 2**64, 10**30]
TEXTS: Final = [
    "",
    "2.0",
    "2.1",
    "x" * 60,
    "x" * 61,
    "é" * 60,
    "rpc.x",
    "notifications/x",
    "notifications/",
    '"',
    "\x7f",
]
VALUES: Final = [None, True, False, *NUMBERS, *TEXTS, [], [1], {}, {"a": 1}, {"code": 1, "message": "m"}]


def nearly_usual() -> Iterator[bytes]:
    """Each usual message with one member set to anything, removed, or duplicated."""
    for message, name in product(USUAL, NAMES):
        yield spelt({other: value for other, value in message.items() if other != name})
        for value, spaced in product(VALUES, [False, True]):
            yield spelt({**message, name: value}, spaced=spaced)
            twice = spelt({**message, "\0": value}, spaced=spaced)
            yield twice.replace(b'"\\u0000"', spelt(name))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lines_that_are_nearly_usual_get_their_records(direction: Direction) -> None:
    lines = list(nearly_usual())
    assert lines_members(direction, lines) == exactly(direction, lines)


usual_messages: Final = st.builds(
    lambda message, order, spaced: spelt(dict(order.sample(list(message.items()), len(message))), spaced=spaced),
    st.sampled_from(USUAL),
    st.randoms(),
    st.booleans(),
)


@given(
    lines=st.lists(usual_messages | objects_like_messages() | sound_messages().map(spelt) | st.binary(max_size=40)),
    direction=st.sampled_from(DIRECTIONS),
)
def test_any_lines_get_the_records_that_the_exact_verdict_gives_them(lines: list[bytes], direction: Direction) -> None:
    assert lines_members(direction, lines) == exactly(direction, lines) == one_by_one(direction, lines)


@pytest.mark.parametrize(
    "size",
    [
        399,
        400,
        401,
        MAX_EXACTLY_JUDGED_BYTES,
        MAX_EXACTLY_JUDGED_BYTES + 1,
        MAX_RECORDER_JUDGED_BYTES,
        MAX_RECORDER_JUDGED_BYTES + 1,
    ],
)
def test_lines_of_any_size_get_their_records(size: int) -> None:
    empty = request(params={"text": ""})
    sound = request(params={"text": "x" * (size - len(empty))})
    lines = [sound, sound[:-1] + b" ", sound.replace(b'"id":1', b'"iD":1')]
    assert [len(raw) for raw in lines] == [size] * 3
    assert lines_members("c2s", lines) == one_by_one("c2s", lines)


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 600])
def test_deep_lines_get_their_records(levels: int) -> None:
    # The message and its params add two levels.
    raw = request(params={"a": 0}).replace(b"0}", b"[" * (levels - 2) + b"]" * (levels - 2) + b"}")
    lines = [raw, raw + b" "]
    assert lines_members("c2s", lines) == exactly("c2s", lines)


def test_hostile_lines_get_their_records() -> None:
    for name, made in HOSTILE.items():
        lines = [made(2_000), request(params={})]
        assert lines_members("c2s", lines) == one_by_one("c2s", lines), name


# --- cost -------------------------------------------------------------------------------------------------------------


def calls_of_ours(lines: list[bytes]) -> int:
    """The number of Python functions called for these lines."""
    calls = 0

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        lines_members("c2s", lines)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x"}},
        {"method": "tools/call", "params": {"id": 1}, "jsonrpc": "2.0", "id": "b6a0-1"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
        {"jsonrpc": "2.0", "id": 7, "result": {"text": 'é "\n\x1b\x7f'}},
        {"result": {}, "id": -1, "jsonrpc": "2.0"},
    ],
)
def test_a_flood_of_usual_messages_makes_no_call_a_line(message: dict[str, Any]) -> None:
    raw = spelt(message)
    lines_members("c2s", [raw])
    assert calls_of_ours([raw] * 100) == calls_of_ours([raw])


def test_a_peer_that_invents_methods_takes_no_memory() -> None:
    methods = MethodMembers("rpc.")
    assert [methods[f"m{n}"] for n in range(2 * MAX_METHOD_NAMES)] == [
        b',"method":"m%d"' % n for n in range(2 * MAX_METHOD_NAMES)
    ]
    assert len(methods) == MAX_METHOD_NAMES
    assert max(map(len, methods.values())) < 2 * MAX_ENVELOPE_TEXT_BYTES


@pytest.mark.parametrize("name", ["", "rpc.x", "x" * 61, 5, None, ("a",)])
def test_a_method_that_needs_a_closer_look_is_not_named(name: object) -> None:
    with pytest.raises(KeyError):
        MethodMembers("rpc.")[name]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_recorder_makes_the_same_records_before_orjson_is_there(direction: Direction) -> None:
    from mcpproxy.recorder.stdio import middles_without_orjson

    lines = [case.raw for case in CASES if len(case.raw) <= MAX_EXACTLY_JUDGED_BYTES]
    assert middles_without_orjson(direction, lines) == lines_members(direction, lines)
