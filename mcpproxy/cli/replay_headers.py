"""The header fields of `replay --header`, whose values come from the environment."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from mcpproxy.sanitise import sanitise

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}", re.ASCII)
_VALUE: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9-]{0,31} )?env:(?P<variable>[A-Za-z_][A-Za-z0-9_]{0,255})", re.ASCII
)
_OURS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "mcp-session-id", "last-event-id"}
)
_EXAMPLE: Final = "--header 'Authorization: Bearer env:TOKEN'"


class HeaderError(Exception):
    """Raised if an option is not valid; the message says why, and contains no value."""


def header_fields(texts: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the header fields that the options name.

    Raises:
        HeaderError: an option is malformed, has a value instead of a variable, or the variable is not set.
    """
    fields: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _NAME.fullmatch(name):
            raise HeaderError(f"--header needs a name, a colon and a variable, as in {_EXAMPLE}")
        match = _VALUE.fullmatch(value)
        if match is None:
            raise HeaderError(
                f"--header {name}: other users of this machine can read values on a command line; put it into an "
                f"environment variable: {_EXAMPLE}"
            )
        if name.lower() in _OURS:
            raise HeaderError(f"--header {name}: mcpproxy sets this field itself")
        secret = environment.get(match["variable"])
        if not secret:
            raise HeaderError(f"--header {name}: the environment variable {sanitise(match['variable'])} is not set")
        if not (secret.isascii() and secret.isprintable()):
            raise HeaderError(
                f"--header {name}: the value of {match['variable']} has characters that a header cannot contain"
            )
        fields[name] = (match["scheme"] or "") + secret
    return fields
