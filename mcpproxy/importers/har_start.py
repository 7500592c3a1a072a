"""Recognises HAR files by their beginning."""

import re
from typing import Final

_START: Final = re.compile(rb'\s*\{\s*"log"\s*:\s*\{').match
_URL: Final = re.compile(rb'"url"\s*:\s*"([A-Za-z][A-Za-z0-9+.-]{0,31}):').search


def har_scheme(head: bytes) -> str | None:
    """Returns the scheme of the first URL in a HAR file, which is empty if there is no URL; None if it is not HAR.

    Some recorders of MCP write `mcp`, because the conversations that they export are not HTTP.
    """
    if not _START(head):
        return None
    url = _URL(head)
    return url[1].decode().lower() if url else ""
