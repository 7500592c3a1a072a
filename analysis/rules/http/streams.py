"""Streams that answer a POST over Streamable HTTP: how they end, and messages that do not belong on them."""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import EVENT_STREAM, MAX_BODY_MESSAGES, HttpExchange
from analysis.conversation.message import Side
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.conversation.subscriptions import UPDATED
from analysis.protocol import features
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import MODERN_ERA, Span
from analysis.rules.base import ERROR, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.exchanges import (
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    HttpRule,
    is_cut,
    is_open,
    requests_of,
    unanswered_call,
)
from analysis.rules.support.tokens import Token, token_of, tokens_of
from analysis.rules.support.tokens import is_open as is_token_open

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_SOURCES: Final = f"{_TRANSPORTS}; 2026-07-28 basic/transports/streamable-http"
_STREAMABLE_REVISIONS: Final = features.STREAMABLE_HTTP
_LEVELS: Final[dict[Span, Level]] = {MODERN_ERA: ERROR}
PROGRESS: Final = "notifications/progress"
CHANGE_METHODS: Final = frozenset(
    {UPDATED, *(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))}
)
_MAX_LINGER_NS: Final = 5_000_000_000
"""The longest time that a stream may stay open after its last response."""
_MAX_STREAMS: Final = 1_000


class StreamEndedUnanswered(HttpRule):
    """A server ends the stream of a POST without having answered its requests.

    **Why it matters.** The client does not learn the outcome of the call. If the events had ids, it can resume the
    stream; otherwise the response is lost.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, answered with a stream that ends after some progress

    **Instead.** Send the response as the last event, even if it is an error. Since 2025-11-25 a server may close a
    stream early if its events have ids, and answer on the stream that the client then opens.
    """

    id = "http/stream-ended-unanswered"
    needs_body = True
    who = "server"
    versions = _STREAMABLE_REVISIONS
    level = WARNING
    at_end = True
    statuses = SUCCESS_STATUSES
    media = EVENT_STREAM
    source = _TRANSPORTS

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.ended_by != "complete" or session is None or not http.is_streamable:
            return ()
        if is_cut(http):
            return ()  # `sse/unterminated-event` reports this
        ended_exchanges: list[HttpExchange] = self.state_for(session, list)
        if len(ended_exchanges) < _MAX_STREAMS and any(
            is_open(context, self.fold) and context.method not in ENDLESS_METHODS for context in requests_of(http)
        ):
            ended_exchanges.append(http)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:
        if ending.reason == "open" or not ending.is_clear or session.lost_seq >= 0:
            return
        ended_exchanges: list[HttpExchange] = self.state_for(session, list)
        for http in ended_exchanges:
            if http.end_ref is None or _is_excused(http, http.end_ref):
                continue
            if ending.reason == "killed" and (
                _may_resume(http) or session.last_seq.get("server", -1) < http.end_ref.seq
            ):
                continue
            for context in requests_of(http):
                if is_open(context, self.fold) and context.method not in ENDLESS_METHODS and context.session is session:
                    wait_text = _wait_suffix(context, self.fold)
                    text = f"the stream ended before {shortened(context.method)} was answered{wait_text}"
                    finding = self.finding(http.end_ref, text, session=session, related=(context.message.seq,))
                    yield finding._replace(method=context.method[:256])


class StreamKeptOpen(HttpRule):
    """The stream of a POST stays open after all requests have been answered.

    **Why it matters.** The stream uselessly occupies a connection, and often a worker. Clients that read to the end of
    the response have to wait.

    **On the wire.** `< event: message` with the result, then a stream that stays open for seconds

    **Instead.** End the stream right after the last response.
    """

    id = "http/stream-kept-open"
    who = "server"
    versions = _STREAMABLE_REVISIONS
    level = WARNING
    impact = Impact.COST
    needs_time = True
    once = True
    statuses = SUCCESS_STATUSES
    media = EVENT_STREAM
    source = _TRANSPORTS

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        open_exchanges: dict[int, HttpExchange] = self.state_for(session, dict) if session is not None else {}
        if len(open_exchanges) < _MAX_STREAMS:
            open_exchanges[http.number] = http
        return ()

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if session is None or http.end_ref is None:
            return ()
        self.state_for(session, dict).pop(http.number, None)
        return self._check_stream(http, http.end_ref.t_ns)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:
        if session.lost_seq >= 0:
            return  # the record of the stream's end may be lost
        open_exchanges: dict[int, HttpExchange] = self.state_for(session, dict)
        for http in open_exchanges.values():
            if http.end_ref is None:
                yield from self._check_stream(http, ending.t_ns)

    def _check_stream(self, http: HttpExchange, until_ns: int) -> Iterable[Finding]:
        last_response = http.last_answer
        if (
            last_response is None
            or until_ns - last_response.message.t_ns <= _MAX_LINGER_NS
            or not http.is_streamable
            or http.is_from_recorder
        ):
            return ()
        if not is_settled(http, self.fold):
            return ()
        seconds = (until_ns - last_response.message.t_ns) / 1e9
        return [self.finding(last_response, f"the stream stays open for {seconds:.0f} s after its last response")]


class _PostStreamRule(Rule):
    """A rule about messages on the stream of a POST."""

    who = "server"
    versions = _STREAMABLE_REVISIONS
    level = WARNING
    levels = _LEVELS
    needs_http = True
    sender: ClassVar[Side | None] = "server"
    source = _SOURCES


class MessageAfterAnswer(_PostStreamRule):
    """A message is sent on the stream of a POST after all requests of the POST were answered.

    **Why it matters.** Clients stop reading after the last response, so the message is lost.

    **On the wire.** `< {"id":4,"result":{…}}`, and on the same stream `< {"method":"notifications/progress",…}`

    **Instead.** Send the message before the response, or on a stream that allows it.
    """

    id = "http/message-after-answer"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_message(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_message(context)

    def _check_message(self, context: MessageContext) -> Iterable[Finding]:
        http = context.http
        if http is None or http.last_answer is None or http.method != "POST" or not is_settled(http, self.fold):
            return ()
        if http.last_answer.method in ENDLESS_METHODS:
            return ()  # other rules report messages after the end of a subscription
        text = f"{shortened(context.method)} is sent after the response"
        return [self.finding(context, text, related=(http.last_answer.message.seq,))]


class ProgressTokenRule(Rule):
    """A rule that needs to know which request a progress notification belongs to."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "notification":
            return like.message.sender == "server" and (method == PROGRESS or method in self.more_methods)
        if like.era == "modern" or not like.session.is_http:
            return False  # other rules check these messages
        return like.message.sender == ("client" if hook == "request" else "server")

    more_methods: frozenset[str] = frozenset()
    """The methods of notifications that the rule checks in addition to progress."""

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        tokens_of(context.session).record_request(context, self.fold)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        tokens_of(context.session).record_result(context)
        return ()


class UnrelatedOnPostStream(ProgressTokenRule, _PostStreamRule):
    """A notification on the stream of a POST is unrelated to its request.

    **Why it matters.** Clients that attribute messages on this stream to the call show the notification in the wrong
    place, and clients that close the stream after the call may never see it.

    **On the wire.** On the stream of `tools/call`: `< {"method":"notifications/resources/updated",…}`

    **Instead.** Send changes on the stream that the client opened with GET, and progress on the stream of the request
    that contained its token. Since 2026-07-28, `listen/outside-subscription` and `progress/wrong-stream` report such
    notifications.
    """

    id = "http/unrelated-on-post-stream"
    versions = SESSION_REVISIONS
    levels: ClassVar[dict[Span, Level]] = {}
    impact = Impact.WRONG
    source = _TRANSPORTS

    sender = None
    more_methods = CHANGE_METHODS

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        http = context.http
        if http is None or http.method != "POST" or not requests_of(http):
            return ()
        if context.method in CHANGE_METHODS:
            return [
                self.finding(
                    context, f"{shortened(context.method)} on the stream of {shortened(http.client_messages[0].method)}"
                )
            ]
        progress = reported_token(context, self.fold)
        if (
            progress is None
            or progress.key is None
            or progress.key.exchange in (None, http.first_carrier.number)
            or progress.task is not None
        ):
            return ()
        if len(http.client_messages) >= MAX_BODY_MESSAGES or any(
            _progress_token(request) == progress.id for request in http.client_messages
        ):
            return ()
        text = "progress of a request that did not open this stream"
        return [self.finding(context, text, pointer="/params/progressToken", related=(progress.seq,))]


class AnswerOnOtherStream(_PostStreamRule):
    """A response is sent on the stream of a POST that did not contain its request.

    **Why it matters.** The client waits on the stream of the request, and many clients do not look elsewhere.

    **On the wire.** On the stream of the POST with id 5: `< {"id":4,"result":{…}}`

    **Instead.** Send each response on the stream of its own POST. A stream that the client resumes with GET counts as
    the same stream.
    """

    id = "http/answer-on-other-stream"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_message(context)

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_message(context) if context.answered is not None else ()

    def _check_message(self, context: MessageContext) -> Iterable[Finding]:
        http, request = context.http, context.request
        if http is None or request is None or request.frames[0].exchange == http.first_carrier.number:
            return ()
        if http.method != "POST" or context.message.frames[0].unit != "sse_event" or not requests_of(http):
            return ()
        text = f"the response to {shortened(request.method)} is sent on the stream of another POST"
        return [self.finding(context, text, related=(request.seq,))]


# ---- shared by the rules


def _is_excused(http: HttpExchange, over: RecordRef) -> bool:
    """Whether a stream may have ended with its session, or its client ended the session without resuming the stream."""
    session_id = http.session_ids.get(http.session_id or "")
    if session_id is None:
        return False
    if session_id.gone is not None:
        return True  # the capture does not show when the server forgot the session
    return session_id.ended is not None and (http.event_id is not None or session_id.ended.seq < over.seq)


def _may_resume(http: HttpExchange) -> bool:
    """Whether the client may have resumed a stream, or ended its session, after the recording broke off."""
    session_id = http.session_ids.get(http.session_id or "")
    return http.event_id is not None or (session_id is not None and session_id.tried)


def _wait_suffix(context: MessageContext, fold: Fold) -> str:
    """Returns how long the client waited before it cancelled, as the end of a sentence; empty if it did not cancel."""
    open_call = unanswered_call(context, fold)
    if open_call is None or open_call.cancellation is None:
        return ""
    return f"; the client gave up after {(open_call.cancellation.t_ns - context.message.t_ns) / 1e9:.1f} s"


def is_settled(http: HttpExchange, fold: Fold) -> bool:
    """Whether all requests of a POST have been answered, as far as they are known."""
    requests = requests_of(http)
    if not requests or http.last_answer is None or len(http.client_messages) >= MAX_BODY_MESSAGES:
        return False
    if len(requests) == 1:
        return http.last_answer.request is requests[0].message
    return not any(_is_unanswered(context, fold) for context in requests)


def reported_token(context: MessageContext, fold: Fold) -> Token | None:
    """Returns the token that a server's progress notification names if its request is still unanswered, or None."""
    token = token_of(member(context.body.get("params"), "progressToken"))
    http = context.http
    if token is None or http is None:
        return None
    tokens = tokens_of(context.session)
    known_token = tokens.find("client", http.first_carrier.number, token) or tokens.last_token("client", token)
    return known_token if known_token is not None and is_token_open(known_token, fold) else None


def _is_unanswered(context: MessageContext, fold: Fold) -> bool:
    open_call = unanswered_call(context, fold)
    return open_call is not None and open_call.request is context.message


def _progress_token(context: MessageContext) -> object:
    return token_of(member(member(context.body.get("params"), "_meta"), "progressToken"))
