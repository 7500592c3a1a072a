"""Calls: the requests of a capture, each once, as soon as its outcome is known.

A request ends with its response, with its cancellation or with the failure of the HTTP exchange that carried it,
whichever comes first (`Call.over`). Without any of these, it ends with its server or with the capture; a capture that
is being recorded ends now. A late response changes neither its end nor its length. Following a capture live gives the
same calls as reading the file; `FinalCalls` selects them, and waits for late responses, for exports that can.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from analysis import clock
from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.fold import Fold
from analysis.conversation.message import Request, Side
from analysis.conversation.session import Peer, Session
from analysis.filter import Filter
from analysis.reading import Step
from analysis.selection import matches
from captures.damage import Damage

MAX_TRACEPARENT_CHARS: Final = 256
"""Characters; version 00 has 55, and later ones may have more (W3C Trace Context, 3.2.4)."""
MAX_TIMED_SESSIONS: Final = 10_000
"""The most sessions whose first and last times are kept."""
MAX_CANCELLED_CALLS: Final = 10_000
"""The most cancelled calls that wait for a late response; beyond that, the oldest is exported without one."""


class Origin(NamedTuple):
    """The data by which an export refers from one request to another."""

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
    """When it was over (`Call.over`); otherwise when its server ended, or the capture, or now if that is live."""

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
    is_short = isinstance(traceparent, str) and len(traceparent) <= MAX_TRACEPARENT_CHARS
    return Origin(request.seq, request.index, request.t_ns, traceparent if is_short else None)


class Calls:
    """The calls of one capture, as they end."""

    def __init__(self, fold: Fold, look: Callable[[MessageContext], None] = lambda _: None) -> None:
        """Start without calls.

        Args:
            fold: the state of the conversation, which each step updates.
            look: called with each message, before the call that it ends.
        """
        self.fold = fold
        self._look = look
        self._times: OrderedDict[int, Span] = OrderedDict()

    def on_step(self, step: Step) -> list[EndedCall]:
        """Process the next step; returns the calls that it ends. The last step ends those that are open."""
        ended: list[EndedCall] = []
        for context in step.messages:
            self._look(context)
            self._note(context)
            if context.cancelled is not None:
                ended += self._ended(context.cancelled)
        at = -1 if step.item is None or isinstance(step.item, Damage) else step.item.seq
        for call in step.changed:
            # A call that a notification had cancelled ended at that moment.
            mark = call.cancellation
            if call.response is not None:
                ended += self._ended(call) if mark is None else []
            elif call.settled is not None:
                ended += self._ended(call) if mark is None or mark.seq == at else []
            elif not call.request.id.pairs:
                ended += self._ended(call, call.request.t_ns)
            elif step.end is not None and (mark is None or call.is_ended_by_leaving):
                is_live = step.end == "open"
                ended += self._ended(call, clock.lasted_ns(self.fold.t_ns, self.fold.wall_ns, is_live=is_live))
        return ended

    def sessions(self) -> Iterable[Span]:
        """The sessions so far."""
        return self._times.values()

    def _note(self, context: MessageContext) -> None:
        session, t_ns = context.session, context.message.t_ns
        before = self._times.pop(session.number, None)
        self._times[session.number] = Span(session, t_ns if before is None else before.begun_ns, t_ns)
        if len(self._times) > MAX_TIMED_SESSIONS:
            self._times.popitem(last=False)

    def _ended(self, call: Call, last_ns: int | None = None) -> list[EndedCall]:
        session = call.session
        return [] if session is None else [EndedCall(call, session, self.fold.open_until_ns(call, last_ns))]


class FinalCalls:
    """Selects calls, and holds cancelled ones back until it is known whether they are answered late.

    A late response selects its call as any other does, so nothing is selected before.
    """

    def __init__(self, only: Filter | None = None, *, is_live: bool = False) -> None:
        """Prepare.

        Args:
            only: selects calls whose request or response it matches; None for all.
            is_live: whether nothing is held back, so that a cancelled call is selected by its request alone.
        """
        self._only, self._is_live = only, is_live
        self._cancelled: dict[Call, EndedCall] = {}

    def on_ended(self, ended: Iterable[EndedCall], step: Step) -> list[EndedCall]:
        """Add ended calls; returns the selected ones about which nothing more will be known.

        Args:
            ended: the calls that the step ends.
            step: the step; the last one ends the wait for late responses.
        """
        final = []
        for one in ended:
            call = one.call
            if self._is_live or call.cancellation is None or call.response is not None or call.is_over:
                final.append(one)
                continue
            self._cancelled[call] = one
            if len(self._cancelled) > MAX_CANCELLED_CALLS:
                final.append(self._cancelled.pop(next(iter(self._cancelled))))
        answered = [call for call in step.changed if call.response is not None] if self._cancelled else []
        final += [self._cancelled.pop(call) for call in answered if call in self._cancelled]
        if step.end is not None:
            final += self._cancelled.values()
            self._cancelled = {}
        return [one for one in final if self._only is None or matches(self._only, one.call)]


def names(call: EndedCall, fold: Fold) -> tuple[Peer, Peer]:
    """The client and the server of a call, each as it names itself. Untrusted text."""
    session = call.session
    client = session.client or fold.client or Peer("unknown client", "")
    server = session.server or fold.server or Peer(fold.name or "unknown server", "")
    return client, server
