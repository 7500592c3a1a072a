"""Redirects of a login: to an authorization server, and from it back to the client.

They lead the user's browser to another host on purpose. No MCP message follows them, so none can bypass the recorder.
"""

from typing import Final
from urllib.parse import parse_qs, urlsplit

_LOGIN_PARAMETERS: Final = frozenset({"response_type", "code", "error"})
"""An authorization request has the first of these (RFC 6749, 4.1.1), and its response one of the others (4.1.2)."""


def is_login_step(address: str) -> bool:
    """Returns whether an address is that of an authorization request, or of the response to one."""
    try:
        return not _LOGIN_PARAMETERS.isdisjoint(parse_qs(urlsplit(address).query, max_num_fields=100))
    except ValueError:  # not an address, or one with very many parameters
        return False
