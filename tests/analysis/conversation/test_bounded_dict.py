"""Tables with a limit, and how the analysis reports what they forgot."""

import gc
import json

import pytest

from analysis.conversation.addressing import RequestKey
from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import Call
from analysis.conversation.call_table import PACKING_THRESHOLD, CallTable
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import messages
from tests.analysis.conversation.limits import Limits
from tests.analysis.conversation.test_crowds import INITIALIZE, Tape
from tests.analysis.judged import Judged


def folded(tape: Tape) -> Fold:
    fold = Fold()
    for item in tape.items:
        fold.feed(item)
    return fold


def test_a_table_forgets_the_oldest_first_and_counts() -> None:
    table: BoundedDict[int, str] = BoundedDict(2)
    assert [table.put(number, f"{number}") for number in range(4)] == [None, None, "0", "1"]
    assert (list(table), table.forgotten) == ([2, 3], 2)


def test_an_entry_that_is_replaced_pushes_nothing_out() -> None:
    table: BoundedDict[int, str] = BoundedDict(2)
    for number in (1, 2, 1):
        table.put(number, "")
    assert (list(table), table.forgotten) == ([1, 2], 0)


def test_nothing_is_said_where_nothing_was_forgotten() -> None:
    tape = Tape("stdio")
    tape.handshake()
    for number in range(PACKING_THRESHOLD + 1):
        tape.say("c2s", id=f"{number}", method="ping")
    assert folded(tape).forgotten_entries == []


def test_requests_that_were_forgotten_are_counted_and_said(limits: Limits) -> None:
    tape = Tape("stdio")
    for number in range(limits.requests + 3):
        tape.say("c2s", id=number, method="ping")
    (forgotten,) = folded(tape).forgotten_entries
    assert forgotten.text == (
        "3 requests were forgotten: more than 50,000, or 16 MiB, were open at once; responses to them count as unknown"
    )
    assert forgotten.members() == {"what": "requests", "count": 3}


def test_exchanges_that_were_forgotten_are_counted_and_said(limits: Limits) -> None:
    tape = Tape("http")
    for number in range(limits.lasting + 2):
        request = {"method": "POST", "target": "/mcp", "headers": []}
        tape.record("exchange", exchange=number, stage="request", conn=1, peer="127.0.0.1:1", request=request)
    (forgotten,) = folded(tape).forgotten_entries
    assert forgotten.text.startswith("2 exchanges of HTTP were forgotten: more than 15,000 were open at once")


def test_an_exchange_that_is_forgotten_is_gone_at_once(limits: Limits) -> None:
    tape = Tape("http")
    for number in range(limits.lasting + 100):
        tape.post(number, ended=False, id=number, method="ping", params={"pad": "x" * 200})
    gc.collect()
    gc.disable()
    try:
        fold = folded(tape)
        own = fold.exchanges.session_ids  # other tests may have kept their own exchanges
        made = sum(isinstance(one, HttpExchange) and one.session_ids is own for one in gc.get_objects())
    finally:
        gc.enable()
    assert fold.exchanges.forgotten_count == 100
    assert made <= limits.lasting + 1  # the last step still refers to the call that it made the table forget


def test_an_exchange_that_has_failed_and_is_forgotten_is_gone_at_once(limits: Limits) -> None:
    tape = Tape("http")
    for number in range(limits.ended + 100):
        tape.post(number, ended=False, id=number, method="ping", params={"pad": "x" * 200})
        tape.record("exchange", exchange=number, stage="end", response={"status": 500}, ended_by="complete")
    gc.collect()
    gc.disable()
    try:
        fold = folded(tape)
        own = fold.exchanges.session_ids
        made = sum(isinstance(one, HttpExchange) and one.session_ids is own for one in gc.get_objects())
    finally:
        gc.enable()
    assert fold.failed_count == limits.ended + 100
    # The last messages keep their values, and these refer to their exchanges.
    assert made <= limits.ended + limits.whole // 200


def test_bytes_of_messages_over_http_are_bounded(limits: Limits) -> None:
    tape, text = Tape("http"), "x" * (limits.bytes_ // 64)
    count = 2 * limits.bytes_ // len(text)
    for number in range(1, count):
        tape.post(number, id=number, method="tools/call", params={"name": "dig", "arguments": {"text": text}})
    exchanges = folded(tape).exchanges
    kept = [known for number in range(1, count) if (known := exchanges.get(number)) is not None]
    held = sum(
        len(frame.raw)
        for one in kept
        for context in (*one.client_messages, *one.server_messages)
        for frame in context.message.frames
    )
    assert kept[-1].number == count - 1
    assert limits.bytes_ // 2 < held <= limits.bytes_


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"n":1.50,"of":[[]]}}',
        b'{"jsonrpc": "2.0", "id": 7.0, "method": "a", "params": {"n": 1e400, "of": [9007199254740993]}}',
        b'[{"jsonrpc":"2.0","id":7,"method":"a","params":{"_meta":{"a":1}}},{"jsonrpc":"2.0","id":8,"method":"b"}]',
        b'[{"jsonrpc":"2.0","id":7,"method":"a","params":[1e400]}]',
    ],
)
def test_a_message_that_was_packed_says_the_same(raw: bytes) -> None:
    tape = Tape("stdio")
    tape.raw("c2s", raw)
    for read, packed in zip(messages(tape.items[1]), messages(tape.items[1]), strict=True):  # type: ignore[arg-type]
        packed.pack()  # type: ignore[union-attr]
        assert repr(packed.body) == repr(read.body)  # type: ignore[union-attr]
        assert (packed.params, packed.meta) == (read.params, read.meta)  # type: ignore[union-attr]
        with pytest.raises(AttributeError):
            packed.bodies  # type: ignore[union-attr]  # noqa: B018


def test_of_very_many_open_requests_all_are_answered_with_what_they_asked() -> None:
    table, tape = CallTable(), Tape("stdio")
    for number in range(PACKING_THRESHOLD + 500):
        tape.raw("c2s", json.dumps({"jsonrpc": "2.0", "id": number, "method": "a", "params": {"n": number}}).encode())
    for item in tape.items[1:]:
        (request,) = messages(item)  # type: ignore[arg-type]
        table.add(Call(request), RequestKey(None, request.id))  # type: ignore[arg-type, union-attr]
    assert [one.request.params["n"] for one in table.waiting_calls()] == list(range(PACKING_THRESHOLD + 500))


def test_an_answer_to_a_request_that_was_forgotten_accuses_nobody(limits: Limits) -> None:
    tape = Tape("stdio")
    tape.handshake()
    for number in range(1, limits.requests + 4):
        tape.say("c2s", id=number, method="ping")
    for number in range(1, 4):
        tape.say("s2c", id=number, result={})
    checker = Judged()
    found = [finding.rule for item in tape.items for finding in checker.feed(item)]
    assert checker.fold.forgotten_entries
    assert not [rule for rule in found if rule.startswith("id/")]


def late_rules(open_: int) -> tuple[Fold, set[str]]:
    """The fold, and the rules that fire when the first three of `open_` open exchanges are answered and end."""
    tape = Tape("http")
    tape.post(1, id=0, method="initialize", params=INITIALIZE)
    for number in range(2, open_ + 2):
        tape.post(number, ended=False, id=number, method="ping")
    late = len(tape.items)
    response = {"status": 200, "headers": [["content-type", "application/json"]]}
    for number in range(2, 5):
        tape.record("exchange", exchange=number, stage="response", conn=1, response=response)
        tape.say("s2c", number, id=number, result={})
        tape.record("exchange", exchange=number, stage="end", conn=1, ended_by="complete", response=response)
    checker = Judged()
    found = [finding for item in tape.items for finding in checker.feed(item)]
    assert checker.faults == {}
    return checker.fold, {finding.rule for finding in found if finding.frame >= late}


def test_an_exchange_of_http_that_was_forgotten_accuses_nobody(limits: Limits) -> None:
    remembered, expected = late_rules(10)
    forgotten, found = late_rules(limits.lasting + 4)
    assert remembered.forgotten_entries == []
    assert "exchanges of HTTP" in [one.what for one in forgotten.forgotten_entries]
    assert found <= expected


def test_only_messages_that_may_still_matter_outlive_the_exchanges_that_ended_after_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("analysis.conversation.http_exchanges.LATELY", 3)
    tape = Tape("http")
    tape.post(1, id=1, method="ping")
    tape.post(2, ended=False, id=2, method="ping")
    tape.record("exchange", exchange=2, stage="end", response={"status": 500}, ended_by="complete")
    for number in range(3, 7):
        tape.post(number, id=number, method="ping")
    exchanges = folded(tape).exchanges
    kept = [number for number in range(1, 7) if (known := exchanges.get(number)) is not None and known.client_messages]
    assert kept == [2, 4, 5, 6]
    assert exchanges.get(1) is not None
