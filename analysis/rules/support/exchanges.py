"""Base classes for rules about HTTP exchanges: which exchanges they check, and where findings point."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request, Response
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol import features
from analysis.rules.base import Rule
from analysis.rules.finding import Finding, Level

JSON: Final = "application/json"
SESSION_REVISIONS: Final = features.HTTP_SESSIONS
"""The revisions of Streamable HTTP that have sessions and streams opened with GET."""
ALL_METHODS: Final = frozenset({"POST", "GET", "DELETE"})
POST_ONLY: Final = frozenset({"POST"})
SUCCESS_STATUSES: Final = range(200, 300)
UNRELATED_STATUSES: Final = frozenset({401, 403, 429, *range(500, 600)})
"""Statuses about credentials, load or failures, which say nothing about the request itself."""


class HttpRule(Rule):
    """A rule about exchanges with the endpoint, which `check_exchange` checks."""

    needs_http = True
    http_methods: ClassVar[frozenset[str]] = POST_ONLY
    """The HTTP methods of the exchanges that the rule checks."""
    statuses: ClassVar[range | frozenset[int] | None] = None
    """The statuses of the exchanges that the rule checks; None for all, including exchanges without a response."""
    media: ClassVar[str | None] = None
    """The media type of the response, JSON or a stream; None for all."""
    needs_body: ClassVar[bool] = False
    """Whether the rule judges the server's response. It then reports nothing if the capture lacks the response body,
    whose messages may explain the response, or if the client is redirected to an address that has yet to respond."""

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - the same for all hooks
        if self.media is not None and like.media_type != self.media:
            return False
        return like.method in self.http_methods and (self.statuses is None or like.status in self.statuses)

    def can_judge(self, http: HttpExchange) -> bool:
        """Whether an exchange certainly uses Streamable HTTP, and the capture contains what the rule needs of it."""
        if self.needs_body and ("server" in http.unrecorded_sides or http.is_redirect):
            return False
        return http.is_streamable and not http.is_from_recorder

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        """Returns the findings about an exchange of Streamable HTTP."""
        raise NotImplementedError

    def findings_in_request(
        self, http: HttpExchange, session: Session | None, text: str, level: Level | None = None
    ) -> list[Finding]:
        """Returns a finding at the client's message, or at the record of its request if there is no message."""
        location = http.client_messages[0] if http.client_messages else (http.started_ref or http.answered_ref)
        return self._findings(location, http, session, text, level)

    def findings_in_response(
        self, http: HttpExchange, session: Session | None, text: str, level: Level | None = None
    ) -> list[Finding]:
        """Returns a finding at the message in the body of the response, or at the response's record."""
        first_message = http.server_messages[0] if http.server_messages else None
        location = (
            first_message
            if first_message is not None and first_message.message.frames[0].unit == "http_body"
            else http.answered_ref
        )
        return self._findings(location, http, session, text, level)

    def findings_at_leg(
        self, http: HttpExchange, session: Session | None, text: str, level: Level | None = None
    ) -> list[Finding]:
        """Returns a finding at the record of a leg of a login: at its end, or at the client's message if there is one.

        A message that was refused is a leg too.
        """
        location = http.client_messages[0] if http.client_messages else (http.end_ref or http.answered_ref)
        findings = self._findings(location, http, session, text, level)
        # The message is only where it is shown: its sender need not be at fault.
        return [finding._replace(blames="unknown") for finding in findings] if self.who == "either" else findings

    def findings_at_end(self, http: HttpExchange, session: Session | None, text: str) -> list[Finding]:
        """Returns a finding at the record of the end of an exchange."""
        return self._findings(http.end_ref, http, session, text, None)

    def _findings(
        self,
        location: MessageContext | RecordRef | None,
        http: HttpExchange,
        session: Session | None,
        text: str,
        level: Level | None,
    ) -> list[Finding]:
        if location is None:
            return []
        level = level or self.level_at(*http.revision_and_era(session))
        finding = self.finding(location, text, level=level, session=session)
        method = http.client_messages[0].method if http.client_messages else ""
        return [finding if finding.method else finding._replace(method=method[:256])]


class VersionLearningRule(Rule):
    """A rule that learns from a server's results and errors which versions it supports."""

    listing_methods: ClassVar[frozenset[str]] = frozenset({"initialize", "server/discover"})
    """Methods whose results list the versions."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return like.message.sender == "server" and (hook == "error" or method in self.listing_methods)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        self.record_versions(context)
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        self.record_versions(context)
        return ()

    def record_versions(self, context: MessageContext) -> None:
        """Record the versions in a response."""
        raise NotImplementedError


class ResponseStartRule(HttpRule):
    """A rule that is decided when the response begins."""

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.can_judge(http) else ()


class ExchangeEndRule(HttpRule):
    """A rule that is decided when the exchange is over."""

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if self.can_judge(http) else ()


def messages_of(http: HttpExchange) -> list[MessageContext]:
    """Returns the client's messages in an exchange, without invalid ones."""
    return [
        context for context in http.client_messages if isinstance(context.message, (Request, Notification, Response))
    ]


def requests_of(http: HttpExchange) -> list[MessageContext]:
    """Returns the client's requests in an exchange, without notifications that have an id."""
    return [
        context
        for context in http.client_messages
        if isinstance(context.message, Request) and not _is_notification(context.message)
    ]


def lacks_session(http: HttpExchange) -> bool:
    """Whether the server may not know the session of a request, in which case a refusal may be right.

    The session id of the request was not issued in this capture, or its session is over; or the request has no session
    id, although the client has received one.
    """
    named_id = http.fields.get(FIELD)
    if named_id is None:
        return not http.is_initializing and bool(http.session_ids.issued_to(http.client_fingerprint))
    session_id = http.session_ids.get(named_id)
    return session_id is None or session_id.given is None or not session_id.is_alive


def is_cut(http: HttpExchange) -> bool:
    """Whether the last message of a response is incomplete."""
    return http.last_server_message is not None and not http.last_server_message.message.frames[-1].whole


def is_open(context: MessageContext, fold: Fold) -> bool:
    """Whether a request should still get a response: it was not cancelled, or only after it had failed."""
    call = unanswered_call(context, fold)
    return call is not None and call.is_due


def is_cancelled(context: MessageContext, fold: Fold) -> bool:
    """Whether a request was cancelled while it could be answered, and is still unanswered."""
    call = unanswered_call(context, fold)
    return call is not None and not call.is_due


def unanswered_call(context: MessageContext, fold: Fold) -> Call | None:
    """Returns the call of a request that has no response, or None if it was answered or has failed."""
    message = context.message
    if not isinstance(message, Request):
        return None
    return fold.tables[message.sender].get(RequestKey(message.frames[0].exchange, message.id))


def is_body_lost(http: HttpExchange) -> bool:
    """Whether the response had a body whose content is unknown because records were lost."""
    return (
        http.response_size > 0
        and not http.server_messages
        and bool(http.client_messages)
        and http.client_messages[0].session.lost_seq >= 0
    )


def _is_notification(request: Request) -> bool:
    return request.method.startswith("notifications/")
