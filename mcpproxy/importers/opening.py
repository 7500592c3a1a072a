"""Whether a client's frame opens a conversation."""

from typing import Any, Final

from orjson import JSONDecodeError, loads

from analysis.conversation.session import PROTOCOL_VERSION
from analysis.protocol.methods import OPENING
from captures.limits import MAX_RECORDER_JUDGED_BYTES

_INITIALIZE: Final = b'"initialize"'


def first_message(raw: bytes) -> dict[str, Any]:
    """Returns the message of a frame, or the first of a batch; empty if it is not one, or too large to be looked at."""
    try:
        value = loads(raw) if len(raw) <= MAX_RECORDER_JUDGED_BYTES else None
    except JSONDecodeError:
        return {}
    message = value[0] if isinstance(value, list) and value else value
    return message if isinstance(message, dict) else {}


def can_open_conversation(raw: bytes) -> bool:
    """Whether a client's frame can be the first: a handshake, or a request that needs none."""
    message = first_message(raw)
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    method = message.get("method")
    return (isinstance(method, str) and method in OPENING) or (isinstance(meta, dict) and PROTOCOL_VERSION in meta)


def is_initialize(raw: bytes) -> bool:
    """Whether a frame is the request `initialize`, with which a client greets a server that was started."""
    return _INITIALIZE in raw and first_message(raw).get("method") == "initialize"
