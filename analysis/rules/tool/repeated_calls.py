"""Calls to a tool that are repeated with the same arguments."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.http_exchange import Mark
from analysis.conversation.message import Request, Response
from analysis.conversation.session import Seen, Session
from analysis.facts import size_of
from analysis.rules.base import NOTE, Ending, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member, short
from analysis.rules.support.tool_definitions import CALL

REPEATED: Final = 3
"""How many equal calls are reported."""
KEPT: Final = 1_000
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

    def on_request(self, seen: Seen) -> Iterable[Finding]:
        request = seen.request
        if request is None or seen.round is not None:
            return ()  # a further round of the same call
        key = _key(request)
        if key is not None:
            calls: _Calls = self.memory(seen.session, _Calls)
            calls.note(key, request)
        return ()

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        calls: _Calls | None = seen.session.memory.get(self.id)
        cancelled = seen.cancelled
        if calls is not None and cancelled is not None and cancelled.cancelled_ns is not None:
            alike = calls.of(calls.key_of(cancelled.request))
            if alike is not None:
                alike.waited_ns += max(0, cancelled.cancelled_ns - cancelled.started_ns)
        return ()

    def on_response(self, seen: Seen) -> Iterable[Finding]:
        calls: _Calls | None = seen.session.memory.get(self.id)
        answer, call = seen.message, seen.answered
        if calls is not None and call is not None and isinstance(answer, Response):
            alike = calls.of(calls.key_of(call.request))
            if alike is not None:
                # A client that has cancelled no longer waits, however late the answer comes.
                waited_ns = 0 if call.cancelled_ns is not None else call.latency_ns or 0
                alike.answered(answer, waited_ns)
        return ()

    def on_end(self, session: Session, ending: Ending) -> Iterator[Finding]:  # noqa: ARG002 - the same for all endings
        calls: _Calls | None = session.memory.get(self.id)
        for alike in calls.repeated() if calls is not None else ():
            at, *related = alike.frames
            text = f"{CALL} {alike.name} was called {alike.count:,} times with the same arguments"
            cost = f"{alike.waited_ns // 1_000_000:,} ms of waiting and {alike.bytes:,} bytes of answers"
            text = f"{text} (frames {at.seq} to {related[-1].seq}): {cost}"
            finding = self.finding(at, text, session=session, related=[call.seq for call in related])
            yield finding._replace(method=CALL)


class _Alike:
    """Calls of one tool with the same arguments."""

    __slots__ = ("_last_answer", "bytes", "count", "frames", "name", "waited_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.frames: list[Mark] = []
        """The first frames, and the last one."""
        self.waited_ns = 0
        """How long the client waited in total: for answers, including those of later rounds, or until it cancelled."""
        self.bytes = 0
        """The size of the answers' frames."""
        self._last_answer = -1

    def add_request(self, request: Request) -> None:
        """Add one more call."""
        self.count += 1
        del self.frames[_RELATED:]
        self.frames.append(Mark(request.seq, request.t_ns))

    def answered(self, answer: Response, waited_ns: int) -> None:
        """Add the answer to one of the calls."""
        self.waited_ns += waited_ns
        if answer.seq != self._last_answer:  # a batch may hold several answers
            self.bytes += size_of(answer.frames)
        self._last_answer = answer.seq


class _Calls:
    """The calls of a session, by tool and arguments."""

    def __init__(self) -> None:
        self._once: OrderedDict[bytes, _Alike] = OrderedDict()
        """Calls not yet repeated often enough; the least recent is forgotten first."""
        self._often: dict[bytes, _Alike] = {}
        self._keys: OrderedDict[tuple[int, int | None], bytes] = OrderedDict()
        """The digests of the last calls without a response, by number and place in a batch: they cost most."""

    def of(self, key: bytes | None) -> _Alike | None:
        """The calls with a key; None if they are unknown."""
        return None if key is None else self._often.get(key) or self._once.get(key)

    def key_of(self, request: Request) -> bytes | None:
        """The key of a call that is over."""
        return self._keys.pop((request.seq, request.index), None) or _key(request)

    def note(self, key: bytes, request: Request) -> None:
        """Record a call."""
        self._keys[request.seq, request.index] = key
        if len(self._keys) > KEPT:
            self._keys.popitem(last=False)
        alike = self.of(key)
        if alike is None:
            alike = self._once[key] = _Alike(short(request.params["name"]))
            if len(self._once) > KEPT:
                self._once.popitem(last=False)
        alike.add_request(request)
        if key in self._once:
            self._once.move_to_end(key)
            if alike.count >= REPEATED and len(self._often) < KEPT:
                self._often[key] = self._once.pop(key)

    def repeated(self) -> list[_Alike]:
        """The repeated calls, in the order of their first frames."""
        return sorted(self._often.values(), key=lambda alike: alike.frames[0].seq)


def _key(request: Request) -> bytes | None:
    """A digest of a client's call by tool and arguments; None if the request is not such a call."""
    name = member(request.params, "name")
    if request.method != CALL or request.sender != "client" or not isinstance(name, str):
        return None
    arguments = member(request.params, "arguments")
    return json_digest([name, {} if arguments is None else arguments])
