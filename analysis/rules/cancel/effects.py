"""How requests are cancelled, and what their receivers send afterwards."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, IdState, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Request
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import HANDSHAKE_ERA, MODERN_ERA
from analysis.rules.base import NOTE, CaptureEnd, Rule
from analysis.rules.cancel.targets import CANCELLED, MAX_REMEMBERED_REQUESTS, PAGE, named_id
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import MessageOddity
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.progress import PROGRESS, cancelled_seq
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.tokens import TOKEN_WORD, tokens_of

MAX_SEARCHED_REQUESTS: Final = 100
"""The most open requests that are searched for the one that a log message may be about."""

_LOG_MESSAGE: Final = "notifications/message"


class Twice(Rule):
    """A request is cancelled a second time.

    **Why it matters.** It does no harm.

    **On the wire.** `> {"method":"notifications/cancelled","params":{"requestId":3}}`, twice

    **Instead.** Cancel once. A second cancellation will not bring a response either.
    """

    id = "cancel/twice"
    needs_session = True
    level = NOTE
    methods = frozenset({CANCELLED})
    source = PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        request = context.cancels
        if request is None or context.id_state is not IdState.CANCELLED:
            return ()
        open_call = self.fold.tables[request.sender].get(RequestKey(request.frames[0].exchange, request.id))
        earlier_seq = None if open_call is None or open_call.request is not request else open_call.cancelled_by
        if earlier_seq is None or earlier_seq == context.message.seq:
            return ()
        text = f"request {shortened(request.id.text)} was already cancelled"
        return [self.finding(context, text, pointer="/params/requestId", related=(earlier_seq,))]


class ResponseAfterCancel(Rule):
    """A request is answered although its cancellation had been received.

    **Why it matters.** It does no harm: the caller drops the response. It shows that the work was done for nothing.
    Over HTTP, servers answer deliberately, to end the stream.

    **On the wire.** `> {"method":"notifications/cancelled","params":{"requestId":3}}`, `> {"id":4,"method":"ping"}`, `<
    {"id":4,"result":{}}`, and then `< {"id":3,"result":{…}}`. Only the response to a later request shows that the
    cancellation was read: without such a response, and over HTTP, the two may have crossed, and nothing is reported.

    **Instead.** Pass the cancellation to the code that does the work, and send no response.
    """

    id = "cancel/response-after-cancel"
    oddities = MessageOddity.CANCELLED
    needs_session = True
    versions = HANDSHAKE_ERA
    level = NOTE
    impact = Impact.COST
    once = True
    source = PAGE

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        return () if context.answered is None else _findings_after_cancel(self, context, context.answered)


class MessageAfterCancel(Rule):
    """A server continues with a request although it had received the cancellation.

    **Why it matters.** Since 2026-07-28 a cancelled request is over: another request may already use its id and its
    token.

    **On the wire.** `> {"method":"notifications/cancelled","params":{"requestId":3}}`, `>
    {"id":4,"method":"tools/list",…}`, `< {"id":4,"result":{…}}`, and then `< {"id":3,"result":{…}}`. Only the response
    to a later request shows that the cancellation was read: without such a response, and over HTTP, the two may have
    crossed, and nothing is reported.

    **Instead.** Send nothing more for it: no response, no progress, no log message.
    """

    id = "cancel/message-after-cancel"
    oddities = MessageOddity.CANCELLED
    needs_session = True
    who = "server"
    versions = MODERN_ERA
    impact = Impact.WRONG
    era = "modern"
    replaces = ("progress/after-cancel",)
    source = "2026-07-28 basic/transports/stdio; 2026-07-28 basic/transports/streamable-http"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        # Over HTTP nothing proves what the server had read, and the recording of a stream ends with the stream.
        if like.http is not None or like.message.sender != ("client" if hook == "request" else "server"):
            return False
        return hook != "notification" or method in (PROGRESS, _LOG_MESSAGE)

    def required_word_for(self, hook: str, _method: str, _like: MessageContext) -> bytes:
        return TOKEN_WORD if hook == "request" else b""

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        tokens_of(context.session).record_request(context, self.fold)
        return ()

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        call = context.answered
        if call is None or call.request.method in ENDLESS_METHODS:
            return ()
        return _findings_after_cancel(self, context, call)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        session = context.session
        if member(context.body, "method") != _LOG_MESSAGE:
            tokens = tokens_of(session)
            token, _ = tokens.reported_token(context)
            known_token = None if token is None else tokens.find("client", None, token)
            cancel_seq = None if known_token is None or known_token.is_shared else cancelled_seq(known_token, self.fold)
            if cancel_seq is None or not session.has_received("server", cancel_seq):
                return ()
            return [self.finding(context, "progress for a request that was already cancelled", related=(cancel_seq,))]
        cancel_seq = _last_cancel_seq(session, self.fold)
        if cancel_seq is None:
            return ()
        text = "a log message, although all open requests had been cancelled"
        return [self.finding(context, text, related=(cancel_seq,))]


class Posted(Rule):
    """A client posts a cancellation.

    **Why it matters.** Since 2026-07-28 a client cancels over HTTP by closing the stream of the response. Servers may
    accept or refuse a posted cancellation.

    **On the wire.** `> POST … {"method":"notifications/cancelled","params":{"requestId":3}}`

    **Instead.** Close the stream.
    """

    id = "cancel/posted"
    who = "client"
    versions = MODERN_ERA
    era = "modern"
    level = NOTE
    needs_http = True
    methods = frozenset({CANCELLED})
    sender = "client"
    source = "2026-07-28 basic/transports/streamable-http"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.session.is_legacy:
            return ()  # the older transport has no other way to cancel
        return [self.finding(context, "a cancellation is posted instead of closing the stream", pointer="/method")]


class _AbandonedStreams:
    """Streams that a client has closed before the response."""

    def __init__(self) -> None:
        self.unanswered_requests: dict[int, tuple[MessageContext, int]] = {}
        """Requests that were not answered on their stream, by number, each with the number of the stream."""
        self.cancelled_ids: set[Id] = set()
        self.resumed_streams: set[int] = set()
        """Streams that the client resumed."""


class ByDisconnect(Rule):
    """A client closes the stream of a response before the response arrives, and neither cancels nor resumes it.

    **Why it matters.** In these revisions that does not cancel the request: the server keeps working, and keeps the
    response for a caller that never fetches it.

    **On the wire.** The client closes the connection of a POST, and no `notifications/cancelled` names its request.

    **Instead.** Cancel first, then close; or resume the stream with `Last-Event-ID`.
    """

    id = "cancel/by-disconnect"
    who = "client"
    versions = features.HTTP_SESSIONS
    level = NOTE
    impact = Impact.COST
    needs_http = True
    at_end = True
    methods = frozenset({CANCELLED})
    sender = "client"
    exchanges = ExchangeOddity.END
    source = "2025-03-26 basic/transports"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        streams: _AbandonedStreams = self.state_for(context.session, _AbandonedStreams)
        id_ = named_id(context)
        if id_ is not None and len(streams.cancelled_ids) < MAX_REMEMBERED_REQUESTS:
            streams.cancelled_ids.add(id_)
        return ()

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterable[Finding]:
        streams: _AbandonedStreams = self.state_for(session, _AbandonedStreams)
        if http.resumption == "known" and len(streams.resumed_streams) < MAX_REMEMBERED_REQUESTS:
            streams.resumed_streams.add(http.stream)
        if http.ended_by != "client" or http.method != "POST":
            return ()
        for context in http.client_messages:
            request = context.message
            if (
                not isinstance(request, Request)
                or request.method in ENDLESS_METHODS
                or not self.versions.applies_to(context.rank, context.era)
            ):
                continue
            if len(streams.unanswered_requests) < MAX_REMEMBERED_REQUESTS:
                state = self.fold.tables["client"].id_state(RequestKey(request.frames[0].exchange, request.id))
                if state is not IdState.ANSWERED:
                    streams.unanswered_requests[request.seq] = context, http.stream
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        streams: _AbandonedStreams | None = session.memory.get(self.id)
        if streams is None or ending.reason == "open" or not ending.is_clear:
            return
        for context, stream in streams.unanswered_requests.values():
            request = context.message
            if (
                not isinstance(request, Request)
                or request.id in streams.cancelled_ids
                or stream in streams.resumed_streams
            ):
                continue
            if (
                self.fold.tables["client"].id_state(RequestKey(request.frames[0].exchange, request.id))
                is not IdState.ANSWERED
            ):
                yield self.finding(
                    context, "the client closed the stream before the response; that does not cancel the request"
                )


# ---- shared by the rules


def _findings_after_cancel(rule: Rule, context: MessageContext, call: Call) -> Iterable[Finding]:
    """Returns findings about a response whose sender had provably received the cancellation of the request."""
    cancel_seq = call.cancelled_seq
    if cancel_seq is None or not context.session.has_received(context.message.sender, cancel_seq):
        return ()
    text = f"request {shortened(call.request.id.text)} is answered although it was already cancelled"
    return [rule.finding(context, text, related=(call.request.seq, cancel_seq))]


def _last_cancel_seq(session: Session, fold: Fold) -> int | None:
    """Returns the last cancellation's number if all requests that a log message may be about are cancelled, or None."""
    table = fold.tables["client"]
    if not 0 < len(table) <= MAX_SEARCHED_REQUESTS:
        return None
    cancel_seqs = [call.cancelled_by for call in table.waiting_calls() if call.request.method not in ENDLESS_METHODS]
    received_seqs = [seq for seq in cancel_seqs if seq is not None and session.has_received("server", seq)]
    return max(received_seqs) if received_seqs and len(received_seqs) == len(cancel_seqs) else None
