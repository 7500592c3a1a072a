"""Answers of a mock that were not recorded: to pings, to bytes that are not a message, to clients of another era."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from analysis.conversation.message import InvalidMessage
from analysis.playback.items import HttpAnswer
from analysis.protocol.error_codes import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, UNSUPPORTED_VERSION

_MAX_QUOTED_CHARS: Final = 64
_NOT_JSON: Final = "invalid"
"""The reason of a body that is not JSON: it breaks no rule of framing, unlike such a line."""


def pong(id_token: bytes) -> bytes:
    """Returns the answer to a ping."""
    return b'{"jsonrpc":"2.0","id":%b,"result":{}}' % id_token


def invalid_response(message: InvalidMessage) -> bytes:
    """Returns the error that answers bytes that are not a message, or too large to be read."""
    if message.reason in ("unjudged", "framing/too-deep"):
        return GIANT_RESPONSE
    is_json = message.reason == "framing/not-a-message" or not message.reason.startswith(("framing/", _NOT_JSON))
    if not is_json:
        return error_response(b"null", PARSE_ERROR, "mcpproxy mock: this is not JSON")
    return error_response(b"null", INVALID_REQUEST, "mcpproxy mock: this is not a JSON-RPC message")


def unsupported_version_response(id_token: bytes, requested: object, supported: Sequence[str]) -> bytes:
    """Returns the error by which a server of the modern era refuses a revision.

    Args:
        id_token: the id of the request as its JSON token.
        requested: the revision that the client asked for. Untrusted.
        supported: the revisions that were recorded. Untrusted text.
    """
    requested_text = requested[:_MAX_QUOTED_CHARS] if isinstance(requested, str) else ""
    message = "mcpproxy mock: the capture is of another revision"
    return error_response(
        id_token, UNSUPPORTED_VERSION, message, {"supported": list(supported), "requested": requested_text}
    )


def http_failure_response(id_token: bytes, answer: HttpAnswer | None) -> bytes:
    """Returns the error that stands for a recorded HTTP failure on a transport that cannot carry it."""
    status = answer.status if answer is not None else 0
    what = f"answered with HTTP status {status}" if status else "did not answer over HTTP"
    return error_response(id_token, INTERNAL_ERROR, f"mcpproxy mock: the recorded server {what}", {"status": status})


def error_response(id_token: bytes, code: int, message: str, data: Any = None) -> bytes:
    """Returns a JSON-RPC error.

    Args:
        id_token: the id of the request as its JSON token.
        code: its code.
        message: its message.
        data: its data; None for none.
    """
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    try:
        text = orjson.dumps(error)
    except (orjson.JSONEncodeError, RecursionError):  # data with a lone surrogate
        text = orjson.dumps({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_token, text)


GIANT_RESPONSE: Final = error_response(
    b"null", INVALID_REQUEST, "mcpproxy mock: the message is too large, or nested too deeply"
)
"""The error that answers a message that cannot be read."""
