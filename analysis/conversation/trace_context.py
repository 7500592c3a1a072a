"""The trace to which a request belongs: the first valid `traceparent` in its `_meta` or in the head that carried it.

A client that traces its calls names each of them in `_meta` (SEP-414). One that traces only HTTP, or a gateway, names
the HTTP request, which may carry several calls. So `_meta` comes first. A `traceparent` that is not valid is ignored
(W3C Trace Context), and so is one that occurs twice in a head.
"""

import re
from typing import Final, NamedTuple

from analysis.conversation.message import Request

MAX_TRACEPARENT_CHARS: Final = 256
"""The maximum length of a traceparent. Version 00 has 55 characters; later versions may have more (W3C, 3.2.4)."""

# W3C Trace Context, 3.2: later versions may have more fields. Version ff is invalid, and so are ids that are all zeros.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)


class Traceparent(NamedTuple):
    """A valid `traceparent`; its ids are hexadecimal."""

    text: str
    trace_id: str
    parent_id: str
    """The id of the span that caused the request."""
    is_in_head: bool = False
    """Whether the head of the HTTP request has it, and `_meta` has no valid one."""


def traceparent_of(request: Request, head_value: str | None) -> Traceparent | None:
    """Returns the `traceparent` that applies to a request of a client; None if there is no valid one.

    Args:
        request: the request.
        head_value: the field in the head of the HTTP request that carried it; None if it is not there exactly once.
    """
    parsed = parse_traceparent(request.meta.get("traceparent"))
    if parsed is None and head_value is not None and (parsed := parse_traceparent(head_value)) is not None:
        return parsed._replace(is_in_head=True)
    return parsed


def unparsed_traceparent(request: Request, head_value: str | None) -> str | None:
    """Returns the `traceparent` that applies to a request, or the first text in its place if none is valid.

    Earlier versions of the recorder hashed the field of the head, and equal hashes still show which requests are equal.
    The arguments are those of `traceparent_of`.
    """
    parsed = traceparent_of(request, head_value)
    if parsed is not None:
        return parsed.text
    value = request.meta.get("traceparent")
    return value if isinstance(value, str) and len(value) <= MAX_TRACEPARENT_CHARS else head_value


def parse_traceparent(value: object) -> Traceparent | None:
    """Parse a traceparent; returns None if the value is not valid."""
    if not isinstance(value, str) or len(value) > MAX_TRACEPARENT_CHARS:
        return None
    match = _match_traceparent(value)
    return None if match is None else Traceparent(value, match[1], match[2])


def has_traceparent_form(text: str) -> bool:
    """Whether a text, of any length, has the form of a traceparent."""
    return _match_traceparent(text) is not None


def _match_traceparent(text: str) -> re.Match[str] | None:
    match = _TRACEPARENT.fullmatch(text)
    return None if match is None or (match[4] and text.startswith("00-")) else match
