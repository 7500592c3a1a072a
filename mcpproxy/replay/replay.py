"""Replays one connection to a server, from its start to its end."""

import time
from collections.abc import Callable
from typing import Protocol

from mcpproxy.replay.arrivals import Arrival
from mcpproxy.replay.conversation import Conversation, Outgoing

_MAX_WAIT_S = 0.5
"""The longest wait before the clock is checked again."""
_MAX_ARRIVALS = 256
"""The maximum number of arrivals before the clock is checked again, because a server may send without end."""


class Transport(Protocol):
    """What carries a conversation."""

    @property
    def is_ready(self) -> bool:
        """Whether more can be sent now."""

    def send(self, outgoing: Outgoing) -> str | None:
        """Send a unit of bytes; returns why it cannot be sent, in words of ours, or None."""

    def next_arrival(self, timeout_s: float) -> Arrival | None:
        """Return what has come, or None if nothing comes within a time in seconds."""


def replay(
    conversation: Conversation,
    transport: Transport,
    refusal: Callable[[Outgoing], str | None],
    on_progress: Callable[[int], None],
) -> None:
    """Send what is due and take what comes until the conversation is over.

    Args:
        conversation: the client's half.
        transport: what carries it.
        refusal: called with each unit of bytes; returns why they must not be sent, in words of ours, or None.
        on_progress: called with the number of messages that were sent so far.
    """
    while True:
        if transport.is_ready:
            due = conversation.due(time.monotonic_ns())
            for outgoing in due:
                reason = refusal(outgoing) or transport.send(outgoing)
                if reason is not None:
                    conversation.note_unsent(outgoing, reason)
        else:
            due = []
            conversation.note_blocked(time.monotonic_ns())
        on_progress(conversation.outcome.sent)
        now_ns = time.monotonic_ns()
        if conversation.is_over(now_ns):
            return
        next_ns = conversation.next_due_ns(now_ns)
        wait_s = _MAX_WAIT_S if next_ns is None else min(_MAX_WAIT_S, max(0.0, (next_ns - now_ns) / 1e9))
        arrival = transport.next_arrival(0.0 if due else max(wait_s, 0.001))
        for _ in range(_MAX_ARRIVALS):
            if arrival is None:
                break
            _take(conversation, arrival)
            arrival = transport.next_arrival(0.0)
        else:
            if arrival is not None:
                _take(conversation, arrival)


def _take(conversation: Conversation, arrival: Arrival) -> None:
    if arrival.raw:
        conversation.receive(arrival.raw, time.monotonic_ns(), arrival.calls)
    if arrival.failed_calls:
        conversation.fail(arrival.failed_calls, arrival.reason)
    if arrival.is_excess:
        conversation.give_up(arrival.reason)
    elif arrival.is_end:
        conversation.end(arrival.reason)
