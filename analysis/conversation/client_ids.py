"""The ids by which a client says what a call belongs to: the turn, the model's call, the conversation, the trace.

Each client has its own members of `_meta`; `ROWS` lists them. Names inside `arguments` prove nothing, since the model
writes those. A client that puts its conversation only into the environment of its servers is recognised by the keyed
hash of that variable in the header of the capture: equal values have equal hashes in all captures of a user.

The functions accept any JSON, and their values are untrusted texts of at most 256 characters.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.message import Request
from analysis.facts import traceparent_of

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


ROWS: Final = (
    IdMember("Claude Code", "call", ("claudecode/toolUseId",)),
    IdMember("Codex", "turn", ("x-codex-turn-metadata", "turn_id")),
    IdMember("Codex", "call", ("callId",)),
    IdMember("Codex", "call", ("_codex_apps", "call_id")),
    IdMember("Codex", "session", ("threadId",)),
    IdMember("Codex", "session", ("x-codex-turn-metadata", "thread_id")),
    IdMember("Codex", "session", ("x-codex-turn-metadata", "session_id")),
    IdMember("VS Code", "turn", ("vscode.requestId",)),
    IdMember("VS Code", "session", ("vscode.conversationId",)),
    IdMember("Goose", "call", ("agent-tool-call-request-id",)),
    IdMember("Goose", "session", ("agent-session-id",)),
    IdMember("OpenCode", "session", ("ai.opencode/sessionID",)),
    IdMember("OpenCode", "session", ("sessionID",)),
    IdMember("Qwen Code", "turn", ("qwen-code/invocation", "promptId")),
    IdMember("Qwen Code", "session", ("qwen-code/invocation", "sessionId")),
    IdMember("ChatGPT", "session", ("openai/session",)),
    IdMember("Antigravity", "session", ("antigravity.google/conversation_id",)),
)
"""The members that name a turn, a call or a session; of several for one kind, the first that is there counts."""

SESSION_VARIABLES: Final = {"CLAUDE_CODE_SESSION_ID": "Claude Code", "GROK_SESSION_ID": "Grok"}
"""Environment variables by which a client tells a server its conversation, with the client."""

_ROWS_BY_MEMBER: Final = {row.path[0]: [other for other in ROWS if other.path[0] == row.path[0]] for row in ROWS}
_match_traceparent: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-").match


class ClientIds(NamedTuple):
    """What a client says about one request; each member is None if the client does not say it."""

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
    request: Request, head_traceparent: str | None = None, environment: Mapping[str, Any] | None = None
) -> ClientIds:
    """Returns the ids that a client gives to a request.

    Args:
        request: the request.
        head_traceparent: `traceparent` in the head of the HTTP request that carried it; `_meta` comes first.
        environment: the environment of the server as the header of the capture records it: name → keyed hash.
    """
    meta = request.meta
    found: dict[IdKind, str] = {}
    client = None
    if not _ROWS_BY_MEMBER.keys().isdisjoint(meta):
        for row in ROWS:
            value = _id_at(meta, row.path)
            if value is not None and row.kind not in found:
                found[row.kind] = value
                client = client or row.client
    if "session" not in found and environment:
        for variable, variable_client in SESSION_VARIABLES.items():
            value = _id_at(environment, (variable,))
            if value is not None:
                found["session"] = value
                client = client or variable_client
                break
    match = _match_traceparent(traceparent_of(request) or head_traceparent or "")
    return ClientIds(
        client, found.get("turn"), found.get("call"), found.get("session"), None if match is None else match[1]
    )


def _id_at(members: Mapping[str, Any], path: tuple[str, ...]) -> str | None:
    """Returns the id at a path, or None if there is no usable one."""
    value: Any = members
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS else None
