"""The facts about single revisions of MCP that mcp-types lacks, because it has only one shape per era.

They are the members and types that a revision introduced, by their names in mcp-types, and the members that are not
judged by their declarations.
"""

from typing import Final, Literal, TypeAlias

from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from analysis.protocol.revisions import REVISIONS

Kind: TypeAlias = Literal["shape", "null", "scalar", "uri", "resource-uri", "base64", "both"]
"""The kinds of problems at a place; `shape` means that it does not fit the schema."""

RANK: Final = {version: rank for rank, version in enumerate(REVISIONS)}


def _since(version: str, **members: str) -> dict[tuple[str, str], int]:
    return {(name, member): RANK[version] for name, names in members.items() for member in names.split()}


MEMBERS_SINCE: Final = {
    **_since(
        "2025-03-26",
        ProgressNotificationParams="message",
        ServerCapabilities="completions",
        Tool="annotations",
    ),
    **_since(
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
    **_since(
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
"""Members added during the handshake era, by their type in mcp-types, with the rank of their first revision."""

TYPES_SINCE: Final = {
    "AudioContent": RANK["2025-03-26"],
    "ResourceLink": RANK["2025-06-18"],
    "ToolUseContent": RANK["2025-11-25"],
    "ToolResultContent": RANK["2025-11-25"],
}
LISTS_SINCE: Final = RANK["2025-11-25"]
"""The rank of the first revision in which the content of sampling may be an array."""

ANYTHING: Final = frozenset(
    {
        *(("Meta", "progressToken"), ("RequestMetaObject", "progressToken")),
        *(("ClientCapabilities", "extensions"), ("ServerCapabilities", "extensions")),
    }
)
"""Members that separate rules judge, at all depths."""
NULLABLE: Final = frozenset({("TaskMetadata", "ttl")})
"""Optional members for which null is a value, regardless of the schema."""
REQUIRED: Final = frozenset({("CancelledNotificationParams", "requestId")})
"""Members that the specification's pages require but the types of the era do not."""
ELSEWHERE: Final = frozenset({"_meta", "resultType", PROTOCOL_VERSION, CLIENT_CAPABILITIES})
"""Members of the modern envelope: separate rules report if they are missing or of another type."""

_URIS: Final = frozenset(
    {("Root", "uri"), ("Implementation", "websiteUrl"), ("Icon", "src"), ("ElicitRequestURLParams", "url")}
)
_RESOURCES: Final = frozenset(
    {
        *("Resource", "ResourceLink", "TextResourceContents", "BlobResourceContents", "ReadResourceRequestParams"),
        *("SubscribeRequestParams", "UnsubscribeRequestParams", "ResourceUpdatedNotificationParams"),
    }
)
_BASE64: Final = frozenset({("BlobResourceContents", "blob"), ("ImageContent", "data"), ("AudioContent", "data")})


def format_of(name: str, member: str) -> Kind | None:
    """The format that a string must have."""
    if (name, member) in _BASE64:
        return "base64"
    if member == "uri" and name in _RESOURCES:
        return "resource-uri"
    return "uri" if (name, member) in _URIS else None
