"""Decides whether a frame opens a conversation."""

from typing import Any, Final

from orjson import JSONDecodeError, loads

from analysis.conversation.session import PROTOCOL_VERSION
from analysis.protocol.methods import OPENING_METHODS
from captures.limits import MAX_RECORDER_JUDGED_BYTES

_INITIALIZE: Final = b'"initialize"'


def first_message(raw: bytes) -> dict[str, Any]:
    """Returns the message of a frame, or the first message of a batch.

    Returns an empty dict if there is none, or if the frame is larger than `MAX_RECORDER_JUDGED_BYTES`.
    """
    try:
        value = loads(raw) if len(raw) <= MAX_RECORDER_JUDGED_BYTES else None
    except JSONDecodeError:
        return {}
    message = value[0] if isinstance(value, list) and value else value
    return message if isinstance(message, dict) else {}


def can_open_conversation(raw: bytes) -> bool:
    """Whether a client's frame can begin a conversation: a handshake, or a request that needs no handshake."""
    message = first_message(raw)
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    method = message.get("method")
    return (isinstance(method, str) and method in OPENING_METHODS) or (
        isinstance(meta, dict) and PROTOCOL_VERSION in meta
    )


def is_initialize(raw: bytes) -> bool:
    """Whether a frame is the request `initialize`, which a client sends to a server that it has just started."""
    return _INITIALIZE in raw and first_message(raw).get("method") == "initialize"
