"""The users' replies to elicitations, as clients send them."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.json_schema.validator import schema_of
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.base import NOTE, WARNING
from analysis.rules.elicitation.form import ELICITATION_CREATE, PAGE, is_url_mode
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.inputs import INTERIM_METHODS
from analysis.rules.support.questions import ClientReplyRule

_REFUSALS: Final = ("decline", "cancel")


class _ReplyRule(ClientReplyRule):
    """The base class of the rules in this module."""

    about = ELICITATION_CREATE
    methods = frozenset({ELICITATION_CREATE, "tasks/result", *INTERIM_METHODS})
    versions = features.ELICITATION
    level = WARNING
    source = PAGE


class AcceptWithoutContent(_ReplyRule):
    """A form is accepted, but its content is missing.

    **Why it matters.** The server has consent but no data.

    **On the wire.** `> {"id":1,"result":{"action":"accept"}}` to a form

    **Instead.** Send `content`, an empty object if nothing was filled in.
    """

    id = "elicitation/accept-without-content"

    def check_reply(
        self, context: MessageContext, question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        if reply.get("action") != "accept" or "content" in reply or is_url_mode(context, question):
            return
        level = None if member(question.get("requestedSchema"), "required") else NOTE
        yield self.finding(context, "a form is accepted without content", pointer=pointer, level=level)


class ContentMismatch(_ReplyRule):
    """The content of a reply does not match the form.

    **Why it matters.** The server gets data that it cannot use. Both sides should check the content.

    **On the wire.** A form requires `email`, but `> {"id":1,"result":{"action":"accept","content":{}}}`

    **Instead.** Let the user submit the form only when it is complete.
    """

    id = "elicitation/content-mismatch"

    def check_reply(
        self, context: MessageContext, question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        content, requested_schema = reply.get("content"), question.get("requestedSchema")
        if reply.get("action") != "accept" or not isinstance(content, dict) or is_url_mode(context, question):
            return
        schema = schema_of(requested_schema) if isinstance(requested_schema, dict) else None
        mismatch = schema.mismatch(content) if schema is not None else None
        if mismatch is not None:
            text = f"content does not fit the form: {shortened(mismatch.sentence)}"
            related = () if context.answered is None else (context.answered.request.seq,)
            yield self.finding(context, text, pointer=f"{pointer}/content{mismatch.pointer}", related=related)


class ContentUnexpected(_ReplyRule):
    """A reply has content that it should not have.

    **Why it matters.** The user has declined, or was sent to a page: nothing that the user typed before may leave the
    client.

    **On the wire.** `> {"id":1,"result":{"action":"decline","content":{"email":"…"}}}`

    **Instead.** Send `content` only with the `accept` of a form.
    """

    id = "elicitation/content-unexpected"
    levels: ClassVar[Mapping[Span, Level]] = {features.ELICITATION_WITHOUT_MODES: NOTE}
    impact = Impact.SECURITY
    source = "2025-06-18 client/elicitation; 2025-11-25 schema ElicitResult"

    def check_reply(
        self, context: MessageContext, question: dict[str, Any], reply: dict[str, Any], pointer: str
    ) -> Iterator[Finding]:
        action = reply.get("action")
        if reply.get("content") is None:
            return
        if action in _REFUSALS or (action == "accept" and is_url_mode(context, question)):
            kind = "that accepts a page" if action == "accept" else f"with the action {action}"
            yield self.finding(context, f"a response {kind} has content", pointer=f"{pointer}/content")
