"""The hosted clients: what each requires of a remote server, with the public source of every requirement.

A hosted client calls a server from the internet, so nothing of it can be read on this machine. A row is here only if a
public page says so; `read` is the day on which a stored copy of that page, or a public quotation of it, was read. When
you read a page again, change the date of its rows, even if nothing else changed: `mcpproxy doctor URL --as HOST` and
docs/clients.md show it. `NOT_FOUND` lists what no public page was found to say.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

STREAMABLE: Final = "Streamable HTTP"
SSE: Final = "HTTP+SSE"
POINTER: Final = "pointer"
"""The `resource_metadata` of a challenge names the document."""
BY_PATH: Final = "path"
"""The document is at its well-known place with the path of the endpoint after it (RFC 9728)."""
BY_ROOT: Final = "root"
"""The document is at its well-known place, without a path."""
OLD_PLACE: Final = "server"
"""There is no document about the resource, but one about the authorization server at the root, as in 2025-03-26."""
CIMD: Final = "client ID metadata documents"
DCR: Final = "dynamic client registration"
REFERENCE: Final = "$ref"
TYPE_LIST: Final = "type"
EXCLUSIVE_MINIMUM: Final = "exclusiveMinimum"

Kind = Literal[
    "https",
    "query",
    "transport",
    "redirect",
    "cors",
    "challenge",
    "pointer",
    "metadata",
    "metadata-path",
    "resource",
    "server-metadata",
    "pkce",
    "registration",
    "discovery-time",
    "tool-names",
    "tool-annotations",
    "tool-schema",
    "tool-count",
    "required-tools",
    "address",
    "callback",
    "call-time",
    "result-size",
    "revision",
]

OF_DOCUMENTS: Final[frozenset[Kind]] = frozenset(
    {
        "pointer",
        "metadata",
        "metadata-path",
        "resource",
        "server-metadata",
        "pkce",
        "registration",
        "discovery-time",
    }
)
"""The kinds about the documents that a client reads before a login."""
INFORMATIVE: Final[frozenset[Kind]] = frozenset({"address", "callback", "call-time", "result-size", "revision"})
"""The kinds that cannot be checked without a login, a call of a tool, or the client's view of the network."""


class Requirement(NamedTuple):
    """One thing that a hosted client requires of a server."""

    kind: Kind
    value: Any
    """What exactly is required; its type depends on the kind. None if there is nothing more to say."""
    text: str
    """What is required, to be read after "requires"."""
    source: str
    """The URL of the page that says so."""
    read: str
    """The day on which the page was read, as YYYY-MM-DD."""

    @property
    def name(self) -> str:
        """The kind in words."""
        return self.kind.upper() if self.kind in ("cors", "pkce") else self.kind.replace("-", " ")


class HostedClient(NamedTuple):
    """One hosted client, with everything that mcpproxy knows about it."""

    id: str
    title: str
    requirements: tuple[Requirement, ...]
    speaks_as: str = ""
    """The name that it has in `clientInfo`; empty if no source says it."""

    @property
    def as_of(self) -> str:
        """The day on which the oldest of its rows was read."""
        return min(requirement.read for requirement in self.requirements)


_CLAUDE: Final = "https://claude.com/docs/connectors/building"
_CLAUDE_AUTH: Final = "https://claude.com/docs/connectors/building/authentication"
_CLAUDE_ISSUES: Final = "https://github.com/anthropics/claude-ai-mcp/issues/"
_CLAUDE_API: Final = "https://platform.claude.com/docs/en/agents-and-tools/mcp-connector"
_OPENAI_AUTH: Final = "https://developers.openai.com/apps-sdk/build/auth"
_OPENAI_MODE: Final = "https://developers.openai.com/api/docs/guides/developer-mode"
_COPILOT: Final = "https://learn.microsoft.com/en-us/microsoft-copilot-studio/"
_PERPLEXITY: Final = "https://www.perplexity.ai/help-center/en/articles/13915507-adding-custom-remote-connectors"
_BOTH: Final = (STREAMABLE, SSE)
_READ: Final = "2026-11-29"


def _row(kind: Kind, value: Any, text: str, source: str, read: str = _READ) -> Requirement:
    return Requirement(kind, value, text, source, read)


HOSTED_CLIENTS: Final = (
    HostedClient(
        "claude",
        "Claude (web, Desktop, mobile and Cowork)",
        (
            _row("https", None, "a URL with https", f"{_CLAUDE_ISSUES}185"),
            _row(
                "query",
                ("access_token", "api_key", "apikey", "token", "usertoken"),
                "a URL without credentials in its query",
                _CLAUDE_AUTH,
            ),
            _row("transport", _BOTH, "Streamable HTTP or HTTP+SSE (which it phases out)", _CLAUDE),
            _row(
                "redirect",
                None,
                "the address at which the server listens: it sends no credentials after a redirect to another origin",
                f"{_CLAUDE_ISSUES}155",
            ),
            _row("challenge", None, "status 401 for a request without credentials", _CLAUDE_AUTH),
            _row("pointer", None, "`resource_metadata` in the challenge; it guesses the place otherwise", _CLAUDE_AUTH),
            _row(
                "metadata",
                (POINTER, BY_PATH, BY_ROOT, OLD_PLACE),
                "the document about the protected resource, where the challenge says or at its well-known place, with "
                "or without the path of the endpoint; or, as in 2025-03-26, one about the authorization server at the "
                "root",
                _CLAUDE_AUTH,
            ),
            _row(
                "metadata-path",
                None,
                "the document at its well-known place with the path, too: without it, some logins began at a wrong "
                "address",
                f"{_CLAUDE_ISSUES}716",
            ),
            _row(
                "resource",
                None,
                "a `resource` that is the URL of the server as it is entered, path included",
                _CLAUDE_AUTH,
            ),
            _row(
                "server-metadata",
                None,
                "the document about the first of `authorization_servers`, at one of its well-known places",
                _CLAUDE_AUTH,
            ),
            _row("pkce", "S256", "`S256` in `code_challenge_methods_supported`", _CLAUDE_AUTH),
            _row(
                "registration",
                (CIMD, DCR),
                "client ID metadata documents (with `none` in `token_endpoint_auth_methods_supported`) or a "
                "`registration_endpoint`; otherwise the user has to enter a client ID",
                _CLAUDE_AUTH,
            ),
            _row("discovery-time", 10.0, "each document within 10 s", _CLAUDE_AUTH),
            _row(
                "tool-names",
                "[a-zA-Z0-9_-]{1,64}",
                "tool names of 1 to 64 letters, digits, `_` and `-`: one other name hides all tools",
                "https://github.com/anthropics/claude-code/issues/57813",
            ),
            _row(
                "tool-annotations",
                (("title",), ("readOnlyHint", "destructiveHint")),
                "a title and `readOnlyHint` or `destructiveHint` on every tool, for its directory",
                f"{_CLAUDE}/review-criteria",
            ),
            _row("callback", None, "`https://claude.ai/api/mcp/auth_callback` as a redirect URI", _CLAUDE_AUTH),
            _row("call-time", 300.0, "the result of a call within 300 s", _CLAUDE),
            _row("result-size", 150_000, "results of at most about 150,000 characters", _CLAUDE),
            _row("revision", None, "the 2025-03-26, 2025-06-18 or 2025-11-25 authorization", _CLAUDE),
            _row(
                "address",
                None,
                "a host name with an IPv4 address (A record) that is public",
                f"{_CLAUDE}/troubleshooting",
            ),
        ),
        speaks_as="claude-ai",
    ),
    HostedClient(
        "claude-api",
        "Claude Messages API (MCP connector)",
        (
            _row("https", None, "a URL with https", _CLAUDE_API),
            _row("transport", _BOTH, "Streamable HTTP or HTTP+SSE", _CLAUDE_API),
        ),
    ),
    HostedClient(
        "chatgpt",
        "ChatGPT (apps and plugins)",
        (
            _row("https", None, "an endpoint with https", "https://developers.openai.com/apps-sdk/deploy"),
            _row("transport", _BOTH, "Streamable HTTP or HTTP+SSE", _OPENAI_MODE),
            _row(
                "metadata",
                (POINTER, BY_PATH, BY_ROOT),
                "the document about the protected resource, at its well-known place or where the challenge says",
                _OPENAI_AUTH,
            ),
            _row("server-metadata", None, "the document about the authorization server", _OPENAI_AUTH),
            _row("pkce", "S256", "`S256` in `code_challenge_methods_supported`", _OPENAI_AUTH),
            _row(
                "registration",
                (CIMD, DCR),
                "client ID metadata documents or a `registration_endpoint`; otherwise a client that was registered "
                "by hand",
                _OPENAI_AUTH,
            ),
            _row(
                "tool-annotations",
                (("readOnlyHint",),),
                "`readOnlyHint` on tools that only read: it treats a tool without it as one that changes something",
                _OPENAI_MODE,
            ),
            _row(
                "required-tools",
                ("search", "fetch"),
                "the tools `search` and `fetch` for deep research and company knowledge",
                "https://developers.openai.com/api/docs/mcp",
            ),
            _row(
                "callback",
                None,
                "`https://chatgpt.com/connector_platform_oauth_redirect` as a redirect URI if the authorization server "
                "sends `iss`, otherwise the one that its settings show",
                "https://developers.openai.com/plugins/build/auth",
            ),
        ),
        speaks_as="openai-mcp",
    ),
    HostedClient(
        "copilot-studio",
        "Microsoft Copilot Studio",
        (
            _row("transport", (STREAMABLE,), "Streamable HTTP", f"{_COPILOT}mcp-add-existing-server-to-agent"),
            _row(
                "tool-schema",
                (REFERENCE, TYPE_LIST, EXCLUSIVE_MINIMUM),
                "schemas without `$ref` (it hides such tools), without lists as `type` (it cuts the schema there) and "
                "without a number as `exclusiveMinimum` (it fails)",
                f"{_COPILOT}mcp-troubleshooting",
            ),
            _row(
                "tool-count",
                128,
                "at most 128 tools for an agent",
                "https://zuplo.com/learn/mcp/compatibility/clients/copilot-studio",
            ),
        ),
    ),
    HostedClient(
        "gemini-api",
        "Gemini API (remote MCP)",
        (
            _row(
                "transport", (STREAMABLE,), "Streamable HTTP", "https://ai.google.dev/gemini-api/docs/function-calling"
            ),
        ),
    ),
    HostedClient(
        "grok-api",
        "xAI API (remote MCP tools of Grok)",
        (
            _row(
                "transport",
                _BOTH,
                "Streamable HTTP or HTTP+SSE",
                "https://docs.x.ai/docs/guides/tools/remote-mcp-tools",
            ),
        ),
    ),
    HostedClient(
        "perplexity",
        "Perplexity (custom connectors)",
        (
            _row("https", None, "a URL with https", _PERPLEXITY),
            _row("transport", _BOTH, "Streamable HTTP or HTTP+SSE", _PERPLEXITY),
        ),
    ),
    HostedClient(
        "browser",
        "clients in a web page, such as MCP Inspector connecting directly",
        (
            _row(
                "cors",
                "http://localhost:6274",
                "CORS headers that let a page call the endpoint and read `Mcp-Session-Id`",
                "https://github.com/modelcontextprotocol/python-sdk/commit/09e3a05e13211d1081efcdc9a962affb02e40c05",
            ),
        ),
    ),
)
"""Every hosted client that has a sourced row."""

NOT_FOUND: Final = (
    "how long Claude and ChatGPT wait for a connection, `initialize` and `tools/list`",
    "how long a list of tools Claude and ChatGPT accept",
    "how long ChatGPT waits for a call, and how large a result may be",
    "which characters ChatGPT accepts in the names of tools",
    "which revisions of the protocol ChatGPT, Copilot Studio and the others speak",
    "whether ChatGPT compares `resource` with the URL that was entered, and whether it follows redirects",
    "whether Claude reaches ports other than 443: reports contradict each other",
    "what Le Chat and Notion require beyond a public URL and a common way to log in",
)
"""What has no row because no public page was found that says it."""


def hosted_named(name: str) -> HostedClient:
    """Returns the hosted client with this id.

    Raises:
        KeyError: there is none.
    """
    return {client.id: client for client in HOSTED_CLIENTS}[name]
