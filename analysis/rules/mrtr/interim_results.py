"""Interim results, in which a server asks for input before it completes a call."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.session import CLIENT_CAPABILITIES
from analysis.protocol.declared_capabilities import lacks
from analysis.protocol.json_pointer import decode_steps, encode_step
from analysis.protocol.result_types import INTERIM, RESULT_TYPES
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA, NEWEST_RANK, Era
from analysis.rules.base import NOTE, ResultKind, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.inputs import INTERIM_METHODS, MAX_INPUT_ENTRIES, input_requests
from analysis.shapes.shape import Problem

TOO_MANY_ROUNDS: Final = 10
"""A call with this many interim results has too many rounds."""

INPUT_REQUEST_MEMBERS: Final = frozenset({"inputRequests"})

# Enum members are slow to look up.
_INPUT_REQUIRED: Final = Outcome.INPUT_REQUIRED
_PAGE: Final = "2026-07-28 basic/patterns/mrtr"
_POINTER: Final = "/result/inputRequests"
_FORM_POINTER: Final = "/params/requestedSchema/"


class _InterimResultRule(Rule):
    """A rule about interim results."""

    who = "server"
    versions = MODERN_ERA
    sender = "server"
    era: ClassVar[Era | None] = "modern"
    methods: ClassVar[frozenset[str] | None] = INTERIM_METHODS
    results: ClassVar[frozenset[ResultKind] | None] = frozenset({"interim"})
    source = _PAGE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.check_interim_result(context, context.body["result"])

    def check_interim_result(self, _context: MessageContext, _result: dict[str, Any]) -> Iterable[Finding]:
        """Check an interim result."""
        return ()


class UnsupportedMethod(_InterimResultRule):
    """An interim result answers a request of a method that does not allow one.

    **Why it matters.** Clients expect interim results only from `tools/call`, `prompts/get` and `resources/read`. With
    other methods the client never gets the result, such as a list.

    **On the wire.** `> {"id":1,"method":"tools/list",…}` `< {"id":1,"result":{"resultType":"input_required",…}}`

    **Instead.** Answer with the requested result, or with an error; ask for input when a tool is called.
    """

    id = "mrtr/unsupported-method"
    yields_to_extensions = True
    methods = None

    def concerns(self, _hook: str, method: str, like: MessageContext) -> bool:
        return not RESULT_TYPES[INTERIM].may_answer(method, NEWEST_RANK if like.rank is None else like.rank)

    def check_interim_result(self, context: MessageContext, _result: dict[str, Any]) -> Iterable[Finding]:
        text = f"{shortened(context.method)} is answered with an interim result"
        return [self.finding(context, text, pointer="/result/resultType")]


class InHandshakeEra(_InterimResultRule):
    """A server sends an interim result in a revision that does not have them.

    **Why it matters.** The client mistakes it for the final result, finds no content in it, and does not call again.

    **On the wire.** `< {"id":3,"result":{"resultType":"input_required",…}}` after a handshake for 2025-11-25

    **Instead.** Up to 2025-11-25 send `elicitation/create`, `sampling/createMessage` or `roots/list` as a request.
    """

    id = "mrtr/in-handshake-era"
    yields_to_extensions = True
    versions = HANDSHAKE_ERA
    era = None
    methods = None
    source = "2026-07-28 changelog"

    def check_interim_result(self, context: MessageContext, _result: dict[str, Any]) -> Iterable[Finding]:
        text = "the server sends an interim result in a revision that does not have them"
        return [self.finding(context, text, pointer="/result/resultType")]


class Empty(_InterimResultRule):
    """An interim result neither asks for anything nor returns a state.

    **Why it matters.** The client has nothing to answer and nothing to add to its next call, so that call leads to the
    same result.

    **On the wire.** `< {"id":3,"result":{"resultType":"input_required"}}`

    **Instead.** Send `inputRequests`, `requestState`, or both; for a long call, only a `requestState`.
    """

    id = "mrtr/empty"

    def check_interim_result(self, context: MessageContext, result: dict[str, Any]) -> Iterable[Finding]:
        if result.get("inputRequests") is not None or result.get("requestState") is not None:
            return ()
        text = "an interim result has neither inputRequests nor requestState"
        return [self.finding(context, text, pointer="/result")]


class InvalidInputRequest(Rule):
    """An interim result contains an invalid input request.

    **Why it matters.** One invalid entry makes the whole result unusable, so the client asks its user nothing.

    **On the wire.** `…"inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}}` without
    `requestedSchema`

    **Instead.** Send an object whose values are `elicitation/create`, `sampling/createMessage` or `roots/list`
    requests, each with `method` and `params`.
    """

    id = "mrtr/invalid-input-request"
    who = "server"
    versions = MODERN_ERA
    replaces = ("schema/invalid-result",)
    methods = INTERIM_METHODS
    sender = "server"
    era = "modern"
    source = _PAGE

    def on_problems(self, context: MessageContext, problems: list[Problem]) -> Iterable[Finding]:
        return self.capped(self._shape_findings(context, problems))

    def _shape_findings(self, context: MessageContext, problems: list[Problem]) -> Iterator[Finding]:
        if context.answered is None or context.answered.outcome is not _INPUT_REQUIRED:
            return
        for problem in problems:
            # The rules about forms report problems inside a form.
            if (
                problem.kind == "shape"
                and problem.pointer.startswith(_POINTER)
                and _FORM_POINTER not in problem.pointer
            ):
                yield self.finding(
                    context, f"{_entry_phrase(problem.pointer)} does not fit: {problem.text}", pointer=problem.pointer
                )


class EnvelopeInInputRequest(_InterimResultRule):
    """An input request has members of a JSON-RPC message.

    **Why it matters.** An input request is not a message: its key connects question and answer, and an id in it has no
    meaning. If a client answers by that id, the answer is lost.

    **On the wire.** `…"inputRequests":{"who":{"jsonrpc":"2.0","id":1,"method":"roots/list"}}`

    **Instead.** Send only `method` and `params`.
    """

    id = "mrtr/envelope-in-input-request"
    required_members = INPUT_REQUEST_MEMBERS
    level = NOTE
    once = True

    def check_interim_result(self, context: MessageContext, result: dict[str, Any]) -> Iterator[Finding]:
        questions = result.get("inputRequests")
        for key, input_request in islice(questions.items() if isinstance(questions, dict) else (), MAX_INPUT_ENTRIES):
            name = next(
                (name for name in ("jsonrpc", "id") if isinstance(input_request, dict) and name in input_request), None
            )
            if name is not None:
                pointer = f"{_POINTER}/{encode_step(key, 200)}/{name}"
                text = f"the input request {shortened(key)!r} has {name}, which belongs to messages"
                yield self.finding(context, text, pointer=pointer)
                return


class UndeclaredCapability(_InterimResultRule):
    """A server asks for input for which the request did not declare a capability.

    **Why it matters.** The client cannot answer, so the call ends here. Capabilities apply only to the request that
    declares them, not to later ones.

    **On the wire.** `> …"io.modelcontextprotocol/clientCapabilities":{}` …
    `< …"inputRequests":{"dirs":{"method":"roots/list"}}`

    **Instead.** Use only capabilities that the request declares: `elicitation` (`elicitation.url` for a page),
    `sampling` (`sampling.tools` for tools), `roots`. If a capability is missing, answer with -32021.
    """

    id = "mrtr/undeclared-capability"
    required_members = INPUT_REQUEST_MEMBERS
    source = "2026-07-28 basic/patterns/mrtr, basic/index"

    def check_interim_result(self, context: MessageContext, _result: dict[str, Any]) -> Iterator[Finding]:
        request = context.request
        declared_capabilities = None if request is None else request.meta.get(CLIENT_CAPABILITIES)
        if request is None or not isinstance(declared_capabilities, dict):
            return
        for pointer, method, params in input_requests(context):
            missing_capability = _missing_capability(method, params, declared_capabilities)
            if missing_capability is not None:
                text = f"{method} needs {missing_capability}, which the request did not declare"
                yield self.finding(context, text, pointer=f"{pointer}/method", related=(request.seq,))


class WrongResultType(_InterimResultRule):
    """A result asks for input, but its `resultType` is not `input_required`.

    **Why it matters.** The client treats the result as complete, and never answers the questions in it.

    **On the wire.** `< {"id":3,"result":{"resultType":"complete","inputRequests":{…}}}`

    **Instead.** `"resultType":"input_required"`
    """

    id = "mrtr/wrong-result-type"
    yields_to_extensions = True
    required_members = INPUT_REQUEST_MEMBERS
    methods = None
    results: ClassVar[frozenset[ResultKind] | None] = frozenset({"complete", "failed", "task", "untyped"})
    replaces = ("modern/missing-result-type", "modern/unknown-result-type")
    source = "2026-07-28 basic/index, basic/patterns/mrtr"

    def concerns(self, _hook: str, method: str, _like: MessageContext) -> bool:
        return method != "tasks/get"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result = context.body["result"]
        if not isinstance(result, dict) or result.get("inputRequests") is None:
            return ()
        if result.get("resultType") == "input_required":
            return ()
        text = "a result has inputRequests, but its resultType is not input_required"
        return [self.finding(context, text, pointer="/result/resultType" if "resultType" in result else "/result")]


class ManyRounds(_InterimResultRule):
    """A call has received its tenth interim result.

    **Why it matters.** Each round costs at least one call, and may interrupt the user. A server that does not recognise
    its own state asks again and again.

    **On the wire.** Ten times `< {"id":…,"result":{"resultType":"input_required",…}}`, each followed by a retry

    **Instead.** Ask for all input at once, and give up if the answers do not help.
    """

    id = "mrtr/many-rounds"
    level = NOTE
    impact = Impact.COST

    def check_interim_result(self, context: MessageContext, _result: dict[str, Any]) -> Iterable[Finding]:
        round_ = context.round
        if round_ is None or round_.number != TOO_MANY_ROUNDS:
            return ()
        text = f"the call has received its {TOO_MANY_ROUNDS}th interim result"
        return [self.finding(context, text, related=[interim.seq for interim in round_.chain.rounds[:TOO_MANY_ROUNDS]])]


# ---- shared by the rules


def _entry_phrase(pointer: str) -> str:
    """Returns the phrase with which findings name the input request at a pointer."""
    keys = decode_steps(pointer[len(_POINTER) :])[:1]
    return f"the input request {shortened(keys[0])!r}" if keys else "inputRequests"


def _missing_capability(method: str, params: dict[str, Any], declared_capabilities: dict[str, Any]) -> str | None:
    """Returns the capability that an input request needs and that is certainly not declared, or None."""
    if method == "roots/list":
        needed_capabilities = ["roots"]
    elif method == "sampling/createMessage":
        has_tools = params.get("tools") is not None or params.get("toolChoice") is not None
        needed_capabilities = ["sampling", "sampling.tools"] if has_tools else ["sampling"]
    elif method == "elicitation/create":
        is_url = params.get("mode") == "url"
        # A client that declares no mode supports forms.
        supports_forms = member(declared_capabilities.get("elicitation"), "url") is None
        needed_capabilities = [
            "elicitation",
            *(["elicitation.url"] if is_url else [] if supports_forms else ["elicitation.form"]),
        ]
    else:
        return None
    return next((capability for capability in needed_capabilities if lacks(declared_capabilities, capability)), None)
