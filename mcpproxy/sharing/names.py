"""Decides by the name of a member, or by the path to it, whether its value is a secret or belongs to the protocol."""

import re
from functools import lru_cache
from typing import Final

from mcpproxy.sharing.json_places import Path, steps_of
from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.word_lists import (
    ENVELOPE,
    HARMLESS,
    META,
    PAYLOAD,
    PAYLOAD_FORM,
    PHONE_NAMES,
    PROTOCOL,
    SECRET_ENDINGS,
    SECRET_NAMES,
    SECRET_NUMBERS,
)

_VARIABLE: Final = re.compile(
    r"[A-Z0-9]++(?:_[A-Z0-9]++)*?_(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?|DSN|WEBHOOK)"
).fullmatch
"""Matches the name of an environment variable with a secret."""
_TOP: Final = frozenset({"jsonrpc", "id", "method"})
_META_FAMILY: Final = ("io.modelcontextprotocol/", "modelcontextprotocol.io/")
_BETWEEN_WORDS: Final = {ord(character): None for character in "_-. "}
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
_NAMED: Final = frozenset(
    {("result", "tools"), ("result", "prompts"), ("params", "ref"), ("params", "argument"), ("params", "tools")}
)
"""The first two steps of paths to members `name` that name tools, prompts and their arguments."""
_MAX_NAME_CHARS: Final = 100


@lru_cache(4096)
def holds_secret(name: str) -> bool:
    """Whether a text under this name is a secret, regardless of its form."""
    if len(name) > _MAX_NAME_CHARS or name in ("PWD", "OLDPWD"):  # directories
        return False
    normalized_name = name.lower().translate(_BETWEEN_WORDS)
    return normalized_name in SECRET_NAMES or normalized_name.endswith(SECRET_ENDINGS) or _VARIABLE(name) is not None


@lru_cache(4096)
def holds_secret_number(name: str) -> bool:
    """Whether a number under this name is a secret."""
    return len(name) <= _MAX_NAME_CHARS and name.lower().translate(_BETWEEN_WORDS) in SECRET_NUMBERS


@lru_cache(4096)
def holds_phone_number(name: str) -> bool:
    """Whether a number under this name is a telephone number."""
    return len(name) <= _MAX_NAME_CHARS and name.lower().translate(_BETWEEN_WORDS) in PHONE_NAMES


def is_harmless(value: str) -> bool:
    """Whether a value is harmless even under the name of a secret."""
    return value.lower() in HARMLESS or is_placeholder(value)


def is_protocol(path: Path) -> bool:
    """Whether a value belongs to the protocol. Only unmistakable secrets in such a value are replaced."""
    steps = _in_message(path)
    if len(steps) == 1:
        return steps[0] in _TOP
    return (
        len(steps) > 1
        and steps[0] in ENVELOPE
        and (
            (len(steps) == 2 and steps[1] in PROTOCOL)
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
    steps = _in_message(path)
    if not _SCHEMAS.isdisjoint(steps[:-1]):
        return is_name or "required" in steps[-2:]
    if is_name:
        return len(steps) == 3 and steps[:2] == ["params", "arguments"]
    return len(steps) > 2 and steps[-1] == "name" and tuple(steps[:2]) in _NAMED


def is_payload(path: Path) -> bool:
    """Whether a value is payload, such as the arguments of a call, and not part of the protocol."""
    steps = _in_message(path)
    return len(steps) > 1 and steps[0] in ENVELOPE and steps[1] in PAYLOAD and steps[-1] not in PAYLOAD_FORM


def is_client_metadata(path: Path) -> bool:
    """Whether a client added a value for its own use, such as a host's session, workspace or sandbox."""
    steps = _in_message(path)
    return len(steps) > 2 and steps[:2] == ["params", "_meta"] and not _is_known_meta(steps[2])


def _is_known_meta(name: str) -> bool:
    return name in META or name.startswith(_META_FAMILY)


def _in_message(path: Path) -> list[str]:
    """Returns the steps of a path within its message. In a batch, the first step is the index of the message."""
    steps = steps_of(path)
    return steps[1:] if steps and steps[0].isdigit() else steps
