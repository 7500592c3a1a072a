"""Cases that the corpus cannot express about repeated calls: their cost, and how much of them is remembered."""

from typing import Any, Literal

from analysis.rules.finding import Finding, Level
from analysis.rules.tool import repeated_calls
from analysis.rules.tool.repeated_calls import MAX_DISTINCT_CALLS
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from tests.analysis.judged import Judged
from tests.analysis.talk import MS, Talk


class CheckedTalk(Talk):
    """A conversation through the checker, with one item per millisecond."""

    def __init__(self) -> None:
        self.checker = Judged([repeated_calls.RepeatedCall])
        super().__init__()

    def record(self, rec: str, **members: Any) -> None:
        self.seq += 1
        assert self.checker.feed(Record(self.seq, rec, self.seq * MS, members)) == []

    def raw(self, direction: Direction, raw: bytes, exchange: int | None = None, **more: Any) -> tuple[Any, ...]:
        self.seq += 1
        assert self.checker.feed(Frame(self.seq, self.seq * MS, direction, raw, judge(raw, direction), **more)) == []
        return (None,)

    def call(self, id_: int, **arguments: Any) -> int:
        self.say("c2s", id=id_, method="tools/call", params={"name": "search", "arguments": arguments})
        return self.seq

    def end(self, reason: Literal["closed", "killed", "open"] = "closed") -> list[Finding]:
        found = self.checker.finish(reason)
        assert self.checker.faults == {}
        return found


def test_it_tells_how_often_from_where_to_where_and_at_what_cost() -> None:
    talk = CheckedTalk()
    frames, size = [], 0
    for id_ in (1, 2, 3):
        frames.append(talk.call(id_, q="x", page=1))
        talk.say("s2c", method="notifications/progress", params={})
        talk.answer(id_, content=[])
        size += len(f'{{"jsonrpc": "2.0", "id": {id_}, "result": {{"content": []}}}}')
    talk.call(4, q="y", page=1)
    frames.append(talk.call(5, page=1, q="x"))
    (found,) = talk.end()
    assert found.message == (
        f"tools/call search was called 4 times with the same arguments (frames {frames[0]} to {frames[-1]}):"
        f" 6 ms of waiting and {size} bytes of responses"
    )
    assert (found.frame, found.related, found.method) == (frames[0], tuple(frames[1:]), "tools/call")
    assert (found.rule, found.level, found.blames) == ("tool/repeated-call", Level.NOTE, "client")


def test_the_same_is_found_while_it_is_recorded_and_afterwards() -> None:
    ends: tuple[Literal["closed", "killed", "open"], ...] = ("closed", "killed", "open")
    found = []
    for reason in ends:
        talk = CheckedTalk()
        for id_ in (1, 2, 3):
            talk.call(id_, q="x")
            talk.answer(id_)
        found.append(talk.end(reason))
    assert len(found[0]) == 1
    assert found[0] == found[1] == found[2]


def test_each_group_is_one_finding_in_the_order_of_their_first_calls() -> None:
    talk = CheckedTalk()
    firsts = [talk.call(number, q=number) for number in range(3)]
    for number in (2, 1, 0, 0, 1, 2):
        talk.call(100 + talk.seq, q=number)
    assert [one.frame for one in talk.end()] == firsts


def test_of_many_calls_alike_the_first_frames_are_named_and_the_last() -> None:
    talk = CheckedTalk()
    frames = [talk.call(number, q="x") for number in range(50)]
    (found,) = talk.end()
    assert "50 times" in found.message
    assert (found.frame, *found.related) == (*frames[:10], frames[-1])


def test_two_batched_answers_count_their_frame_once() -> None:
    talk = CheckedTalk()
    for id_ in (1, 2, 3):
        talk.call(id_, q="x")
    raw = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]'
    talk.raw("s2c", raw)
    (found,) = talk.end()
    assert f"and {len(raw)} bytes" in found.message


def test_what_is_remembered_is_bounded_and_what_is_repeated_is_kept() -> None:
    talk = CheckedTalk()
    for id_ in (1, 2, 3):
        talk.call(id_, q="often")
    talk.call(4, q="seldom")
    talk.call(5, q="seldom")
    for number in range(MAX_DISTINCT_CALLS):
        talk.call(10 + number, n=number)
    talk.call(6, q="seldom")
    talk.call(7, q="often")
    (found,) = talk.end()
    assert "4 times" in found.message


def test_numbers_and_halves_of_characters_that_few_can_read_are_arguments_too() -> None:
    talk = CheckedTalk()
    for id_ in (1, 2, 3):
        params = b'{"name":"search","arguments":{"n":%d,"s":"\\ud800"}}' % 2**70
        talk.raw("c2s", b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}' % (id_, params))
    assert len(talk.end()) == 1


def test_what_is_no_call_is_none() -> None:
    talk = CheckedTalk()
    for id_ in range(9):
        params: Any = [{"name": 1}, {}, [], None][id_ % 4]
        talk.say("c2s", id=id_, method="tools/call", params=params)
        talk.say("s2c", id=id_, method="tools/call", params={"name": "search"})
    assert talk.end() == []


def test_who_gives_up_has_waited_until_then() -> None:
    talk = CheckedTalk()
    for id_ in (1, 2, 3):
        talk.call(id_, q="x")
        talk.say("c2s", method="notifications/cancelled", params={"requestId": id_, "reason": "timed out"})
        talk.say("s2c", method="notifications/message", params={})
        talk.answer(id_, content=[])
    (found,) = talk.end()
    assert ": 3 ms of waiting and " in found.message
