"""Calls: the requests of a capture, each once, as soon as its outcome is known.

A request ends with its response, with its cancellation (a late response then changes nothing), with the failure of the
HTTP exchange that carried it, or, without any of these, where the capture ends. Following a capture live gives the same
calls as reading the file.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from analysis.conversation.call import Call, Outcome, Seen
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request, Side
from analysis.conversation.session import Peer, Session
from analysis.filter import Filter
from analysis.reading import Step
from analysis.selection import matches
from captures.damage import Damage

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


class EndedCall(NamedTuple):
    """A call that has ended, for an export. Times are stamps of the capture: nanoseconds since it opened."""

    call: Call
    session: Session
    ended_ns: int
    """When its response was read, or when it was cancelled, failed, or the capture ended."""

    @property
    def begun_ns(self) -> int:
        """When it was read from the side that sent it."""
        return self.call.request.t_ns

    @property
    def handed_ns(self) -> int:
        """When the other side had accepted it."""
        return min(self.call.started_ns, self.ended_ns)

    @property
    def sender(self) -> Side:
        """The side that sent it."""
        return self.call.request.sender

    @property
    def outer(self) -> Origin | None:
        """For a request of the server: the client's request that led to it, if known."""
        return None if self.call.outer is None else origin_of(self.call.outer.request)

    @property
    def has_ended(self) -> bool:
        """Whether its end was observed, so that its duration means something."""
        return self.call.outcome not in (Outcome.UNANSWERED, Outcome.NOT_RECORDED)


class Span(NamedTuple):
    """A session, from its first message to its last."""

    session: Session
    begun_ns: int
    ended_ns: int


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
        self._times: OrderedDict[int, Span] = OrderedDict()

    def take(self, step: Step) -> list[EndedCall]:
        """Take the next step; returns the calls that it ends. The last step ends those that are open."""
        ended: list[EndedCall] = []
        for seen in step.messages:
            self._look(seen)
            self._note(seen)
            if seen.cancelled is not None:
                ended += self._ended(seen.cancelled, seen.message.t_ns)
        at = -1 if step.item is None or isinstance(step.item, Damage) else step.item.seq
        for call in step.changed:
            # What a notification had cancelled has ended then.
            mark = call.cancellation
            if call.response is not None:
                ended += self._ended(call, call.response.t_ns) if mark is None else []
            elif call.settled is not None:
                ended += self._ended(call, self.fold.t_ns) if mark is None or mark.seq == at else []
            elif not call.request.id.pairs:
                ended += self._ended(call, call.request.t_ns)
            elif step.end is not None and (mark is None or call.is_ended_by_leaving):
                ended += self._ended(call, self.fold.t_ns)
        return ended

    def sessions(self) -> Iterable[Span]:
        """The sessions so far."""
        return self._times.values()

    def _note(self, seen: Seen) -> None:
        session, t_ns = seen.session, seen.message.t_ns
        before = self._times.pop(session.number, None)
        self._times[session.number] = Span(session, t_ns if before is None else before.begun_ns, t_ns)
        if len(self._times) > SESSIONS_KEPT:
            self._times.popitem(last=False)

    def _ended(self, call: Call, ended_ns: int) -> list[EndedCall]:
        session = call.session
        if session is None or (self._only is not None and not matches(self._only, call)):
            return []
        return [EndedCall(call, session, max(call.request.t_ns, ended_ns))]


def names(call: EndedCall, fold: Fold) -> tuple[Peer, Peer]:
    """The client and the server of a call, each as it names itself; text of the peers, and not sanitised."""
    session = call.session
    client = session.client or fold.client or Peer("unknown client", "")
    server = session.server or fold.server or Peer(fold.name or "unknown server", "")
    return client, server
