"""The group `http`: how messages, sessions and streams travel over Streamable HTTP."""

MODULES = (
    "eras",
    "get_stream",
    "headers",
    "modern",
    "session_ids",
    "session_use",
    "status",
    "streams",
    "version",
    "failures",
    "redirects",
)
