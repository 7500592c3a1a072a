"""A server's questions to its client, and the replies: requests up to 2025-11-25, rounds of a call since then.

In a round, the retry contains the reply. The chain of the call shows which question it answers; if the chain is
unknown, nothing is reported.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.message import Request
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import ResponsibleSide, ResultKind, Rule
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS, MAX_INPUT_ENTRIES, input_requests

_RESULT: Final = Outcome.RESULT  # enumeration members are slow to look up
_REPLY_MEMBERS: Final = frozenset({"inputResponses"})


class ServerQuestionRule(Rule):
    """A rule about a server's questions."""

    who: ClassVar[ResponsibleSide] = "server"
    about: ClassVar[str]
    """The method of the question."""
    results: ClassVar[frozenset[ResultKind] | None] = frozenset({"interim"})

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if like.message.sender != "server":
            return False
        if hook == "result":
            return method in INTERIM_METHODS and like.era == "modern"
        return hook not in ("request", "notification") or method == self.about

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        params = member(context.body, "params")
        return self.check_question(context, params, "/params") if isinstance(params, dict) else ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        findings: list[Finding] = []
        for pointer, method, params in input_requests(context):
            if method == self.about:
                findings += self.check_question(context, params, f"{pointer}/params")
        return findings

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        """Check one question.

        Args:
            context: the message that contains the question.
            params: the params of the question.
            pointer: the place of the params.
        """
        raise NotImplementedError


class ClientReplyRule(Rule):
    """A rule about a client's replies."""

    who = "client"
    about: ClassVar[str]
    """The method of the question."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if like.message.sender != "client":
            return False
        if hook == "request":
            return method in INTERIM_METHODS and like.era == "modern"
        return method == self.about or (hook == "result" and method == "tasks/result")

    def required_members_for(self, hook: str, _method: str, _like: MessageContext) -> frozenset[str]:
        return _REPLY_MEMBERS if hook == "request" else frozenset()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.round is None or not isinstance(context.message, Request):
            return ()
        return self._check_replies(context, context.round.chain.input_requests)

    def _check_replies(self, context: MessageContext, questions: dict[str, Any]) -> Iterator[Finding]:
        replies = member(member(context.body, "params"), "inputResponses")
        for key, reply in islice(replies.items() if isinstance(replies, dict) else (), MAX_INPUT_ENTRIES):
            question = questions.get(key)
            params = member(question, "params")
            if member(question, "method") == self.about and isinstance(reply, dict):
                pointer = f"/params/inputResponses/{encode_step(key, MAX_INPUT_ENTRIES)}"
                yield from self.check_reply(context, params if isinstance(params, dict) else {}, reply, pointer)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request, result = context.request, context.body.get("result")
        if request is None or context.answered is None or context.answered.outcome is not _RESULT:
            return ()
        if request.method != self.about:
            request = context.task.request if context.task is not None else None
            if request is None or request.method != self.about:
                return ()
        if not isinstance(result, dict):
            return ()
        return self.check_reply(context, request.params if isinstance(request.params, dict) else {}, result, "/result")

    def check_reply(
        self, context: MessageContext, question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        """Check one reply.

        Args:
            context: the message that contains the reply.
            question: the params of the question.
            reply: the result that answers the question.
            pointer: the place of the result.
        """
        raise NotImplementedError
