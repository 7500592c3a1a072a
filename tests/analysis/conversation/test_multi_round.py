"""Calls of several rounds: which request continues which interim result, and which continues none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import Request, Response, id_of
from analysis.conversation.multi_round import MAX_PLACES, MAX_ROUNDS, Chain, Chains, Round, Turn
from tests.analysis.talk import MS, Talk

ASK = {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": {"type": "object"}}}
GIVEN = {"action": "accept", "content": {"name": "x"}}


class ChainTalk(Talk):
    """Tool calls whose chains are followed."""

    def __init__(self, chains: Chains | None = None, transport: str = "stdio") -> None:
        self.chains = chains if chains is not None else Chains()
        self.rounds: dict[int, Round | None] = {}
        self.exchanges: dict[int, Call] = {}
        super().__init__(transport)

    def follow(self, context: MessageContext) -> None:
        message = context.message
        if isinstance(message, Request) and message.sender == "client":
            self.rounds[message.seq] = self.chains.on_request(message, context.session)
        elif isinstance(message, Response) and context.answered is not None and message.sender == "server":
            call = self.exchanges[message.seq] = context.answered
            turn, is_interim = (
                Turn(call.request, message, call.revision, call.era),
                call.outcome is Outcome.INPUT_REQUIRED,
            )
            call.round = self.chains.on_response(turn, context.session, is_interim=is_interim) or call.round

    def call(self, id_: object, exchange: int | None = None, name: str = "echo", **params: Any) -> Round | None:
        arguments = params.pop("arguments", {"message": "m"})
        context = self.ask(id_, "tools/call", exchange, name=name, arguments=arguments, **params)
        return self.rounds[context.message.seq]

    def interim(self, id_: object, exchange: int | None = None, **more: Any) -> Chain:
        exchange_ = self.exchanges[self.answer(id_, exchange, resultType="input_required", **more).message.seq]
        assert exchange_.round is not None
        return exchange_.round.chain

    def done(self, id_: object, exchange: int | None = None) -> Call:
        return self.exchanges[self.answer(id_, exchange, resultType="complete", content=[]).message.seq]


def chain_of(made: Round | None) -> Chain | None:
    return None if made is None else made.chain


@pytest.fixture
def calls() -> ChainTalk:
    return ChainTalk()


def test_rounds_are_one_chain_by_the_state_that_is_given_back(calls: ChainTalk) -> None:
    assert calls.call(1) is None
    chain = calls.interim(1, inputRequests={"who": ASK}, requestState="S1")
    assert (chain.number, chain.is_waiting) == (1, True)
    calls.ask(2, "tools/list")
    calls.answer(2, resultType="complete", tools=[])
    second = calls.call(3, inputResponses={"who": GIVEN}, requestState="S1")
    assert second is not None
    assert (second.chain, second.number, second.seq, second.evidence) == (chain, 2, 5, "state")
    assert second.client_ns == 3 * MS  # from the interim result, not from the call
    assert not chain.is_waiting
    assert chain.interim_turn is not None
    assert chain.interim_turn.request.seq == 1  # the request that the retry continues
    assert calls.interim(3, requestState="S2") is chain
    third = calls.call(4, requestState="S2")
    assert third is not None
    assert (third.chain, third.number, third.client_ns) == (chain, 3, MS)
    last = calls.done(4)
    assert last.round == third
    assert (chain.is_waiting, chain.ended_ns, chain.client_ns) == (False, 8 * MS, 4 * MS)
    assert (chain.number, chain.started_ns, chain.round_count) == (1, MS, 3)
    assert [(one.number, one.seq) for one in chain.rounds] == [(1, 1), (2, 5), (3, 7)]
    assert (len(calls.chains), calls.chains.count, calls.chains.forgotten_count) == (0, 1, 0)


def test_exchanges_know_their_rounds(calls: ChainTalk) -> None:
    calls.call(1)
    calls.interim(1, requestState="S")
    calls.call(2, requestState="S")
    calls.done(2)
    first, second = calls.exchanges[2], calls.exchanges[4]
    assert (first.outcome, second.outcome) == (Outcome.INPUT_REQUIRED, Outcome.RESULT)
    assert first.round is not None
    assert second.round is not None
    assert (first.round.number, first.round.client_ns, first.round.evidence) == (1, None, None)
    assert (second.round.number, second.round.chain) == (2, first.round.chain)
    calls.call(3)
    assert calls.done(3).round is None


def test_without_a_state_the_keys_tell(calls: ChainTalk) -> None:
    calls.call(1)
    chain = calls.interim(1, inputRequests={"who": ASK, "why": ASK})
    made = calls.call(2, inputResponses={"why": GIVEN}, arguments={"message": "changed"})
    assert made is not None
    assert (made.chain, made.evidence) == (chain, "keys")


def test_without_keys_in_common_equal_params_tell(calls: ChainTalk) -> None:
    calls.call(1)
    chain = calls.interim(1, inputRequests={"who": ASK})
    assert calls.call(2, inputResponses={"what": GIVEN}, arguments={"message": "other"}) is None
    made = calls.call(3, inputResponses={"what": GIVEN})
    assert made is not None
    assert (made.chain, made.evidence) == (chain, "params")


@pytest.mark.parametrize(
    ("interim", "retry"),
    [
        ({"inputRequests": {"a": ASK}, "requestState": "S"}, {}),  # the same call again is a new call
        ({"inputRequests": {"a": ASK}, "requestState": "S"}, {"name": "other", "requestState": "S"}),
        ({"inputRequests": {"a": ASK}}, {"name": "other", "inputResponses": {"a": GIVEN}}),
        ({"inputRequests": {"a": ASK}}, {"inputResponses": {"b": GIVEN}, "arguments": {}}),
        # A state that was never given may belong to an interim result that is not in the capture.
        ({"inputRequests": {"a": ASK}, "requestState": "S"}, {"requestState": "T"}),
        ({"inputRequests": {"a": ASK}}, {"requestState": "T", "inputResponses": {"a": GIVEN}, "arguments": {}}),
        ({"requestState": ["S"]}, {"requestState": ["S"], "arguments": {}}),
        ({}, {}),
    ],
)
def test_near_misses_are_no_retry(calls: ChainTalk, interim: dict[str, Any], retry: dict[str, Any]) -> None:
    calls.call(1)
    chain = calls.interim(1, **interim)
    assert calls.call(2, **retry) is None
    assert chain.is_waiting


@pytest.mark.parametrize(
    ("interim", "retry", "by"),
    [
        ({"inputRequests": {"a": ASK}, "requestState": "S"}, {"inputResponses": {"a": GIVEN}}, "keys"),  # left out
        ({"inputRequests": {"a": ASK}, "requestState": "S"}, {"requestState": "T", "inputResponses": {"a": 1}}, "keys"),
        ({"inputRequests": {"a": ASK}}, {"requestState": "T", "inputResponses": {"a": GIVEN}}, "keys"),  # invented
        ({"requestState": "S"}, {"requestState": "S", "arguments": {"message": "n"}}, "state"),  # params changed
        ({"inputRequests": [], "requestState": "S"}, {"requestState": "S", "inputResponses": 5}, "state"),
        ({"inputRequests": {"a": ASK}}, {"inputResponses": None}, "params"),
    ],
)
def test_retries_with_mistakes_are_retries(
    calls: ChainTalk, interim: dict[str, Any], retry: dict[str, Any], by: str
) -> None:
    calls.call(1)
    chain = calls.interim(1, **interim)
    made = calls.call(2, **retry)
    assert made is not None
    assert (made.chain, made.evidence) == (chain, by)


def test_another_method_with_the_same_target_is_another_call(calls: ChainTalk) -> None:
    calls.call(1)
    calls.interim(1, requestState="S")
    context = calls.ask(2, "prompts/get", name="echo", arguments={"message": "m"}, requestState="S")
    assert calls.rounds[context.message.seq] is None
    calls.ask(3, "resources/read", uri="a:b")
    chain = calls.interim(3, requestState="S")
    context = calls.ask(4, "resources/read", uri="a:b", requestState="S")
    assert chain_of(calls.rounds[context.message.seq]) is chain


def test_calls_side_by_side_are_told_apart_by_what_tells(calls: ChainTalk) -> None:
    for id_ in (1, 2, 3):
        calls.call(id_, arguments={"message": f"{id_}"})
    chains = {id_: calls.interim(id_, inputRequests={"k": ASK}, requestState="constant") for id_ in (2, 3, 1)}
    for id_ in (1, 3, 2):
        made = calls.call(
            id_ + 10, arguments={"message": f"{id_}"}, inputResponses={"k": GIVEN}, requestState="constant"
        )
        assert chain_of(made) is chains[id_]
    assert calls.chains.count == 3


def test_equal_calls_side_by_side_are_told_apart_by_their_keys(calls: ChainTalk) -> None:
    calls.call(1)
    calls.call(2)
    first, second = calls.interim(1, inputRequests={"a": ASK}), calls.interim(2, inputRequests={"b": ASK})
    assert chain_of(calls.call(3, inputResponses={"a": GIVEN})) is first
    assert chain_of(calls.call(4, inputResponses={"b": GIVEN})) is second


def test_a_retry_without_a_state_is_rather_of_the_call_that_has_none(calls: ChainTalk) -> None:
    calls.call(1)
    calls.call(2)
    stateless = calls.interim(1, inputRequests={"k": ASK})
    calls.interim(2, inputRequests={"k": ASK}, requestState="S")
    assert chain_of(calls.call(3, inputResponses={"k": GIVEN})) is stateless


def test_equal_calls_side_by_side_are_not_guessed_at(calls: ChainTalk) -> None:
    calls.call(1)
    calls.call(2)
    first, second = calls.interim(1, inputRequests={"a": ASK}), calls.interim(2, inputRequests={"a": ASK})
    assert calls.call(3, inputResponses={"a": GIVEN}) is None
    assert first.is_waiting
    assert second.is_waiting


def test_a_call_that_was_begun_anew_goes_on_with_the_new_one(calls: ChainTalk) -> None:
    calls.call(1)
    given_up = calls.interim(1, inputRequests={"a": ASK})
    calls.call(2)
    chain = calls.interim(2, inputRequests={"a": ASK})
    assert chain_of(calls.call(3, inputResponses={"a": GIVEN})) is chain
    assert given_up.is_waiting


def test_an_interim_result_has_one_retry(calls: ChainTalk) -> None:
    calls.call(1)
    calls.interim(1, requestState="S")
    assert calls.call(2, requestState="S") is not None
    assert calls.call(3, requestState="S") is None


def test_a_constant_state_is_that_of_the_round_that_waits(calls: ChainTalk) -> None:
    calls.call(1)
    chain = calls.interim(1, requestState="S")
    for id_ in range(2, 6):
        assert chain_of(calls.call(id_, requestState="S")) is chain
        assert calls.interim(id_, requestState="S") is chain
    assert chain.round_count == 5


def test_a_retry_may_end_in_an_error(calls: ChainTalk) -> None:
    calls.call(1)
    chain = calls.interim(1, requestState="S")
    calls.call(2, requestState="S")
    calls.refuse(2)
    assert (chain.is_waiting, chain.interim_turn) == (False, None)


def test_a_retry_without_an_answer_knows_its_round(calls: ChainTalk) -> None:
    calls.call(1)
    chain = calls.interim(1, requestState="S")
    calls.call(2, requestState="S")
    (left,) = calls.fold.open_calls()
    assert left.round is not None
    assert (left.round.chain.number, left.round.number, left.outcome) == (chain.number, 2, Outcome.UNANSWERED)
    assert not chain.is_waiting


def test_a_retry_that_failed_may_be_sent_again() -> None:
    calls = ChainTalk(transport="http")
    calls.http(1)
    calls.call(1, 1)
    chain = calls.interim(1, 1, requestState="S")
    for number in (2, 3):
        calls.http(number)
        made = calls.call(2, number, requestState="S")
        assert made is not None
        assert (made.chain, made.number) == (chain, 2)
        assert chain.round_count == 2
        request = calls.fold.open_calls()[0].request
        calls.chains.on_failed(request)
        calls.http_end(number, 401)
        assert chain.is_waiting
        assert (chain.round_count, len(chain.rounds), chain.client_ns) == (1, 1, 0)


def test_peers_that_share_an_address_have_chains_of_their_own() -> None:
    calls = ChainTalk(transport="http")
    for number, agent in ((1, "a"), (2, "b")):
        calls.http(number, user_agent=agent)
        calls.call(1, number)
    mine, yours = (calls.interim(1, number, inputRequests={"k": ASK}) for number in (1, 2))
    for number, agent, chain in ((3, "b", yours), (4, "a", mine)):
        calls.http(number, user_agent=agent)
        assert chain_of(calls.call(1, number, inputResponses={"k": GIVEN})) is chain
    calls.http(5, user_agent="c")
    assert calls.call(1, 5, inputResponses={"k": GIVEN}) is None


@pytest.mark.parametrize("value", ['"\\ud800"', "1" * 30, "1e400", "[" * 150 + "]" * 150])
def test_params_that_are_hard_to_write_are_compared(calls: ChainTalk, value: str) -> None:
    def ask(arguments: str, more: str = "") -> Round | None:
        params = f'{{"name":"x","arguments":{{"v":{arguments}}}{more}}}'.encode()
        (context,) = calls.raw("c2s", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)
        return calls.rounds[context.message.seq]

    assert ask(value) is None
    calls.interim(1)
    assert ask("5", ',"inputResponses":{}') is None
    made = ask(value, ',"inputResponses":{}')
    assert made is not None
    assert made.evidence == "params"


# Memory.


def test_rounds_without_end_are_counted(calls: ChainTalk) -> None:
    calls.call(0)
    chain = calls.interim(0, requestState="S")
    for id_ in range(1, MAX_ROUNDS + 20):
        assert chain_of(calls.call(id_, requestState="S")) is chain
        calls.interim(id_, requestState="S")
    assert (len(chain.rounds), chain.round_count) == (MAX_ROUNDS, MAX_ROUNDS + 20)


def test_the_oldest_interim_results_are_forgotten_and_counted() -> None:
    calls = ChainTalk(Chains(limit=10))
    chains = []
    for id_ in range(25):
        calls.call(id_, name=f"{id_}")
        chains.append(calls.interim(id_, requestState="S"))
    assert (len(calls.chains), calls.chains.forgotten_count) == (10, 15)
    assert chains[14].interim_turn is None
    assert calls.call("a", name="14", requestState="S") is None
    assert chain_of(calls.call("b", name="15", requestState="S")) is chains[15]


def test_interim_results_are_bounded_by_their_bytes_too() -> None:
    calls = ChainTalk(Chains(bytes_limit=20_000))
    for id_ in range(20):
        calls.call(id_, arguments={"x": "x" * 4_000})
        calls.interim(id_, requestState="s" * 1_000)
    assert len(calls.chains) == 3
    calls.call(99, arguments={"x": "x" * 50_000})
    calls.interim(99, requestState="T")
    assert len(calls.chains) == 1
    assert calls.call(100, requestState="T") is not None


def test_calls_that_all_look_the_same_take_linear_time(calls: ChainTalk) -> None:
    for id_ in range(300):
        calls.call(id_)
        calls.interim(id_, inputRequests={f"{id_}": ASK})
    assert len(calls.chains) == 100
    for id_ in range(300):
        calls.call(id_, inputResponses={f"x{n}": 1 for n in range(200)}, arguments={})
    assert calls.chains.forgotten_count == 200


def test_retries_that_nobody_answers_are_forgotten_and_counted() -> None:
    calls = ChainTalk(Chains(limit=10))
    for id_ in range(30):
        calls.call(id_)
        calls.interim(id_, requestState="S")
        assert calls.call(id_, requestState="S") is not None
    assert len(calls.chains) == 10
    assert calls.chains.forgotten_count == 40


# Any conversation.

values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "S", "input_required"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=4,
)
params = st.dictionaries(
    st.sampled_from(["name", "uri", "arguments", "requestState", "inputResponses", "_meta"]), values, max_size=5
)
results = st.dictionaries(
    st.sampled_from(["requestState", "inputRequests", "content"]), values, max_size=3
) | st.builds(lambda state: {"resultType": "input_required", "requestState": state}, values)
steps = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "error"]), st.integers(0, 3), params | values, results | values),
    max_size=25,
)


@given(steps)
def test_nothing_raises_and_no_interim_result_has_two_retries(script: list[tuple[str, int, Any, Any]]) -> None:
    calls = ChainTalk(Chains(limit=3))
    for act, id_, asked, answered in script:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id_}
        if act == "ask":
            calls.raw("c2s", json.dumps(message | {"method": "tools/call", "params": asked}).encode())
        elif act == "answer":
            calls.raw("s2c", json.dumps(message | {"result": answered}).encode())
        else:
            calls.raw("s2c", json.dumps(message | {"error": {"code": 1, "message": ""}}).encode())
    assert len(calls.chains) <= 3
    retries = [made for made in calls.rounds.values() if made is not None]
    assert len({(made.chain.number, made.number) for made in retries}) == len(retries)
    assert all(made.number > 1 and made.client_ns is not None and made.client_ns > 0 for made in retries)
    for exchange in calls.exchanges.values():
        assert (exchange.outcome is not Outcome.INPUT_REQUIRED) or exchange.round is not None


def test_what_a_state_came_for_is_remembered_when_its_chain_is_over(calls: ChainTalk) -> None:
    calls.call(1)
    calls.interim(1, requestState="s")
    calls.call(2, requestState="s")
    calls.done(2)
    (places,) = calls.chains.states.values()
    assert places == {(1, "tools/call", id_of("echo"))}
    assert [*calls.chains.places] == [("tools/call", id_of("echo"))]
    assert calls.chains.has_all


def test_a_state_that_came_for_many_calls_tells_none_of_them(calls: ChainTalk) -> None:
    for number in range(MAX_PLACES + 2):
        calls.call(number, name=f"tool-{number}")
        calls.interim(number, requestState="s")
    assert calls.chains.states == {id_of("s"): set()}


def test_no_more_states_are_remembered_than_there_may_be() -> None:
    calls = ChainTalk(Chains(limit=3))
    for number in range(5):
        calls.call(number, name=f"tool-{number}")
        calls.interim(number, requestState=f"s{number}")
    assert [*calls.chains.states] == [id_of(f"s{number}") for number in (2, 3, 4)]
    assert len(calls.chains.places) == 3
    assert not calls.chains.has_all
