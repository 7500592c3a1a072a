"""What may be odd about a message, apart from its meaning; see `Rule.oddities`.

Nearly all messages have no oddity, and many rules report nothing about a message without one: each names the oddities
that it is about, and is called for messages with one of them. A new oddity is a member of `Odd` and its test in
`oddities_of`, which must cost the usual message next to nothing.
"""

from enum import Flag, auto
from typing import Final

from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import Invalid, Message, Request, Response, is_as_written
from analysis.conversation.request_meta import missing_meta
from analysis.protocol.methods import REQUESTS
from captures.frame import Frame
from captures.limits import MEMBERS

LARGE: Final = 1 << 20
"""A frame with more bytes than this is large."""


class Odd(Flag):
    """What is odd about a message."""

    MALFORMED = auto()
    """Its frame breaks a rule by itself, its version is not 2.0, or its id is neither an integer nor a string."""
    SEVERAL = auto()
    """It is one of several messages in its frame, or the only one of an array: no verdict is about it alone."""
    SPREAD = auto()
    """It spans several lines: no verdict is about it."""
    HIDING = auto()
    """Its bytes may hold more than its values show, such as a duplicate member, so that reserialising would change
    it."""
    MEMBER = auto()
    """It has a member that JSON-RPC does not define."""
    LARGE = auto()
    """Its frame, or the first of them, has more than 1 MiB."""
    LINE_END = auto()
    """Its line, or the first of them, does not end with a line feed alone."""
    ERROR = auto()
    """It is an error."""
    UNPAIRED = auto()
    """It is a response that answers no open request."""
    CONVERTED = auto()
    """It is a response with the id of its request as another JSON type."""
    CANCELLED = auto()
    """It answers a request that was cancelled before."""
    REUSED = auto()
    """It is a request with an id that its side has used before in the session."""
    INCOMPLETE = auto()
    """It is a request of the modern era without something that each must have, or answers one."""
    WITHOUT_ID = auto()
    """It is a notification with the method of a request."""

    ENVELOPE = MALFORMED | SEVERAL | SPREAD
    """Its envelope may be flawed: a verdict says so, or there is none about this message alone."""


NOTHING: Final = Odd(0)
"""The only value of `Odd` without a member."""

_ERROR: Final = Outcome.ERROR  # enum members are slow to look up


def oddities_of(context: MessageContext) -> Odd:
    """What is odd about a message; for nearly all messages, the object `NOTHING` itself."""
    message = context.message
    frame = message.frames[0]
    found = NOTHING if frame.is_as_written else _in_bytes(message, frame)
    if not MEMBERS.issuperset(context.body):
        found |= Odd.MEMBER
    if len(frame.raw) > LARGE:
        found |= Odd.LARGE
    if (frame.delim != b"\n" or not frame.whole) and frame.unit == "line":
        found |= Odd.LINE_END
    if isinstance(message, Response):
        call = context.answered
        if call is None:
            return found | (Odd.UNPAIRED | Odd.ERROR if message.is_error else Odd.UNPAIRED)
        if call.settled is _ERROR or call.cancellation is not None or context.is_converted or context.era == "modern":
            of_pair = _in_pair(context, call)
            if of_pair is not NOTHING:  # combining flags takes longer than all these tests
                found |= of_pair
    elif isinstance(message, Request):
        if context.earlier is not None:
            found |= Odd.REUSED
        if context.era == "modern" and missing_meta(message) is not None:
            found |= Odd.INCOMPLETE
    elif not isinstance(message, Invalid) and message.method in REQUESTS:
        found |= Odd.WITHOUT_ID
    return found


def _in_pair(context: MessageContext, call: Call) -> Odd:
    """What is odd about a response, given the request that it answers."""
    found = Odd.ERROR if call.settled is _ERROR else NOTHING
    if call.cancellation is not None:
        found |= Odd.CANCELLED
    if context.is_converted:
        found |= Odd.CONVERTED
    if context.era == "modern" and missing_meta(call.request) is not None:
        found |= Odd.INCOMPLETE
    return found


def _in_bytes(message: Message, frame: Frame) -> Odd:
    """What is odd about the bytes of a message; nothing if the message `is_as_written`."""
    if frame.body is not None:  # a flawless frame is one message, and may only hide a member
        return NOTHING if is_as_written(message) else Odd.HIDING
    found = NOTHING
    if isinstance(message, Invalid):
        return found
    if message.index is not None:
        found |= Odd.SEVERAL
    if len(message.frames) > 1:
        found |= Odd.SPREAD
    body = message.body
    if frame.verdict.problem is not None or body.get("jsonrpc") != "2.0" or type(body.get("id", 0)) not in (int, str):
        found |= Odd.MALFORMED
    if not is_as_written(message):
        found |= Odd.HIDING
    return found
