"""Reads what the server says now with the code that reads captures, so that both see the same messages."""

from typing import Final

from analysis.conversation.message import Message, messages
from captures.envelope import judge_and_read
from captures.frame import Frame
from captures.limits import MAX_READER_JUDGED_BYTES
from captures.verdict import C2S, S2C, Direction

MAX_MESSAGE_BYTES: Final = MAX_READER_JUDGED_BYTES
"""A longer message of the server is recorded, but not read."""


def messages_in(raw: bytes, direction: Direction = S2C) -> tuple[Message, ...]:
    """Returns the messages in a unit of bytes; never raises.

    Args:
        raw: a line, a body or an event, without its delimiter.
        direction: which side sent it.
    """
    verdict, body, _ = judge_and_read(raw, direction, "line", whole=True, limit=MAX_MESSAGE_BYTES)
    return messages(Frame(0, 0, direction, raw, verdict, body))


def client_messages_in(raw: bytes) -> tuple[Message, ...]:
    """Returns the messages in a unit of bytes that a client sent; never raises."""
    return messages_in(raw, C2S)
