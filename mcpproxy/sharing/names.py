"""Decides by the name of a member, or by the path to it, whether its value is a secret or belongs to the protocol."""

import re
from functools import lru_cache
from typing import Final

from analysis.comparison.values.varying_text import is_random
from captures.trace_context import is_traceparent, tracestate_members
from mcpproxy.sharing.json_places import Path, steps_of
from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.word_lists import (
    ENVELOPE_MEMBERS,
    HARMLESS_VALUES,
    META_MEMBERS,
    PAYLOAD_FORM_MEMBERS,
    PAYLOAD_MEMBERS,
    PHONE_NAMES,
    PROTOCOL_MEMBERS,
    SECRET_ENDINGS,
    SECRET_NAMES,
    SECRET_NUMBERS,
    SESSION_NAMES,
)

_VARIABLE: Final = re.compile(
    r"[A-Z0-9]++(?:_[A-Z0-9]++)*?_(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?|DSN|WEBHOOK)"
).fullmatch
"""Matches the name of an environment variable with a secret."""
_TOP_MEMBERS: Final = frozenset({"jsonrpc", "id", "method"})
_META_FAMILY: Final = ("io.modelcontextprotocol/", "modelcontextprotocol.io/")
_NO_SEPARATORS: Final = {ord(character): None for character in "_-. "}
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
_NAMED_DEFINITIONS: Final = frozenset(
    {("result", "tools"), ("result", "prompts"), ("params", "ref"), ("params", "argument"), ("params", "tools")}
)
"""The first two steps of paths to members `name` that name tools, prompts and their arguments."""
_MAX_NAME_CHARS: Final = 100
_MIN_SESSION_CHARS: Final = 16
_TOKEN: Final = re.compile(r"[\w.~+/=-]+", re.ASCII).fullmatch
_TRACE_CONTEXT: Final = frozenset({"traceparent", "tracestate"})


@lru_cache(4096)
def holds_secret(name: str) -> bool:
    """Whether a text under this name is a secret, regardless of its form."""
    if len(name) > _MAX_NAME_CHARS or name in ("PWD", "OLDPWD"):  # directories
        return False
    normalized_name = name.lower().translate(_NO_SEPARATORS)
    return normalized_name in SECRET_NAMES or normalized_name.endswith(SECRET_ENDINGS) or _VARIABLE(name) is not None


def holds_session_id(name: str, value: str) -> bool:
    """Whether a text under this name is the id of a session that nobody can guess, with which others could go on."""
    return (
        len(name) <= _MAX_NAME_CHARS
        and name.lower().translate(_NO_SEPARATORS) in SESSION_NAMES
        and len(value) >= _MIN_SESSION_CHARS
        and _TOKEN(value) is not None
        and is_random(value)
    )


@lru_cache(4096)
def holds_secret_number(name: str) -> bool:
    """Whether a number under this name is a secret."""
    return len(name) <= _MAX_NAME_CHARS and name.lower().translate(_NO_SEPARATORS) in SECRET_NUMBERS


@lru_cache(4096)
def holds_phone_number(name: str) -> bool:
    """Whether a number under this name is a telephone number."""
    return len(name) <= _MAX_NAME_CHARS and name.lower().translate(_NO_SEPARATORS) in PHONE_NAMES


def is_harmless(value: str) -> bool:
    """Whether a value is harmless even under the name of a secret."""
    return value.lower() in HARMLESS_VALUES or is_placeholder(value)


def is_protocol(path: Path) -> bool:
    """Whether a value belongs to the protocol. Only unmistakable secrets in such a value are replaced."""
    steps = _steps_in_message(path)
    if len(steps) == 1:
        return steps[0] in _TOP_MEMBERS
    return (
        len(steps) > 1
        and steps[0] in ENVELOPE_MEMBERS
        and (
            (len(steps) == 2 and steps[1] in PROTOCOL_MEMBERS)
            or _is_task_id(steps)
            or (len(steps) > 2 and steps[1] == "_meta" and _is_known_meta(steps[2]))
        )
    )


def _is_task_id(steps: list[str]) -> bool:
    """Whether a value in a result is the id of the created task, or of a task in a list."""
    return steps[-1] == "taskId" and (
        steps[:-1] == ["result", "task"] or (len(steps) == 4 and steps[:2] == ["result", "tasks"])
    )


def is_definition(path: Path, *, is_name: bool = False) -> bool:
    """Whether a value or a member's name defines something that later messages refer to: a tool, an argument, a schema.

    Args:
        path: the path to the value; for a name, the path to the value that it names.
        is_name: whether to judge the name of the member, not its value.
    """
    steps = _steps_in_message(path)
    if not _SCHEMAS.isdisjoint(steps[:-1]):
        return is_name or "required" in steps[-2:]
    if is_name:
        return len(steps) == 3 and steps[:2] == ["params", "arguments"]
    return len(steps) > 2 and steps[-1] == "name" and tuple(steps[:2]) in _NAMED_DEFINITIONS


def is_payload(path: Path) -> bool:
    """Whether a value is payload, such as the arguments of a call, and not part of the protocol."""
    steps = _steps_in_message(path)
    return (
        len(steps) > 1
        and steps[0] in ENVELOPE_MEMBERS
        and steps[1] in PAYLOAD_MEMBERS
        and steps[-1] not in PAYLOAD_FORM_MEMBERS
    )


def is_client_metadata(path: Path) -> bool:
    """Whether a client added a value for its own use, such as a host's session, workspace or sandbox."""
    steps = _steps_in_message(path)
    return len(steps) > 2 and steps[:2] == ["params", "_meta"] and not _is_known_meta(steps[2])


def is_invalid_trace_context(path: Path, text: str) -> bool:
    """Whether a text in the place of a trace context in `params._meta` is none, so that anything may be in it.

    Args:
        path: the path to the text.
        text: the text.
    """
    steps = _steps_in_message(path)
    if len(steps) < 3 or steps[:2] != ["params", "_meta"] or steps[2] not in _TRACE_CONTEXT:
        return False
    value = text.encode("utf-8", "replace")
    is_valid = is_traceparent(value) if steps[2] == "traceparent" else tracestate_members(value) is not None
    return len(steps) > 3 or not is_valid


def is_client_location(path: Path) -> bool:
    """Whether the name of a member of the client's metadata is a path, such as the directory of a workspace.

    Args:
        path: the path to the value that the member has.
    """
    if not is_client_metadata(path):
        return False
    name = _steps_in_message(path)[3:][-1:]
    return bool(name) and ("/" in name[0] or "\\" in name[0])


def _is_known_meta(name: str) -> bool:
    return name in META_MEMBERS or name.startswith(_META_FAMILY)


def _steps_in_message(path: Path) -> list[str]:
    """Returns the steps of a path within its message. In a batch, the first step is the index of the message."""
    steps = steps_of(path)
    return steps[1:] if steps and steps[0].isdigit() else steps
