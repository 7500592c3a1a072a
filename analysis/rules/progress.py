"""The group `progress`: progress reports for open requests."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from math import isnan
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Request, Side, converted_id, other_side
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, RACE_NS, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.tokens import TOKEN_WORD, Token, is_of_session, token_of, tokens_of

MAX_NOTIFICATIONS_PER_SECOND: Final = 50
"""The most notifications for one token in a second that are acceptable."""
MAX_SEARCHED_TOKENS: Final = 20
"""The most unknown tokens of a session for which other sessions are searched."""
_MAX_SEARCHED_REQUESTS: Final = 256
"""The most open requests that are searched for a token of another session."""
MAX_WATCHED_TOKENS: Final = 100
"""The most tokens of a session that are watched for floods at a time."""
PROGRESS: Final = "notifications/progress"
PAGE: Final = "2024-11-05 basic/utilities/progress"


_SECOND_NS: Final = 1_000_000_000


class _TokenRule(Rule):
    """The base class of the rules that need to know which request carried a token."""

    relies_on = ("progress/duplicate-token", "progress/after-completion", "progress/not-increasing")
    source = PAGE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook != "notification":
            return True
        # In the modern era clients must not report progress; `method/wrong-direction` covers that.
        return method == PROGRESS and not (like.era == "modern" and like.message.sender == "client")

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        token, known_token = tokens_of(context.session).reported_token(context)
        return () if token is None else self.check_progress(context, known_token, token)

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        """Check a progress notification.

        Args:
            context: the notification.
            known_token: the token with its request; None if no known request carried it.
            token: the token in the notification.
        """
        raise NotImplementedError


class DuplicateToken(Rule):
    """A request carries the progress token of another open request.

    **Why it matters.** The sender cannot tell which of the two requests the progress belongs to.

    **On the wire.** `> {"id":3,…"_meta":{"progressToken":"p"}}` and, before its answer,
    `> {"id":4,…"_meta":{"progressToken":"p"}}`

    **Instead.** Use the id of the request as its token, as the SDKs do. A token may be used again after the response.
    """

    id = "progress/duplicate-token"
    needs_session = True
    relies_on = ("progress/after-completion",)
    required_word = TOKEN_WORD
    source = PAGE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        token = tokens_of(context.session).record_request(context, self.fold)
        if token is None or token.earlier is None:
            return ()
        text = f"the progress token {_shortened_token(token.id)} belongs to a request that is still open"
        return [self.finding(context, text, pointer="/params/_meta/progressToken", related=(token.earlier,))]


class UnknownToken(_TokenRule):
    """Progress has a token that no request of the other side carried.

    **Why it matters.** The receiver cannot match it with a request and drops it, so the call seems to make no progress.

    **On the wire.** `< {"method":"notifications/progress","params":{"progressToken":"9","progress":1}}` where the
    request says `"progressToken":9`

    **Instead.** Send back the token of the request unchanged, including its JSON type, and only to the session of the
    request. If the request has no token, send no progress.
    """

    id = "progress/unknown-token"
    needs_session = True
    impact = Impact.MESSAGE
    needs_start = True

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        sender, session = context.message.sender, context.session
        requester, tokens = other_side(sender), tokens_of(session)
        if (
            known_token is not None
            or tokens.forgotten_count
            or session.unjudged.get(requester) is not None
            or is_replay(context)
        ):
            return ()
        if not is_of_session(context) and not (context.era == "modern" and _requests_in(context)):
            return ()  # another client may have sent the request
        if tokens.last_token(requester, token) is not None:
            return ()  # the request is on another stream
        name, related = _shortened_token(token), tuple[int, ...]()
        if (retyped_token := tokens.last_token(requester, converted_id(token))) is not None:
            text, related = f"the token {name} has another JSON type than in the request", (retyped_token.seq,)
        elif (own_token := tokens.last_token(sender, token)) is not None:
            text, related = f"the token {name} belongs to a request of the {sender} itself", (own_token.seq,)
        elif (foreign_request := self._open_request_elsewhere(context, requester, token)) is not None:
            number, seq = foreign_request
            text, related = (
                f"no request in this session carried the token {name}, but an open one in session {number} does",
                (seq,),
            )
        else:
            text = f"no request of the {requester} carried the token {name}"
        return [self.finding(context, text, pointer="/params/progressToken", related=related)]

    def _open_request_elsewhere(self, context: MessageContext, requester: Side, token: Id) -> tuple[int, int] | None:
        """Returns what `_open_request_in_other_session` finds, or None after `MAX_SEARCHED_TOKENS` unknown tokens."""
        searched_tokens: list[Id] = self.state_for(context.session, list)
        if len(searched_tokens) >= MAX_SEARCHED_TOKENS:
            return None
        searched_tokens.append(token)
        return _open_request_in_other_session(context, requester, token, self.fold)


class AfterCompletion(_TokenRule):
    """Progress is reported for a request that has already been answered.

    **Why it matters.** The token may be used again after the response. The client shows the progress bar forever, or
    attributes the progress to the next call that uses the token.

    **On the wire.** `< {"id":3,"result":{…}}` and then
    `< {"method":"notifications/progress","params":{"progressToken":3,"progress":90}}`

    **Instead.** Stop reporting before you answer; wait for background reporting to finish.
    """

    id = "progress/after-completion"
    needs_session = True

    def required_members_for(self, hook: str, method: str, like: MessageContext) -> frozenset[str]:  # noqa: ARG002 - the hook decides
        return frozenset({"task", "taskId"}) if hook == "result" else frozenset()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        tokens_of(context.session).record_result(context)
        return ()

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        key = None if known_token is None else known_token.key
        if known_token is None or key is None:
            return ()
        table = self.fold.tables[known_token.requester]
        answered_ns = table.answered_ns(key) if table.answered_seq(key) == known_token.seq else None
        if answered_ns is None or known_token.is_of_task or known_token.is_shared or is_replay(context):
            return ()
        if key.exchange != context.message.frames[0].exchange and context.message.t_ns <= answered_ns + RACE_NS:
            return ()  # the order between two streams is unknown
        text = f"progress for the token {_shortened_token(token)}, whose request has already been answered"
        return [self.finding(context, text, pointer="/params/progressToken", related=(known_token.seq,))]


class AfterCancel(_TokenRule):
    """Progress is reported for a request although its cancellation had been received.

    **Why it matters.** It does no harm, but shows that the work continues although its result is no longer wanted.

    **On the wire.** `> {"method":"notifications/cancelled","params":{"requestId":3}}`, `> {"id":4,"method":"ping"}`, `<
    {"id":4,"result":{}}`, and then `< {"method":"notifications/progress","params":{"progressToken":3,…}}`. Only the
    response to a later request shows that the cancellation was read: without such a response, and over HTTP, the two
    may have crossed, and nothing is reported.

    **Instead.** Pass the cancellation to the code that does the work, and stop reporting at once.
    """

    id = "progress/after-cancel"
    needs_session = True
    level = NOTE
    impact = Impact.COST
    source = "2024-11-05 basic/utilities/cancellation"

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        cancel_seq = None if known_token is None or known_token.is_shared else cancelled_seq(known_token, self.fold)
        if cancel_seq is None or not context.session.has_received(context.message.sender, cancel_seq):
            return ()
        text = f"progress for the token {_shortened_token(token)}, whose request was already cancelled"
        return [self.finding(context, text, pointer="/params/progressToken", related=(cancel_seq,))]


class NotIncreasing(_TokenRule):
    """The progress of a request does not increase.

    **Why it matters.** A bar that moves back looks like a fault, and clients that wait for progress may conclude that
    the call is stuck and give up.

    **On the wire.** `…"progressToken":3,"progress":50` and then `…"progressToken":3,"progress":50`

    **Instead.** Report the total done so far, and only when it has grown. If the end is unknown, keep counting.
    """

    id = "progress/not-increasing"
    follows = ("progress/duplicate-token",)
    needs_session = True

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        value, message = _number(member(context.body.get("params"), "progress")), context.message
        if value is None or is_replay(context) or (known_token is not None and known_token.is_shared):
            return ()
        if known_token is None:
            if context.session.observed_start:
                return ()
            known_token = tokens_of(context.session).add_unseen(
                other_side(message.sender), None if context.http is None else context.http.first_carrier.number, token
            )
        previous, exchange = known_token.value, message.frames[0].exchange
        known_token.value = value, message.seq, message.t_ns, exchange
        if previous is None or value > previous[0]:
            return ()
        if exchange != previous[3] and message.t_ns <= previous[2] + RACE_NS:
            known_token.value = (previous[0], *known_token.value[1:])
            return ()  # the order between two streams is unknown
        text = f"the progress for the token {_shortened_token(token)} does not increase"
        return [self.finding(context, text, pointer="/params/progress", related=(previous[1],))]


class ExceedsTotal(Rule):
    """The progress is greater than the total, or negative, or the total is not positive.

    **Why it matters.** Clients compute a ratio from the two, and get 120 % or a division by zero.

    **On the wire.** `…"progress":12,"total":10`

    **Instead.** Leave `total` out if it is not known, and raise it if more work turns up.
    """

    id = "progress/exceeds-total"
    follows = ("progress/duplicate-token",)
    needs_session = True
    level = WARNING
    methods = frozenset({PROGRESS})
    source = PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        params = context.body.get("params")
        value, total = _number(member(params, "progress")), _number(member(params, "total"))
        if value is not None and value < 0:
            return [self.finding(context, "the progress is negative", pointer="/params/progress")]
        if total is not None and total <= 0:
            return [self.finding(context, "the progress total is not positive", pointer="/params/total")]
        if value is None or total is None or value <= total:
            return ()
        return [self.finding(context, "the progress is greater than its total", pointer="/params/progress")]


class TotalChanged(_TokenRule):
    """The total of a request's progress differs from the previous one.

    **Why it matters.** This is legal, for example if more work turns up, but a progress bar may jump back.

    **On the wire.** `…"progressToken":3,"progress":1,"total":10` and then `…"progressToken":3,"progress":2,"total":40`

    **Instead.** Nothing has to change, but if the total is only a guess, it is better to leave it out.
    """

    id = "progress/total-changed"
    follows = ("progress/duplicate-token",)
    needs_session = True
    level = NOTE
    once = True

    def check_progress(self, context: MessageContext, known_token: Token | None, _token: Id) -> Iterable[Finding]:
        total = _number(member(context.body.get("params"), "total"))
        if known_token is None or total is None or known_token.is_shared or is_replay(context):
            return ()
        previous_total, known_token.total = known_token.total, total
        if previous_total is None or previous_total == total:
            return ()
        return [self.finding(context, "the progress total differs from the previous one", pointer="/params/total")]


class Flood(Rule):
    """A side reports the progress of one request more than fifty times within a second.

    **Why it matters.** Users cannot follow such frequent changes, and each report delays the responses that queue
    behind it.

    **On the wire.** 51 times `< {"method":"notifications/progress","params":{"progressToken":3,…}}` in a second

    **Instead.** Report at most a few times a second.
    """

    id = "progress/flood"
    needs_session = True
    level = NOTE
    impact = Impact.COST
    needs_time = True
    once = True
    methods = frozenset({PROGRESS})
    source = PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        token, _ = tokens_of(context.session).reported_token(context)
        if token is None or is_replay(context):
            return ()
        stamps_by_token: OrderedDict[tuple[Side, Id], deque[int]] = self.state_for(context.session, OrderedDict)
        key, t_ns = (context.message.sender, token), context.message.t_ns
        stamps_ns = stamps_by_token.get(key)
        if stamps_ns is None:
            stamps_ns = stamps_by_token[key] = deque(maxlen=MAX_NOTIFICATIONS_PER_SECOND)
            if len(stamps_by_token) > MAX_WATCHED_TOKENS:
                stamps_by_token.popitem(last=False)
        first_ns = stamps_ns[0] if len(stamps_ns) == MAX_NOTIFICATIONS_PER_SECOND else None
        stamps_ns.append(t_ns)
        if first_ns is None or t_ns - first_ns >= _SECOND_NS:
            return ()
        stamps_ns.clear()
        return [
            self.finding(
                context,
                f"more than {MAX_NOTIFICATIONS_PER_SECOND} progress notifications for one token within a second",
            )
        ]


class WrongStream(_TokenRule):
    """Progress comes on the response stream of another request.

    **Why it matters.** Since 2026-07-28 messages about a request come only on its own stream: a client that reads
    another stream does not look for them there, and they are lost if that stream closes.

    **On the wire.** Progress for the token of request 3 comes on the stream that answers request 4.

    **Instead.** Write to the stream of the request that carried the token.
    """

    id = "progress/wrong-stream"
    needs_session = True
    who = "server"
    versions = MODERN_ERA
    impact = Impact.MESSAGE
    era = "modern"
    needs_http = True
    source = "2026-07-28 basic/transports/streamable-http"

    def check_progress(self, context: MessageContext, known_token: Token | None, token: Id) -> Iterable[Finding]:
        foreign_token = (
            None
            if known_token is not None or not _requests_in(context)
            else tokens_of(context.session).last_token("client", token)
        )
        if foreign_token is None:
            return ()
        text = f"progress for the token {_shortened_token(token)} is sent on the stream of another request"
        return [self.finding(context, text, pointer="/params/progressToken", related=(foreign_token.seq,))]


# ---- shared by the rules


def is_replay(context: MessageContext) -> bool:
    """Whether a message came on a stream that was opened to replay earlier messages."""
    return context.http is not None and context.http.is_replay


def cancelled_seq(token: Token, fold: Fold) -> int | None:
    """Returns the number of the cancellation of a token's open request, or None if it was not cancelled."""
    call = None if token.key is None else fold.tables[token.requester].get(token.key)
    return call.cancelled_by if call is not None and call.request.seq == token.seq else None


def _requests_in(context: MessageContext) -> list[Request]:
    """Returns the client's requests in the exchange of a message, or an empty list on stdio."""
    sent_contexts = () if context.http is None else context.http.client_messages
    return [sent_context.message for sent_context in sent_contexts if isinstance(sent_context.message, Request)]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)
    return value if is_number else None


def _open_request_in_other_session(
    context: MessageContext, requester: Side, token: Id, fold: Fold
) -> tuple[int, int] | None:
    """Returns the numbers of another HTTP session and its open request with the same token, or None if none has it."""
    if context.http is None:
        return None
    for call in fold.tables[requester].oldest_calls(_MAX_SEARCHED_REQUESTS):
        request, session = call.request, call.session
        if (
            session is not None
            and session is not context.session
            and token_of(request.meta.get("progressToken")) == token
        ):
            return session.number, request.seq
    return None


def _shortened_token(token: Id) -> str:
    return shortened(token.text)
