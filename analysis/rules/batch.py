"""The group `batch`: batches of messages, which exist only in 2025-03-26."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import MAX_BODY_MESSAGES, HttpExchange
from analysis.conversation.message import InvalidMessage, Notification, Response, Side, other_side
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.error_codes import INVALID_REQUEST, PARSE_ERROR
from analysis.protocol.revisions import ALL, HANDSHAKE_ERA, Era, Span, rank_of
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.jsonrpc.responses import is_hard_to_read
from analysis.rules.odd import MessageOddity
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.message_text import is_first, is_item, items_of, reason

_BATCH_REVISION: Final = features.BATCHES
_REFUSAL_CODES: Final = frozenset({INVALID_REQUEST, PARSE_ERROR})
_CLIENT_REFUSAL_STATUSES: Final = frozenset({401, 403, 404, 429})
"""Statuses that refuse the client, not the batch."""
_MAX_REPORTED_ITEMS: Final = 100
"""The maximum number of items that are reported for one batch."""


class _ExceptSpan(Span):
    """All revisions except those of a span."""

    __slots__ = ()

    def applies_to(self, rank: int | None, era: Era | None) -> bool:  # noqa: ARG002 - an era is not a revision
        """Whether a revision is known and outside the span."""
        return rank is not None and not self.first <= rank <= self.last

    def __str__(self) -> str:
        """Returns the revisions as the rule pages show them."""
        return f"{ALL} except {Span(*self)}".removesuffix(" only")


class BatchRule(Rule):
    """A rule about a batch as a whole. It checks a batch once, at the first item."""

    oddities = MessageOddity.SEVERAL

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        """Check a batch that begins with a message."""
        return self.check_batch(context) if context.message.index == 0 and is_item(context.message) else iter(())

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        """Check a batch that begins with something else, or is empty."""
        is_start = context.message.index == 0 and is_item(context.message)
        return self.check_batch(context) if is_start or reason(context.message) == "batch/empty" else iter(())

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        """Yields findings about the batch."""
        raise NotImplementedError

    def whole_batch_finding(self, context: MessageContext, text: str) -> Finding:
        """Returns a finding about the batch as a whole, not about one of its items."""
        return self.finding(context, text)._replace(item=None)


class NotSupportedVersion(BatchRule):
    """A batch is sent in a revision that does not support batches.

    **Why it matters.** 2025-03-26 introduced batches, and later revisions removed them: receivers refuse the whole
    batch. 2024-11-05 does not mention batches, so receivers need not accept them there either.

    **On the wire.** `> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`

    **Instead.** Send each message by itself; they may still be sent at the same time.
    """

    id = "batch/not-supported-version"
    versions = _ExceptSpan(*_BATCH_REVISION)
    levels: ClassVar[Mapping[Span, Level]] = {features.MENTIONS_NO_BATCHES: WARNING}
    source = "2025-06-18 changelog, basic/transports; 2025-03-26 basic/lifecycle"

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        if not _is_before_negotiation(context):
            yield self.whole_batch_finding(context, "a batch, which this revision does not support")


class BeforeNegotiation(BatchRule):
    """A batch is sent before the sides have agreed on a revision.

    **Why it matters.** Whether the other side accepts batches is known only after `initialize` has been answered.

    **On the wire.** `> [{"jsonrpc":"2.0","id":1,"method":"ping"}]` as the first line

    **Instead.** Wait for the result of `initialize`, and send batches if it names 2025-03-26.
    """

    id = "batch/before-negotiation"
    needs_session = True
    versions = HANDSHAKE_ERA
    needs_start = True
    source = "2025-03-26 basic/lifecycle"

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        if _is_before_negotiation(context) and not any(map(_negotiates_batches, items_of(context.message))):
            yield self.whole_batch_finding(context, "a batch before initialize was answered")


class ContainsInitialize(Rule):
    """An `initialize` is sent in a batch.

    **Why it matters.** The other messages in the batch would be processed before anything is agreed on. Servers refuse
    it.

    **On the wire.** `> [{"id":0,"method":"initialize",…},{"id":1,"method":"tools/list"}]`

    **Instead.** Send `initialize` by itself, and wait for its response.
    """

    id = "batch/contains-initialize"
    who = "client"
    versions = _BATCH_REVISION
    methods = frozenset({"initialize"})
    replaces = ("batch/before-negotiation",)
    source = "2025-03-26 basic/lifecycle"

    def on_request(self, context: MessageContext) -> Iterator[Finding]:
        if is_item(context.message):
            yield self.finding(context, "initialize is in a batch")


class Empty(Rule):
    """A batch is empty.

    **Why it matters.** JSON-RPC forbids empty batches: servers answer with an error that names no request.

    **On the wire.** `< []`

    **Instead.** Send nothing if there is nothing to say.
    """

    id = "batch/empty"
    source = "JSON-RPC 2.0 §6"

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        if reason(context.message) == self.id:
            yield self.finding(context, "a batch without messages")


class ItemNotObject(Rule):
    """An item of a batch is not an object.

    **Why it matters.** It is not a message. The receiver has to return an error for each such item, and that error
    names no request.

    **On the wire.** `> [1,{"jsonrpc":"2.0","id":1,"method":"ping"}]`

    **Instead.** Put only messages into the batch.
    """

    id = "batch/item-not-object"
    versions = _BATCH_REVISION
    source = "JSON-RPC 2.0 §6"

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        if reason(message) != self.id or not is_item(message):
            return
        counts: dict[str, int] = self.state_for(context.session, dict)
        if counts.get("of") != message.seq:
            counts["of"], counts["count"] = message.seq, 0
        counts["count"] += 1
        if counts["count"] <= _MAX_REPORTED_ITEMS:
            yield self.finding(context, "an item of the batch is not an object")


class MixedKinds(BatchRule):
    """A batch mixes responses with requests or notifications.

    **Why it matters.** A batch must contain either only responses, or only requests and notifications: receivers infer
    from the first item what the others are.

    **On the wire.** `> [{"jsonrpc":"2.0","id":4,"result":{}},{"jsonrpc":"2.0","id":7,"method":"ping"}]`

    **Instead.** Send two batches.
    """

    id = "batch/mixed-kinds"
    versions = _BATCH_REVISION
    source = "2025-03-26 basic/transports, schema JSONRPCBatchRequest and JSONRPCBatchResponse"

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        kinds = {_item_kind(item) for item in items_of(context.message)}
        if "answer" in kinds and not kinds.isdisjoint({"request", "notification"}):
            yield self.whole_batch_finding(context, "a batch mixes responses with requests or notifications")


class RefusalRule(BatchRule):
    """A rule about the refusal of a batch. On stdio it remembers the last batch of each side."""

    text = ""

    def on_message(self, context: MessageContext) -> Iterable[Finding]:
        """Forget the batch if a later message is hard to read as well: a refusal could be about either."""
        last_batches: dict[Side, int] = self.state_for(context.session, dict)
        if not is_item(context.message) and is_hard_to_read(context):
            last_batches.pop(context.message.sender, None)
        if not last_batches:
            self.set_watching(context.session, False)
        return ()

    def remember_batch(self, context: MessageContext) -> None:
        """Remember a batch whose response is to be checked."""
        last_batches: dict[Side, int] = self.state_for(context.session, dict)
        last_batches[context.message.sender] = context.message.seq
        self.set_watching(context.session, True)

    def report_refusal(self, context: MessageContext) -> Iterator[Finding]:
        """Report a refusal of the other side's batch, if one is remembered."""
        last_batches: dict[Side, int] = self.state_for(context.session, dict)
        batch_seq = last_batches.pop(other_side(context.message.sender), None)
        if batch_seq is not None:
            yield self.batch_finding(context, batch_seq)

    def forget_answered_batch(self, context: MessageContext) -> None:
        """Forget a batch once its receiver has answered an item of it, or a later request."""
        last_batches: dict[Side, int] | None = context.session.memory.get(self.id)
        batch_sender = other_side(context.message.sender)
        if (
            last_batches
            and context.answered is not None
            and context.answered.request.seq >= last_batches.get(batch_sender, 0)
        ):
            last_batches.pop(batch_sender, None)

    def batch_finding(self, at: MessageContext, batch_seq: int) -> Finding:
        """Returns a finding about a refused batch; over HTTP it blames the server, even if that sent no message."""
        blames = "server" if at.http is not None else at.message.sender
        return self.finding(at, self.text, related=(batch_seq,), blames=blames)


class EmptyResponse(RefusalRule):
    """A batch of notifications is answered.

    **Why it matters.** Notifications get no response, not even an empty batch: no caller waits for it, and receivers
    log an error.

    **On the wire.** `> [{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]` and `< []`

    **Instead.** Send nothing; over HTTP, 202 Accepted without a body.
    """

    id = "batch/empty-response"
    versions = _BATCH_REVISION
    impact = Impact.COST
    replaces = ("jsonrpc/notification-answered",)
    exchanges = ExchangeOddity.SENT
    source = "JSON-RPC 2.0 §6"
    text = "a batch of notifications is answered"

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        items = items_of(context.message)
        if context.http is not None:
            return
        if not items:
            yield from self.report_refusal(context)
        elif all(_item_kind(item) == "notification" for item in items):
            self.remember_batch(context)

    def on_response(self, context: MessageContext) -> Iterator[Finding]:
        if context.http is None and context.answered is None and _lacks_id(context):
            yield from self.report_refusal(context)
        self.forget_answered_batch(context)

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:  # noqa: ARG002 - each message has it
        first_item = _sent_batch(http)
        if first_item is None or not all(isinstance(context.message, Notification) for context in http.client_messages):
            return
        # On the older transport, servers answer each POST with a short text.
        has_body = bool(http.server_messages) or ("mcp-session-id" in http.fields and http.response_size > 0)
        is_success = http.status is not None and 200 <= http.status < 300
        if is_success and (http.status != 202 or has_body):
            response = next(
                (context for context in http.server_messages if isinstance(context.message, Response)), None
            )
            yield self.batch_finding(
                response or (http.server_messages or http.client_messages)[-1], first_item.message.seq
            )


class ReceiveUnsupported(RefusalRule):
    """A batch is refused in a revision in which both sides must accept batches.

    **Why it matters.** In 2025-03-26 sending batches is optional, but every receiver must accept them.

    **On the wire.** `> [{"jsonrpc":"2.0","id":1,"method":"ping"}]` and
    `< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`

    **Instead.** Read each item as a message of its own; answer the items individually, or in one batch.
    """

    id = "batch/receive-unsupported"
    versions = _BATCH_REVISION
    replaces = (
        *("batch/empty-response", "jsonrpc/notification-answered", "jsonrpc/error-without-id"),
        "error/ping-refused",
    )
    exchanges = ExchangeOddity.SENT
    source = "2025-03-26 basic/index"
    text = "a batch is refused, although it is valid"

    def check_batch(self, context: MessageContext) -> Iterator[Finding]:
        if context.http is None and _is_well_formed(context):
            self.remember_batch(context)
        return iter(())

    def on_response(self, context: MessageContext) -> Iterator[Finding]:
        if context.http is None and _is_refusal(context):
            yield from self.report_refusal(context)
        self.forget_answered_batch(context)

    def on_messages_exchanged(self, http: HttpExchange, session: Session) -> Iterator[Finding]:  # noqa: ARG002 - each message has it
        first_item = _sent_batch(http)
        if first_item is None or http.status is None or not _is_well_formed(first_item):
            return
        refusal = next((context for context in http.server_messages if _is_refusal(context)), None)
        is_refused = 400 <= http.status < 500 and http.status not in _CLIENT_REFUSAL_STATUSES
        if is_refused or refusal is not None:
            yield self.batch_finding(
                refusal or (http.server_messages or http.client_messages)[-1], first_item.message.seq
            )


class AnsweredIndividually(Rule):
    """Requests that were sent in a batch are answered individually.

    **Why it matters.** MCP permits it, but plain JSON-RPC promises a single batch, and a client built on a JSON-RPC
    library waits for that batch.

    **On the wire.** `> [{"id":1,…},{"id":2,…}]` and `< {"id":1,"result":{}}`, `< {"id":2,"result":{}}`

    **Instead.** Answer a batch with a batch unless that is too slow; as a client, accept both.
    """

    id = "batch/answered-individually"
    versions = _BATCH_REVISION
    level = NOTE
    once = True
    source = "JSON-RPC 2.0 §6; 2025-03-26 basic/transports"

    def on_response(self, context: MessageContext) -> Iterator[Finding]:
        request = context.answered.request if context.answered is not None else None
        if request is not None and context.http is None and is_item(request) and not is_item(context.message):
            yield self.finding(
                context, "a request that was sent in a batch is answered individually", related=(request.seq,)
            )


# ---- shared by the rules


def _is_before_negotiation(context: MessageContext) -> bool:
    """Whether the sides have not agreed on a revision yet, in a session whose start was observed."""
    return context.era != "modern" and context.session.observed_start and context.state in ("new", "init-sent")


def _item_kind(item: Any) -> str | None:
    """Returns the kind of an item of a batch, or None if it is not a message."""
    if not isinstance(item, dict):
        return None
    if "method" in item:
        is_named = isinstance(item["method"], str) and bool(item["method"])
        return None if not is_named else "request" if "id" in item else "notification"
    return "answer" if "result" in item or "error" in item else None


def _negotiates_batches(item: Any) -> bool:
    """Whether an item is an `initialize` for the revision that supports batches; another rule reports that."""
    params = item.get("params") if isinstance(item, dict) and item.get("method") == "initialize" else None
    return isinstance(params, dict) and rank_of(params.get("protocolVersion")) == _BATCH_REVISION.first


def _is_well_formed(first_item: MessageContext) -> bool:
    """Whether the receiver of a batch must accept it."""
    items = items_of(first_item.message)
    kinds = {_item_kind(item) for item in items}
    is_mixed = "answer" in kinds and len(kinds) > 1
    is_versioned = all(isinstance(item, dict) and item.get("jsonrpc") == "2.0" for item in items)
    is_opening = any(item.get("method") == "initialize" for item in items if isinstance(item, dict))
    is_sound = first_item.message.frames[0].verdict.problem is None and len(first_item.message.frames) == 1
    return (
        is_sound
        and is_versioned
        and not (None in kinds or is_mixed or is_opening or _is_before_negotiation(first_item))
    )


def _sent_batch(http: HttpExchange) -> MessageContext | None:
    """Returns the first item of the batch that a POST sent, or None outside 2025-03-26 or if some items are unknown."""
    if not 0 < len(http.client_messages) < MAX_BODY_MESSAGES:
        return None
    first_item = http.client_messages[0]
    is_batch = (
        is_item(first_item.message)
        and is_first(first_item.message)
        and not isinstance(first_item.message, InvalidMessage)
    )
    return first_item if is_batch and first_item.rank == _BATCH_REVISION.first else None


def _lacks_id(context: MessageContext) -> bool:
    response = context.message
    return isinstance(response, Response) and (response.id is None or response.id.type == "null")


def _is_refusal(context: MessageContext) -> bool:
    """Whether a response says that its sender could not read a message at all."""
    response = context.message
    error = response.error if isinstance(response, Response) and response.is_error and _lacks_id(context) else None
    code = error.get("code") if isinstance(error, dict) else None
    return isinstance(code, int | float) and code in _REFUSAL_CODES
