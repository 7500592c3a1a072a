import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation import call_table
from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, IdState, MessageContext, Outcome
from analysis.conversation.call_table import CallTable
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, InvalidMessage, Request, Response, messages
from analysis.conversation.session import Peer
from captures.damage import Damage
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import UNJUDGED, Direction

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "demo", "version": "2.1.0"}}


class Talk:
    """Feeds messages to a session, one frame per millisecond."""

    def __init__(self) -> None:
        self.session = Fold()
        self.seq = 0

    def raw(self, direction: Direction, raw: bytes) -> tuple[MessageContext, ...]:
        self.seq += 1
        return self.session.feed(Frame(self.seq, self.seq * 1_000_000, direction, raw, judge(raw, direction)))

    def all(self, direction: Direction, body: object) -> tuple[MessageContext, ...]:
        return self.raw(direction, json.dumps(body).encode())

    def say(self, direction: Direction, **members: Any) -> MessageContext:
        (context,) = self.all(direction, {"jsonrpc": "2.0", **members})
        return context

    def ask(self, id_: object = 1, method: str = "tools/call", **members: Any) -> MessageContext:
        return self.say("c2s", id=id_, method=method, **members)

    def answer(self, id_: object = 1, **members: Any) -> MessageContext:
        return self.say("s2c", id=id_, **(members or {"result": {}}))

    def record(self, rec: str, **members: Any) -> None:
        self.seq += 1
        assert self.session.feed(Record(self.seq, rec, self.seq * 1_000_000, members)) == ()

    def handshake(self, asked: str = "2025-11-25", agreed: str = "2025-06-18") -> None:
        self.ask(0, "initialize", params={"protocolVersion": asked, "clientInfo": {"name": "host", "version": "1.0.0"}})
        self.answer(0, result={"protocolVersion": agreed, "serverInfo": {"name": "demo", "version": "0.1"}})
        self.say("c2s", method="notifications/initialized")


def ended(context: MessageContext) -> Call:
    assert context.answered is not None
    return context.answered


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_an_answer_ends_the_exchange_of_its_request(talk: Talk) -> None:
    asked = talk.ask(7)
    assert (asked.answered, asked.id_state) == (None, IdState.NEVER_SEEN)
    answered = talk.answer(7)
    exchange = ended(answered)
    assert (exchange.request, exchange.response) == (asked.message, answered.message)
    assert (exchange.outcome, exchange.started_ns, exchange.ended_ns) == (Outcome.RESULT, 1_000_000, 2_000_000)
    assert exchange.latency_ns == 1_000_000
    assert answered.id_state is IdState.OPEN
    assert talk.session.open_calls() == ()


@pytest.mark.parametrize(
    ("asked", "answered", "pairs"),
    [
        (1, 1, True),
        ("a", "a", True),
        ("", "", True),
        (0, 0, True),
        (-3, -3, True),
        (2**53 + 1, 2**53 + 1, True),
        (2**53 + 1, 2**53, False),
        (7, "8", False),
        (2**64 + 1, 2**64 + 1, True),
        (2**64 + 1, 2**64, False),
        (1, True, False),
        ("x" * 1000, "x" * 1000, True),
        ("x" * 1000, "x" * 999, False),
        (None, None, False),
    ],
)
def test_ids_pair_when_type_and_exact_value_are_equal(talk: Talk, asked: object, answered: object, pairs: bool) -> None:
    talk.ask(asked)
    assert (talk.answer(answered).answered is not None) == pairs


@pytest.mark.parametrize(
    ("asked", "answered"), [(b"1.0", b"1"), (b"1", b"1.0"), (b"1e2", b"100"), (rb'"\u0061"', b'"a"')]
)
def test_ids_pair_however_they_are_spelt(talk: Talk, asked: bytes, answered: bytes) -> None:
    talk.raw("c2s", b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % asked)
    (context,) = talk.raw("s2c", b'{"jsonrpc":"2.0","id":%b,"result":{}}' % answered)
    assert context.answered is not None


@pytest.mark.parametrize(("asked", "answered"), [(7, "7"), ("7", 7), (7, "7.0"), (2**53 + 1, str(2**53 + 1))])
def test_an_id_that_changed_its_type_pairs_and_says_so(talk: Talk, asked: object, answered: object) -> None:
    talk.ask(asked)
    context = talk.answer(answered)
    assert context.answered is not None
    assert context.is_converted
    assert not talk.session.open_calls()


def test_an_id_of_the_right_type_goes_before_a_converted_one(talk: Talk) -> None:
    talk.ask(7)
    talk.ask("7")
    first, second = talk.answer("7"), talk.answer("7")
    assert first.answered is not None
    assert not first.is_converted
    assert second.answered is None  # this is the second response to "7", not the first one to 7


def test_each_side_has_its_own_ids(talk: Talk) -> None:
    talk.ask(1, "tools/call")
    talk.say("s2c", id=1, method="sampling/createMessage")
    of_server = ended(talk.say("c2s", id=1, result={}))
    of_client = ended(talk.answer(1))
    assert of_server.request.method == "sampling/createMessage"
    assert of_client.request.method == "tools/call"


def test_a_side_cannot_answer_its_own_request(talk: Talk) -> None:
    talk.ask(1)
    assert talk.say("c2s", id=1, result={}).answered is None


def test_a_second_answer_and_an_answer_to_nothing_pair_with_nothing(talk: Talk) -> None:
    talk.ask(1)
    talk.answer(1)
    again, unknown, without = talk.answer(1), talk.answer(2), talk.say("s2c", error={"code": 1, "message": ""})
    assert (again.answered, again.id_state) == (None, IdState.ANSWERED)
    assert (unknown.answered, unknown.id_state) == (None, IdState.NEVER_SEEN)
    assert (without.answered, without.id_state) == (None, IdState.NEVER_SEEN)


def test_an_id_used_again_after_its_answer_opens_a_new_exchange(talk: Talk) -> None:
    talk.ask(1, "a")
    talk.answer(1)
    assert talk.ask(1, "b").id_state is IdState.ANSWERED
    assert ended(talk.answer(1)).request.method == "b"


def test_an_id_used_twice_in_flight_is_answered_in_order(talk: Talk) -> None:
    talk.ask(1, "a")
    assert talk.ask(1, "b").id_state is IdState.OPEN
    assert [ended(talk.answer(1)).request.method for _ in "ab"] == ["a", "b"]
    assert talk.answer(1).answered is None


def test_answers_come_in_any_order(talk: Talk) -> None:
    for number in range(5):
        talk.ask(number, f"m{number}")
    assert [ended(talk.answer(number)).request.method for number in (3, 0, 4, 1, 2)] == ["m3", "m0", "m4", "m1", "m2"]


@pytest.mark.parametrize(
    ("params", "answer", "outcome"),
    [
        ({}, {"result": {"content": []}}, Outcome.RESULT),
        ({}, {"result": {"content": [], "isError": False}}, Outcome.RESULT),
        ({}, {"result": {"content": [], "isError": True}}, Outcome.TOOL_ERROR),
        ({}, {"result": {"isError": "true"}}, Outcome.RESULT),
        ({}, {"result": {"resultType": "complete"}}, Outcome.RESULT),
        ({}, {"result": {"resultType": "input_required"}}, Outcome.INPUT_REQUIRED),
        ({}, {"result": {"resultType": "task"}}, Outcome.TASK),
        ({"task": {"ttl": 1}}, {"result": {"task": {"taskId": "t"}}}, Outcome.TASK),
        ({}, {"result": {"task": {"taskId": "t"}}}, Outcome.RESULT),
        ({}, {"result": 7}, Outcome.RESULT),
        ({}, {"result": {}, "error": None}, Outcome.RESULT),
        ({}, {"error": {"code": -32602, "message": "no"}}, Outcome.ERROR),
        ({}, {"error": "no"}, Outcome.ERROR),
    ],
)
def test_the_outcome_of_an_exchange(talk: Talk, params: object, answer: dict[str, Any], outcome: Outcome) -> None:
    talk.ask(1, params=params)
    assert ended(talk.answer(1, **answer)).outcome is outcome


def test_what_is_left_at_the_end_is_unanswered_or_cancelled(talk: Talk) -> None:
    talk.ask(1, "a")
    talk.say("s2c", id=1, method="b")
    talk.ask(2, "c")
    talk.say("c2s", method="notifications/cancelled", params={"requestId": 2})
    left = talk.session.open_calls()
    assert [(one.request.method, one.outcome.value, one.cancelled_ns) for one in left] == [
        ("a", "unanswered", None),
        ("b", "unanswered", None),
        ("c", "cancelled", 4_000_000),
    ]
    assert left[0].latency_ns is None
    assert len(talk.session.open_calls()) == 3


def test_a_late_answer_to_a_cancelled_request_still_pairs(talk: Talk) -> None:
    talk.ask(1)
    cancelled = talk.say("c2s", method="notifications/cancelled", params={"requestId": 1})
    assert isinstance(cancelled.cancels, Request)
    assert cancelled.id_state is IdState.OPEN
    late = talk.answer(1)
    assert late.id_state is IdState.CANCELLED
    assert (ended(late).outcome, ended(late).cancelled_ns) == (Outcome.RESULT, 2_000_000)


@pytest.mark.parametrize("named", [b'"1"', b"2", b"null", b"{}", b"1e99"])
def test_a_cancellation_that_names_no_request_changes_nothing(talk: Talk, named: bytes) -> None:
    talk.ask(1)
    (context,) = talk.raw(
        "c2s", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % named
    )
    assert (context.cancels, context.id_state) == (None, IdState.NEVER_SEEN)
    assert talk.session.open_calls()[0].outcome is Outcome.UNANSWERED


@pytest.mark.parametrize(("id_", "named"), [(b"1", b"1.0"), (b"18446744073709551617", b"18446744073709551617")])
def test_a_cancellation_names_its_request_exactly(talk: Talk, id_: bytes, named: bytes) -> None:
    talk.raw("c2s", b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id_)
    (context,) = talk.raw(
        "c2s", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % named
    )
    assert context.cancels is not None


def test_the_server_ends_a_listen_request_by_a_cancellation(talk: Talk) -> None:
    talk.ask("listen-1", "subscriptions/listen", params={"_meta": META})
    talk.ask(2, params={"_meta": META})
    assert talk.say("s2c", method="notifications/cancelled", params={"requestId": "listen-1"}).cancels is not None
    assert talk.say("s2c", method="notifications/cancelled", params={"requestId": 2}).cancels is None


def test_the_elements_of_a_batch_pair_one_by_one(talk: Talk) -> None:
    talk.all("c2s", [{"id": n, "method": f"m{n}"} for n in (1, 2, 3)])
    contexts = talk.all("s2c", [{"id": n, "result": {}} for n in (3, 1)])
    assert [ended(one).request.method for one in contexts] == ["m3", "m1"]
    assert [one.request.method for one in talk.session.open_calls()] == ["m2"]


def test_method_with_result_is_an_answer_where_the_other_side_has_asked(talk: Talk) -> None:
    context = talk.say("s2c", id=1, method="tools/list", result={})
    assert isinstance(context.message, Request)
    talk.ask(1)
    context = talk.say("s2c", id=1, method="tools/list", result={})
    assert isinstance(context.message, Response)
    assert context.answered is not None


# Senders and revisions.


def test_a_handshake_names_peers_and_revision(talk: Talk) -> None:
    session = talk.session
    info = {"name": "host", "version": "1.0.0"}
    asked = talk.ask(0, "initialize", params={"protocolVersion": "2025-11-25", "clientInfo": info})
    assert (asked.revision, session.revisions, session.server) == ("2025-11-25", ("2025-11-25",), None)
    answered = talk.answer(0, result={"protocolVersion": "2025-06-18", "serverInfo": {"name": "demo"}})
    assert (answered.revision, session.revisions) == ("2025-06-18", ("2025-06-18",))
    assert (session.client, session.server) == (Peer("host", "1.0.0"), Peer("demo", ""))
    assert talk.ask(1).revision == "2025-06-18"
    assert talk.say("s2c", method="notifications/message").revision == "2025-06-18"


def test_a_refused_handshake_leaves_no_revision_in_force(talk: Talk) -> None:
    talk.ask(0, "initialize", params={"protocolVersion": "2025-11-25"})
    talk.answer(0, error={"code": -32602, "message": "no"})
    assert talk.ask(1).revision is None
    assert talk.session.revisions == ("2025-11-25",)


def test_each_modern_request_names_its_own_revision(talk: Talk) -> None:
    session = talk.session
    assert talk.ask(1, "server/discover", params={"_meta": META}).revision == "2026-07-28"
    assert (session.revisions, session.client) == (("2026-07-28",), Peer("host", "1.0.0"))
    talk.answer(1, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], "_meta": SERVER})
    assert session.server == Peer("demo", "2.1.0")
    other = {**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}
    assert talk.ask(2, params={"_meta": other}).revision == "2027-01-01"
    assert session.revisions == ("2026-07-28",)
    assert talk.answer(2, error={"code": -32022, "message": ""}).revision == "2027-01-01"
    assert session.revisions == ("2026-07-28",)
    assert talk.ask(3).revision is None


def test_a_modern_probe_that_fails_leaves_the_handshake_in_force(talk: Talk) -> None:
    talk.ask(1, "server/discover", params={"_meta": META})
    talk.answer(1, error={"code": -32601, "message": "Method not found"})
    talk.handshake()
    assert talk.session.revisions == ("2025-06-18",)
    assert talk.ask(2).revision == "2025-06-18"


def test_both_eras_on_one_connection_keep_their_own_revision(talk: Talk) -> None:
    talk.handshake()
    modern = talk.ask(1, params={"_meta": META})
    old = talk.ask(2)
    assert (modern.revision, old.revision) == ("2026-07-28", "2025-06-18")
    assert (talk.answer(2).revision, talk.answer(1).revision) == ("2025-06-18", "2026-07-28")
    assert talk.say("s2c", method="notifications/message").revision == "2025-06-18"


@pytest.mark.parametrize("info", [None, 7, {}, {"name": 7}, {"name": ""}, [], {"version": "1"}])
def test_a_peer_without_a_name_is_not_known(talk: Talk, info: object) -> None:
    talk.ask(0, "initialize", params={"protocolVersion": 7, "clientInfo": info})
    talk.answer(0, result={"protocolVersion": [], "serverInfo": info})
    assert (talk.session.client, talk.session.server, talk.session.revisions) == (None, None, ())


# Records.


def test_the_header_and_the_close_record_frame_the_session(talk: Talk) -> None:
    session = talk.session
    talk.record("header", name="files", capture="ab", transport="stdio", wall_ns=5, observed_start=True)
    assert (session.name, session.capture, session.transport, session.wall_ns) == ("files", "ab", "stdio", 5)
    assert session.observed_start
    talk.record("close", ending="segment")
    talk.record("header", name="other", capture="cd")
    assert (session.name, session.ending) == ("files", None)
    talk.record("close", ending="server")
    assert (session.ending, session.closed_ns) == ("server", 4_000_000)


@pytest.mark.parametrize(
    ("transport", "environment", "known"),
    [
        ("stdio", {"CLAUDE_CODE_SESSION_ID": "hmac:00"}, {"CLAUDE_CODE_SESSION_ID": "hmac:00"}),
        ("http", {"CLAUDE_CODE_SESSION_ID": "hmac:00"}, {}),
        ("import", {"CLAUDE_CODE_SESSION_ID": "hmac:00"}, {}),
        ("stdio", ["CLAUDE_CODE_SESSION_ID"], {}),
        ("stdio", None, {}),
    ],
)
def test_only_a_client_that_started_the_server_gave_it_its_environment(
    talk: Talk, transport: str, environment: object, known: object
) -> None:
    assert talk.session.environment == {}
    talk.record("header", transport=transport, env=environment)
    assert talk.session.environment == known


def test_a_request_starts_when_it_was_taken_not_when_it_was_offered(talk: Talk) -> None:
    talk.ask(1)
    talk.ask(2)
    talk.record("stall", dir="c2s", of=2, to=2, waited_ns=400_000)
    talk.record("stall", dir="s2c", of=3, waited_ns=900_000)
    assert ended(talk.answer(2)).started_ns == 2_400_000
    assert ended(talk.answer(1)).started_ns == 1_000_000


def test_a_stall_longer_than_the_exchange_gives_no_negative_duration(talk: Talk) -> None:
    talk.ask(1)
    talk.record("stall", dir="c2s", of=1, waited_ns=10**12)
    assert ended(talk.answer(1)).latency_ns == 0


def test_what_was_not_seen_is_counted(talk: Talk) -> None:
    session = talk.session
    assert session.is_complete
    talk.seq = 9
    talk.record("gap", first=5, last=9)
    assert session.lost_count == 5
    session.feed(Damage(Path("x"), 0, 9, "corrupt"))
    assert session.lost_count == 6
    talk.record("frame", dir="s2c", raw_b64="no base64")
    assert session.lost_count == 7
    session.feed(Frame(99, 0, "s2c", b"{}", UNJUDGED))
    assert session.unjudged_count == 1
    assert not session.is_complete


@given(st.sampled_from(["header", "stall", "gap", "close", "process", "x_mine"]), st.data())
def test_no_member_of_a_record_raises(rec: str, data: st.DataObject) -> None:
    values = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.floats())
    names = st.sampled_from(["name", "wall_ns", "dir", "of", "to", "waited_ns", "first", "last", "ending", "lost"])
    session = Fold()
    for _ in range(3):
        members = data.draw(st.dictionaries(names, st.one_of(values, st.just("c2s")), max_size=6))
        session.feed(Record(1, rec, 1, members))
    session.open_calls()


# Memory.


def requests(count: int, size: int = 0) -> Iterator[Request]:
    for number in range(count):
        raw = json.dumps({"jsonrpc": "2.0", "id": number, "method": "m", "params": {"x": "x" * size}}).encode()
        (message,) = messages(Frame(number, number, "c2s", raw, judge(raw)))
        assert isinstance(message, Request)
        yield message


def number(value: int) -> Id:
    return Id("number", str(value))


def key_of(request: Request) -> RequestKey:
    return RequestKey(None, request.id)


def test_the_oldest_of_too_many_open_requests_are_forgotten_and_counted() -> None:
    table = CallTable(limit=10)
    for request in requests(25):
        table.add(Call(request), key_of(request))
    assert (len(table), table.evicted_count) == (10, 15)
    assert table.answer(RequestKey(None, number(14))) is None
    assert table.answer(RequestKey(None, number(15))) is not None
    assert [waiting.request.id for waiting in table.waiting_calls()] == [number(n) for n in range(16, 25)]


def test_open_requests_are_bounded_by_their_bytes_too() -> None:
    table = CallTable(bytes_limit=10_000)
    for request in requests(20, size=3_000):
        table.add(Call(request), key_of(request))
    assert len(table) == 3
    for request in requests(1, size=50_000):
        table.add(Call(request), key_of(request))
    assert (len(table), table.evicted_count) == (1, 20)


def test_the_requests_of_one_batch_count_its_bytes_once() -> None:
    raw = json.dumps([{"id": n, "method": "m"} for n in range(1000)]).encode()
    table = CallTable(bytes_limit=len(raw) + 1)
    for message in messages(Frame(1, 0, "c2s", raw, judge(raw))):
        assert isinstance(message, Request)
        table.add(Call(message), key_of(message))
    assert (len(table), table.evicted_count) == (1000, 0)


def test_answered_ids_are_forgotten_at_last_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_table, "MAX_PAST_IDS", 10)
    table = CallTable()
    for request in requests(15):
        table.add(Call(request), key_of(request))
        assert table.answer(key_of(request)) is not None
    assert table.forgotten_count == 5
    assert (table.id_state(RequestKey(None, number(4))), table.id_state(RequestKey(None, number(5)))) == (
        IdState.NEVER_SEEN,
        IdState.ANSWERED,
    )


def test_when_a_request_was_answered_is_remembered_with_its_id() -> None:
    table, (request,) = CallTable(), requests(1)
    key = key_of(request)
    table.add(Call(request), key)
    assert table.answered_ns(key) is None
    table.answer(key, 7)
    assert (table.answered_seq(key), table.answered_ns(key)) == (request.seq, 7)


def test_an_id_is_answered_when_all_its_requests_are() -> None:
    table, (first, second) = CallTable(), requests(2)
    key = key_of(first)
    table.add(Call(first), key)
    table.add(Call(second), key)
    table.answer(key)
    assert (table.answered_seq(key), table.id_state(key)) == (None, IdState.OPEN)
    table.answer(key)
    assert (table.answered_seq(key), table.id_state(key)) == (second.seq, IdState.ANSWERED)


def test_the_first_cancellation_of_a_request_is_named(talk: Talk) -> None:
    talk.ask(1)
    first = talk.say("c2s", method="notifications/cancelled", params={"requestId": 1})
    talk.say("c2s", method="notifications/cancelled", params={"requestId": 1})
    assert ended(talk.answer(1)).cancelled_seq == first.message.seq


# Against a model.

ids = st.sampled_from([1, 2, "1", "2", 1.5, None, True])
steps = st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), st.sampled_from(["ask", "answer", "cancel"]), ids))


@given(steps)
def test_pairing_agrees_with_a_plain_model(script: list[tuple[Direction, str, Any]]) -> None:
    talk = Talk()
    waiting: list[tuple[Direction, str, int]] = []  # sender, typed id, frame
    used = set()
    for direction, act, id_ in script:
        key, other = repr(id_), "s2c" if direction == "c2s" else "c2s"
        if act == "ask":
            talk.say(direction, id=id_, method="m")
            if id_ is not None:
                waiting.append((direction, key, talk.seq))
                used.add((direction, key))
        elif act == "answer":
            call = talk.say(direction, id=id_, result={}).answered
            fitting = [one for one in waiting if one[:2] == (other, key)]
            if (other, key) not in used and type(id_) in (int, str):
                converted = repr(str(id_) if isinstance(id_, int) else int(id_))
                fitting = [one for one in waiting if one[:2] == (other, converted)]
            assert (call and call.request.seq) == (fitting[0][2] if fitting else None)
            if fitting:
                waiting.remove(fitting[0])
        else:
            talk.say(direction, method="notifications/cancelled", params={"requestId": id_})
    assert [one.request.seq for one in talk.session.open_calls()] == [one[2] for one in waiting]


@given(st.lists(st.tuples(st.sampled_from(["c2s", "s2c"]), st.binary(max_size=40)), max_size=5))
def test_any_bytes_fold_without_raising(frames: list[tuple[Direction, bytes]]) -> None:
    talk = Talk()
    contexts = [one for direction, raw in frames for one in talk.raw(direction, raw)] + [*talk.session.flush()]
    assert {frame.seq for one in contexts for frame in one.message.frames} == set(range(1, len(frames) + 1))
    talk.session.open_calls()


# Real conversations.

TRACES = Path(__file__).parents[4] / "shared" / "protocol" / "traces.ndjson"


@pytest.mark.skipif(not TRACES.exists(), reason="the shared protocol traces are not on this machine")
def test_clean_traces_pair_completely() -> None:
    traces = [json.loads(line) for line in TRACES.read_text().splitlines()]
    clean = [one for one in traces if one["transport"] == "stdio" and one["clean"] and one["start_observed"]]
    assert clean
    for trace in clean:
        talk = Talk()
        contexts = [
            one
            for f in trace["frames"]
            if f["raw"] and f["dir"] != "stderr"
            for one in talk.raw(f["dir"], f["raw"].encode())
        ]
        assert not [one for one in contexts if isinstance(one.message, InvalidMessage)]
        assert all(one.answered for one in contexts if isinstance(one.message, Response))
        assert all(one.outcome is Outcome.CANCELLED for one in talk.session.open_calls())
        assert talk.session.revisions == (trace["version"],)
        assert talk.session.client == Peer("host", "1.0.0")
        assert talk.session.server is not None
