"""Which of the client's items may change something, so that they are sent only with `--yes`.

A call of a tool is safe if every definition of the tool in the recording calls it read-only. What the protocol
defines apart from calls of tools is safe, too. Anything that a server could take for a call although it is none is not.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.message import Number, Response
from analysis.playback.incoming import server_messages_in
from analysis.playback.items import Item
from analysis.playback.pseudonyms import has_pseudonym
from analysis.playback.request_fields import Fields
from analysis.playback.script import Script
from analysis.protocol.extensions import EXTENSION_METHODS
from analysis.protocol.methods import METHODS
from mcpproxy.replay.conversation import Outgoing
from mcpproxy.replay.field_safety import is_read_as_json, named_calls
from mcpproxy.replay.http_fields import Arguments, post_fields, repeated_arguments
from mcpproxy.replay.tool_definitions import ToolDefinitions

_CALL: Final = "tools/call"
_LIST: Final = "tools/list"
_KNOWN: Final = frozenset({*METHODS, *EXTENSION_METHODS})


class UnsafeCalls(NamedTuple):
    """Calls that may change something, for one tool or method."""

    what: str
    """The tool, or the kind of message. Untrusted text."""
    times: int
    """How many there are."""
    seq: int
    """The number of the first frame."""
    is_tool: bool


class ToolHints:
    """What the definitions in a recording say about its tools."""

    def __init__(self, script: Script) -> None:
        """Read the lists of tools in a complete script."""
        self._definitions = ToolDefinitions(script)
        self.arguments: Arguments = {}
        """The arguments that headers repeat, by tool."""
        arguments = {}
        for item in script.items:
            if item.sender == "server" and (
                item.method == _LIST or any(member.method == _LIST for member in item.members)
            ):
                for tool in _tools_in(script.raw(item)):
                    if found := repeated_arguments(tool.get("inputSchema")):
                        arguments[tool["name"]] = found
        self.arguments = arguments

    @property
    def doubt(self) -> str | None:
        """Why no tool is known to be read-only, in words of ours; None if the lists can be relied on."""
        return self._definitions.doubt

    def is_read_only(self, tool: Any) -> bool:
        """Whether every definition of a tool says that it only reads."""
        return self._definitions.is_read_only(tool)


def unsafe_calls(script: Script, items: Iterable[Item], hints: ToolHints) -> list[UnsafeCalls]:
    """Returns the calls among the client's items that may change something, in order of first appearance."""
    found: dict[tuple[bool, str], list[int]] = {}
    for item in items:
        for key in _unsafe_parts(script.raw(item), item.fields or (), hints):
            found.setdefault(key, [0, item.seq])[0] += 1
    return [UnsafeCalls(what, times, seq, is_tool) for (is_tool, what), (times, seq) in found.items()]


def refusal(outgoing: Outgoing, hints: ToolHints) -> str | None:
    """Returns why a unit of bytes must not be sent without `--yes`, in words of ours; None if they change nothing.

    What is sent is not always what was recorded: values that the server chose come in place of others.
    """
    unsafe = _unsafe_parts(outgoing.raw, post_fields(outgoing, hints.arguments), hints)
    return "it may change something, and --yes is missing" if unsafe else None


def redacted_count(script: Script, items: Iterable[Item]) -> int:
    """Returns how many of the client's items have values that were replaced in a redacted copy."""
    return sum(has_pseudonym(script.raw(item)) for item in items)


def _unsafe_in_body(raw: bytes, hints: ToolHints) -> list[tuple[bool, str]]:
    inner: list[dict[str, Any]] = []

    def read_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        members = _object(pairs)
        if any(value == _CALL and name.casefold() == "method" for name, value in pairs):
            inner.append(members)
        return members

    try:
        value = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=read_object, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError):
        return [(False, "a message that is not JSON")] if raw.strip() else []
    messages = value if isinstance(value, list) else [value]
    # A server that reads lines in pieces of its own takes a call inside a message for a message.
    outer = {id(message) for message in messages}
    messages += [each for each in inner if id(each) not in outer]
    return [part for message in messages if (part := _unsafe_part(message, hints)) is not None]


def _unsafe_parts(raw: bytes, fields: Fields, hints: ToolHints) -> list[tuple[bool, str]]:
    """Returns what in an item is unsafe: whether it is a tool, and its name or what it is instead.

    Args:
        raw: the bytes.
        fields: the header fields with which they are sent over HTTP.
        hints: what is known about the tools.
    """
    parts = _unsafe_in_body(raw, hints)
    if not is_read_as_json(fields):
        return [*parts, (False, "a message whose Content-Type is not JSON in UTF-8")]
    named = (_unsafe_part(call, hints) for call in named_calls(fields, raw))
    if any(part is not None and part not in parts for part in named):
        return [*parts, (False, "a message whose header fields name another call")]
    return parts


class _Ambiguous(dict[str, Any]):
    """An object with a name that occurs twice, of which a server may take either value.

    Some parsers, such as that of Go, do not tell upper case from lower case in names.
    """


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len({name.casefold() for name in members}) == len(pairs) else _Ambiguous(members)


def _unsafe_part(message: Any, hints: ToolHints) -> tuple[bool, str] | None:
    if not isinstance(message, dict):
        return False, "a message that is not an object"
    params = message.get("params")
    if isinstance(message, _Ambiguous) or isinstance(params, _Ambiguous):
        return False, "a message with a duplicate member"
    method = message.get("method")
    if any(name != "method" and name.casefold() == "method" for name in message):
        return False, "a message with an odd spelling of `method`"
    if method == _CALL:
        tool = params.get("name") if isinstance(params, dict) else None
        if hints.is_read_only(tool):
            return None
        return (True, tool) if isinstance(tool, str) else (False, "a call without a tool")
    if isinstance(method, str):
        return None if method in _KNOWN or method.startswith("notifications/") else (False, f"the method {method}")
    is_response = "method" not in message and ("result" in message or "error" in message)
    return None if is_response else (False, "a message without a method")


def _tools_in(raw: bytes) -> list[dict[str, Any]]:
    found = []
    for message in server_messages_in(raw):
        result = message.result if isinstance(message, Response) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        found += [
            tool
            for tool in (tools if isinstance(tools, list) else ())
            if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        ]
    return found
