"""Reads what a client or a server says now, or said then, as messages: in the same way as a capture is read."""

from typing import Final

from analysis.conversation.message import MISSING, Message, Notification, Request, messages
from captures.envelope import judge_and_read
from captures.frame import Frame
from captures.limits import MAX_READER_JUDGED_BYTES
from captures.verdict import C2S, S2C, Direction

MAX_MESSAGE_BYTES: Final = MAX_READER_JUDGED_BYTES
"""A longer message is passed on, but not read."""


def client_messages_in(raw: bytes) -> tuple[Message, ...]:
    """Returns the messages in a unit of bytes of a client, without its delimiter: one, or all of a batch.

    Nothing raises; there is at least one.
    """
    return _messages_in(raw, C2S)


def server_messages_in(raw: bytes) -> tuple[Message, ...]:
    """Returns the messages in a unit of bytes of a server, in the form of `client_messages_in`."""
    return _messages_in(raw, S2C)


def params_of(message: Request | Notification) -> object:
    """Returns the params of a message; None if it has none."""
    return None if message.params is MISSING else message.params


def member_of_params(message: Request | Notification, name: str) -> object:
    """Returns a member of the params; None if there is none."""
    params = message.params
    return params.get(name) if isinstance(params, dict) else None


def _messages_in(raw: bytes, direction: Direction) -> tuple[Message, ...]:
    # The unit matters for problems of lines only, which no message shows.
    verdict, body, _ = judge_and_read(raw, direction, "http_body", whole=True, limit=MAX_MESSAGE_BYTES)
    return messages(Frame(0, 0, direction, raw, verdict, body))
