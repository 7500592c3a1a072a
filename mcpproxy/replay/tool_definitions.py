"""What a server said about its tools in a recording: which of them it calls read-only, whoever reads it.

Parsers differ: in which of two members of the same name they take, and in whether they tell `Tools` from `tools`. So
every reading of a definition counts, in every answer that has a list of tools, whatever request it belongs to. A list
whose content is unknown may say anything about any tool.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from analysis.playback.incoming import MAX_MESSAGE_BYTES
from analysis.playback.items import Item
from analysis.playback.script import Script
from mcpproxy.wording.exact_json import Pairs, parse

_MAX_NAME_CHARS: Final = 1_000
"""A tool with a longer name is never read-only, and none whose name has what readers may cut or replace: controls, or
lone surrogates."""
_may_have_tools: Final = re.compile(rb'"tool(?:s|\xc5\xbf)"|\\u0', re.IGNORECASE).search
"""Finds the name of a member that some parser takes for `tools`, or an escape, which may stand for a letter of it."""


class ToolDefinitions:
    """The tools that every definition in a recording calls read-only."""

    def __init__(self, script: Script) -> None:
        """Read all messages of the server in a complete script."""
        self._read_only: set[str] = set()
        self._others: set[str] = set()
        """The names of tools with a definition that does not call them read-only, folded."""
        self.doubt: str | None = None
        """Why no tool is known to be read-only, in words of ours; None if the lists can be relied on."""
        ending = script.ending
        if ending is None or ending.is_lossy:
            self.doubt = "messages are missing in the recording, and may have been lists of tools"
        for item in script.items:
            if item.sender == "server" and item.kind not in ("stderr", "priming"):
                self._read(item, script.raw(item))

    def is_read_only(self, tool: Any) -> bool:
        """Whether every definition of a tool, and of those whose names can be taken for its name, says so."""
        return (
            self.doubt is None
            and isinstance(tool, str)
            and tool in self._read_only
            and _folded(tool) not in self._others
        )

    def _read(self, item: Item, raw: bytes) -> None:
        if not _may_have_tools(raw if b"\0" not in raw else raw.replace(b"\0", b"")):
            return
        try:
            if len(raw) > MAX_MESSAGE_BYTES:
                raise ValueError
            value = parse(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            self.doubt = self.doubt or f"a list of tools may be in frame {item.seq:,}, which cannot be read"
            return
        messages = [value] if isinstance(value, Pairs) or not isinstance(value, list) else value
        for message in messages:
            for result, result_is_sure in _members(message, "result"):
                for tools, tools_are_sure in _members(result, "tools"):
                    self._add(item, tools, is_sure=result_is_sure and tools_are_sure)

    def _add(self, item: Item, tools: Any, *, is_sure: bool) -> None:
        """Add the definitions in a list; `is_sure` if every reader finds it."""
        if isinstance(tools, Pairs) or not isinstance(tools, list):
            self.doubt = self.doubt or f"the tools in frame {item.seq:,} are no list"
            return
        for tool in tools:
            is_read_only = is_sure and _is_read_only(tool)
            for name, name_is_sure in _members(tool, "name"):
                if not isinstance(name, str):
                    continue
                if is_read_only and name_is_sure and len(name) <= _MAX_NAME_CHARS and name.isprintable():
                    self._read_only.add(name)
                else:
                    self._others.add(_folded(name))


def _is_read_only(tool: Any) -> bool:
    """Whether a definition calls its tool read-only, for every reader."""
    found = list(_members(tool, "annotations"))
    if len(found) != 1 or not found[0][1]:
        return False
    annotations, _ = found[0]
    if any(value is not False for value, _ in _members(annotations, "destructiveHint")):
        return False
    hints = list(_members(annotations, "readOnlyHint"))
    return len(hints) == 1 and hints[0][0] is True and hints[0][1]


def _members(value: Any, name: str) -> Iterator[tuple[Any, bool]]:
    """Yields the members that some reader takes for the one with a name, each with whether every reader does."""
    members = [
        (key, inner)
        for key, inner in (value if isinstance(value, Pairs) else ())
        if key.casefold().replace("_", "") == name.casefold()
    ]
    for key, inner in members:
        yield inner, len(members) == 1 and key == name


def _folded(name: str) -> str:
    """Returns a name without what a server may ignore: case, spaces, what is not printed, ways to write a letter."""
    folded = unicodedata.normalize("NFKC", name[:_MAX_NAME_CHARS]).casefold()
    return "".join(char for char in folded if char.isprintable() and not char.isspace())
