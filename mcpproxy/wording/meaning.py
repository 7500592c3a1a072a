"""Meaning: what a message means, as far as a line shows it.

A reading knows it when it reads the message; a screen assembles it again for each row that it draws.
"""

from typing import Final, NamedTuple

from analysis.conversation.call import Call, IdState, MessageContext
from analysis.conversation.message import InvalidMessage, Request


class Meaning(NamedTuple):
    """What is known about a message in addition to its own members."""

    call: Call | None = None
    """For a response: the call that it answers."""
    id_state: IdState | None = None
    """For a response or a cancellation: the state of the id that it names, at that time."""
    probable_request: str = ""
    """For a response that matches no request: the request that it was probably meant for, as a clause of untrusted
    text."""
    cancels: Request | None = None
    """For a cancellation: the request that it names."""
    cancelled_after_ns: int | None = None
    """For a cancellation: how long the request had waited, if this is the first that names it before a response."""
    is_abandoned: bool = False
    """For a cancellation: whether its sender abandons the request with it."""
    is_repeat: bool = False
    """Whether it repeats a message whose HTTP exchange was redirected."""
    is_stray_body: bool = False
    """Whether it is an HTTP body where no message is due."""
    is_converted: bool = False
    """For a response: whether its id matches its request only as another JSON type."""


UNKNOWN_MEANING: Final = Meaning()
"""Nothing else is known about the message."""


def meaning_of(context: MessageContext) -> Meaning:
    """The meaning of a message of a reading."""
    cancelled = context.cancelled
    return Meaning(
        context.answered,
        context.id_state,
        "" if context.guessed_request is None else context.guessed_request.text,
        context.cancels,
        None if cancelled is None else cancelled.cancelled_after_ns,
        cancelled is not None and cancelled.abandoned_ns is not None,
        context.is_repeat,
        type(context.message) is InvalidMessage and context.is_stray_body,
        context.is_converted,
    )
