"""Calls: the requests of a capture, each once, as soon as its outcome is known.

A request ends with its response, with its cancellation (a late response then changes nothing), with the failure of the
HTTP exchange that carried it, or, without any of these, where the capture ends. Following a capture live gives the same
calls as reading the file.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from analysis.conversation.exchange import Exchange, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Request, Response, Side
from analysis.conversation.session import Peer, Seen, Session
from analysis.filter import Filter, facts_of
from analysis.reading import Step
from captures.record import Record

OPEN_KEPT: Final = 50_000
"""The most open requests that are kept to find the request that led to another."""
OUTER_SEARCHED: Final = 1_000
"""The most of these that are searched for it."""
TRACEPARENT_LONGEST: Final = 256
"""Characters; version 00 has 55, and later ones may have more (W3C Trace Context, 3.2.4)."""
SESSIONS_KEPT: Final = 10_000
"""The most sessions whose first and last times are kept."""


class Origin(NamedTuple):
    """What an export needs to refer to a request from another."""

    seq: int
    """Number of its frame."""
    item: int | None
    """Its place in a batch."""
    t_ns: int
    traceparent: str | None
    """The trace context that it carries, unparsed (SEP-414)."""


class Call(NamedTuple):
    """A request and its outcome. Times are stamps of the capture: nanoseconds since it opened."""

    request: Request
    response: Response | None
    outcome: Outcome
    session: Session
    revision: str | None
    """The revision of MCP that was in force for it."""
    begun_ns: int
    """When it was read from the side that sent it."""
    handed_ns: int
    """When the other side had accepted it."""
    ended_ns: int
    """When its response was read, or when it was cancelled, failed, or the capture ended."""
    is_abandoned: bool
    """Whether it was cancelled because it took too long."""
    outer: Origin | None
    """For a request of the server: the client's request that led to it, if known."""
    http: HttpExchange | None
    """What carried it; None on stdio."""

    @property
    def sender(self) -> Side:
        """The side that sent it."""
        return self.request.sender

    @property
    def has_ended(self) -> bool:
        """Whether its end was observed, so that its duration means something."""
        return self.outcome not in (Outcome.UNANSWERED, Outcome.NOT_RECORDED)


class Span(NamedTuple):
    """A session, from its first message to its last."""

    session: Session
    begun_ns: int
    ended_ns: int


_Key: TypeAlias = tuple[int, int | None]


def _key(request: Request) -> _Key:
    return request.seq, request.index


def origin_of(request: Request) -> Origin:
    """What other calls may need to know about a request."""
    traceparent = request.meta.get("traceparent")
    is_short = isinstance(traceparent, str) and len(traceparent) <= TRACEPARENT_LONGEST
    return Origin(request.seq, request.index, request.t_ns, traceparent if is_short else None)


class Calls:
    """The calls of one capture, as they end."""

    def __init__(self, fold: Fold, only: Filter | None = None, look: Callable[[Seen], None] = lambda _: None) -> None:
        """Prepare.

        Args:
            fold: the state of the conversation, as its reading keeps it.
            only: selects calls whose request or response it matches; None for all.
            look: called with each message, before the call that it ends.
        """
        self.fold = fold
        self._only, self._look = only, look
        # Numbers and not the requests themselves: the fold decides how many of those stay in memory.
        self._open: OrderedDict[_Key, tuple[Origin, int | None]] = OrderedDict()
        """The client's open requests, each with the number of the HTTP exchange that carried it."""
        self._outer: OrderedDict[_Key, Origin] = OrderedDict()
        """The requests of the server, each with the client's request that led to it."""
        self._times: OrderedDict[int, Span] = OrderedDict()
        self._ended: list[Call] = []

    def take(self, step: Step) -> list[Call]:
        """Take the next step; returns the calls that it ends: in the last one, those that are open."""
        for seen in step.messages:
            self._see(seen)
        item = step.item
        if isinstance(item, Record) and item.rec == "exchange" and item.members.get("stage") == "end":
            for exchange in self.fold.let_go:
                # If a notification cancelled it, it has ended before.
                if exchange.cancelled_seq in (None, item.seq):
                    self._end(exchange, item.t_ns)
        for exchange in self.fold.finish() if step.end is not None else ():
            # If a notification cancelled it, it has ended before; a client that left may have resumed.
            if exchange.cancelled_ns is None or exchange.is_ended_by_leaving:
                self._end(exchange, self.fold.t_ns)
        ended, self._ended = self._ended, []
        return ended

    def sessions(self) -> Iterable[Span]:
        """The sessions so far."""
        return self._times.values()

    def _see(self, seen: Seen) -> None:
        message, session = seen.message, seen.session
        self._look(seen)
        before = self._times.pop(session.number, None)
        begun_ns = before.begun_ns if before is not None else message.t_ns
        self._times[session.number] = Span(session, begun_ns, message.t_ns)
        if len(self._times) > SESSIONS_KEPT:
            self._times.popitem(last=False)
        if isinstance(message, Request):
            if seen.is_again:
                self._repeat(seen)
            else:
                self._begin(seen, message)
        elif isinstance(message, Response) and seen.exchange is not None and seen.exchange.cancelled_ns is None:
            self._end(seen.exchange, message.t_ns)
        elif seen.cancelled is not None:
            self._end(seen.cancelled, message.t_ns)

    def _begin(self, seen: Seen, request: Request) -> None:
        if request.sender == "client":
            self._open[_key(request)] = origin_of(request), request.frames[0].exchange
            if len(self._open) > OPEN_KEPT:
                self._open.popitem(last=False)
        elif (outer := self._outer_of(request)) is not None:
            self._outer[_key(request)] = outer
            if len(self._outer) > OPEN_KEPT:
                self._outer.popitem(last=False)
        if not request.id.pairs:
            exchange = Exchange(request, None, Outcome.UNANSWERED, request.t_ns, None)
            exchange.session, exchange.revision, exchange.http = seen.session, seen.revision, seen.http
            self._end(exchange, request.t_ns)

    def _repeat(self, seen: Seen) -> None:
        """A redirected request comes again: what the server asks for in the course of it comes in this exchange."""
        begun = None if seen.request is None else self._open.get(_key(seen.request))
        if begun is not None and seen.request is not None and seen.http is not None:
            self._open[_key(seen.request)] = begun[0], seen.http.number

    def _outer_of(self, request: Request) -> Origin | None:
        """The only open request of the client that the server can be working on."""
        outer: Origin | None = None
        carrier = request.frames[0].exchange
        for origin, exchange in islice(reversed(self._open.values()), OUTER_SEARCHED):
            if exchange == carrier:
                if outer is not None:
                    return None
                outer = origin
        return outer

    def _end(self, exchange: Exchange, ended_ns: int) -> None:
        request, session = exchange.request, exchange.session
        self._open.pop(_key(request), None)
        outer = self._outer.pop(_key(request), None)
        if session is None or not self._selects(exchange, session):
            return
        self._ended.append(
            Call(
                request,
                exchange.response,
                exchange.outcome,
                session,
                exchange.revision,
                request.t_ns,
                min(exchange.started_ns, max(request.t_ns, ended_ns)),
                max(request.t_ns, ended_ns),
                exchange.abandoned_ns is not None,
                outer,
                exchange.http,
            )
        )

    def _selects(self, exchange: Exchange, session: Session) -> bool:
        if self._only is None:
            return True
        sides: list[Request | Response] = [exchange.request]
        sides += [exchange.response] if exchange.response is not None else []
        for message in sides:
            seen = Seen(message, session, exchange, None, exchange.revision, era=exchange.era)
            if self._only.matches(facts_of(seen, exchange)):
                return True
        return False


def names(call: Call, fold: Fold) -> tuple[Peer, Peer]:
    """The client and the server of a call, each as it names itself; text of the peers, and not sanitised."""
    session = call.session
    client = session.client or fold.client or Peer("unknown client", "")
    server = session.server or fold.server or Peer(fold.name or "unknown server", "")
    return client, server
