"""Facts: what the page of a message says about its call. Each has a name; they are shown on lines or side by side."""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.conversation.call import ENDLESS, REASON, Call, Seen
from analysis.conversation.message import Invalid, Notification, Request, Response
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.lines import aside_of
from mcpproxy.wording.meaning import Meaning, meaning_of
from mcpproxy.wording.names import id_text, name_of
from mcpproxy.wording.statuses import Status, answer, fate, waiting
from mcpproxy.wording.units import duration


class Fact(NamedTuple):
    """A fact about a message."""

    name: str
    text: str
    is_bad: bool = False


def titled(request: Request) -> str:
    """A request by its method, id and name: `tools/call #7 add`."""
    name = name_of(request)
    return f"{sanitise(request.method)}{id_text(request.id)}{f' {name}' if name else ''}"


def title(seen: Seen) -> str:
    """What a message is: `tools/call #7 add`, `answer to tools/call #7 add`, `not a message`."""
    message = seen.message
    if isinstance(message, Request):
        return titled(message)
    if isinstance(message, Response):
        return "answer" + (f" to {titled(seen.answered.request)}" if seen.answered is not None else id_text(message.id))
    if isinstance(message, Notification):
        return sanitise(message.method)
    aside = aside_of(message, is_beside=seen.is_beside)
    return "not a message" if aside is None else aside[0].text


def status_of(call: Call, waited_ns: int | None = None) -> Status:
    """What a response means for its call, or what became of a call without one; not how it was cancelled.

    Args:
        call: the call.
        waited_ns: how long it waits, if it may still be answered.
    """
    if call.response is not None:
        return answer(call.response, Meaning(call))
    return fate(call, says_how=False) if waited_ns is None else waiting(waited_ns)


def cancellation(call: Call) -> Fact | None:
    """How a call was cancelled, or given up; also when and why, unless its status says so."""
    if call.cancelled_seq is None:
        return None
    by = f"by closing its HTTP exchange (record {call.cancelled_seq})"
    by = by if call.is_left else f"by frame {call.cancelled_seq}"
    if call.response is None:
        return Fact("cancelled", by)
    reason = f": {sanitise(call.cancel_reason, REASON)}" if call.cancel_reason else ""
    return Fact(
        "cancelled", f"after {duration(call.cancelled_after_ns or 0)} {by}{reason}", call.abandoned_ns is not None
    )


def became(call: Call, waited_ns: int | None = None) -> Iterator[Fact]:
    """What the page of a request says became of it.

    Args:
        call: its call.
        waited_ns: how long it waits, if it may still be answered.
    """
    status, response = status_of(call, waited_ns), call.response
    if response is not None:
        after = duration(call.latency_ns or 0)
        yield Fact("answered", f"by frame {response.seq} after {after}: {status.word}", status.is_bad)
    elif call.request.method not in ENDLESS or call.cancelled_seq is not None:
        yield Fact("outcome", status.word + status.text, status.is_bad)
    cancelled = cancellation(call)
    yield from [] if cancelled is None else [cancelled]


def answers(seen: Seen, response: Response) -> Fact:
    """What the page of a response says it answers; or why it answers nothing, and what it would mean."""
    call, status = seen.answered, answer(response, meaning_of(seen))
    if call is not None:
        after = duration(call.latency_ns or 0)
        return Fact("answers", f"frame {call.request.seq} after {after}: {status.word}", status.is_bad)
    if seen.request is not None:
        unread = f"its client cannot have read it, so frame {seen.request.seq} has no answer"
        return Fact("answers", f"nothing: {unread}", is_bad=True)
    return Fact("answers", f"nothing: {status.word}, {status.text}", is_bad=True)


def facts(seen: Seen, call: Call | None, waited_ns: int | None = None) -> Iterator[Fact]:
    """What the page of a message says of other messages.

    Args:
        seen: the message.
        call: for a request: its call, if it is known.
        waited_ns: how long that waits, if it may still be answered.
    """
    message = seen.message
    if isinstance(message, Request):
        yield from [] if call is None else became(call, waited_ns)
    elif isinstance(message, Response):
        yield answers(seen, message)
    elif isinstance(message, Invalid):
        yield Fact("problem", message.reason, is_bad=True)
    elif seen.cancels is not None:
        yield Fact("cancels", f"{titled(seen.cancels)} (frame {seen.cancels.seq})")
