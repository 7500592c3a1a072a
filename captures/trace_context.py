"""What may be kept in plain text of the trace context in an HTTP head: `traceparent`, `tracestate` and `baggage`.

A value is kept only if its grammar leaves no room for anything else. W3C Trace Context defines the grammar of
`traceparent` and `tracestate`; any other form, perhaps of a later version, is hashed. Of `baggage` (W3C Baggage), which
applications fill with anything they like, only the names are kept.
"""

import re
from collections.abc import Callable
from typing import Final

from captures.addresses import escaped_text, parameter_name

MAX_TRACESTATE_BYTES: Final = 512
MAX_TRACESTATE_MEMBERS: Final = 32
MAX_BAGGAGE_BYTES: Final = 8192
MAX_BAGGAGE_MEMBERS: Final = 64
"""The sizes that W3C Baggage guarantees to be passed on."""

_SPACE: Final = b" \t"
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
).fullmatch
_MEMBER: Final = re.compile(
    rb"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    rb"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
).fullmatch


def is_traceparent(value: bytes) -> bool:
    """Whether a value is a version, the ids of a trace and of a span, and flags, in lower-case hexadecimal."""
    return _TRACEPARENT(value) is not None


def tracestate_members(value: bytes) -> list[bytes] | None:
    """Returns the members `key=value` of a tracestate, without empty ones, or None if it is not valid or has a URL.

    The value of a member is up to its vendor. A URL in one could hold a credential.
    """
    if len(value) > MAX_TRACESTATE_BYTES or b"://" in value:
        return None
    members = [member for part in value.split(b",") if (member := part.strip(_SPACE))]
    keys = {match[1] for member in members if (match := _MEMBER(member)) is not None}
    return members if len(keys) == len(members) <= MAX_TRACESTATE_MEMBERS else None


def redacted_baggage(value: bytes, hash_secret: Callable[[bytes], str]) -> str:
    """Returns a baggage with the names of its members, and hashes in place of their values and of their properties.

    Args:
        value: the value of the field, as sent.
        hash_secret: returns the hash of a secret.
    """
    members = value.split(b",")
    if len(value) > MAX_BAGGAGE_BYTES or len(members) > MAX_BAGGAGE_MEMBERS:
        return hash_secret(value)
    return ",".join([_redacted_member(member.strip(_SPACE), hash_secret) for member in members])


def _redacted_member(member: bytes, hash_secret: Callable[[bytes], str]) -> str:
    pair, semicolon, properties = member.partition(b";")
    name, _, value = (part.strip(_SPACE) for part in pair.partition(b"="))
    if parameter_name(name + b"=" + value) is None:
        return hash_secret(member) if member else ""
    return (
        f"{escaped_text(name)}={hash_secret(value) if value else ''}"
        f"{semicolon.decode()}{hash_secret(properties) if properties else ''}"
    )
