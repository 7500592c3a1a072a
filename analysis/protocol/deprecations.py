"""What revisions of MCP deprecate, one row each: it still works, but will be removed."""

from typing import Final, NamedTuple

from analysis.protocol.features import STREAMABLE_HTTP
from analysis.protocol.revisions import MODERN_ERA, Span, since

INCLUDE_CONTEXT: Final = since("2025-11-25")
"""`includeContext` in sampling requests."""
HTTP_SSE: Final = STREAMABLE_HTTP
"""The transport of 2024-11-05, with one SSE stream for all messages of the server."""


class Deprecation(NamedTuple):
    """One feature, and what shows that a side still declares or uses it."""

    feature: str
    """Its name in findings."""
    revisions: Span
    """The revisions in which it is deprecated."""
    methods: frozenset[str]
    """Its methods: of requests, input requests and notifications."""
    client_capability: str = ""
    """The capability with which a client declares it; empty for none."""
    server_capability: str = ""
    """The capability with which a server declares it; empty for none."""
    meta_member: str = ""
    """The member of the `_meta` of a request that asks for it; empty for none."""


DEPRECATIONS: Final = (
    Deprecation("roots", MODERN_ERA, frozenset({"roots/list"}), client_capability="roots"),
    Deprecation("sampling", MODERN_ERA, frozenset({"sampling/createMessage"}), client_capability="sampling"),
    Deprecation(
        "logging",
        MODERN_ERA,
        frozenset({"notifications/message"}),
        server_capability="logging",
        meta_member="io.modelcontextprotocol/logLevel",
    ),
)
"""The deprecated features of the modern era."""

DEPRECATED_METHODS: Final = frozenset(method for row in DEPRECATIONS for method in row.methods)
"""The methods of all features that some revision deprecates."""
