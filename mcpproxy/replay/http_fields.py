"""The header fields of a client's POST: as recorded, or else what every client sends and what repeats the message."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from analysis.conversation.message import Request
from analysis.playback.incoming import client_messages_in
from analysis.playback.request_fields import Fields
from analysis.rules.support.http_facts import NAME_MEMBERS
from analysis.rules.tool.schemas import HEADER_KEYWORD, parts_of
from mcpproxy.replay.conversation import Outgoing
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


def post_fields(outgoing: Outgoing, arguments: Arguments) -> Fields:
    """Returns the header fields for a message: those of the recording if they are known, otherwise what clients send.

    Those that repeated a part of the recorded message repeat that part of this one.

    Args:
        outgoing: the message.
        arguments: which arguments headers repeat.
    """
    request = _request_in(outgoing.raw)
    repeated = {} if request is None else _repeated_parts(request, arguments)
    recorded = outgoing.recorded
    if recorded is None:
        fields = {**_POST_FIELDS, **repeated}
        if VERSION_FIELD not in fields and outgoing.version is not None:
            fields[VERSION_FIELD] = outgoing.version
        return tuple([(name, value) for name, value in fields.items() if len(value) <= _MAX_CHARS])
    recorded_request = None if recorded.raw == outgoing.raw else _request_in(recorded.raw)
    if recorded_request is None:
        return recorded.fields
    new = {name.lower(): value for name, value in repeated.items()}
    old = {name.lower(): value for name, value in _repeated_parts(recorded_request, arguments).items()}
    return tuple([(name, new.get(name, value) if old.get(name) == value else value) for name, value in recorded.fields])


def _request_in(raw: bytes) -> Request | None:
    messages = client_messages_in(raw)
    return messages[0] if len(messages) == 1 and isinstance(messages[0], Request) else None


def _repeated_parts(request: Request, arguments: Arguments) -> dict[str, str]:
    """Returns the header fields that repeat parts of a request; those of the modern era only."""
    version = request.meta.get(VERSION_MEMBER)
    return _modern_fields(request, version, arguments) if isinstance(version, str) else {}


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
