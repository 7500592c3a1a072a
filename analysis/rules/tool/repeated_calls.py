"""Calls to a tool that are repeated with the same arguments."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message, Request
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.session import Session
from analysis.facts import size_of
from analysis.rules.base import NOTE, CaptureEnd, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member, short
from analysis.rules.support.tool_definitions import CALL

REPEATED: Final = 3
"""How many equal calls it takes for a finding."""
MAX_DISTINCT_CALLS: Final = 1_000
"""The most different calls of a session that are remembered, and as many repeated ones."""
_CANCELLED: Final = "notifications/cancelled"
_RELATED: Final = 10
"""The most related frames of a finding."""


class RepeatedCall(Rule):
    """A tool is called three times or more with the same arguments in one session.

    **Why it matters.** An agent that repeats a call is usually going round in circles, or has lost the answer. Each
    call costs waiting time and the tokens of the result. The finding says how many calls there were, and what they
    cost.

    **On the wire.** `> {"id":4,"method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}`, and again with
    the ids 5 and 6

    **Instead.** Keep results in the context or in a cache of the client, and let the server say in the result how the
    model can proceed. Polling for a change is legitimate, but progress, tasks or subscriptions cost less.
    """

    id = "tool/repeated-call"
    follows = ("http/call-refused", "http/no-response", "http/stream-broken", "http/body-cut")
    needs_session = True
    who = "client"
    level = NOTE
    impact = Impact.COST
    at_end = True
    methods = frozenset({CALL, _CANCELLED})
    source = "2024-11-05 server/tools"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the hook tells whose message it is
        return like.message.sender == ("server" if hook == "response" else "client")

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or context.round is not None:
            return ()  # a further round of the same call
        key = _key(request)
        if key is not None:
            calls: _Calls = self.state_for(context.session, _Calls)
            calls.add_call(key, request)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        calls: _Calls | None = context.session.memory.get(self.id)
        cancelled = context.cancelled
        if calls is not None and cancelled is not None and cancelled.cancelled_ns is not None:
            alike = calls.pop_open(cancelled.request)
            if alike is not None:
                alike.waited_ns += max(0, cancelled.cancelled_ns - cancelled.started_ns)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        calls: _Calls | None = context.session.memory.get(self.id)
        call = context.answered
        if calls is not None and call is not None:
            alike = calls.pop_open(call.request)
            if alike is not None:
                # A client that has cancelled no longer waits, no matter how late the answer comes.
                waited_ns = 0 if call.cancelled_ns is not None else call.latency_ns or 0
                alike.add_response(context.message, waited_ns)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:  # noqa: ARG002 - the same for all endings
        calls: _Calls | None = session.memory.get(self.id)
        for alike in calls.repeated() if calls is not None else ():
            at, *related = (RecordRef(*frame) for frame in alike.frames)
            text = f"{CALL} {alike.name} was called {alike.count:,} times with the same arguments"
            cost = f"{alike.waited_ns // 1_000_000:,} ms of waiting and {alike.bytes:,} bytes of responses"
            text = f"{text} (frames {at.seq} to {related[-1].seq}): {cost}"
            finding = self.finding(at, text, session=session, related=[call.seq for call in related])
            yield finding._replace(method=CALL)


class _EqualCalls(Struct):
    """Calls of one tool with the same arguments."""

    frames: list[tuple[int, int]] = []
    """Number and stamp of the first frames, and of the last one."""
    name: str = ""
    """The name of the tool, once it has been called often enough."""
    count: int = 0
    waited_ns: int = 0
    """How long the client waited in total: for answers, including those of later rounds, or until it cancelled."""
    bytes: int = 0
    """The size of the answers' frames."""
    last_answer: int = -1
    """Number of the frame of the last answer."""

    def add_request(self, request: Request, seq: int) -> None:
        """Add one more call."""
        self.count += 1
        if self.count > _RELATED:
            del self.frames[_RELATED:]
        self.frames.append((seq, request.t_ns))

    def add_response(self, answer: Message, waited_ns: int) -> None:
        """Add the answer to one of the calls."""
        self.waited_ns += waited_ns
        seq = answer.seq
        if seq != self.last_answer:  # a batch may hold several answers
            self.bytes += size_of(answer.frames)
            self.last_answer = seq


class _Calls:
    """The calls of a session, by tool and arguments."""

    def __init__(self) -> None:
        self._once: OrderedDict[bytes, _EqualCalls] = OrderedDict()
        """Calls not yet repeated often enough; the least recent is forgotten first."""
        self._often: dict[bytes, _EqualCalls] = {}
        self._open: OrderedDict[int | tuple[int, int], _EqualCalls] = OrderedDict()
        """The last calls without a response, by number and place in a batch, as finding them by their key costs
        more."""

    def pop_open(self, request: Request) -> _EqualCalls | None:
        """Returns the calls that are equal to a finished one, or None if they are unknown."""
        seq, index = request.seq, request.index
        alike = self._open.pop(seq if index is None else (seq, index), None)
        if alike is None and (key := _key(request)) is not None:
            alike = self._often.get(key) or self._once.get(key)
        return alike

    def add_call(self, key: bytes, request: Request) -> None:
        """Record a call."""
        alike = self._often.get(key)
        if alike is None:
            alike = self._once.pop(key, None) or _EqualCalls()
            is_often = alike.count + 1 >= REPEATED and len(self._often) < MAX_DISTINCT_CALLS
            if is_often:
                alike.name = short(request.params["name"])
                self._often[key] = alike
            else:
                self._once[key] = alike  # the most recent one is the last
                if len(self._once) > MAX_DISTINCT_CALLS:
                    self._once.popitem(last=False)
        seq, index = request.seq, request.index
        alike.add_request(request, seq)
        self._open[seq if index is None else (seq, index)] = alike
        if len(self._open) > MAX_DISTINCT_CALLS:
            self._open.popitem(last=False)

    def repeated(self) -> list[_EqualCalls]:
        """The repeated calls, in the order of their first frames."""
        return sorted(self._often.values(), key=lambda alike: alike.frames[0])


def _key(request: Request) -> bytes | None:
    """Returns a key for a client's call, from its tool and arguments, or None if the request is not such a call."""
    params = request.params
    name = member(params, "name")
    if not isinstance(name, str) or request.method != CALL or request.sender != "client":
        return None
    arguments = params.get("arguments")
    return json_digest([name, {} if arguments is None else arguments])
