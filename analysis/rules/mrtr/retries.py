"""Retries: calls that a client repeats with the input that the server asked for."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from analysis.conversation.call import MessageContext, Outcome, context_of
from analysis.conversation.message import Request, id_of
from analysis.conversation.multi_round import Chain, Round, Turn, fingerprint, target_of
from analysis.conversation.session import Session
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import FIRST_MODERN_RANK, MODERN_ERA
from analysis.rules.base import NOTE, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.inputs import INTERIM_METHODS, MAX_INPUT_ENTRIES
from analysis.shapes.validation import problems

MAX_PENDING_RETRIES: Final = 10_000
"""The most calls of a session that are remembered until the client retries them."""

_INPUT_REQUIRED: Final = Outcome.INPUT_REQUIRED
_INPUT_REQUEST_METHODS: Final = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_RETRY_MEMBERS: Final = frozenset({"inputResponses", "requestState"})
"""The members that mark a retry: each retry has at least one of them."""
_RESPONSES_POINTER: Final = "/params/inputResponses"
_MAX_NAMED_KEYS: Final = 3
"""The most unanswered keys that a finding names."""
_PAGE: Final = "2026-07-28 basic/patterns/mrtr"


class _RetryRule(Rule):
    """A rule about retries whose interim result is known."""

    who = "client"
    versions = MODERN_ERA
    sender = "client"
    era = "modern"
    methods = INTERIM_METHODS
    required_members = _RETRY_MEMBERS
    source = _PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        round_ = context.round
        if round_ is None or not isinstance(context.message, Request):
            return ()
        interim, params = round_.chain.interim_turn, context.message.params
        if interim is None or not isinstance(params, dict):
            return ()
        if interim.response.seq <= context.session.lost_seq:
            return ()  # the retry may answer another interim result, which was lost
        return self.check_retry(context, round_, interim, params)

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        """Check one retry.

        Args:
            context: the request of the retry.
            round_: the round that the retry begins.
            interim: the interim result, with the request that it answers.
            params: the params of the retry.
        """
        raise NotImplementedError


class SameId(_RetryRule):
    """A retry has the id of the call that it repeats.

    **Why it matters.** Each round is a separate request. A server that remembers ids mistakes the retry for a
    duplicate.

    **On the wire.** `> {"id":3,"method":"tools/call",…}` `< {"id":3,"result":{"resultType":"input_required",…}}`
    `> {"id":3,"method":"tools/call","params":{…,"inputResponses":{…}}}`

    **Instead.** Give the retry a new id.
    """

    id = "mrtr/same-id"

    def check_retry(
        self, context: MessageContext, _round: Round, interim: Turn, _params: dict[str, Any]
    ) -> Iterable[Finding]:
        if not isinstance(context.message, Request) or context.message.id != interim.request.id:
            return ()
        text = "the retry has the id of the request that it repeats"
        return [self.finding(context, text, pointer="/id", related=(interim.request.seq,))]


class StateNotEchoed(_RetryRule):
    """A retry does not return the state that came with the interim result.

    **Why it matters.** The server may keep nothing between rounds: without its state it starts over and asks the same
    questions.

    **On the wire.** `< …"resultType":"input_required","requestState":"AbC",…` and a retry without `requestState`

    **Instead.** Send back the string unchanged, without interpreting it.
    """

    id = "mrtr/state-not-echoed"
    impact = Impact.COST

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        state = params.get("requestState", "")
        if round_.evidence != "keys" or round_.chain.request_state is None or not isinstance(state, str):
            return ()
        has_state = "requestState" in params
        text = (
            f"the retry {'has a different requestState than' if has_state else 'lacks the requestState of'} the result"
        )
        pointer = "/params/requestState" if has_state else "/params"
        return [self.finding(context, text, pointer=pointer, related=(interim.response.seq,))]


class StateInvented(_RetryRule):
    """A retry has a state, although the interim result had none.

    **Why it matters.** The server refuses the call, or continues with the state of another call.

    **On the wire.** `< …"resultType":"input_required","inputRequests":{…}` without `requestState`, and
    `> …"params":{…,"requestState":"AbC"}`

    **Instead.** Leave `requestState` out if the interim result has none.
    """

    id = "mrtr/state-invented"
    impact = Impact.WRONG

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        if (
            round_.evidence != "keys"
            or round_.chain.request_state is not None
            or not isinstance(params.get("requestState"), str)
        ):
            return ()
        text = "the retry has a requestState, but the interim result had none"
        return [self.finding(context, text, pointer="/params/requestState", related=(interim.response.seq,))]


class StateOnOtherRequest(Rule):
    """A call has the state of another call.

    **Why it matters.** A state represents the progress of one call. With another call it is meaningless, or bypasses
    checks that the server would have made for that call.

    **On the wire.** `> …"method":"tools/call","params":{"name":"book",…}` `< …"requestState":"AbC",…`
    `> …"method":"tools/call","params":{"name":"pay","requestState":"AbC",…}`

    **Instead.** Store a state together with the method and the target of its call.
    """

    id = "mrtr/state-on-other-request"
    who = "client"
    versions = MODERN_ERA
    impact = Impact.SECURITY
    sender = "client"
    era = "modern"
    required_members = frozenset({"requestState"})
    replaces = ("mrtr/state-not-echoed", "mrtr/state-invented")
    source = _PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params, session = context.body.get("params"), context.session
        if not isinstance(params, dict) or "requestState" not in params or session.lost_seq >= 0:
            return ()
        state = params["requestState"]
        places = self.fold.links.chains.states.get(id_of(state)) if isinstance(state, str) else None
        if not places or not isinstance(context.message, Request):
            return ()
        current_place = session.number, context.message.method, target_of(context.message)
        if all(place[0] != session.number for place in places) or any(
            place[1:] == current_place[1:] for place in places
        ):
            return ()
        text = "the requestState belongs to another method or target"
        return [self.finding(context, text, pointer="/params/requestState")]


class ResponsesMissing(_RetryRule):
    """A retry does not answer every question.

    **Why it matters.** The server has to ask the remaining questions again, so the user gets them one by one.

    **On the wire.** `< …"inputRequests":{"name":{…},"dirs":{…}}` and `> …"inputResponses":{"name":{…}}`

    **Instead.** Answer every key; declining is an answer too: `{"action":"decline"}`.
    """

    id = "mrtr/responses-missing"
    impact = Impact.COST
    source = "2026-07-28 basic/patterns/mrtr, schema InputResponseRequestParams"

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        questions, answers = round_.chain.input_requests, params.get("inputResponses", {})
        if not questions or not isinstance(answers, dict) or questions.keys() <= answers.keys():
            return ()
        missing_keys = [key for key in questions if key not in answers]
        key_list = ", ".join([repr(shortened(key)) for key in missing_keys[:_MAX_NAMED_KEYS]]) + (
            ", …" if len(missing_keys) > _MAX_NAMED_KEYS else ""
        )
        verb = "has" if len(missing_keys) == 1 else "have"
        text = f"{len(missing_keys)} of {len(questions)} input requests {verb} no response: {key_list}"
        pointer = _RESPONSES_POINTER if "inputResponses" in params else "/params"
        return [self.finding(context, text, pointer=pointer, related=(interim.response.seq,))]


class UnknownResponseKey(_RetryRule):
    """A retry answers a question that the server did not ask.

    **Why it matters.** Servers ignore the answer. Often its key is misspelt, and the expected answer is missing.

    **On the wire.** `< …"inputRequests":{"name":{…}}` and `> …"inputResponses":{"name":{…},"Name":{…}}`

    **Instead.** Use the keys of the interim result that you answer, not of an earlier one.
    """

    id = "mrtr/unknown-response-key"
    level = WARNING

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        questions, answers = round_.chain.input_requests, params.get("inputResponses")
        if not isinstance(answers, dict) or answers.keys() <= questions.keys():
            return ()
        key = next(key for key in answers if key not in questions)
        text = f"the response {shortened(key)!r} matches no input request"
        return [
            self.finding(
                context, text, pointer=f"{_RESPONSES_POINTER}/{encode_step(key, 200)}", related=(interim.response.seq,)
            )
        ]


class InvalidInputResponse(_RetryRule):
    """An answer does not match its question.

    **Why it matters.** The server cannot use it, so the user's effort is wasted.

    **On the wire.** `< …"inputRequests":{"who":{"method":"elicitation/create",…}}` and
    `> …"inputResponses":{"who":{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}}`

    **Instead.** Send only the content of `result`: `{"action":"accept","content":{…}}` for an elicitation,
    `{"role":…,"content":…,"model":…}` for sampling, `{"roots":[…]}` for roots.
    """

    id = "mrtr/invalid-input-response"
    replaces = ("schema/invalid-params",)
    source = "2026-07-28 schema InputResponses"

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterator[Finding]:
        questions, answers = round_.chain.input_requests, params.get("inputResponses")
        for key, answer in islice(answers.items() if isinstance(answers, dict) else (), MAX_INPUT_ENTRIES):
            method = member(questions.get(key), "method")
            fault = _fault(method, answer) if isinstance(method, str) and method in _INPUT_REQUEST_METHODS else None
            if fault is not None:
                text = f"the response {shortened(key)!r} is not a result of {method}: {fault}"
                yield self.finding(
                    context,
                    text,
                    pointer=f"{_RESPONSES_POINTER}/{encode_step(key, 200)}",
                    related=(interim.response.seq,),
                )


class ParamsChanged(_RetryRule):
    """The params of a retry differ from the params of its call.

    **Why it matters.** The server asked about the first call. It may continue with the params in its state, and do
    something unintended.

    **On the wire.** `> …"params":{"name":"pay","arguments":{"amount":10}}` and the retry
    `> …"params":{"name":"pay","arguments":{"amount":99},"inputResponses":{…}}`

    **Instead.** Repeat all params, and add `inputResponses` and `requestState`. For a different call, start over
    without them.
    """

    id = "mrtr/params-changed"
    level = WARNING
    impact = Impact.WRONG

    def check_retry(
        self, context: MessageContext, round_: Round, interim: Turn, params: dict[str, Any]
    ) -> Iterable[Finding]:
        call_fingerprint = round_.chain.params
        retry_fingerprint = None if call_fingerprint is None else fingerprint(params)
        if retry_fingerprint is None or retry_fingerprint == call_fingerprint:
            return ()
        text = "the params of the retry differ from the call that it repeats"
        return [self.finding(context, text, pointer="/params", related=(interim.request.seq,))]


class Unsolicited(Rule):
    """A call answers an interim result that is not in the capture.

    **Why it matters.** The interim result may have come from another server process, which is legal. Otherwise the
    client answers a question that was never asked.

    **On the wire.** `> …"method":"tools/call","params":{"name":"pay","requestState":"AbC",…}` as the first call

    **Instead.** Send `inputResponses` and `requestState` only in answer to a result with
    `"resultType":"input_required"`.
    """

    id = "mrtr/unsolicited"
    who = "client"
    versions = MODERN_ERA
    level = NOTE
    sender = "client"
    era = "modern"
    methods = INTERIM_METHODS
    required_members = _RETRY_MEMBERS
    needs_start = True
    source = _PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        if not isinstance(params, dict) or context.round is not None:
            return ()
        state = params.get("requestState")
        if not (isinstance(state, str) or ("inputResponses" in params and state is None)):
            return ()
        chains = self.fold.links.chains
        if not chains.has_all or not isinstance(context.message, Request):
            return ()
        if state is None:
            is_known = (context.message.method, target_of(context.message)) in chains.places
        else:
            is_known = id_of(state) in chains.states
        if is_known:
            return ()
        text = "the call answers an interim result that is not in this capture"
        pointer = "/params/inputResponses" if state is None else "/params/requestState"
        return [self.finding(context, text, pointer=pointer)]


class NotRetried(Rule):
    """A call was not repeated after the server had asked for input.

    **Why it matters.** This is legal, as the user may have declined, but the call has no result.

    **On the wire.** `< {"id":3,"result":{"resultType":"input_required",…}}` and no retry before the session ends

    **Instead.** Nothing, if the user declined; the client may tell the server by declining each question.
    """

    id = "mrtr/not-retried"
    who = "client"
    versions = MODERN_ERA
    level = NOTE
    era = "modern"
    methods = INTERIM_METHODS
    at_end = True
    source = _PAGE

    def concerns(self, _hook: str, _method: str, like: MessageContext) -> bool:
        return like.message.sender == "server"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.round is not None:
            pending_chains: OrderedDict[int, Chain] = self.state_for(context.session, OrderedDict)
            chain = context.round.chain
            if context.answered is not None and context.answered.outcome is _INPUT_REQUIRED:
                pending_chains[chain.number] = chain
                if len(pending_chains) > MAX_PENDING_RETRIES:
                    pending_chains.popitem(last=False)
            else:
                pending_chains.pop(chain.number, None)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        if ending.reason == "open":
            return
        pending_chains: OrderedDict[int, Chain] = self.state_for(session, OrderedDict)
        for chain in pending_chains.values():
            interim = chain.interim_turn
            if not chain.is_waiting or interim is None:
                continue
            interim_context = context_of(interim.response, session, revision=interim.revision, era=interim.era)
            interim_context.request = interim.request
            text = "the call was not repeated with the requested input"
            yield self.finding(interim_context, text, pointer="/result/resultType", related=(interim.request.seq,))


# ---- shared by the rules


def _fault(method: str, answer: object) -> str | None:
    """Returns why an answer is not a valid result of a method in 2025-11-25, or None if it is valid."""
    if not isinstance(answer, dict):
        return "it is not an object"
    faults = [
        problem for problem in problems("result", method, FIRST_MODERN_RANK - 1, answer) if problem.kind == "shape"
    ]
    if not faults:
        return None
    if "result" in answer:
        return "it is a whole response"
    # The problem closest to the top is the clearest, because the finding does not show where a deeper one is.
    return min(faults, key=lambda problem: problem.pointer.count("/")).text
