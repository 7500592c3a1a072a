"""Messages that span several lines or share one line are understood, and nothing is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation import assembly
from analysis.conversation.assembly import Assembly
from analysis.conversation.message import InvalidMessage, Message, Request, Response
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import Direction
from tests.analysis.growth import assert_linear

REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "a", "arguments": {"b": ["{", ']\\"']}},
}


def frames(*lines: str | bytes, direction: Direction = "s2c") -> list[Frame]:
    raws = [line.encode() if isinstance(line, str) else line for line in lines]
    return [Frame(seq, seq * 1000, direction, raw, judge(raw, direction)) for seq, raw in enumerate(raws, 1)]


def read(*lines: str | bytes) -> list[Message]:
    made = Assembly()
    return [message for frame in frames(*lines) for message in made.feed(frame)] + [*made.finish()]


@pytest.mark.parametrize("indent", [0, 1, 2, 4, "\t"])
def test_a_message_that_was_printed_prettily_is_one_message(indent: int | str) -> None:
    lines = json.dumps(REQUEST, indent=indent).split("\n")
    assert len(lines) > 5
    (message,) = read(*lines)
    assert isinstance(message, Request)
    assert message.body == REQUEST
    assert [frame.seq for frame in message.frames] == list(range(1, len(lines) + 1))
    assert message.t_ns == len(lines) * 1000


def test_what_stands_before_and_behind_it_is_not_touched() -> None:
    pretty = json.dumps(REQUEST, indent=1).split("\n")
    found = read("starting up", '{"jsonrpc":"2.0","id":1,"result":{}}', *pretty, '{"jsonrpc":"2.0","id":2,"result":{}}')
    assert [type(message) for message in found] == [InvalidMessage, Response, Request, Response]


def test_a_message_in_between_ends_the_attempt() -> None:
    found = read("{", '{"jsonrpc":"2.0","id":1,"result":{}}', "}")
    assert [type(message) for message in found] == [InvalidMessage, Response, InvalidMessage]


@pytest.mark.parametrize("line", ['{"a": "b', "[1, 2", "{", "{]", '{"a":1}}', "[[[[", "[INFO] started", "{oops}"])
def test_what_never_becomes_json_is_told_line_by_line(line: str) -> None:
    found = read(line, "next", line)
    assert [message.seq for message in found] == [1, 2, 3]
    assert all(isinstance(message, InvalidMessage) for message in found)


def test_a_batch_over_lines_is_a_batch() -> None:
    found = read("[", '{"id":1,', '"method":"a"}', ",", '{"id":2,', '"method":"b"}]')
    assert [message.index for message in found] == [0, 1]
    assert {len(message.frames) for message in found} == {6}


def test_several_messages_on_a_line_are_several_messages() -> None:
    found = read(
        '{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","id":2,"method":"b"}'
    )
    assert [(type(message).__name__, message.index) for message in found] == [
        ("Response", 0),
        ("Notification", 1),
        ("Request", 2),
    ]


def test_directions_do_not_mix() -> None:
    assembly = Assembly()
    (one,), (two,) = frames("{", direction="c2s"), frames("}", direction="s2c")
    assert not [*assembly.feed(one)]
    assert [message.sender for message in assembly.feed(two)] == ["server"]
    assert [message.sender for message in assembly.finish("c2s")] == ["client"]
    assert not [*assembly.finish()]


def test_lines_without_end_are_let_go_and_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_MESSAGE_LINES", 400)

    def without_end(count: int) -> None:
        assert len(read("[", *["1,"] * count)) == count + 1

    assert_linear(without_end, 400, 3_200)


@pytest.mark.soak
def test_very_many_lines_without_end_are_let_go_and_take_linear_time() -> None:
    assert_linear(lambda count: read("[", *["1,"] * count), assembly.MAX_MESSAGE_LINES, 5 * assembly.MAX_MESSAGE_LINES)


@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"', '{"a":1}', '{"a":', "1}", "x", "", '"\\', "[{}", "]]"]), max_size=12
    )
)
def test_every_line_is_in_a_message_and_their_order_stays(lines: list[str]) -> None:
    found = read(*lines)
    numbers = [frame.seq for message in found if message.index in (None, 0) for frame in message.frames]
    assert sorted(set(numbers)) == list(range(1, len(lines) + 1))
    assert numbers == sorted(numbers)
