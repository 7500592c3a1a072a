"""Kinds of changes of what the sides say of themselves: capabilities, revision, instructions."""

from typing import Final

from analysis.comparison.kind import Kind, Severity
from analysis.protocol.revisions import FIRST_MODERN_REVISION, LAST_HANDSHAKE_REVISION

REVISION_CHANGED: Final = Kind(
    "session/revision-changed",
    Severity.MAY_BREAK,
    "another revision of the protocol was negotiated",
    "What may be sent and what must be answered differs between revisions, and a client may not know the new one.",
    f"{LAST_HANDSHAKE_REVISION} → {FIRST_MODERN_REVISION}",
)
CAPABILITY_REMOVED: Final = Kind(
    "session/capability-removed",
    Severity.BREAKING,
    "the server no longer declares a capability",
    "Clients must not use what is not declared, and requests that were valid before fail.",
    '"capabilities": {"tools": {}, "prompts": {}} → {"tools": {}}',
)
CAPABILITY_ADDED: Final = Kind(
    "session/capability-added",
    Severity.NOTE,
    "the server declares another capability",
    "Nothing that worked before is affected.",
    '"capabilities": {"tools": {}} → {"tools": {}, "prompts": {}}',
)
SUBSCRIPTIONS_REMOVED: Final = Kind(
    "session/subscriptions-removed",
    Severity.BREAKING,
    "the server no longer accepts subscriptions to resources",
    "Requests to subscribe, which were valid before, fail, and clients do not learn that a resource changed.",
    '"resources": {"subscribe": true} → {}',
)
CAPABILITY_NARROWED: Final = Kind(
    "session/capability-narrowed",
    Severity.MAY_BREAK,
    "the server declares less of a capability",
    "Without `listChanged`, clients keep lists that are out of date. Other flags permit requests or notifications that "
    "a client may have relied on.",
    '"tools": {"listChanged": true} → {}',
)
CAPABILITY_WIDENED: Final = Kind(
    "session/capability-widened",
    Severity.NOTE,
    "the server declares more of a capability",
    "Nothing that worked before is affected.",
    '"tools": {} → {"listChanged": true}',
)
CAPABILITY_CHANGED: Final = Kind(
    "session/capability-changed",
    Severity.UNKNOWN,
    "the settings of a capability changed",
    "What the settings mean is not known here: ask whoever defines the capability or the extension.",
    '"extensions": {"com.example/x": {"mode": "a"}} → {"com.example/x": {"mode": "b"}}',
)
EXTENSION_REMOVED: Final = Kind(
    "session/extension-removed",
    Severity.BREAKING,
    "the server no longer declares an extension",
    "Clients must not use an extension that only one side declares; its requests fail.",
    '"extensions": {"io.modelcontextprotocol/tasks": {}} → {}',
)
EXTENSION_ADDED: Final = Kind(
    "session/extension-added",
    Severity.NOTE,
    "the server declares another extension",
    "An extension is in use only if both sides declare it, so nothing that worked before is affected.",
    '"extensions": {} → {"io.modelcontextprotocol/tasks": {}}',
)
EXPERIMENT_REMOVED: Final = Kind(
    "session/experiment-removed",
    Severity.MAY_BREAK,
    "the server no longer declares an experimental capability",
    "An experimental capability is not promised to stay, but a client may have used it.",
    '"experimental": {"traces": {}} → {}',
)
EXPERIMENT_ADDED: Final = Kind(
    "session/experiment-added",
    Severity.NOTE,
    "the server declares another experimental capability",
    "Nothing that worked before is affected.",
    '"experimental": {} → {"traces": {}}',
)
CLIENT_CAPABILITY: Final = Kind(
    "session/client-capability-changed",
    Severity.NOTE,
    "the client declares other capabilities",
    "The server may ask the client for other things, so other changes may be the client's doing.",
    '"capabilities": {"roots": {}} → {"roots": {}, "sampling": {}}',
)
SERVER_NAME: Final = Kind(
    "session/server-name-changed",
    Severity.NOTE,
    "the server gives itself another name",
    "It may be another server: compare recordings of the same one.",
    '"serverInfo": {"name": "docs"} → {"name": "docs-server"}',
)
SERVER_VERSION: Final = Kind(
    "session/server-version-changed",
    Severity.NOTE,
    "the server gives itself another version",
    "Other changes probably come with the version. Definitions that change without it are more suspicious.",
    '"serverInfo": {"version": "1.4.0"} → {"version": "2.0.0"}',
)
SERVER_INFO: Final = Kind(
    "session/server-info-changed",
    Severity.NOTE,
    "the server describes itself otherwise",
    "Titles, icons and addresses are for people: no client depends on them.",
    '"serverInfo": {"title": "Documents"} → {"title": "Documents of the team"}',
)
INSTRUCTIONS: Final = Kind(
    "session/instructions-changed",
    Severity.NOTE,
    "the instructions of the server changed",
    "Hosts give them to the model, which may use all tools in another way. The words alone prove neither a fault nor "
    "an attack.",
    '"instructions": "Search first." → "Search first, then fetch."',
)

KINDS: Final = (
    REVISION_CHANGED,
    CAPABILITY_REMOVED,
    CAPABILITY_ADDED,
    SUBSCRIPTIONS_REMOVED,
    CAPABILITY_NARROWED,
    CAPABILITY_WIDENED,
    CAPABILITY_CHANGED,
    EXTENSION_REMOVED,
    EXTENSION_ADDED,
    EXPERIMENT_REMOVED,
    EXPERIMENT_ADDED,
    CLIENT_CAPABILITY,
    SERVER_NAME,
    SERVER_VERSION,
    SERVER_INFO,
    INSTRUCTIONS,
)
