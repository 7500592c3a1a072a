"""The facts about single revisions of MCP that mcp-types lacks, because it has only one shape per era.

They are the members and types that a revision introduced, by their names in mcp-types, and the members that are not
judged by their declarations.
"""

from typing import Final, Literal, TypeAlias

from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from analysis.protocol.revisions import REVISIONS

Kind: TypeAlias = Literal["shape", "null", "scalar", "uri", "resource-uri", "base64", "both"]
"""The kinds of problems at a place; `shape` means that it does not fit the schema."""

RANKS: Final = {version: rank for rank, version in enumerate(REVISIONS)}


def _members_since(version: str, **members: str) -> dict[tuple[str, str], int]:
    return {(name, member): RANKS[version] for name, names in members.items() for member in names.split()}


MEMBERS_SINCE: Final = {
    **_members_since(
        "2025-03-26",
        ProgressNotificationParams="message",
        ServerCapabilities="completions",
        Tool="annotations",
    ),
    **_members_since(
        "2025-06-18",
        Annotations="lastModified",
        AudioContent="_meta",
        BlobResourceContents="_meta",
        CallToolResult="structuredContent",
        ClientCapabilities="elicitation",
        CompleteRequestParams="context",
        EmbeddedResource="_meta",
        ImageContent="_meta",
        Implementation="title",
        Prompt="_meta title",
        PromptArgument="title",
        PromptReference="title",
        Resource="_meta title",
        ResourceTemplate="_meta title",
        Root="_meta",
        TextContent="_meta",
        TextResourceContents="_meta",
        Tool="_meta outputSchema title",
    ),
    **_members_since(
        "2025-11-25",
        CallToolRequestParams="task",
        ClientCapabilities="tasks",
        CreateMessageRequestParams="task tools toolChoice",
        ElicitRequestFormParams="mode task",
        Elicitation="form url",
        Implementation="description icons websiteUrl",
        InputSchema="$schema",
        OutputSchema="$schema",
        Prompt="icons",
        RequestedSchema="$schema",
        Resource="icons",
        ResourceLink="icons",
        ResourceTemplate="icons",
        Sampling="context tools",
        SamplingMessage="_meta",
        ServerCapabilities="tasks",
        Tool="execution icons",
    ),
}
"""Members added within an era, by their type in mcp-types, with the rank of their first revision."""

TYPES_SINCE: Final = {
    "AudioContent": RANKS["2025-03-26"],
    "ResourceLink": RANKS["2025-06-18"],
    "ToolUseContent": RANKS["2025-11-25"],
    "ToolResultContent": RANKS["2025-11-25"],
}
LIST_CONTENT_SINCE: Final = RANKS["2025-11-25"]
"""The rank of the first revision in which the content of sampling may be an array."""

UNCHECKED_MEMBERS: Final = frozenset(
    {
        *(("Meta", "progressToken"), ("RequestMetaObject", "progressToken")),
        *(("ClientCapabilities", "extensions"), ("ServerCapabilities", "extensions")),
    }
)
"""Members that separate rules judge, at all depths."""
NULLABLE_MEMBERS: Final = frozenset({("TaskMetadata", "ttl")})
"""Optional members for which null is a value, regardless of the schema."""
ALSO_REQUIRED_MEMBERS: Final = frozenset({("CancelledNotificationParams", "requestId")})
"""Members that the specification's pages require but the types of the era do not."""
ENVELOPE_MEMBERS: Final = frozenset({"_meta", "resultType", PROTOCOL_VERSION, CLIENT_CAPABILITIES})
"""Members of the modern envelope: separate rules report if they are missing or of another type."""

_URI_MEMBERS: Final = frozenset(
    {("Root", "uri"), ("Implementation", "websiteUrl"), ("Icon", "src"), ("ElicitRequestURLParams", "url")}
)
_RESOURCE_TYPES: Final = frozenset(
    {
        *("Resource", "ResourceLink", "TextResourceContents", "BlobResourceContents", "ReadResourceRequestParams"),
        *("SubscribeRequestParams", "UnsubscribeRequestParams", "ResourceUpdatedNotificationParams"),
    }
)
_BASE64_MEMBERS: Final = frozenset(
    {("BlobResourceContents", "blob"), ("ImageContent", "data"), ("AudioContent", "data")}
)


def format_of(name: str, member: str) -> Kind | None:
    """The format that a string must have."""
    if (name, member) in _BASE64_MEMBERS:
        return "base64"
    if member == "uri" and name in _RESOURCE_TYPES:
        return "resource-uri"
    return "uri" if (name, member) in _URI_MEMBERS else None
