"""The header fields of a client's POST: those that every client sends, and those that repeat parts of the message."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from analysis.conversation.message import Request
from analysis.rules.support.http_facts import NAME_MEMBERS
from analysis.rules.tool.schemas import HEADER_KEYWORD, parts_of
from mcpproxy.replay.incoming import client_messages_in
from mcpproxy.replay.versions import VERSION_MEMBER

VERSION_FIELD: Final = "MCP-Protocol-Version"
_POST_FIELDS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_MAX_CHARS: Final = 4 << 10
"""Longer values are left out: servers refuse them."""

Arguments = Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
"""For each tool, the paths to arguments that headers repeat, each with the end of the header's name."""


def repeated_arguments(schema: Any) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Returns the paths to the arguments of a tool that headers repeat, each with the end of the header's name."""
    found = []
    for part in parts_of(schema):
        header = part.schema.get(HEADER_KEYWORD)
        if isinstance(header, str) and part.name is not None and header.isascii() and header.isprintable():
            steps = part.pointer.split("/")[1:]
            found.append((tuple(step.replace("~1", "/").replace("~0", "~") for step in steps[1::2]), header))
    return tuple(found)


def post_fields(raw: bytes, version: str | None, arguments: Arguments) -> dict[str, str]:
    """Returns the header fields for a message.

    Args:
        raw: the message.
        version: the revision that `initialize` agreed on; None without it.
        arguments: which arguments headers repeat.
    """
    messages = client_messages_in(raw)
    request = messages[0] if len(messages) == 1 and isinstance(messages[0], Request) else None
    own_version = None if request is None else request.meta.get(VERSION_MEMBER)
    fields = dict(_POST_FIELDS)
    if request is not None and isinstance(own_version, str):
        fields |= _modern_fields(request, own_version, arguments)
    elif version is not None:
        fields[VERSION_FIELD] = version
    return {name: value for name, value in fields.items() if len(value) <= _MAX_CHARS}


def _modern_fields(request: Request, version: str, arguments: Arguments) -> dict[str, str]:
    params = request.params if isinstance(request.params, dict) else {}
    fields = {VERSION_FIELD: _text(version), "Mcp-Method": _text(request.method)}
    name = params.get(NAME_MEMBERS.get(request.method, ""))
    if isinstance(name, str):
        fields["Mcp-Name"] = _text(name)
    tool = params.get("name")
    for path, header in arguments.get(tool, ()) if request.method == "tools/call" and isinstance(tool, str) else ():
        value: Any = params.get("arguments")
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            fields[f"Mcp-Param-{header}"] = "true" if value else "false"
        elif isinstance(value, str | int):
            fields[f"Mcp-Param-{header}"] = _text(str(value))
    return fields


def _text(value: str) -> str:
    """Returns a text as a header value; one that a header cannot hold as it is, in the form of 2026-07-28."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="
