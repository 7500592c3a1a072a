"""Which of the client's items may change something, so that they are sent only with `--yes`.

A call of a tool is safe if every definition of the tool in the recording says `readOnlyHint: true`. What the protocol
defines apart from calls of tools is safe, too. Anything that a server could take for a call although it is none is not.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from analysis.comparison.values.varying_text import normalised_text
from analysis.conversation.message import Response
from analysis.playback.incoming import server_messages_in
from analysis.playback.items import Item
from analysis.playback.script import Script
from analysis.protocol.extensions import EXTENSION_METHODS
from analysis.protocol.methods import METHODS
from mcpproxy.replay.http_fields import Arguments, repeated_arguments

_CALL: Final = "tools/call"
_LIST: Final = "tools/list"
_MAX_TEXT_BYTES: Final = 1 << 20
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
        self._read_only: set[str] = set()
        self._others: set[str] = set()
        self.arguments: Arguments = {}
        """The arguments that headers repeat, by tool."""
        arguments = {}
        for item in script.items:
            if item.sender == "server" and (
                item.method == _LIST or any(member.method == _LIST for member in item.members)
            ):
                for tool in _tools_in(script.raw(item)):
                    name, annotations = tool["name"], tool.get("annotations")
                    is_read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
                    (self._read_only if is_read_only else self._others).add(name)
                    if found := repeated_arguments(tool.get("inputSchema")):
                        arguments[name] = found
        self.arguments = arguments

    def is_read_only(self, tool: Any) -> bool:
        """Whether every definition of a tool says that it only reads."""
        return isinstance(tool, str) and tool in self._read_only and tool not in self._others


def unsafe_calls(script: Script, items: Iterable[Item], hints: ToolHints) -> list[UnsafeCalls]:
    """Returns the calls among the client's items that may change something, in order of first appearance."""
    found: dict[tuple[bool, str], list[int]] = {}
    for item in items:
        for key in _unsafe_parts(script.raw(item), hints):
            found.setdefault(key, [0, item.seq])[0] += 1
    return [UnsafeCalls(what, times, seq, is_tool) for (is_tool, what), (times, seq) in found.items()]


def redacted_count(script: Script, items: Iterable[Item]) -> int:
    """Returns how many of the client's items have values that were replaced in a redacted copy."""
    return sum(_is_redacted(script.raw(item)) for item in items)


def _is_redacted(raw: bytes) -> bool:
    rules = set()
    normalised_text(raw[:_MAX_TEXT_BYTES].decode("utf-8", "replace"), lambda rule, _text: rules.add(rule))
    return "redaction tag" in rules


def _unsafe_parts(raw: bytes, hints: ToolHints) -> list[tuple[bool, str]]:
    """Returns what in an item is unsafe: whether it is a tool, and its name or what it is instead."""
    try:
        value = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_object, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return [(False, "a message that is not JSON")] if raw.strip() else []
    return [
        part
        for message in (value if isinstance(value, list) else [value])
        if (part := _unsafe_part(message, hints)) is not None
    ]


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
    if method == _CALL:
        tool = params.get("name") if isinstance(params, dict) else None
        if hints.is_read_only(tool):
            return None
        return (True, tool) if isinstance(tool, str) else (False, "a call without a tool")
    if isinstance(method, str):
        return None if method in _KNOWN or method.startswith("notifications/") else (False, f"the method {method}")
    return None if "result" in message or "error" in message else (False, "a message without a method")


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
