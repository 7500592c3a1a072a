"""Reads what a client sends, and what was recorded, as messages: the same way as a capture is read."""

from analysis.conversation.message import MISSING, Message, Notification, Request, messages
from captures.envelope import judge_and_read
from captures.frame import Frame
from captures.limits import MAX_READER_JUDGED_BYTES
from captures.verdict import Direction


def read_messages(raw: bytes, direction: Direction = "c2s") -> tuple[Message, ...]:
    """Returns the messages in a unit of bytes: one, or all of a batch. Nothing raises; there is at least one."""
    envelope, body, _ = judge_and_read(raw, direction, "http_body", whole=True, limit=MAX_READER_JUDGED_BYTES)
    return messages(Frame(0, 0, direction, raw, envelope, body))


def params_of(message: Request | Notification) -> object:
    """Returns the params of a message; None if it has none."""
    return None if message.params is MISSING else message.params


def member_of_params(message: Request | Notification, name: str) -> object:
    """Returns a member of the params; None if there is none."""
    params = message.params
    return params.get(name) if isinstance(params, dict) else None
