"""The ids by which a client says what a call belongs to: the turn, the model's call, the conversation, the trace.

Each client has its own members of `_meta`; `ROWS` lists them. Names inside `arguments` prove nothing, since the model
writes those. A client that puts its conversation only into the environment of its servers is recognised by the keyed
hash of that variable in the header of the capture: equal values have equal hashes in all captures of a user.

The functions accept any JSON, and their values are untrusted texts of at most 256 characters.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.message import Request
from analysis.conversation.trace_context import traceparent_of

IdKind: TypeAlias = Literal["turn", "call", "session"]
"""What an id names: the user's prompt, the model's call of a tool, or the conversation (or thread)."""

MAX_ID_CHARS: Final = 256
"""The most characters of an id that is used; a longer one is ignored."""


class IdMember(NamedTuple):
    """One place in which a client writes an id."""

    client: str
    """The client, as its users call it."""
    kind: IdKind
    path: tuple[str, ...]
    """The members of `params._meta`, from the outside in."""
    source: str
    """Where this is known from: a change, or a source file, of the client, or a published capture of its traffic."""
    needs: tuple[str, ...] = ()
    """For a name that any client could use: members of which at least one must be there as well."""


_CODEX_MEMBERS: Final = ("x-codex-turn-metadata", "_codex_apps")

# The first row of a client that applies says whose ids they are, so only rows of one client apply to a request.
ROWS: Final = (
    IdMember("Claude Code", "call", ("claudecode/toolUseId",), "published captures of version 2.1, August 2026"),
    IdMember("Codex", "turn", ("x-codex-turn-metadata", "turn_id"), "openai/codex#15190"),
    IdMember("Codex", "call", ("callId",), "openai/codex, mcp_tool_call.rs", _CODEX_MEMBERS),
    IdMember("Codex", "call", ("_codex_apps", "call_id"), "openai/codex#19207"),
    IdMember("Codex", "session", ("threadId",), "openai/codex#18093", _CODEX_MEMBERS),
    IdMember("Codex", "session", ("x-codex-turn-metadata", "thread_id"), "openai/codex#21329"),
    IdMember("Codex", "session", ("x-codex-turn-metadata", "session_id"), "openai/codex#15190"),
    IdMember("Codex", "session", ("sessionId",), "openai/codex, mcp_tool_call.rs", _CODEX_MEMBERS),
    IdMember("VS Code", "turn", ("vscode.requestId",), "microsoft/vscode, mcpServer.ts"),
    IdMember("VS Code", "session", ("vscode.conversationId",), "microsoft/vscode, mcpServer.ts"),
    IdMember("Goose", "call", ("agent-tool-call-request-id",), "block/goose, agents/mcp_client.rs"),
    IdMember("Goose", "session", ("agent-session-id",), "block/goose, agents/mcp_client.rs"),
    IdMember("OpenCode", "session", ("ai.opencode/sessionID",), "anomalyco/opencode#46008"),
    IdMember("Qwen Code", "turn", ("qwen-code/invocation", "promptId"), "QwenLM/qwen-code, tools/mcp-tool.ts"),
    IdMember("Qwen Code", "session", ("qwen-code/invocation", "sessionId"), "QwenLM/qwen-code, tools/mcp-tool.ts"),
    IdMember("ChatGPT", "session", ("openai/session",), "openai/openai-apps-sdk-examples#228"),
    IdMember("Antigravity", "session", ("antigravity.google/conversation_id",), "legibet/agent-talk, DESIGN.md, 6.6"),
)
"""The members that name a turn, a call or a session; of several for one kind, the first that is there counts."""

SESSION_VARIABLES: Final = {"CLAUDE_CODE_SESSION_ID": "Claude Code", "GROK_SESSION_ID": "Grok"}
"""Environment variables by which a client tells a server its conversation, with the client. Claude Code's changelog
lists it for 2.1.154; Grok's is described in DESIGN.md of legibet/agent-talk, 6.4."""

_CLIENT_OF_MEMBER: Final = {row.path[0]: row.client for row in ROWS}
_ROWS_OF_CLIENT: Final = {
    client: [row for row in ROWS if row.client == client] for client in _CLIENT_OF_MEMBER.values()
}
_CLIENT_ORDER: Final = list(_ROWS_OF_CLIENT)


class ClientIds(NamedTuple):
    """What a client says about one request; each member is None if the client does not send it."""

    client: str | None = None
    """The client whose members these are."""
    turn: str | None = None
    """Id of the turn: what one prompt of the user caused."""
    call: str | None = None
    """Id of the model's call of a tool."""
    session: str | None = None
    """Id of the conversation or thread; or a keyed hash, `hmac:…`, if only the server's environment has it."""
    trace: str | None = None
    """Id of the trace: 32 hexadecimal digits of a `traceparent`."""


NO_IDS: Final = ClientIds()


def client_ids_of(
    request: Request,
    head_traceparent: str | None = None,
    environment: Mapping[str, Any] | None = None,
    client_name: str | None = None,
) -> ClientIds:
    """Returns the ids that a client gives to a request.

    Args:
        request: the request.
        head_traceparent: `traceparent` in the head of the HTTP request that carried it, for `traceparent_of`.
        environment: the environment of the server as the header of the capture records it: name → keyed hash.
        client_name: the name that the client gives itself, if it is known. The environment may come from another
            client, in whose terminal this one was started.
    """
    meta = request.meta
    has_members = not _CLIENT_OF_MEMBER.keys().isdisjoint(meta)
    traceparent = traceparent_of(request, head_traceparent)
    if not has_members and traceparent is None and not environment:
        return NO_IDS
    client, ids = _ids_in(meta) if has_members else (None, {})
    if "session" not in ids and environment:
        for variable, variable_client in SESSION_VARIABLES.items():
            value = _id_at(environment, (variable,))
            if value is not None and _is_own_environment(variable_client, client, client_name):
                client, ids["session"] = variable_client, value
                break
    trace = None if traceparent is None else traceparent.trace_id
    return ClientIds(client, ids.get("turn"), ids.get("call"), ids.get("session"), trace)


def _ids_in(meta: Mapping[str, Any]) -> tuple[str | None, dict[IdKind, str]]:
    """Returns the client whose members `_meta` contains, with its ids."""
    clients = {_CLIENT_OF_MEMBER[name] for name in _CLIENT_OF_MEMBER.keys() & meta.keys()}
    for client in sorted(clients, key=_CLIENT_ORDER.index) if len(clients) > 1 else clients:
        ids: dict[IdKind, str] = {}
        for _, kind, path, _, needs in _ROWS_OF_CLIENT[client]:
            if kind not in ids and path[0] in meta and not (needs and meta.keys().isdisjoint(needs)):
                value = _id_at(meta, path)
                if value is not None:
                    ids[kind] = value
        if ids:
            return client, ids
    return None, {}


def _is_own_environment(variable_client: str, client: str | None, client_name: str | None) -> bool:
    """Whether the client of a request can be the one that sets a variable.

    Args:
        variable_client: the client that sets the variable.
        client: the client whose members the request contains; None if it contains none.
        client_name: the name that the client gives itself; None if it is unknown.
    """
    if client is not None:
        return client == variable_client
    return client_name is None or variable_client.split()[0].lower() in client_name.lower()


def _id_at(members: Mapping[str, Any], path: tuple[str, ...]) -> str | None:
    """Returns the id at a path, or None if there is no usable one."""
    value: Any = members
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None  # asking for a Mapping takes ten times as long
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS else None
