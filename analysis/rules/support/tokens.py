"""Progress tokens: the request that carried each token, and the outcome of the request.

Each session has one `Tokens` object, which all rules about progress share. Some of them pass to it the requests and the
responses that create tasks; only the first call for a message counts. The others name the rules on which they rely
(`Rule.relies_on`).

Like an id, a token belongs to the requesting side. Over HTTP without sessions, it belongs to one exchange, because
several clients at one address may all begin with 1.

The number of tokens is bounded. Forgotten tokens are counted, because after that an unknown token proves nothing. When
records are lost, all tokens are forgotten with the rest of a session's state.
"""

from collections import OrderedDict
from typing import Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Id, Message, Request, Side, id_of, other_side
from analysis.conversation.session import Session
from analysis.conversation.tasks import Task
from analysis.rules.support.eras import member

MAX_PROGRESS_TOKENS: Final = 10_000
"""The most tokens of a session that are kept."""

TOKEN_WORD: Final = b"progressToken"
"""A word in the bytes of every message that carries or reports a token."""

_KEY: Final = "tokens"
_TASK: Final = Outcome.TASK


class Token:
    """A token, and the request that carried it."""

    __slots__ = (
        *("id", "requester", "seq", "key", "conn", "exchange", "earlier", "is_shared"),
        *("is_of_task", "task", "value", "total"),
    )

    def __init__(self, token: Id, asker: Side, exchange: int | None) -> None:
        self.id = token
        self.requester: Side = asker
        """The side whose request carried the token, and which receives the progress."""
        self.exchange = exchange
        """The exchange to which the token belongs; None if it belongs to the session."""
        self.seq = -1
        """Number of the request's frame; -1 if the capture lacks the request."""
        self.key: RequestKey | None = None
        """The key that matches responses to the request."""
        self.conn = 0
        self.earlier: int | None = None
        """Number of another request that carried the token and was still open."""
        self.is_shared = False
        """Whether progress may belong to that request instead."""
        self.is_of_task = False
        """Whether the response created a task, which keeps the token."""
        self.task: Task | None = None
        """The task that keeps the token; None if it is unknown."""
        self.value: tuple[float, int, int, int | None] | None = None
        """The last progress: value, number of the message, stamp, exchange."""
        self.total: object = None
        """The last reported total."""


class Tokens:
    """The tokens of a session."""

    def __init__(self) -> None:
        self.forgotten_count = 0
        self._by_exchange: OrderedDict[tuple[Side, int | None, Id], Token] = OrderedDict()
        self._latest: OrderedDict[tuple[Side, Id], Token] = OrderedDict()
        # The tokens of the last request and the last notification are cached, because several rules need them.
        self._last_request: tuple[int, int | None, Token | None] = (-1, None, None)
        self._last_report: tuple[Message | None, Id | None, Token | None] = (None, None, None)

    def record_request(self, context: MessageContext, fold: Fold) -> Token | None:
        """Record a request on the first call; returns its token, or None if it carries none."""
        request = context.message
        frame, index = request.frames[0], request.index
        if self._last_request[0] == frame.seq and self._last_request[1] == index:
            return self._last_request[2]
        token = token_of(member(member(context.body.get("params"), "_meta"), "progressToken"))
        known_token = (
            None if token is None or not isinstance(request, Request) else self._create(context, request, token, fold)
        )
        self._last_request = frame.seq, index, known_token
        return known_token

    def _create(self, context: MessageContext, request: Request, token: Id, fold: Fold) -> Token:
        frame, sender = request.frames[0], request.sender
        exchange = frame.exchange if context.era == "modern" and not context.session.is_legacy else None
        new_token = Token(token, sender, exchange)
        new_token.seq, new_token.key, new_token.conn = frame.seq, RequestKey(frame.exchange, request.id), frame.conn
        earlier_token = self._latest.get((sender, token))
        if earlier_token is not None and earlier_token.key is not None and is_open(earlier_token, fold):
            new_token.is_shared = earlier_token.exchange == exchange
            # If the ids are equal as well, the client reuses the id itself, or sends the request again.
            if earlier_token.key.id != request.id and _is_of_one_peer(earlier_token, context):
                new_token.earlier = earlier_token.seq
        self._store(new_token)
        return new_token

    def record_result(self, context: MessageContext) -> None:
        """Record a response that created a task."""
        call = context.answered
        if call is None or call.outcome is not _TASK:
            return
        request = call.request
        token = token_of(request.meta.get("progressToken"))
        known_token = None if token is None else self.find(request.sender, request.frames[0].exchange, token)
        if known_token is not None and known_token.seq == request.seq:
            known_token.is_of_task, known_token.task = True, context.task

    def reported_token(self, context: MessageContext) -> tuple[Id | None, Token | None]:
        """Returns the id of the token that a progress notification names, and the token; each may be None."""
        message, token, known_token = self._last_report
        if message is not context.message:
            token = token_of(member(context.body.get("params"), "progressToken"))
            exchange = None if context.http is None else context.http.first_carrier.number
            known_token = None if token is None else self.find(other_side(context.message.sender), exchange, token)
            self._last_report = context.message, token, known_token
        return token, known_token

    def find(self, requester: Side, exchange: int | None, token: Id) -> Token | None:
        """Returns the token that is valid in an exchange (None on stdio), or None if it is unknown."""
        known_token = self._by_exchange.get((requester, exchange, token))
        return (
            known_token
            if known_token is not None or exchange is None
            else self._by_exchange.get((requester, None, token))
        )

    def last_token(self, requester: Side, token: Id) -> Token | None:
        """Returns the last token with this id that a side used in any exchange, or None if it used none."""
        return self._latest.get((requester, token))

    def add_unseen(self, requester: Side, exchange: int | None, token: Id) -> Token:
        """Add a token whose request the capture lacks; returns it."""
        new_token = Token(token, requester, exchange)
        self._store(new_token)
        self._last_report = None, None, None
        return new_token

    def _store(self, new_token: Token) -> None:
        key = new_token.requester, new_token.exchange, new_token.id
        self._by_exchange.pop(key, None)
        self._by_exchange[key] = new_token
        self._latest.pop((new_token.requester, new_token.id), None)
        self._latest[new_token.requester, new_token.id] = new_token
        if len(self._by_exchange) <= MAX_PROGRESS_TOKENS:
            return
        _, oldest = self._by_exchange.popitem(last=False)
        if self._latest.get((oldest.requester, oldest.id)) is oldest:
            del self._latest[oldest.requester, oldest.id]
        self.forgotten_count += 1


def tokens_of(session: Session) -> Tokens:
    """Returns the tokens of a session, which are created on first use."""
    tokens: Tokens | None = session.memory.get(_KEY)
    if tokens is None:
        tokens = session.memory[_KEY] = Tokens()
    return tokens


def token_of(value: object) -> Id | None:
    """Returns the token in a value, or None if it cannot be a token."""
    return id_of(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def is_open(token: Token, fold: Fold) -> bool:
    """Whether a token's request is unanswered, or was answered with a task that still runs."""
    if token.task is not None:
        return not token.task.is_over
    call = None if token.key is None else fold.tables[token.requester].get(token.key)
    return call is not None and call.request.seq == token.seq


def is_of_session(context: MessageContext) -> bool:
    """Whether the session of a message is certain; over HTTP, it is uncertain without a session id."""
    http = context.http
    return http is None or context.session.is_legacy or (context.era != "modern" and http.session_id is not None)


def _is_of_one_peer(token: Token, context: MessageContext) -> bool:
    """Whether a request certainly comes from the client to which the token belongs."""
    return is_of_session(context) or token.conn == context.message.frames[0].conn
