"""Progress tokens: the request that carried each, and its outcome.

Each session has one state, which all rules about progress share. Some of them pass on the requests, and the responses
that create tasks; only the first call for a message counts. The others name the rules on which they rely
(`Rule.relies_on`).

Like an id, a token belongs to the requesting side. Over HTTP without sessions it belongs to one exchange, as several
clients behind one address may all begin with 1.

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

WORD: Final = b"progressToken"
"""A word in the bytes of every message that carries or reports a token."""

_KEY: Final = "tokens"
_TASK: Final = Outcome.TASK


class Token:
    """A token, and the request that carried it."""

    __slots__ = (
        *("id", "asker", "seq", "key", "conn", "exchange", "earlier", "is_shared"),
        *("is_of_task", "task", "value", "total"),
    )

    def __init__(self, token: Id, asker: Side, exchange: int | None) -> None:
        self.id = token
        self.asker: Side = asker
        """The side whose request carried it, which receives the progress."""
        self.exchange = exchange
        """The exchange to which it belongs; None if it belongs to the session."""
        self.seq = -1
        """Number of the request's frame; -1 if the request was not seen."""
        self.key: RequestKey | None = None
        """The key by which responses find the request."""
        self.conn = 0
        self.earlier: int | None = None
        """Number of another request that carried it and was still open."""
        self.is_shared = False
        """Whether progress may belong to that other request."""
        self.is_of_task = False
        """Whether the answer created a task, which keeps the token."""
        self.task: Task | None = None
        """That task; None if unknown."""
        self.value: tuple[float, int, int, int | None] | None = None
        """The last progress: value, number of the message, stamp, exchange."""
        self.total: object = None
        """The last reported total."""


class Tokens:
    """The tokens of a session."""

    def __init__(self) -> None:
        self.forgotten = 0
        self._all: OrderedDict[tuple[Side, int | None, Id], Token] = OrderedDict()
        self._last: OrderedDict[tuple[Side, Id], Token] = OrderedDict()
        # The tokens of the last request and the last notification, as several rules need each.
        self._last_request: tuple[int, int | None, Token | None] = (-1, None, None)
        self._last_report: tuple[Message | None, Id | None, Token | None] = (None, None, None)

    def record_request(self, context: MessageContext, fold: Fold) -> Token | None:
        """Record a request, once; returns its token, or None if it carries none."""
        request = context.message
        frame, index = request.frames[0], request.index
        if self._last_request[0] == frame.seq and self._last_request[1] == index:
            return self._last_request[2]
        token = token_of(member(member(context.body.get("params"), "_meta"), "progressToken"))
        known = (
            None if token is None or not isinstance(request, Request) else self._create(context, request, token, fold)
        )
        self._last_request = frame.seq, index, known
        return known

    def _create(self, context: MessageContext, request: Request, token: Id, fold: Fold) -> Token:
        frame, sender = request.frames[0], request.sender
        exchange = frame.exchange if context.era == "modern" and not context.session.is_legacy else None
        new = Token(token, sender, exchange)
        new.seq, new.key, new.conn = frame.seq, RequestKey(frame.exchange, request.id), frame.conn
        before = self._last.get((sender, token))
        if before is not None and before.key is not None and is_open(before, fold):
            new.is_shared = before.exchange == exchange
            # If the ids are equal too, the id itself is reused, or the request is sent again.
            if before.key.id != request.id and _is_of_one_peer(before, context):
                new.earlier = before.seq
        self._hold(new)
        return new

    def record_result(self, context: MessageContext) -> None:
        """Record a response that created a task."""
        call = context.answered
        if call is None or call.outcome is not _TASK:
            return
        request = call.request
        token = token_of(request.meta.get("progressToken"))
        known = None if token is None else self.find(request.sender, request.frames[0].exchange, token)
        if known is not None and known.seq == request.seq:
            known.is_of_task, known.task = True, context.task

    def report(self, context: MessageContext) -> tuple[Id | None, Token | None]:
        """Returns the token that a progress notification names, and what is known of it; each may be None."""
        message, token, known = self._last_report
        if message is not context.message:
            token = token_of(member(context.body.get("params"), "progressToken"))
            exchange = None if context.http is None else context.http.first.number
            known = None if token is None else self.find(other_side(context.message.sender), exchange, token)
            self._last_report = context.message, token, known
        return token, known

    def find(self, asker: Side, exchange: int | None, token: Id) -> Token | None:
        """Returns the token as used in an exchange (None on stdio), or None if it is unknown."""
        known = self._all.get((asker, exchange, token))
        return known if known is not None or exchange is None else self._all.get((asker, None, token))

    def last(self, asker: Side, token: Id) -> Token | None:
        """The last token of this name that a side used, in any exchange."""
        return self._last.get((asker, token))

    def add_unseen(self, asker: Side, exchange: int | None, token: Id) -> Token:
        """Keep a token whose request was not seen, and return it."""
        new = Token(token, asker, exchange)
        self._hold(new)
        self._last_report = None, None, None
        return new

    def _hold(self, new: Token) -> None:
        name = new.asker, new.exchange, new.id
        self._all.pop(name, None)
        self._all[name] = new
        self._last.pop((new.asker, new.id), None)
        self._last[new.asker, new.id] = new
        if len(self._all) <= MAX_PROGRESS_TOKENS:
            return
        _, old = self._all.popitem(last=False)
        if self._last.get((old.asker, old.id)) is old:
            del self._last[old.asker, old.id]
        self.forgotten += 1


def tokens_of(session: Session) -> Tokens:
    """The tokens of a session."""
    kept: Tokens | None = session.memory.get(_KEY)
    if kept is None:
        kept = session.memory[_KEY] = Tokens()
    return kept


def token_of(value: object) -> Id | None:
    """Returns the token in a value, or None if it cannot be a token."""
    return id_of(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def is_open(token: Token, fold: Fold) -> bool:
    """Whether a token's request is unanswered, or was answered with a task that still runs."""
    if token.task is not None:
        return not token.task.is_over
    waiting = None if token.key is None else fold.tables[token.asker].get(token.key)
    return waiting is not None and waiting.request.seq == token.seq


def is_of_session(context: MessageContext) -> bool:
    """Whether the session of a message is certain; over HTTP it is not without a session id."""
    http = context.http
    return http is None or context.session.is_legacy or (context.era != "modern" and http.session_id is not None)


def _is_of_one_peer(token: Token, context: MessageContext) -> bool:
    """Whether a request certainly comes from the client to which the token belongs."""
    return is_of_session(context) or token.conn == context.message.frames[0].conn
