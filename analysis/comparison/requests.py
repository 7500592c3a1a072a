"""RequestKey: recognises the same request on both sides of a comparison, although its id and its time differ."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from analysis.comparison.canonical import json_digest

if TYPE_CHECKING:
    from analysis.conversation.call import Call
    from analysis.conversation.message import Side

MAX_NAME_CHARS: Final = 200
"""The most characters of a method or name in a key; the digest covers all of them."""
_MAX_CACHED_BYTES: Final = 1_000
"""The most bytes of method and params of which the digest is kept for the next equal request."""
_HANDLES: Final = ("_meta", "requestState")
"""Members of the params that a sender or receiver chooses anew each time."""


class RequestKey(NamedTuple):
    """What is equal in equal requests: JSON can hold it, and all of it is bounded.

    Without the digest, it is what all calls of one tool, prompt or method have in common.
    """

    sender: "Side"
    method: str
    """Untrusted text, truncated."""
    name: str
    """The tool, prompt or URI that the request names, truncated; empty if it names none. Untrusted text."""
    digest: str
    """A digest of the method and the params, in hexadecimal."""

    @property
    def subject(self) -> str:
        """Method and name, as `Change.subject`. Untrusted text, truncated."""
        return subject_of(self.method, self.name)


@lru_cache(maxsize=1)  # several aspects need the key of a call, one after another
def request_key(call: "Call") -> RequestKey:
    """Returns the key of a call's request.

    Equal are requests of the same side with the same method and equal params. The id, `_meta`, the state that a retry
    sends back, the task whose result is requested, and the order of members do not count; absent params equal empty
    ones.
    """
    request = call.request
    params = request.body.get("params")
    if isinstance(params, dict):
        handles = ("_meta", "taskId") if call.request.method == "tasks/result" else _HANDLES
        if any(name in params for name in handles):
            params = {name: value for name, value in params.items() if name not in handles}
    elif params is None:
        params = {}
    method = request.method
    return RequestKey(request.sender, bounded(method), bounded(call.name or ""), request_digest(method, params))


def request_digest(method: str, params: Any) -> str:
    """Returns a digest of a method and its params, in hexadecimal: equal requests have equal digests."""
    try:
        written = orjson.dumps(params)
    except orjson.JSONEncodeError:  # what orjson cannot write, canonical JSON can
        return json_digest([method, params])
    if len(written) + len(method) > _MAX_CACHED_BYTES:
        return json_digest([method, params])
    return _digest_of_written(method, b"%b" % written)  # orjson's bytes keep a buffer of 4 KiB


@lru_cache(maxsize=4_096)  # most calls repeat an earlier one
def _digest_of_written(method: str, params: bytes) -> str:
    return json_digest([method, orjson.loads(params)])


def subject_of(method: str, name: str) -> str:
    """Returns method and name as the subject of a change. Untrusted text."""
    return f"{method} {name}" if name else method


def bounded(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Returns a peer's text, truncated, with lone surrogates escaped so that any encoder accepts it."""
    if len(text) <= limit:
        if text.isascii():  # the usual case
            return text
    else:
        text = f"{text[: limit - 1]}…"
    return text.encode("utf-8", "backslashreplace").decode()
