"""The features of MCP that only some revisions have, one row each.

Rules and readers name a feature, never a date: this is the only place that knows when it came or went. What has a table
of its own is not repeated: methods (`methods.py`), capabilities (`capabilities.py`), kinds of results
(`result_types.py`), error codes (`error_codes.py`), deprecations (`deprecations.py`), and the members of types
(`analysis/shapes/since.py`).
"""

from typing import Final

from analysis.protocol.revisions import between, only, since, until

# ---- the specification

SCHEMA_PAGE: Final = since("2025-06-18")
"""The schema is a page of the specification, not only a file."""

# ---- messages and transports

MENTIONS_NO_BATCHES: Final = only("2024-11-05")
"""The text neither allows nor forbids batches."""
BATCHES: Final = only("2025-03-26")
STREAMABLE_HTTP: Final = since("2025-03-26")
HTTP_SESSIONS: Final = between("2025-03-26", "2025-11-25")
"""Session ids in HTTP headers, streams that GET opens, and their resumption."""
SSE_POLLING: Final = only("2025-11-25")
"""Streams that begin with an empty event, and that a server may end with `retry` for the client to come back."""
VERSION_HEADER: Final = since("2025-06-18")
"""`MCP-Protocol-Version` after the handshake, over HTTP."""
REFUSED_ORIGINS: Final = since("2025-11-25")
"""A status for requests from an `Origin` that is not allowed."""
TIMEOUTS: Final = since("2025-03-26")
"""A time limit for every request, after which it is cancelled."""

# ---- capabilities and errors

ADVISORY_CAPABILITIES: Final = until("2025-03-26")
"""Using only what was negotiated is recommended, not required."""
COMPLETION_CAPABILITY: Final = since("2025-03-26")
"""A capability for completions."""
COMPLETIONS_WITHOUT_CAPABILITY: Final = until("2024-11-05")
TOOL_INPUT_ERRORS_AS_RESULTS: Final = since("2025-11-25")
"""Invalid arguments of a tool are an error for the model, in a result."""

# ---- content

META_KEYS: Final = since("2025-06-18")
"""A format for the keys of `_meta`."""
RESERVED_SECOND_LABELS: Final = since("2025-11-25")
"""The second label of a prefix in `_meta` decides whether it is reserved; before, any label did."""
ANNOTATION_TIMES: Final = since("2025-06-18")
"""`lastModified` in annotations."""
ICONS: Final = since("2025-11-25")
URI_FORMAT: Final = since("2025-06-18")
"""Resources are identified by URIs, in the words of RFC 3986."""
STRUCTURED_CONTENT: Final = since("2025-06-18")
"""Structured results of tools, and `outputSchema`."""
STRUCTURED_OBJECTS: Final = between("2025-06-18", "2025-11-25")
"""Structured content is always an object."""
TOOL_NAME_FORMAT: Final = since("2025-11-25")
SCHEMA_DIALECT: Final = since("2025-11-25")
"""JSON Schema 2020-12, unless a schema names another dialect."""

# ---- what servers ask of clients

ELICITATION: Final = since("2025-06-18")
ELICITATION_WITHOUT_MODES: Final = only("2025-06-18")
ELICITATION_MODES: Final = since("2025-11-25")
"""Forms and URLs as modes of elicitation, and forms with titled and multiple choices."""
ELICITATION_IDS: Final = only("2025-11-25")
"""Ids of elicitations, their completion, and the error that requires one."""
SAMPLING_TOOLS: Final = since("2025-11-25")
SAMPLING_CONTEXT: Final = since("2025-11-25")
"""A capability for `includeContext`."""
REFUSAL_CODES: Final = only("2025-11-25")
"""Codes with which a client refuses a request of sampling or elicitation."""
CORE_TASKS: Final = only("2025-11-25")
"""Tasks as a part of the protocol; later, they are an extension."""

# ---- authorization

AUTHORIZATION: Final = since("2025-03-26")
METADATA_AT_ROOT: Final = only("2025-03-26")
"""The metadata of the authorization server are at the root of the host."""
RESOURCE_METADATA: Final = since("2025-06-18")
"""Metadata of the protected resource, to which a challenge points."""
RESOURCE_PARAMETER: Final = since("2025-06-18")
"""A parameter for the resource in requests to the authorization server."""
WELL_KNOWN_RESOURCE_METADATA: Final = since("2025-11-25")
"""A location of those metadata that needs no challenge."""
SCOPE_CHALLENGES: Final = since("2025-11-25")
"""Scopes in challenges, and how a client asks for more."""
PKCE_METADATA: Final = since("2025-11-25")
"""Clients must not log in if the metadata lack PKCE."""
ISSUER_PARAMETER: Final = since("2026-07-28")
OFFLINE_ACCESS: Final = since("2026-07-28")
"""Only clients ask for the scope `offline_access`."""
