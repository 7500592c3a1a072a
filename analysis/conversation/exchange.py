"""Exchanges: requests with their outcomes, and the tables that pair requests with responses.

There is one table per requesting side, as ids belong to the side that chose them. An id is free again once it has been
answered; two requests in flight under one id are answered in the order in which they were sent. A response that fits no
request pairs with nothing: a wrong link is worse than none.

Memory is bounded whatever the traffic: by the number of open requests, by the bytes of their frames, and by the number
of ids remembered as answered. Everything forgotten is counted.
"""

import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from analysis.conversation.addressing import Key
from analysis.conversation.limited import Limited
from analysis.conversation.message import Request, Response
from analysis.protocol.error_codes import REQUEST_TIMEOUT
from analysis.protocol.revisions import Era

if TYPE_CHECKING:
    from analysis.conversation.http_exchange import HttpExchange, Mark
    from analysis.conversation.multi_round import Round
    from analysis.conversation.session import Session

OPEN_LIMIT: Final = 50_000
"""The most requests of one side that wait for a response; the oldest are forgotten first."""
OPEN_HTTP_LIMIT: Final = 15_000
"""The same over HTTP, where each request may have its own exchange and session."""
OPEN_BYTES: Final = 16 << 20
"""The most bytes in the frames of these; a single one may be larger."""
CROWD: Final = 1_000
CROWD_BYTES: Final = 1 << 20
"""With more open requests of one side, or more bytes in their frames, the older requests are packed."""
WHOLE: Final = 100
WHOLE_BYTES: Final = 1 << 20
"""How many of the last ones are not packed."""
ABANDONED_NS: Final = 5_000_000_000
"""A request that had waited this long when its sender cancelled it was abandoned, whatever reason was given."""
REASON: Final = 1000
"""The most characters of such a reason that are kept."""
GIVEN_UP_LIMIT: Final = 10_000
"""The most requests kept whose response may be lost and whose id was reused."""
ANSWERED_LIMIT: Final = 100_000
"""The most ids of one side that are remembered as answered, and as failed."""


class Outcome(StrEnum):
    """The outcome of a request."""

    RESULT = "result"
    """A complete result."""
    TOOL_ERROR = "tool_error"
    """A tool result with `isError`."""
    ERROR = "error"
    """A JSON-RPC error."""
    INPUT_REQUIRED = "input_required"
    """An interim result (2026-07-28): the client is to retry with more input."""
    TASK = "task"
    """A task was started; its result comes through other requests."""
    CANCELLED = "cancelled"
    """Cancelled, and not answered afterwards."""
    FAILED = "failed"
    """The HTTP exchange failed, or ended, before a response could come."""
    UNANSWERED = "unanswered"
    """No response seen."""
    NOT_RECORDED = "not_recorded"
    """No response seen, but the capture lacks the body or the records in which it may have come."""


class IdState(StrEnum):
    """The state of an id in a table."""

    NEVER_SEEN = "never_seen"
    """No request had it, or the table has forgotten it (see `RequestTable.forgotten`)."""
    OPEN = "open"
    """A request waits for its response."""
    CANCELLED = "cancelled"
    """The same, and a cancellation has named it."""
    ANSWERED = "answered"
    """It has been answered and not reused."""
    FAILED = "failed"
    """Its HTTP exchange ended without a response, and it has not been reused."""


# Enumeration members take ten times as long to look up as these, and each message needs some.
_RESULT: Final = Outcome.RESULT
_TOOL_ERROR: Final = Outcome.TOOL_ERROR
_ERROR: Final = Outcome.ERROR
_INPUT_REQUIRED: Final = Outcome.INPUT_REQUIRED
_TASK: Final = Outcome.TASK
_CANCELLED: Final = Outcome.CANCELLED
_FAILED: Final = Outcome.FAILED
_UNANSWERED: Final = Outcome.UNANSWERED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_ID_NEVER_SEEN: Final = IdState.NEVER_SEEN
_ID_OPEN: Final = IdState.OPEN
_ID_CANCELLED: Final = IdState.CANCELLED
_ID_ANSWERED: Final = IdState.ANSWERED
_ID_FAILED: Final = IdState.FAILED
ENDLESS: Final = frozenset({"subscriptions/listen"})
"""Methods of requests that normally get no response, and end by a cancellation."""
_NO_SUCCESS: Final = 300
_TIMED_OUT: Final = re.compile(rf"tim(?:e|ed)[\s_-]?out|deadline|{REQUEST_TIMEOUT}", re.IGNORECASE)


class ProbableAnswer(NamedTuple):
    """A response that fits no request, kept with the request that it was probably meant for."""

    seq: int
    """Number of its frame."""
    id: str | None
    """Its id as JSON, truncated; None if it has none, or null. Untrusted text."""

    @property
    def text(self) -> str:
        """What it means for the request, as a clause."""
        return f"probably answered by frame {self.seq} {'without an id' if self.id is None else f'with id {self.id}'}"


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its outcome, as far as known."""

    request: Request
    response: Response | None
    """None if none came."""
    outcome: Outcome
    started_ns: int
    """When the request was handed on: its stamp, plus the time that the receiver then took to accept it."""
    ended_ns: int | None
    """Stamp of the response."""
    cancelled_ns: int | None = None
    """Stamp of the first cancellation, or of the end of an HTTP exchange that its client closed; a response may still
    have come after it. The outcome says whether it had failed before that."""
    cancelled_seq: int | None = None
    """Number of its frame, or of the record of that end."""
    session: "Session | None" = None
    """The session in which it was sent."""
    revision: str | None = None
    """The revision of MCP that was in force for it."""
    era: Era | None = None
    """The era in which it was spoken."""
    round: "Round | None" = None
    """Its round of a chain; None if it is a separate call."""
    cancel_reason: str | None = None
    """The reason given in that cancellation. Untrusted text."""
    probable_answer: ProbableAnswer | None = None
    """For an unanswered request: the first response that fits no request and was probably meant for this one."""
    broken_ns: int | None = None
    """Stamp of the end of the HTTP exchange on which its response was due; None before that, and with a response."""
    is_left: bool = False
    """Whether its client closed that exchange under a revision in which this does not cancel: it gave up."""
    http: "HttpExchange | None" = None
    """The HTTP exchange that carried it, the last one if it was redirected; None on stdio."""
    redirects: int = 0
    """How many times it was redirected and repeated."""

    @property
    def lasted_ns(self) -> int | None:
        """How long its HTTP exchange lasted that ended without its response; None if that has not happened."""
        return None if self.broken_ns is None else max(0, self.broken_ns - self.started_ns)

    @property
    def is_ended_by_leaving(self) -> bool:
        """Whether its client left, and no cancellation had ended it before."""
        return self.is_left and self.cancelled_ns == self.broken_ns

    @property
    def duration_ns(self) -> int | None:
        """How long the response took; None without one."""
        return None if self.ended_ns is None else max(0, self.ended_ns - self.started_ns)

    @property
    def abandoned_ns(self) -> int | None:
        """How long it had waited when its sender abandoned it; None if that did not happen.

        This means a cancellation whose reason names a timeout, or one after five seconds: both official SDKs cancel a
        call that times out. A client that closes the HTTP exchange instead has given up at any time. A response may
        still have come after it.
        """
        if self.cancelled_ns is None or self.request.method in ENDLESS:
            return None
        waited_ns = max(0, self.cancelled_ns - self.started_ns)
        is_given_up = self.is_left or waited_ns >= ABANDONED_NS or timed_out(self.cancel_reason)
        return waited_ns if is_given_up else None

    @property
    def is_open(self) -> bool:
        """Whether a response may still come that its sender wants, if its capture is still being recorded."""
        return self.outcome is _UNANSWERED and self.abandoned_ns is None and self.request.method not in ENDLESS

    @property
    def late_ns(self) -> int | None:
        """How long after its cancellation it was answered all the same; None if it was not."""
        if self.cancelled_ns is None or self.ended_ns is None:
            return None
        return max(0, self.ended_ns - self.cancelled_ns)


@dataclass(slots=True, eq=False)
class Waiting:
    """A request without a response so far."""

    request: Request
    revision: str | None
    """The revision of MCP that was in force for it."""
    era: Era | None = None
    """The era in which it was spoken."""
    http: "HttpExchange | None" = None
    """What carried it; None on stdio."""
    session: "Session | None" = None
    """The session in which it was sent."""
    cancelled_ns: int | None = None
    cancelled_seq: int | None = None
    cancel_reason: str | None = None
    fault: Outcome | None = None
    """What had become of it before it was cancelled; None if it could still be answered, or was not cancelled."""
    broken: "Mark | None" = None
    """The end of the HTTP exchange on which its response was due; None while it is open, or resumed."""
    is_left: bool = False
    """Whether that is because its client closed it, although that does not cancel."""
    redirects: int = 0
    """How many times it was redirected and repeated."""
    losses: "Losses | None" = None
    """What counts the losses of records; None if that is unknown."""
    losses_before: int = 0
    """How many there had been when it was sent."""
    probable_answer: ProbableAnswer | None = None
    """The first response that fits no request and was probably meant for this one."""

    @property
    def is_awaited(self) -> bool:
        """Whether its sender still waits for a response that can come."""
        return self.cancelled_ns is None and self.broken is None and self.request.method not in ENDLESS

    @property
    def may_be_lost(self) -> bool:
        """Whether records were lost since it was sent: its response may be among them."""
        return self.losses is not None and self.losses.count > self.losses_before

    @property
    def is_due(self) -> bool:
        """Whether its response is missed: it was not cancelled, or only after it had failed."""
        return self.cancelled_ns is None or self.fault is not None

    @property
    def state(self) -> IdState:
        """The state of its id."""
        if self.broken is not None and self.http is not None and self.http.is_redirect:
            return _ID_FAILED
        return _ID_OPEN if self.cancelled_ns is None else _ID_CANCELLED

    def closed(self, response: Response | None, waited_ns: int) -> Exchange:
        """The exchange that results once `response` has come, or, with None, once no response is awaited any more.

        Args:
            response: the answer.
            waited_ns: how long the request waited to be handed on after its stamp.
        """
        started_ns = self.request.t_ns + waited_ns
        if response is not None:
            outcome, ended_ns, probable = outcome_of(response, self.request), response.t_ns, None
        else:
            outcome, ended_ns, probable = self._fate, None, self.probable_answer
        exchange = Exchange(
            self.request,
            response,
            outcome,
            started_ns,
            ended_ns,
            self.cancelled_ns,
            self.cancelled_seq,
            self.session,
            self.revision,
            self.era,
            None,
            self.cancel_reason,
            probable,
        )
        if self.http is None:
            return exchange
        exchange.http, exchange.redirects = self.http, self.redirects
        if response is None and self.broken is not None:
            exchange.broken_ns, exchange.is_left = self.broken.t_ns, self.is_left
            if self.is_left and self.cancelled_ns is None:
                exchange.cancelled_ns, exchange.cancelled_seq = self.broken.t_ns, self.broken.seq
        return exchange

    @property
    def _fate(self) -> Outcome:
        """The outcome without a response."""
        if self.fault is not None:
            return self.fault
        if self.is_left and self.request.method == "initialize":
            return _UNANSWERED
        if self.cancelled_ns is not None or self.is_left:
            return _CANCELLED
        if self.broken is not None:
            return _NOT_RECORDED if self.http is not None and self.may_be_in(self.http) else _FAILED
        return _NOT_RECORDED if self.may_be_lost else _UNANSWERED

    def may_be_in(self, http: "HttpExchange") -> bool:
        """Whether its response may have come in an exchange that has ended, but not all of that is in the capture."""
        if http.status is None or http.status >= _NO_SUCCESS:
            return False
        return "server" in http.unrecorded or (self.may_be_lost and http.response_size > 0)


def timed_out(reason: str | None) -> bool:
    """Whether the reason given in a cancellation names a timeout."""
    return _TIMED_OUT.search(reason or "") is not None


def outcome_of(response: Response, request: Request | None) -> Outcome:
    """The outcome that a response means for its request, or by itself if that is unknown."""
    if response.is_error:
        return _ERROR
    result: Any = response.result
    if not isinstance(result, dict):
        return _RESULT
    if result.get("isError") is True:
        return _TOOL_ERROR
    type_ = result.get("resultType")
    if type_ == "input_required":
        return _INPUT_REQUIRED
    # 2025-11-25 answers with `task` if the request asked for one; later revisions name the type.
    params = request.params if request is not None else None
    is_stub = isinstance(params, dict) and "task" in params and isinstance(result.get("task"), dict)
    return _TASK if type_ == "task" or is_stub else _RESULT


class Losses:
    """How many times records were lost, perhaps with responses; shared with requests, of which there may be many."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class RequestTable:
    """The requests of one side, by id."""

    def __init__(self, limit: int = OPEN_LIMIT, bytes_limit: int = OPEN_BYTES) -> None:
        """Create an empty table.

        Args:
            limit: the most open requests.
            bytes_limit: the most bytes in their frames.
        """
        self.evicted = 0
        """Open requests that had to be forgotten: their responses pair with nothing."""
        self._limit, self._bytes_limit = limit, bytes_limit
        self._losses = Losses()
        self._open: OrderedDict[Key, Waiting] = OrderedDict()
        # Later requests under the same key: rarely needed, so other keys have no such queue.
        self._later: dict[Key, deque[Waiting]] = {}
        # How many under a key are cancelled: always the first ones, as responses and cancellations both go in order.
        self._cancelled: dict[Key, int] = {}
        self._answered: Limited[Key, tuple[int, int]] = Limited(ANSWERED_LIMIT)
        self._failed: Limited[Key, int] = Limited(ANSWERED_LIMIT)
        # Requests whose responses may be among lost records, and whose id was reused: no response can match them.
        self._given_up: deque[Waiting] = deque(maxlen=GIVEN_UP_LIMIT)
        # Requests whose values are kept, while there are many; in the order in which they were sent.
        self._whole: deque[Request] = deque()
        self._whole_bytes = 0
        # For frames with several requests, by number: how many are open. They share the frame's bytes.
        self._frames: dict[int, int] = {}
        self._count = self._bytes = 0

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._count

    @property
    def forgotten(self) -> int:
        """Counts forgotten ids, of any state, and losses of records; above 0, NEVER_SEEN proves nothing."""
        return self._answered.forgotten + self._failed.forgotten + self._losses.count + self.evicted

    def open(
        self,
        request: Request,
        key: Key,
        revision: str | None = None,
        era: Era | None = None,
        http: "HttpExchange | None" = None,
        session: "Session | None" = None,
    ) -> IdState:
        """Enter a request. One that cannot be answered (id null or an object) is not entered.

        Returns:
            The state of its key before.
        """
        state = self.state(key)
        if not request.id.pairs:
            return state
        if state is _ID_ANSWERED:
            del self._answered[key]
        elif state is _ID_FAILED:
            self._failed.pop(key, None)
        while (first := self._open.get(key)) is not None and first.may_be_lost:
            self._given_up.append(self._release(key))
        waiting = Waiting(request, revision, era, http, session)
        waiting.losses, waiting.losses_before = self._losses, self._losses.count
        if key in self._open:
            self._later.setdefault(key, deque()).append(waiting)
        else:
            self._open[key] = waiting
        self._hold(request)
        if self._count > CROWD or self._bytes > CROWD_BYTES:
            self._pack(request)
        limit = self._limit if http is None else min(self._limit, OPEN_HTTP_LIMIT)
        while self._count > 1 and (self._count > limit or self._bytes > self._bytes_limit):
            self._release(next(iter(self._open)))
            self.evicted += 1
        return state

    def answer(self, key: Key | None, t_ns: int = 0) -> Waiting | None:
        """Take a response: return the request that it answers, which is open no longer, or None if it fits none."""
        if key is None or key not in self._open:
            return None
        waiting = self._release(key)
        if key not in self._open:
            self._answered.keep(key, (waiting.request.seq, t_ns))
        return waiting

    def fail(self, key: Key) -> None:
        """Close a request that can no longer be answered."""
        if key in self._open:
            self._failed.keep(key, self._release(key).request.seq)

    def cancel(self, key: Key, t_ns: int, seq: int | None = None, reason: str | None = None) -> Waiting | None:
        """Take a cancellation: return the request that it names, which stays open, or None if there is none."""
        first, later, before = self._open.get(key), self._later.get(key, ()), self._cancelled.get(key, 0)
        if first is None or before > len(later):
            return None
        waiting = later[before - 1] if before else first
        waiting.cancelled_ns, waiting.cancelled_seq, waiting.cancel_reason = t_ns, seq, reason
        self._cancelled[key] = before + 1
        return waiting

    def get(self, key: Key) -> Waiting | None:
        """The request that a response would answer now."""
        return self._open.get(key)

    def answered(self, key: Key) -> int | None:
        """Number of the frame of the last request under a key, if that has been answered."""
        answered = self._answered.get(key)
        return None if answered is None else answered[0]

    def answered_ns(self, key: Key) -> int | None:
        """The stamp of its response, likewise."""
        answered = self._answered.get(key)
        return None if answered is None else answered[1]

    def forget(self) -> None:
        """Note lost frames, perhaps with responses and requests: open requests may be answered, any id may be used.

        Responses to open requests are still accepted. Nothing else that was known proves anything from now on.
        """
        self._losses.count += 1
        self._answered.clear()
        self._failed.clear()

    def clear(self) -> None:
        """Forget everything. Waiting requests refer to their session, and that to the table: a reference cycle."""
        tables = (
            self._open,
            self._later,
            self._cancelled,
            self._answered,
            self._failed,
            self._given_up,
            self._frames,
        )
        for known in tables:
            known.clear()
        self._whole.clear()
        self._count = self._bytes = self._whole_bytes = 0

    def state(self, key: Key) -> IdState:
        """The state of a key."""
        waiting = self.get(key)
        if waiting is not None:
            return waiting.state
        if key in self._answered:
            return _ID_ANSWERED
        # Hashing a key takes longer than all the rest.
        return _ID_FAILED if self._failed and key in self._failed else _ID_NEVER_SEEN

    def waiting(self) -> list[Waiting]:
        """All requests that wait, or waited when records were lost, in the order in which they were sent."""
        later = (exchange for queue in self._later.values() for exchange in queue)
        return sorted([*self._given_up, *self._open.values(), *later], key=_order)

    def oldest(self, count: int) -> list[Waiting]:
        """The requests under the first `count` waiting ids, roughly in the order they were sent; one per id."""
        return [*islice(self._open.values(), count)]

    def _pack(self, request: Request) -> None:
        """Pack older requests when there are very many, so that only the last ones keep their values."""
        self._whole.append(request)
        self._whole_bytes += len(request.frames[0].raw)
        while len(self._whole) > 1 and (len(self._whole) > WHOLE or self._whole_bytes > WHOLE_BYTES):
            oldest = self._whole.popleft()
            self._whole_bytes -= len(oldest.frames[0].raw)
            oldest.pack()

    def _hold(self, request: Request) -> None:
        frame, users = request.frames[0], 0
        if request.index is not None:
            users = self._frames.get(frame.seq, 0)
            self._frames[frame.seq] = users + 1
        self._bytes += 0 if users else len(frame.raw)
        self._count += 1

    def _release(self, key: Key) -> Waiting:
        """Remove and return the oldest request under `key`."""
        waiting, later = self._open[key], self._later.get(key)
        if waiting.cancelled_ns is not None:
            self._cancelled[key] -= 1
        if later is None:
            del self._open[key]
            self._cancelled.pop(key, None)
        else:
            self._open[key] = later.popleft()
            if not later:
                del self._later[key]
        frame, users = waiting.request.frames[0], 1
        if waiting.request.index is not None:
            users = self._frames.pop(frame.seq)
            if users > 1:
                self._frames[frame.seq] = users - 1
        self._bytes -= 0 if users > 1 else len(frame.raw)
        self._count -= 1
        return waiting


def _order(waiting: Waiting) -> tuple[int, int]:
    return waiting.request.seq, waiting.request.index or 0
