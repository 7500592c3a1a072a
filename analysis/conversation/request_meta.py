"""The envelope of a modern request: `params._meta`, in which it names its revision and the capabilities of its client.

The functions accept any JSON value anywhere, and return None where a value has the wrong type.
"""

from typing import Any, Literal, TypeAlias

from analysis.conversation.message import Notification, Request
from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from analysis.protocol.revisions import rank_of

MissingMetaMember: TypeAlias = Literal["meta", "version", "capabilities"]
"""The first item that is missing from the envelope of a request."""


def request_meta(request: Request) -> dict[str, Any] | None:
    """Returns `params._meta` of a request, or None if it is not an object."""
    params = request.body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else None


def missing_meta(request: Request) -> MissingMetaMember | None:
    """Returns the first required item that is missing from a modern request, or None if it is complete."""
    meta = request_meta(request)
    if meta is None:
        return "meta"
    if not isinstance(meta.get(PROTOCOL_VERSION), str):
        return "version"
    return None if isinstance(meta.get(CLIENT_CAPABILITIES), dict) else "capabilities"


def named_rank(message: Request | Notification) -> int | None:
    """Returns the rank of the revision that a message of the modern era names in its `_meta`, or None."""
    return rank_of(message.meta.get(PROTOCOL_VERSION))
