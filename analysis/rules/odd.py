"""The oddities that a message may have, regardless of its meaning; see `Rule.oddities`.

Nearly all messages have no oddity, and many rules report nothing about a message without one: each such rule names the
oddities that it is about, and is called only for messages with one of them. To add an oddity, add a member to
`MessageOddity` and a test to `oddities_of` that costs next to nothing for a usual message.
"""

from enum import Flag, auto
from typing import Final

from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import InvalidMessage, Message, Request, Response, is_as_written
from analysis.conversation.request_meta import missing_meta
from analysis.protocol.extensions import CERTAIN_REQUESTS
from captures.frame import Frame
from captures.limits import ENVELOPE_MEMBERS

LARGE_FRAME_BYTES: Final = 1 << 20
"""A frame with more bytes than this is large."""


class MessageOddity(Flag):
    """The oddities of a message."""

    MALFORMED = auto()
    """Its frame breaks a rule by itself, its version is not 2.0, or its id is neither an integer nor a string."""
    SEVERAL = auto()
    """It is one of several messages in its frame, or the only one in a batch, so no verdict is about it alone."""
    SPREAD = auto()
    """It spans several lines, so no verdict is about it."""
    HIDING = auto()
    """Its bytes may contain more than its values show, such as a duplicate member; serialising it again would lose
    that."""
    MEMBER = auto()
    """It has a member that JSON-RPC does not define."""
    LARGE = auto()
    """Its frame, or the first of its frames, is larger than 1 MiB."""
    LINE_END = auto()
    """Its line, or the first of its lines, does not end with a line feed alone."""
    ERROR = auto()
    """It is an error."""
    UNPAIRED = auto()
    """It is a response that answers no open request."""
    CONVERTED = auto()
    """It is a response whose id is that of its request, but written as another JSON type."""
    CANCELLED = auto()
    """It answers a request that had been cancelled."""
    REUSED = auto()
    """It is a request with an id that its side has used before in the session."""
    INCOMPLETE = auto()
    """It is a request of the modern era with an incomplete envelope, or the response to one."""
    WITHOUT_ID = auto()
    """It is a notification with the method of a request."""

    ENVELOPE = MALFORMED | SEVERAL | SPREAD
    """Its envelope may be flawed: a verdict says so, or no verdict is about this message alone."""


NOTHING: Final = MessageOddity(0)
"""The value of `MessageOddity` for a message without oddities."""

_ERROR: Final = Outcome.ERROR  # enum members are slow to look up


def oddities_of(context: MessageContext) -> MessageOddity:
    """Returns the oddities of a message; for nearly all messages, the object `NOTHING` itself."""
    message = context.message
    frame = message.frames[0]
    oddities = NOTHING if frame.is_as_written else _byte_oddities(message, frame)
    if not ENVELOPE_MEMBERS.issuperset(context.body):
        oddities |= MessageOddity.MEMBER
    if len(frame.raw) > LARGE_FRAME_BYTES:
        oddities |= MessageOddity.LARGE
    if (frame.delim != b"\n" or not frame.whole) and frame.unit == "line":
        oddities |= MessageOddity.LINE_END
    if isinstance(message, Response):
        call = context.answered
        if call is None:
            return oddities | (
                MessageOddity.UNPAIRED | MessageOddity.ERROR if message.is_error else MessageOddity.UNPAIRED
            )
        if (
            call.final_outcome is _ERROR
            or call.cancellation is not None
            or context.is_converted
            or context.era == "modern"
        ):
            pair_oddities = _pair_oddities(context, call)
            if pair_oddities is not NOTHING:  # combining flags takes longer than all these tests
                oddities |= pair_oddities
    elif isinstance(message, Request):
        if context.earlier is not None:
            oddities |= MessageOddity.REUSED
        if context.era == "modern" and missing_meta(message) is not None:
            oddities |= MessageOddity.INCOMPLETE
    elif not isinstance(message, InvalidMessage) and message.method in CERTAIN_REQUESTS:
        oddities |= MessageOddity.WITHOUT_ID
    return oddities


def _pair_oddities(context: MessageContext, call: Call) -> MessageOddity:
    """Returns the oddities of a response that depend on the request that it answers."""
    oddities = MessageOddity.ERROR if call.final_outcome is _ERROR else NOTHING
    if call.cancellation is not None:
        oddities |= MessageOddity.CANCELLED
    if context.is_converted:
        oddities |= MessageOddity.CONVERTED
    if context.era == "modern" and missing_meta(call.request) is not None:
        oddities |= MessageOddity.INCOMPLETE
    return oddities


def _byte_oddities(message: Message, frame: Frame) -> MessageOddity:
    """Returns the oddities in the bytes of a message; `NOTHING` if the message `is_as_written`."""
    if frame.body is not None:  # a flawless frame is one message, and at most hides a member
        return NOTHING if is_as_written(message) else MessageOddity.HIDING
    oddities = NOTHING
    if isinstance(message, InvalidMessage):
        return oddities
    if message.index is not None:
        oddities |= MessageOddity.SEVERAL
    if len(message.frames) > 1:
        oddities |= MessageOddity.SPREAD
    body = message.body
    if frame.verdict.problem is not None or body.get("jsonrpc") != "2.0" or type(body.get("id", 0)) not in (int, str):
        oddities |= MessageOddity.MALFORMED
    if not is_as_written(message):
        oddities |= MessageOddity.HIDING
    return oddities
