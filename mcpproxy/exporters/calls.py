"""Yields the calls of a capture: each request once, as soon as its outcome is known.

A request ends with its response, with its cancellation or with the failure of the HTTP exchange that carried it,
whichever comes first (`Call.over`). Otherwise, it ends with its server or with the capture; for a capture that is being
recorded, it ends now. A late response changes neither its end nor its duration. Following a live capture gives the same
calls as reading the file. `FinalCallSelector` selects calls and, for exports that can wait, waits for late responses.
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

MAX_TIMED_SESSIONS: Final = 10_000
"""The maximum number of sessions whose first and last times are kept."""
MAX_CANCELLED_CALLS: Final = 10_000
"""The maximum number of cancelled calls that wait for late responses; beyond it, the oldest is exported without one."""


class RequestOrigin(NamedTuple):
    """Identifies a request, for references from other requests."""

    seq: int
    """The number of its frame."""
    item: int | None
    """Its index in a batch; None if it is not in a batch."""
    t_ns: int


class EndedCall(NamedTuple):
    """A call that has ended, for an export. Times are stamps of the capture: nanoseconds since it opened."""

    call: Call
    session: Session
    end_ns: int
    """When the call was over (`Call.over`) or, otherwise, when its server or the capture ended; now if it is live."""

    @property
    def start_ns(self) -> int:
        """When the request was read from its sender."""
        return self.call.request.t_ns

    @property
    def accepted_ns(self) -> int:
        """When the receiver had accepted the request."""
        return min(self.call.started_ns, self.end_ns)

    @property
    def sender(self) -> Side:
        """The side that sent the request."""
        return self.call.request.sender

    @property
    def outer_origin(self) -> RequestOrigin | None:
        """The client's request that led to a request of the server, if it is known."""
        return None if self.call.outer is None else origin_of(self.call.outer.request)

    @property
    def has_ended(self) -> bool:
        """Whether the end of the call was observed, so that its duration is meaningful."""
        return self.call.outcome not in (Outcome.UNANSWERED, Outcome.NOT_RECORDED)


class SessionSpan(NamedTuple):
    """The time span of a session, from its first message to its last."""

    session: Session
    start_ns: int
    end_ns: int


def origin_of(request: Request) -> RequestOrigin:
    """Return the origin of a request."""
    return RequestOrigin(request.seq, request.index, request.t_ns)


class CallCollector:
    """Collects the calls of one capture as they end."""

    def __init__(self, fold: Fold, on_message: Callable[[MessageContext], None] = lambda _: None) -> None:
        """Start without calls.

        Args:
            fold: the state of the conversation, which each step updates.
            on_message: called with each message, before the end of its call is processed.
        """
        self.fold = fold
        self._on_message = on_message
        self._session_spans: OrderedDict[int, SessionSpan] = OrderedDict()

    def on_step(self, step: Step) -> list[EndedCall]:
        """Process the next step; returns the calls that it ends. The last step ends all open calls."""
        ended_calls: list[EndedCall] = []
        for context in step.messages:
            self._on_message(context)
            self._update_session_span(context)
            if context.cancelled is not None:
                ended_calls += self._ended_calls(context.cancelled)
        step_seq = -1 if step.item is None or isinstance(step.item, Damage) else step.item.seq
        for call in step.changed:
            # A call that was cancelled by a notification has already ended.
            cancellation = call.cancellation
            if call.response is not None:
                ended_calls += self._ended_calls(call) if cancellation is None else []
            elif call.final_outcome is not None:
                ended_calls += self._ended_calls(call) if cancellation is None or cancellation.seq == step_seq else []
            elif not call.request.id.is_answerable:
                ended_calls += self._ended_calls(call, call.request.t_ns)
            elif step.end is not None and (cancellation is None or call.is_ended_by_leaving):
                is_live = step.end == "open"
                ended_calls += self._ended_calls(
                    call, clock.duration_ns(self.fold.t_ns, self.fold.wall_ns, is_live=is_live)
                )
        return ended_calls

    def session_spans(self) -> Iterable[SessionSpan]:
        """Return the time spans of the sessions so far."""
        return self._session_spans.values()

    def _update_session_span(self, context: MessageContext) -> None:
        session, t_ns = context.session, context.message.t_ns
        earlier_span = self._session_spans.pop(session.number, None)
        self._session_spans[session.number] = SessionSpan(
            session, t_ns if earlier_span is None else earlier_span.start_ns, t_ns
        )
        if len(self._session_spans) > MAX_TIMED_SESSIONS:
            self._session_spans.popitem(last=False)

    def _ended_calls(self, call: Call, last_ns: int | None = None) -> list[EndedCall]:
        session = call.session
        return [] if session is None else [EndedCall(call, session, self.fold.open_until_ns(call, last_ns))]


class FinalCallSelector:
    """Selects calls, and holds back cancelled calls until it is known whether they are answered late.

    The filter may match a late response as well, so it is applied only then.
    """

    def __init__(self, selection: Filter | None = None, *, is_live: bool = False) -> None:
        """Start without calls.

        Args:
            selection: matches the requests or responses of the selected calls; None selects all.
            is_live: whether no call is held back; the filter then sees only the request of a cancelled call.
        """
        self._selection, self._is_live = selection, is_live
        self._cancelled_calls: dict[Call, EndedCall] = {}

    def on_ended(self, ended_calls: Iterable[EndedCall], step: Step) -> list[EndedCall]:
        """Add ended calls; returns the selected calls that no later step can change.

        Args:
            ended_calls: the calls that the step ends.
            step: the step; the last step ends the wait for late responses.
        """
        final_calls = []
        for ended_call in ended_calls:
            call = ended_call.call
            if self._is_live or call.cancellation is None or call.response is not None or call.is_over:
                final_calls.append(ended_call)
                continue
            self._cancelled_calls[call] = ended_call
            if len(self._cancelled_calls) > MAX_CANCELLED_CALLS:
                final_calls.append(self._cancelled_calls.pop(next(iter(self._cancelled_calls))))
        answered_calls = [call for call in step.changed if call.response is not None] if self._cancelled_calls else []
        final_calls += [self._cancelled_calls.pop(call) for call in answered_calls if call in self._cancelled_calls]
        if step.end is not None:
            final_calls += self._cancelled_calls.values()
            self._cancelled_calls = {}
        return [
            ended_call
            for ended_call in final_calls
            if self._selection is None or matches(self._selection, ended_call.call)
        ]


def peers_of(call: EndedCall, fold: Fold) -> tuple[Peer, Peer]:
    """Return the client and the server of a call, with the names that they gave themselves, which are untrusted."""
    session = call.session
    client = session.client or fold.client or Peer("unknown client", "")
    server = session.server or fold.server or Peer(fold.name or "unknown server", "")
    return client, server
