"""Cursors, which say where a subscription continues, and how often clients poll."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request, Response
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.event_messages import (
    ACTIVE,
    EVENT,
    HEARTBEAT,
    MAX_STREAMS,
    POLL,
    SUBSCRIBE,
    EventsRule,
    StreamMessage,
    StreamRule,
    streams_of,
    subscription_key,
)

_CURSOR_RESULTS: Final = frozenset({POLL, SUBSCRIBE})
"""Requests whose results have a cursor."""
_CURSOR_NOTIFICATIONS: Final = frozenset({ACTIVE, EVENT, HEARTBEAT})
_NS_PER_HALF_MS: Final = 500_000


class _LastPoll:
    """The last poll of a subscription, and its result."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.response_seq = -1
        self.response_ns = 0
        self.next_cursor: str | None = None
        """The cursor that the result has; None if it has none."""
        self.wait_ms: float | None = None
        """How long the client is to wait, or None if it need not or there is no result yet."""


class _PollRule(EventsRule):
    """A rule about how a client continues to poll."""

    who = "client"
    methods = frozenset({POLL})

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all methods
        return (like.message.sender == "client") == (hook == "request")

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.message
        key = subscription_key(request) if isinstance(request, Request) else None
        if key is None or not isinstance(request, Request):
            return ()
        last_polls: BoundedDict[bytes, _LastPoll] = self.state_for(context.session, lambda: BoundedDict(MAX_STREAMS))
        last_poll, last_polls[key] = last_polls.get(key), _LastPoll(request)
        if last_poll is None or last_poll.response_seq < 0:
            return ()
        return self.check_poll(context, request, last_poll)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        key, result = subscription_key(context.request), context.body.get("result")
        last_polls: BoundedDict[bytes, _LastPoll] = self.state_for(context.session, lambda: BoundedDict(MAX_STREAMS))
        last_poll = None if key is None else last_polls.get(key)
        if last_poll is None or context.request is None or last_poll.request.seq != context.request.seq:
            return ()
        cursor, wait_ms = member(result, "cursor"), member(result, "nextPollMs")
        last_poll.response_seq, last_poll.response_ns = context.message.seq, context.message.t_ns
        last_poll.next_cursor = cursor if isinstance(cursor, str) else None
        is_number = isinstance(wait_ms, int | float) and not isinstance(wait_ms, bool)
        last_poll.wait_ms = wait_ms if is_number and member(result, "hasMore") is not True else None
        return ()

    def check_poll(self, context: MessageContext, request: Request, last_poll: _LastPoll) -> Iterable[Finding]:
        """Returns the findings about a poll that follows an answered poll of the same subscription."""
        raise NotImplementedError


class PollTooFast(_PollRule):
    """A client polls for events more than twice as often as the server requests.

    **Why it matters.** Each poll costs time and usually returns nothing. Servers that are polled too fast may start to
    refuse requests.

    **On the wire.** `< {"id":3,"result":{"events":[],"cursor":"c1","hasMore":false,"nextPollMs":30000}}`, then another
    poll from the same cursor each second

    **Instead.** Wait for `nextPollMs` between two polls, unless `hasMore` is true.
    """

    id = "ext-events/poll-too-fast"
    impact = Impact.COST
    needs_time = True
    needs_session = True
    once = True

    def check_poll(self, context: MessageContext, request: Request, last_poll: _LastPoll) -> Iterable[Finding]:
        # Another cursor may be that of another subscription to the same events.
        is_next = last_poll.next_cursor is not None and member(request.params, "cursor") == last_poll.next_cursor
        waited_ns, wait_ms = request.t_ns - last_poll.response_ns, last_poll.wait_ms
        if not is_next or wait_ms is None or waited_ns >= wait_ms * _NS_PER_HALF_MS:
            return ()
        text = f"the client polls again after {waited_ns // 1_000_000} ms, less than half of nextPollMs"
        return [self.finding(context, text, related=(last_poll.response_seq,))]


class CursorNotSent(_PollRule):
    """A client polls again without a cursor, although the server has returned one.

    **Why it matters.** Events between the two polls are lost: a poll without a cursor begins at the current moment.

    **On the wire.** `> …"method":"events/poll",…"cursor":null`, `< …"cursor":"c1"`, and again `> …"cursor":null`

    **Instead.** Send the cursor of the last result in each poll.
    """

    id = "ext-events/cursor-not-sent"
    impact = Impact.MESSAGE
    needs_session = True
    once = True

    def check_poll(self, context: MessageContext, request: Request, last_poll: _LastPoll) -> Iterable[Finding]:
        requests = (last_poll.request, request)
        if last_poll.next_cursor is None or any(member(each.params, "cursor") is not None for each in requests):
            return ()
        text = "the client polls without a cursor again, although the last result has one"
        return [self.finding(context, text, pointer="/params/cursor", related=(last_poll.response_seq,))]


class InconsistentCursor(StreamRule):
    """Some cursors of a type of event are null or missing, and some are not.

    **Why it matters.** A null or missing cursor means that events of this type cannot be replayed. Clients
    decide once, when they subscribe, whether they can continue after a failure without losing events.

    **On the wire.** `< {"id":3,"result":{"events":[],"cursor":"c1",…}}` and then
    `< {"id":4,"result":{"events":[],"cursor":null,…}}`

    **Instead.** For each type of event, either always or never send a cursor.
    """

    id = "ext-events/inconsistent-cursor"
    needs_session = True
    who = "server"
    once = True
    once_each = True
    methods = StreamRule.methods | _CURSOR_RESULTS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method not in _CURSOR_RESULTS or context.request is None:
            return ()
        result = context.body.get("result")
        return self._check_cursor(context, context.request, result, "/result")

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        place = streams_of(context.session).record(context)
        if place is None or context.method not in _CURSOR_NOTIFICATIONS:
            return ()
        return self.check_message(context, place)

    def check_message(self, context: MessageContext, place: StreamMessage) -> Iterable[Finding]:
        return self._check_cursor(context, place.stream.request, context.body.get("params"), "/params")

    def _check_cursor(self, context: MessageContext, request: Request, body: Any, pointer: str) -> Iterable[Finding]:
        name = member(request.params, "name")
        if not isinstance(body, dict) or not isinstance(name, str):
            return ()
        cursor = body.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            return ()
        first_seqs: BoundedDict[tuple[str, bool], int] = self.state_for(
            context.session, lambda: BoundedDict(MAX_STREAMS)
        )
        has_cursor = cursor is not None
        first_seqs.setdefault((name, has_cursor), context.message.seq)
        other_seq = first_seqs.get((name, not has_cursor))
        if other_seq is None:
            return ()
        text = f"some cursors of events of the type {shortened(name)!r} are null, and some are not"
        return [self.finding(context, text, pointer=f"{pointer}/cursor", related=(other_seq,))]


class EventsSkipped(EventsRule):
    """A server says that it has skipped events.

    **Why it matters.** It is legal: the cursor was too old, for example. The client never gets these events.

    **On the wire.** `< {"id":3,"result":{"events":[],"cursor":"c9","truncated":true,…}}`

    **Instead.** As a client, read the current state with tools, and poll or reconnect more often. As a server, keep
    events for longer.
    """

    id = "ext-events/events-skipped"
    who = "server"
    sender = "server"
    methods = _CURSOR_RESULTS | {ACTIVE}

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_body(context, context.body.get("result"), "/result/truncated")

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_body(context, context.body.get("params"), "/params/truncated")

    def _check_body(self, context: MessageContext, body: Any, pointer: str) -> Iterable[Finding]:
        if member(body, "truncated") is not True:
            return ()
        subject = "the result" if isinstance(context.message, Response) else "the server"
        return [self.finding(context, f"{subject} says that events were skipped", pointer=pointer, blames="unknown")]
