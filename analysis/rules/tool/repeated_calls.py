"""Calls to a tool that the client repeats with the same arguments."""

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
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.tool_definitions import CALL_TOOL

MIN_EQUAL_CALLS: Final = 3
"""How many equal calls lead to a finding."""
MAX_DISTINCT_CALLS: Final = 1_000
"""The most different calls of a session that are remembered; the same limit applies separately to repeated calls."""
_CANCELLED: Final = "notifications/cancelled"
_MAX_RELATED_FRAMES: Final = 10
"""The most related frames of a finding."""


class RepeatedCall(Rule):
    """A tool is called three times or more with the same arguments in one session.

    **Why it matters.** An agent that repeats a call is usually going round in circles, or has lost the result. Each
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
    methods = frozenset({CALL_TOOL, _CANCELLED})
    source = "2024-11-05 server/tools"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the hook determines the sender
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
        cancelled_call = context.cancelled
        if calls is not None and cancelled_call is not None and cancelled_call.cancelled_ns is not None:
            equal_calls = calls.pop_open(cancelled_call.request)
            if equal_calls is not None:
                equal_calls.waited_ns += max(0, cancelled_call.cancelled_ns - cancelled_call.started_ns)
        return ()

    def on_response(self, context: MessageContext) -> Iterable[Finding]:
        calls: _Calls | None = context.session.memory.get(self.id)
        call = context.answered
        if calls is not None and call is not None:
            equal_calls = calls.pop_open(call.request)
            if equal_calls is not None:
                # A client that has cancelled no longer waits, no matter how late the response comes.
                waited_ns = 0 if call.cancelled_ns is not None else call.latency_ns or 0
                equal_calls.add_response(context.message, waited_ns)
        return ()

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterator[Finding]:  # noqa: ARG002 - the same for all endings
        calls: _Calls | None = session.memory.get(self.id)
        for equal_calls in calls.repeated_calls() if calls is not None else ():
            first_frame, *later_frames = (RecordRef(*frame) for frame in equal_calls.frames)
            text = f"{CALL_TOOL} {equal_calls.name} was called {equal_calls.count:,} times with the same arguments"
            cost = (
                f"{equal_calls.waited_ns // 1_000_000:,} ms of waiting and {equal_calls.response_bytes:,} "
                "bytes of responses"
            )
            text = f"{text} (frames {first_frame.seq} to {later_frames[-1].seq}): {cost}"
            finding = self.finding(
                first_frame, text, session=session, related=[frame_ref.seq for frame_ref in later_frames]
            )
            yield finding._replace(method=CALL_TOOL)


class _EqualCalls(Struct):
    """Calls of one tool with the same arguments."""

    frames: list[tuple[int, int]] = []
    """Number and stamp of the first frames, and of the last frame."""
    name: str = ""
    """The name of the tool, once it has been called often enough."""
    count: int = 0
    waited_ns: int = 0
    """How long the client waited in total: for responses, including those of later rounds, or until it cancelled."""
    response_bytes: int = 0
    """The total size of the frames with the responses."""
    last_response_seq: int = -1
    """Number of the frame with the last response."""

    def add_request(self, request: Request, seq: int) -> None:
        """Add one more call."""
        self.count += 1
        if self.count > _MAX_RELATED_FRAMES:
            del self.frames[_MAX_RELATED_FRAMES:]
        self.frames.append((seq, request.t_ns))

    def add_response(self, response: Message, waited_ns: int) -> None:
        """Add the response to one of the calls."""
        self.waited_ns += waited_ns
        seq = response.seq
        if seq != self.last_response_seq:  # a batch may contain several responses
            self.response_bytes += size_of(response.frames)
            self.last_response_seq = seq


class _Calls:
    """The calls of a session, by tool and arguments."""

    def __init__(self) -> None:
        self._candidates: OrderedDict[bytes, _EqualCalls] = OrderedDict()
        """Calls that were not yet repeated often enough; the least recent is forgotten first."""
        self._repeated: dict[bytes, _EqualCalls] = {}
        self._open_calls: OrderedDict[int | tuple[int, int], _EqualCalls] = OrderedDict()
        """The last calls without a response, by number and place in a batch, because finding them by their key costs
        more."""

    def pop_open(self, request: Request) -> _EqualCalls | None:
        """Remove a finished call from the open calls; returns the calls equal to it, or None if they are unknown."""
        seq, index = request.seq, request.index
        equal_calls = self._open_calls.pop(seq if index is None else (seq, index), None)
        if equal_calls is None and (key := _key(request)) is not None:
            equal_calls = self._repeated.get(key) or self._candidates.get(key)
        return equal_calls

    def add_call(self, key: bytes, request: Request) -> None:
        """Record a call."""
        equal_calls = self._repeated.get(key)
        if equal_calls is None:
            equal_calls = self._candidates.pop(key, None) or _EqualCalls()
            is_repeated = equal_calls.count + 1 >= MIN_EQUAL_CALLS and len(self._repeated) < MAX_DISTINCT_CALLS
            if is_repeated:
                equal_calls.name = shortened(request.params["name"])
                self._repeated[key] = equal_calls
            else:
                self._candidates[key] = equal_calls  # the most recent call is the last
                if len(self._candidates) > MAX_DISTINCT_CALLS:
                    self._candidates.popitem(last=False)
        seq, index = request.seq, request.index
        equal_calls.add_request(request, seq)
        self._open_calls[seq if index is None else (seq, index)] = equal_calls
        if len(self._open_calls) > MAX_DISTINCT_CALLS:
            self._open_calls.popitem(last=False)

    def repeated_calls(self) -> list[_EqualCalls]:
        """Returns the repeated calls, in the order of their first frames."""
        return sorted(self._repeated.values(), key=lambda calls: calls.frames[0])


def _key(request: Request) -> bytes | None:
    """Returns a key made of the tool and the arguments of a client's call, or None if the request is not a call."""
    params = request.params
    name = member(params, "name")
    if not isinstance(name, str) or request.method != CALL_TOOL or request.sender != "client":
        return None
    arguments = params.get("arguments")
    return json_digest([name, {} if arguments is None else arguments])
