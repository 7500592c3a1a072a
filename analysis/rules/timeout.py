"""The group `timeout`: requests that are answered late, or not at all."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, MessageContext, Outcome, context_of, mentions_timeout
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Request, Side, id_of, other_side
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import NOTE, RACE_NS, WARNING, CaptureEnd, Rule
from analysis.rules.finding import Blames, Finding, Impact, with_guess
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.pipes import pipes_of
from analysis.rules.support.tokens import TOKEN_WORD
from captures.record import Record

SLOW_NS: Final = 30_000_000_000
"""A response that takes longer than this is slow."""
SLOW_PING_NS: Final = 5_000_000_000
"""A response to a ping that takes longer than this is slow."""
MAX_PING_WAIT_NS: Final = 10_000_000_000
"""How long a side that sends other messages may leave a ping unanswered."""
MAX_UNCANCELLED_NS: Final = 60_000_000_000
"""How long a request may stay open while its sender continues with other requests, before it should be cancelled."""

_MAX_REMEMBERED_REQUESTS: Final = 10_000
_MAX_WATCHED_PINGS: Final = 1_000
_BLOCKING: Final = ENDLESS_METHODS | {"tasks/result"}


class OpenRequest(NamedTuple):
    """A request that is open at the end."""

    call: Call
    context: MessageContext
    """The request, with its revision."""
    waited_ns: int
    """How much time the receiver had to respond."""


class _OpenRequestRule(Rule):
    """A rule about requests that are open at the end."""

    at_end = True

    def on_record(self, record: Record, session: Session) -> Iterator[Finding]:
        pipes_of(session).update(record, session, self.fold)
        return iter(())

    def open_requests(self, session: Session, ending: CaptureEnd) -> Iterator[OpenRequest]:
        """Yields the open requests that should have a response: not cancelled, or only after they had failed."""
        pipes = pipes_of(session)
        for call in ending.unanswered:
            request = call.request
            if call.outcome is not Outcome.UNANSWERED or request.method in ENDLESS_METHODS or pipes.has_gap:
                continue
            if session.unjudged.get(other_side(request.sender), -1) > request.seq:
                continue  # an unjudged frame may contain the response
            until_ns, request_context = ending.t_ns, _request_context(session, request, self.fold)
            if session.is_http:
                is_due = call.cancelled_ns is None  # otherwise, it was open for as long as its client waited
                if request_context.http is None or (is_due and _is_reported_by_http(request_context)):
                    continue
                if request_context.http.ended_by not in (None, "proxy") or request.sender == "server":
                    until_ns = session.last_ns  # only messages show that the receiver was still there
            ends_ns = (call.cancelled_ns, pipes.client_gone_ns, pipes.server_gone_ns)
            until_ns = min([until_ns, *(end_ns for end_ns in ends_ns if end_ns is not None)])
            yield OpenRequest(call, request_context, until_ns - call.started_ns)

    def unanswered_requests(self, session: Session, ending: CaptureEnd) -> Iterator[OpenRequest]:
        """Yields the open requests whose sender has waited long enough, and whose receiver could have responded."""
        if ending.reason == "open" or not ending.is_clear:
            return  # the response may have been lost
        pipes = pipes_of(session)
        for open_request in self.open_requests(session, ending):
            request = open_request.call.request
            is_probe = request.method == "server/discover" and session.last_initialize > request.seq
            has_died = pipes.has_died or (pipes.is_server_first and request.sender == "client")
            if open_request.waited_ns >= RACE_NS and not is_probe and not has_died:
                yield open_request


class Unanswered(_OpenRequestRule):
    """A request has no response when the session ends.

    **Why it matters.** The caller waits forever, or until its own timeout.

    **On the wire.** `> {"id":6,"method":"tools/call",…}`, and no response with that id, although the session lasts for
    two more seconds or longer

    **Instead.** Answer every request, if necessary with an error. As the caller, cancel requests whose response you no
    longer need.
    """

    id = "timeout/unanswered"
    follows = ("id/echoed-frame",)
    level = WARNING
    source = "JSON-RPC 2.0 §4, §5"

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        if ending.reason == "open":
            for open_request in self.open_requests(session, ending):
                text = with_guess(
                    f"{_request_name(open_request.call.request)} is still pending", open_request.call.probable_answer
                )
                yield self.finding(open_request.context, text, level=NOTE, blames="unknown")
            return
        pings = session.memory.get(PingUnanswered.id) or _Pings()
        for open_request in self.unanswered_requests(session, ending):
            request = open_request.call.request
            if request.method == "tasks/result" and not _is_task_over(session, request, self.fold):
                continue  # the request waits until its task has ended
            if request.seq not in pings.reported_seqs:
                # If the recorder of an HTTP server was killed, a response may have come after that.
                may_follow = ending.reason == "killed" and session.is_http
                blames: Blames = "unknown" if may_follow else other_side(request.sender)
                yield self.finding(open_request.context, _unanswered_text(open_request), blames=blames)


class InitializeUnanswered(_OpenRequestRule):
    """`initialize` has no response when the session ends.

    **Why it matters.** The session cannot start: to the user, the server does not work at all.

    **On the wire.** `> {"id":0,"method":"initialize",…}`, and no response

    **Instead.** Answer at once, and do slow work later. Write only messages to stdout, and flush it.
    """

    id = "timeout/initialize-unanswered"
    follows = ("id/echoed-frame",)
    who = "server"
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    replaces = ("timeout/unanswered",)
    exchanges = ExchangeOddity.END
    source = "2024-11-05 basic/lifecycle"

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        for open_request in self.unanswered_requests(session, ending):
            request = open_request.call.request
            if request.method == "initialize" and request.sender == "client" and _applies(self, open_request.context):
                yield self._unanswered_finding(open_request)

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:
        for call in http.ended_calls:
            if call.request.method == "initialize" and call.outcome is Outcome.UNANSWERED:
                waited_ns = (call.cancelled_ns or call.started_ns) - call.started_ns
                if waited_ns >= RACE_NS:
                    yield self._unanswered_finding(
                        OpenRequest(call, _request_context(session, call.request, self.fold), waited_ns)
                    )

    def _unanswered_finding(self, open_request: OpenRequest) -> Finding:
        text = f"initialize is still unanswered after {_waiting_time(open_request.waited_ns)}"
        return self.finding(open_request.context, with_guess(text, open_request.call.probable_answer))


class _Pings:
    """The pings of a session that will be checked, and those that were reported."""

    def __init__(self) -> None:
        self.watched_count = 0
        self.reported_seqs: set[int] = set()


class PingUnanswered(_OpenRequestRule):
    """A ping gets no response, although its receiver sends other messages.

    **Why it matters.** A ping checks whether the other side is alive. Hosts that get no response close the connection.

    **On the wire.** `> {"id":7,"method":"ping"}`, then ten seconds in which the server sends other messages

    **Instead.** Answer `ping` at once with an empty result, even while other work is under way.
    """

    id = "timeout/ping-unanswered"
    follows = ("id/echoed-frame",)
    level = WARNING
    versions = HANDSHAKE_ERA
    impact = Impact.CONNECTION
    needs_time = True
    methods = frozenset({"ping"})
    replaces = ("timeout/unanswered",)
    source = "2024-11-05 basic/utilities/ping"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or not request.id.is_answerable:
            return ()
        pings: _Pings = self.state_for(context.session, _Pings)
        if pings.watched_count < _MAX_WATCHED_PINGS:
            pings.watched_count += 1
            self.check_later(request.t_ns + MAX_PING_WAIT_NS, lambda: self._check_request(context.session, request))
        return ()

    def _check_request(self, session: Session, request: Request) -> Iterator[Finding]:
        """Check a ping ten seconds after it was sent."""
        pings: _Pings = self.state_for(session, _Pings)
        pings.watched_count -= 1
        sender, seq = request.sender, request.seq
        receiver, pipes, key = other_side(sender), pipes_of(session), RequestKey(request.frames[0].exchange, request.id)
        call = self.fold.tables[sender].get(key)
        if call is None or call.request is not request or not call.is_due:
            return
        context = _request_context(session, request, self.fold)
        may_be_lost = session.lost_seq >= seq  # the response may have been lost
        is_gone = may_be_lost or pipes.client_gone_ns is not None or pipes.server_gone_ns is not None or pipes.has_gap
        is_explained = _is_reported_by_http(context) or session.unjudged.get(receiver, -1) > seq
        if is_gone or is_explained or session.last_seq.get(receiver, -1) < seq:
            return
        if len(pings.reported_seqs) < _MAX_REMEMBERED_REQUESTS:
            pings.reported_seqs.add(seq)
        text = f"{_request_name(request)} is still unanswered after 10 s, although the {receiver} sends other messages"
        yield self.finding(context, text, blames=receiver, related=(session.last_seq[receiver],))

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        reported_seqs = (session.memory.get(self.id) or _Pings()).reported_seqs
        for open_request in self.unanswered_requests(session, ending):
            request = open_request.call.request
            if request.method == "ping" and request.seq not in reported_seqs and _applies(self, open_request.context):
                text = _unanswered_text(open_request)
                yield self.finding(open_request.context, text, blames=other_side(request.sender))


class Slow(Rule):
    """A response takes longer than half a minute, or longer than five seconds for a ping.

    **Why it matters.** Many callers give up earlier and cancel work that is nearly done. Progress gives them a reason
    to wait.

    **On the wire.** `> {"id":8,"method":"tools/call",…}`, and 45 seconds later `< {"id":8,"result":{…}}`

    **Instead.** Report progress if the request has a token, or answer early and let the client ask again.
    """

    id = "timeout/slow"
    level = NOTE
    impact = Impact.COST
    needs_time = True
    source = "2025-03-26 basic/lifecycle"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for both senders
        return hook != "notification" or method == "notifications/progress"

    def required_word_for(self, hook: str, _method: str, _like: MessageContext) -> bytes:
        return TOKEN_WORD if hook == "request" else b""

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or "progressToken" not in request.meta:
            return ()
        token = request.meta["progressToken"]
        if isinstance(token, str) or type(token) is int:
            progress_times: _ProgressTimes = self.state_for(context.session, OrderedDict)
            progress_times[request.sender, id_of(token)] = (request.seq, request.t_ns)
            if len(progress_times) > _MAX_REMEMBERED_REQUESTS:
                progress_times.popitem(last=False)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        if isinstance(params, dict):
            progress_times: _ProgressTimes = self.state_for(context.session, OrderedDict)
            key = other_side(context.message.sender), id_of(params.get("progressToken"))
            if key in progress_times:
                progress_times[key] = (progress_times[key][0], context.message.t_ns)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        call = context.answered
        if call is None or call.ended_ns is None or call.ended_ns - call.started_ns <= SLOW_PING_NS:
            return ()
        return self._check_latency(context, call, call.ended_ns)

    def _check_latency(self, context: MessageContext, call: Call, ended_ns: int) -> Iterator[Finding]:
        request, since_ns = call.request, call.started_ns
        progress_times: _ProgressTimes | None = context.session.memory.get(self.id)
        if progress_times:
            token = request.meta.get("progressToken")
            key = request.sender, id_of(token)
            seq, progress_ns = progress_times.get(key, (-1, 0))
            if seq == request.seq:
                del progress_times[key]
                since_ns = max(since_ns, progress_ns)
        limit = SLOW_PING_NS if request.method == "ping" else SLOW_NS
        if ended_ns - since_ns > limit and request.method not in _BLOCKING:
            start = "its request" if since_ns == call.started_ns else "the last progress"
            text = f"{_request_name(request)} is answered {_seconds(ended_ns - since_ns)} after {start}"
            yield self.finding(context, text, related=(request.seq,))


_ProgressTimes = OrderedDict[tuple[Side, Id], tuple[int, int]]


class AbandonedRequest(Rule):
    """The sender gave up on a request: it cancelled it, or closed the HTTP exchange, before the response.

    **Why it matters.** To the user the call has failed, although no message is an error. This is usually the first
    thing to look at. A cancellation counts if its reason mentions a time-out, or if it comes after five seconds or
    more. A slow receiver and an impatient sender look the same, so this is a note. It is a warning that blames the
    receiver if the sender timed out or closed the connection after half a minute or more without a message from the
    receiver.

    **On the wire.** `> {"id":4,"method":"tools/call",…}`, half a minute later
    `> {"method":"notifications/cancelled","params":{"requestId":4,"reason":"timed out after 30s"}}`; over HTTP, the
    client closes the connection

    **Instead.** Answer sooner, or report progress. As the caller, set a longer limit if you expect the work to take
    long.
    """

    id = "timeout/abandoned-request"
    level = NOTE
    impact = Impact.MESSAGE
    needs_time = True
    exchanges = ExchangeOddity.END
    source = "2025-03-26 basic/lifecycle"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for both senders
        return method == "notifications/cancelled"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return () if context.cancelled is None else self._abandonment_findings(context.session, context.cancelled)

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:
        for call in http.ended_calls:
            if call.cancelled_seq is not None and http.end_ref is not None and call.cancelled_seq == http.end_ref.seq:
                yield from self._abandonment_findings(session, call, http)

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        for call in ending.unanswered if ending.reason != "open" else ():
            # The client left the stream, and could have resumed it.
            if call.is_ended_by_leaving:
                yield from self._abandonment_findings(session, call)

    def _abandonment_findings(
        self, session: Session, call: Call, http: HttpExchange | None = None
    ) -> Iterator[Finding]:
        request, waited_ns = call.request, call.abandoned_ns
        if waited_ns is None or call.outcome is not Outcome.CANCELLED:
            return  # other rules report requests that had already failed
        context, receiver = _request_context(session, request, self.fold), other_side(request.sender)
        http = http or context.http
        is_silent = (
            not (http.server_messages or http.unrecorded_sides)
            if http is not None
            else session.last_seq.get(receiver, -1) < request.seq
        )
        has_hung = (
            is_silent and waited_ns >= SLOW_NS and (call.has_client_closed or mentions_timeout(call.cancel_reason))
        )
        text = f"{_call_name(request)} was abandoned after {_precise_seconds(waited_ns)}"
        text = with_guess(text + " without a message from the " + receiver if has_hung else text, call.probable_answer)
        related = (call.cancelled_seq,) if call.cancelled_seq is not None else ()
        # A slow server and an impatient client look the same, up to a point.
        blames: Blames = receiver if has_hung else "unknown"
        level = WARNING if has_hung else NOTE
        yield self.finding(context, text, level=level, blames=blames, related=related)


class NeverCancelled(_OpenRequestRule):
    """A request stays open for more than a minute while its sender continues with others, but is never cancelled.

    **Why it matters.** The receiver works on a result that is no longer needed, or holds resources for the request.

    **On the wire.** `> {"id":3,"method":"tools/call",…}`, then other requests for a minute, and no cancellation of 3

    **Instead.** Set a timeout for every request, and send `notifications/cancelled` when it expires.
    """

    id = "timeout/never-cancelled"
    needs_session = True
    level = NOTE
    versions = features.TIMEOUTS
    impact = Impact.COST
    needs_time = True
    source = "2025-03-26 basic/lifecycle"

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:
        if ending.reason == "open":
            return
        for open_request in self.open_requests(session, ending):
            request = open_request.call.request
            has_later_request = session.last_request.get(request.sender, -1) > request.seq
            is_due = has_later_request and request.method not in _BLOCKING and _applies(self, open_request.context)
            if is_due and open_request.waited_ns > MAX_UNCANCELLED_NS:
                text = (
                    f"{_request_name(request)} was open for {_seconds(open_request.waited_ns)} without being cancelled"
                )
                yield self.finding(open_request.context, text)


# ---- shared by the rules


def _request_context(session: Session, request: Request, fold: Fold) -> MessageContext:
    """Returns the context of an open request, with its revision."""
    call = fold.tables[request.sender].get(RequestKey(request.frames[0].exchange, request.id))
    if call is None:
        return context_of(request, session)
    return context_of(request, session, revision=call.revision, era=call.era, http=call.http)


def _is_reported_by_http(request_context: MessageContext) -> bool:
    """Whether a request is unanswered because its HTTP exchange ended, which rules of the group `http` report."""
    is_from_client, http = request_context.message.sender == "client", request_context.http
    has_ended = http is not None and http.ended_by not in (None, "proxy")
    return is_from_client and has_ended and not request_context.session.is_legacy


def _applies(rule: Rule, context: MessageContext) -> bool:
    return rule.versions.applies_to(context.rank, context.era)


def _is_task_over(session: Session, request: Request, fold: Fold) -> bool:
    """Whether the task whose result a request asks for has ended, as far as the capture shows."""
    params = request.params
    task_id = params.get("taskId") if isinstance(params, dict) else None
    task = fold.links.tasks.get(session, other_side(request.sender), task_id)
    return task is not None and task.is_over


def _request_name(request: Request) -> str:
    parts = [text if len(text) <= 60 else f"{text[:57]}…" for text in (request.method, request.id.text)]
    return f"{parts[0]} (id {parts[1]})"


def _unanswered_text(open_request: OpenRequest) -> str:
    text = (
        f"{_request_name(open_request.call.request)} is still unanswered after {_waiting_time(open_request.waited_ns)}"
    )
    return with_guess(text, open_request.call.probable_answer)


def _call_name(request: Request) -> str:
    """Returns the name of a request, with the tool that it calls."""
    params = request.params
    tool = params.get("name") if request.method == "tools/call" and isinstance(params, dict) else None
    if not isinstance(tool, str):
        return _request_name(request)
    return f"{request.method} {tool if len(tool) <= 60 else f'{tool[:57]}…'} (id {request.id.text[:60]})"


def _precise_seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:.1f} s"


def _waiting_time(span_ns: int) -> str:
    """Returns a time in seconds; a short one has a decimal, unlike the round limits at which clients give up."""
    return _precise_seconds(span_ns) if span_ns < 10 * 10**9 and span_ns % 10**9 else _seconds(span_ns)


def _seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:.0f} s"
