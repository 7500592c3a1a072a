"""The group `id`: ids of requests, and the responses that match them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import IdState, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Number, Request, Response, Side, number_text
from analysis.conversation.session import Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol.extensions import KNOWN_METHODS, senders_of
from analysis.protocol.revisions import HANDSHAKE_ERA
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact, with_guess
from analysis.rules.odd import MessageOddity
from analysis.rules.support.echoes import echoed_message
from analysis.rules.support.eras import shortened
from captures.limits import MAX_SAFE_INTEGER

_MAX_SHOWN_ID_CHARS: Final = 60
"""The most characters of an id that a finding shows."""
_MAX_LATEST_REQUESTS: Final = 100
"""The number of a session's latest requests that are searched for the id types that their sender uses."""
MAX_SEARCHED_RESPONSES: Final = 20
"""The most responses of a session for which other sessions are searched."""
_MAX_SESSION_DISTANCE: Final = 100
"""The number of sessions before and after a response's own that are searched for its request."""
_MAX_DOUBTFUL_REQUESTS: Final = 10_000
"""The most requests of a session that are remembered because their response may belong to a lost request."""


class Null(Rule):
    """A request has `id: null`.

    **Why it matters.** JSON-RPC discourages the id null and MCP forbids it. Most receivers treat the message as a
    notification and do not answer, so the sender waits forever.

    **On the wire.** `> {"jsonrpc":"2.0","id":null,"method":"tools/list"}`

    **Instead.** Give every request its own id, a string or an integer. Leave `id` out if you expect no response.
    """

    id = "id/null"
    oddities = MessageOddity.ENVELOPE
    source = "2024-11-05 basic/messages"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        request = _request_of(context)
        if request is not None and request.id.type == "null":
            yield self.finding(context, "a request has the id null, so it cannot be answered", pointer="/id")


class NotStringOrInteger(Rule):
    """The id of a request is neither a string nor an integer.

    **Why it matters.** Typed parsers refuse the whole message, or drop the id and treat the message as a notification.

    **On the wire.** `> {"jsonrpc":"2.0","id":1.5,"method":"ping"}`, or `true`, `{}`, `[1]`

    **Instead.** Use a string or an integer.
    """

    id = "id/not-string-or-integer"
    oddities = MessageOddity.ENVELOPE
    source = "2024-11-05 basic/messages"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        request = _request_of(context)
        if request is None or request.id.type in ("null", "string") or isinstance(request.body.get("id"), str):
            return
        if not _is_integer(_id_number(request)):
            yield self.finding(context, f"the id is {_type_text(request)}, not a string or an integer", pointer="/id")


class FloatInteger(Rule):
    """The id of a request is an integer written with a decimal point or an exponent.

    **Why it matters.** Most parsers read `1.0` as the integer 1, but a few read it as a fraction and refuse it.

    **On the wire.** `> {"jsonrpc":"2.0","id":1.0,"method":"ping"}`

    **Instead.** Write integers without a decimal point.
    """

    id = "id/float-integer"
    oddities = MessageOddity.ENVELOPE
    level = NOTE
    source = "2024-11-05 schema RequestId"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        request = _request_of(context)
        if request is not None and _is_fraction(request.body.get("id")) and _is_integer(_id_number(request)):
            yield self.finding(
                context, f"the id {_id_text(context)} is written with a decimal point or an exponent", pointer="/id"
            )


class UnsafeInteger(Rule):
    """The id of a request is an integer beyond ±(2^53-1).

    **Why it matters.** A peer written in JavaScript reads a different number and answers with it, so the response
    matches no request.

    **On the wire.** `> {"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}` and
    `< {"jsonrpc":"2.0","id":9007199254740992,"result":{}}`

    **Instead.** Count from 1, or send large ids as strings.
    """

    id = "id/unsafe-integer"
    oddities = MessageOddity.ENVELOPE
    level = WARNING
    source = "RFC 8259 §6"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        request = _request_of(context)
        number = _id_number(request) if request is not None else None
        if number is not None and _is_integer(number) and _is_unsafe(number):
            yield self.finding(context, "the id is an integer that JavaScript cannot represent", pointer="/id")


class DuplicateInFlight(Rule):
    """A request uses the id of an earlier request that is still unanswered.

    **Why it matters.** Two calls wait for the same id: the first response ends one of them, often the wrong one.

    **On the wire.** `> {"id":4,"method":"tools/call",…}` and, before the response, `> {"id":4,"method":"tools/list"}`

    **Instead.** Never reuse an id while its request is open; up to 2025-11-25, never reuse it within a session.
    """

    id = "id/duplicate-in-flight"
    oddities = MessageOddity.REUSED
    needs_session = True
    impact = Impact.WRONG
    source = "2024-11-05 basic/messages; 2026-07-28 basic/index"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        if context.earlier is None or context.earlier.state not in (IdState.OPEN, IdState.CANCELLED):
            return
        if _request_of(context) is None or _is_replay(context):
            return
        if not _belongs_certainly(context):
            return
        text = f"the id {_id_text(context)} belongs to a request that is still open"
        yield self.finding(context, text, pointer="/id", related=(context.earlier.seq,))


class DuplicateRequest(Rule):
    """A request uses the id of an earlier, answered request of its session.

    **Why it matters.** Up to 2025-11-25 an id identifies a request for the whole session, so logs, late responses and
    cancellations with that id become ambiguous.

    **On the wire.** `> {"id":1,"method":"initialize",…}` … `> {"id":1,"method":"tools/list"}`

    **Instead.** Keep counting up. Since 2026-07-28 an id may be reused once its request has been answered.
    """

    id = "id/duplicate-request"
    oddities = MessageOddity.REUSED
    follows = ("http/call-refused", "http/no-response", "http/stream-broken", "http/body-cut")
    needs_session = True
    versions = HANDSHAKE_ERA
    impact = Impact.WRONG
    source = "2024-11-05 basic/messages"

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        is_answered = context.earlier is not None and context.earlier.state is IdState.ANSWERED
        if context.earlier is not None and is_answered and _request_of(context) is not None and not _is_replay(context):
            text = f"the id {_id_text(context)} was used before in this session"
            yield self.finding(context, text, pointer="/id", related=(context.earlier.seq,))


class UnknownResponse(Rule):
    """A response has an id that the other side never used in a request.

    **Why it matters.** The caller drops the response or pairs it with the wrong call; both look like a hang. The
    finding names the request that was probably meant: the only request that was open in the session at that time, or
    the oldest of several. It may instead name another session in which a request had this id, in case the server sends
    its responses to all sessions. JSON that answers a POST with a request is reported as `http/response-id-mismatch`
    instead.

    **On the wire.** `< {"jsonrpc":"2.0","id":7,"result":{}}` where no request 7 was ever sent

    **Instead.** Answer each request once, with its id, including the JSON type.
    """

    id = "id/unknown-response"
    needs_session = True
    needs_start = True
    source = "2024-11-05 basic/messages"

    def on_unpaired(self, context: MessageContext) -> Iterator[Finding]:
        if _has_unknown_id(context, self.fold) and _own_id_state(context, self.fold) is IdState.NEVER_SEEN:
            searched_seqs: list[int] = self.state_for(context.session, list)
            other_request = None
            if len(searched_seqs) < MAX_SEARCHED_RESPONSES:
                searched_seqs.append(context.message.seq)
                other_request = _request_in_other_session(context, self.fold)
            if other_request is None:
                yield self.finding(
                    context,
                    with_guess(f"no request has the id {_id_text(context)}", context.guessed_request),
                    pointer="/id",
                )
                return
            session_number, seq = other_request
            text = f"no request in this session has the id {_id_text(context)}, but one in session {session_number} has"
            yield self.finding(context, with_guess(text, context.guessed_request), pointer="/id", related=(seq,))


class SelfAnswered(Rule):
    """A side answers its own request, or answers a response.

    **Why it matters.** The usual cause is a handler that treats every message with an `id` as a request: it may answer
    responses forever.

    **On the wire.** `< {"id":9,"method":"roots/list"}` … `< {"id":9,"error":{"code":-32601,…}}`

    **Instead.** A message without `method` is a response: match it with its request, and never answer it.
    """

    id = "id/self-answered"
    needs_session = True
    needs_start = True
    source = "2024-11-05 basic/messages"

    def on_unpaired(self, context: MessageContext) -> Iterator[Finding]:
        if _has_unknown_id(context, self.fold) and _own_id_state(context, self.fold) is not IdState.NEVER_SEEN:
            yield self.finding(
                context, f"the id {_id_text(context)} belongs to a request of the same side", pointer="/id"
            )


class TypeChanged(Rule):
    """A response has the id of its request, but as another JSON type.

    **Why it matters.** Most clients match ids by exact value: `"7"` does not match 7, so the call never ends.

    **On the wire.** `> {"id":7,"method":"ping"}` `< {"id":"7","result":{}}`

    **Instead.** Send back the id unchanged; keep it as a JSON value, not as text.
    """

    id = "id/type-changed"
    oddities = MessageOddity.CONVERTED
    needs_session = True
    source = "2024-11-05 basic/messages"

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        if not context.is_converted or context.request is None or _may_answer_lost_request(context, self.fold):
            return ()
        text = (
            f"request {_short_id(context.request.id)} is answered as {_id_text(context)}: the id changed its JSON type"
        )
        return [self.finding(context, text, pointer="/id", related=(context.request.seq,))]


class DuplicateResponse(Rule):
    """A request is answered a second time.

    **Why it matters.** The caller drops the second response, or mistakes it for the answer to a later call that reuses
    the id.

    **On the wire.** `< {"id":3,"result":{…}}` … `< {"id":3,"error":{…}}`

    **Instead.** Send one response for each request; a handler that fails after it has answered must not answer again.
    """

    id = "id/duplicate-response"
    oddities = MessageOddity.CONVERTED
    needs_session = True
    impact = Impact.WRONG
    source = "2024-11-05 basic/messages; JSON-RPC 2.0 §5"

    def on_anomaly(self, context: MessageContext) -> Iterable[Finding]:
        if context.is_converted and context.request is not None and _may_answer_lost_request(context, self.fold):
            doubtful_seqs: set[int] = self.state_for(context.session, set)
            if len(doubtful_seqs) < _MAX_DOUBTFUL_REQUESTS:
                doubtful_seqs.add(context.request.seq)
        return ()

    def on_unpaired(self, context: MessageContext) -> Iterator[Finding]:
        if context.id_state is IdState.ANSWERED and not _is_replay(context):
            request_seq = _answered_seq(context, self.fold)
            if request_seq is not None and (
                request_seq <= context.session.lost_seq or self._is_doubtful(context.session, request_seq)
            ):
                return  # this response, or the earlier one, may belong to a lost request
            related = () if request_seq is None else (request_seq,)
            yield self.finding(
                context, f"request {_id_text(context)} has already been answered", pointer="/id", related=related
            )

    def _is_doubtful(self, session: Session, request_seq: int) -> bool:
        """Whether the response to a request had an id of another type, and so may belong to a lost request."""
        doubtful_seqs: set[int] = session.memory.get(self.id, set())
        return request_seq in doubtful_seqs or len(doubtful_seqs) >= _MAX_DOUBTFUL_REQUESTS


class EchoedFrame(Rule):
    """A side sends back a message that it has just received and must not send itself.

    **Why it matters.** The program does not speak MCP: it is a terminal with echo, or `cat` in place of a server.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"initialize",…}`, and the same bytes come back

    **Instead.** Check the command that the client starts: it should speak MCP on its standard streams, without a
    terminal.
    """

    id = "id/echoed-frame"
    once = True
    impact = Impact.CONNECTION
    replaces = ("method/wrong-direction", "lifecycle/*", "modern/server-request", "id/*", "schema/*")
    source = "2024-11-05 basic/transports (stdio)"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        # Both sides may send some methods: two pings that cross are not an echo.
        return method in KNOWN_METHODS and like.message.sender not in senders_of(method, like.rank)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        original = echoed_message(context)
        if original is None:
            return ()
        text = f"{shortened(context.method)} is sent back unchanged: this is an echo, not a response"
        return [self.finding(context, text, related=(original.message.seq,))]

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request, table = context.request, self.fold.tables["server" if context.message.sender == "client" else "client"]
        if request is None or not table:
            return ()
        open_call = table.get(
            RequestKey(None if context.http is None else context.http.first_carrier.number, request.id)
        )
        if open_call is None or open_call.request.body != request.body:
            return ()
        text = f"request {_id_text(context)} is sent back unchanged: this is an echo, not a response"
        return [self.finding(context, text, related=(open_call.request.seq,))]


# ---- shared by the rules


def _request_of(context: MessageContext) -> Request | None:
    """Returns a message as a request, or None if it is none; a notification with an id needs no response."""
    request = context.message
    if not isinstance(request, Request) or request.method.startswith("notifications/"):
        return None
    return request


def _belongs_certainly(context: MessageContext) -> bool:
    """Whether a request certainly belongs to its session: over HTTP, by its session id, or by an announced address."""
    http, session = context.http, context.session
    if http is None or session.is_legacy or context.message.sender == "server":
        return True
    named_id, own_id = http.fields.get(FIELD), http.session_ids.id_of_session(session)
    return context.era != "modern" and named_id is not None and own_id in (None, named_id)


def _id_number(request: Request) -> str | None:
    """Returns the id in a uniform notation, regardless of its length and spelling, or None if it is not a number."""
    value = request.body.get("id")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if request.id.type == "number":
        return request.id.value
    return number_text(value.token if isinstance(value, Number) else str(value)).lower()


def _is_integer(number: str | None) -> bool:
    return number is not None and number[-1:].isdecimal() and "." not in number and "e-" not in number


def _is_unsafe(number: str) -> bool:
    # A number with an exponent or with more digits is certainly beyond the limit.
    return "e" in number or len(number) > len(str(MAX_SAFE_INTEGER)) + 1 or abs(int(number)) > MAX_SAFE_INTEGER


def _is_fraction(value: object) -> bool:
    """Whether a number was written with a point or an exponent; a `Number` may also be an integer of many digits."""
    return isinstance(value, float) and (not isinstance(value, Number) or not value.token.lstrip("-").isdecimal())


def _type_text(request: Request) -> str:
    value: Any = request.body.get("id")
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, float | Number):
        return "a number with a fraction"
    return "an array" if isinstance(value, list) else "an object"


def _may_answer_lost_request(context: MessageContext, fold: Fold) -> bool:
    """Whether a response whose id has another type than its request's may answer a lost request.

    This is possible if the requesting side is known to use ids of that type as well.
    """
    message, session, request = context.message, context.session, context.request
    if session.lost_seq < 0 or request is None or not isinstance(message, Response) or message.id is None:
        return False
    type_, initialize = message.id.type, session.initialize
    if initialize is not None and initialize.sender == request.sender and initialize.id.type == type_:
        return True
    latest_ids = fold.routing.used_ids(session).latest_ids(session.number, request.sender, _MAX_LATEST_REQUESTS)
    return any(id_.type == type_ for id_ in latest_ids)


def _id_text(context: MessageContext) -> str:
    message = context.message
    id_ = message.id if isinstance(message, Request | Response) else None
    return "(none)" if id_ is None else _short_id(id_)


def _short_id(id_: Id) -> str:
    return id_.text if len(id_.text) <= _MAX_SHOWN_ID_CHARS else f"{id_.text[: _MAX_SHOWN_ID_CHARS - 1]}…"


def _has_unknown_id(context: MessageContext, fold: Fold) -> bool:
    """Whether a response has an id that no request has used."""
    message = context.message
    if not isinstance(message, Response) or message.id is None or not message.id.is_answerable:
        return False
    has_forgotten = fold.tables["server" if message.sender == "client" else "client"].forgotten_count > 0
    if (
        context.http is not None
        and message.sender == "server"
        and context.http.method == "POST"
        and not context.http.client_messages
    ):
        return False  # the body of the POST is not recorded
    return context.id_state is IdState.NEVER_SEEN and not has_forgotten and not _is_replay(context)


def _request_in_other_session(context: MessageContext, fold: Fold) -> tuple[int, int] | None:
    """Returns the numbers of another HTTP session and of its request with the id of a response, or None."""
    message, session = context.message, context.session
    if context.http is None or not isinstance(message, Response) or message.id is None:
        return None
    side: Side = "server" if message.sender == "client" else "client"
    for session_number in range(max(1, session.number - _MAX_SESSION_DISTANCE), session.number + _MAX_SESSION_DISTANCE):
        last_use = fold.routing.used_ids(session).last_use(session_number, side, message.id)
        if last_use is not None and session_number != session.number:
            return session_number, last_use.seq
    return None


def _own_id_state(context: MessageContext, fold: Fold) -> IdState:
    """Returns the state of a response's id among the sender's own requests."""
    message = context.message
    if not isinstance(message, Response) or message.id is None:
        return IdState.NEVER_SEEN
    return fold.tables[message.sender].id_state(RequestKey(message.frames[0].exchange, message.id))


def _answered_seq(context: MessageContext, fold: Fold) -> int | None:
    """Returns the number of the request that an earlier response has answered, or None if it is unknown."""
    message = context.message
    if not isinstance(message, Response) or message.id is None:
        return None
    table = fold.tables["server" if message.sender == "client" else "client"]
    return table.answered_seq(RequestKey(message.frames[0].exchange, message.id))


def _is_replay(context: MessageContext) -> bool:
    """Whether a message was sent on a resumed stream, and so may repeat an earlier message."""
    return context.http is not None and context.http.is_replay
