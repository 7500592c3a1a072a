"""The header fields of a client's HTTP request that are sent again: what a server may need to understand a message."""

from collections.abc import Sequence
from typing import Final, TypeAlias

Fields: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, and values, in order; a name may occur twice. Untrusted text. That of `SESSION_FIELD` is
empty: the server of today chooses another one."""

REPEATED_FIELDS: Final = frozenset({"accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"})
"""Names of fields that are sent again; not those of a session, of credentials or of a connection."""
SESSION_FIELD: Final = "mcp-session-id"
REPEATED_PREFIX: Final = "mcp-param-"
MAX_FIELD_CHARS: Final = 8 << 10
"""The most characters of a value that is sent again."""
_HASH_MARK: Final = "hmac:"


def text_of(lines: Sequence[tuple[str, str]]) -> str:
    """Returns the fields of a head that are sent again as a text, for `fields_of`; it is never empty."""
    kept = [
        f"{name}:\n" if name == SESSION_FIELD else f"{name}:{value}\n"
        for name, value in lines
        if name == SESSION_FIELD or _is_repeated(name, value)
    ]
    return "\n" + "".join(kept)


def fields_of(text: str) -> Fields | None:
    """Returns the fields in a text of `text_of`; None for an empty text: no head is known."""
    if not text:
        return None
    pairs = (line.partition(":") for line in text.split("\n")[1:-1])
    return tuple([(name, value) for name, _, value in pairs])


def _is_repeated(name: str, value: str) -> bool:
    is_wanted = name in REPEATED_FIELDS or (name.startswith(REPEATED_PREFIX) and name.isprintable() and ":" not in name)
    return is_wanted and is_repeatable(value)


def is_repeatable(value: str) -> bool:
    """Whether the value of a header field of either side can be sent again: it is whole, and has no hash in it."""
    return _HASH_MARK not in value and len(value) <= MAX_FIELD_CHARS and value.isprintable()
