"""What a server said about its tools in a recording: which of them it calls read-only, whoever reads it.

Parsers differ: in which of two members of the same name they take, and in whether they tell `Tools` from `tools`. So
every reading of a definition counts. Only the answer to a `tools/list` can call a tool read-only; a list of tools in
any other place can only contradict it. A list whose content is unknown may say anything about any tool.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from analysis.conversation.message import Request
from analysis.playback.incoming import MAX_MESSAGE_BYTES, client_messages_in, member_of_params
from analysis.playback.items import Item, Member
from analysis.playback.script import Script
from mcpproxy.wording.exact_json import Pairs, parse

_MAX_NAME_CHARS: Final = 1_000
"""A tool with a longer name is never read-only, and none whose name has what readers may cut or replace: controls, or
lone surrogates."""
_LIST: Final = "tools/list"
_CHANGED: Final = "notifications/tools/list_changed"
_may_have_tools: Final = re.compile(rb'"_*t_*o_*o_*l_*(?:s|\xc5\xbf)_*"|\\u0', re.IGNORECASE).search
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
        self._changed: Item | None = None
        """What said that the tools changed, until they were all listed again."""
        self._fresh: set[int] = set()
        """The calls of `tools/list` that belong to a list whose first page was asked for after that."""
        for item in script.items:
            if item.sender == "client":
                self._read_request(item, script)
            elif item.kind not in ("stderr", "priming"):
                if any(part.kind == "notification" and part.method == _CHANGED for part in _parts(item)):
                    self._changed = item
                    self._fresh.clear()
                self._read(item, script)
        if self._changed is not None and self.doubt is None:
            self.doubt = f"the tools changed in frame {self._changed.seq:,} and were not all listed again"

    def is_read_only(self, tool: Any) -> bool:
        """Whether every definition of a tool, and of those whose names can be taken for its name, says so."""
        return (
            self.doubt is None
            and isinstance(tool, str)
            and tool in self._read_only
            and _folded(tool) not in self._others
        )

    def _read_request(self, item: Item, script: Script) -> None:
        parts = _parts(item)
        if all(part.method != _LIST or part.kind != "request" for part in parts):
            return
        messages = client_messages_in(script.raw(item))
        for part, message in zip(parts, messages, strict=False):
            if part.method != _LIST or not isinstance(message, Request):
                continue
            if part.call < 0 or script.answer_of(part.call) is None:
                self.doubt = self.doubt or f"the {_LIST} in frame {item.seq:,} was not answered"
            if self._fresh or member_of_params(message, "cursor") is None:
                self._fresh.add(part.call)

    def _read(self, item: Item, script: Script) -> None:
        raw = script.raw(item)
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
        sure = self._sure_lists(item, script, messages)
        for tools in sure:
            self._add(tools, is_sure=True)
        if item.kind != "request":  # with a request of its own, it offers other tools to the client's model
            for tools in _lists_of_tools(value):
                if not any(tools is each for each in sure):
                    self._add(tools, is_sure=False)

    def _sure_lists(self, item: Item, script: Script, messages: Sequence[Any]) -> list[list[Any]]:
        """Returns the lists in an item's messages that every reader takes for the answer to a `tools/list`."""
        calls = _answered_calls(item, script)
        sure: list[list[Any]] = []
        for number, message in enumerate(messages):
            call = calls[number] if len(calls) == len(messages) else None
            id_is_sure = [is_sure for _, is_sure in _members(message, "id")] == [True]
            for result, result_is_sure in _members(message, "result"):
                for tools, tools_are_sure in _members(result, "tools"):
                    if isinstance(tools, Pairs) or not isinstance(tools, list):
                        self.doubt = self.doubt or f"the tools in frame {item.seq:,} are no list"
                    elif call is not None and id_is_sure and result_is_sure and tools_are_sure:
                        sure.append(tools)
                        self._note_answer(call, result)
        return sure

    def _note_answer(self, call: int, result: Pairs) -> None:
        if call in self._fresh and all(cursor is None for cursor, _ in _members(result, "nextCursor")):
            self._changed = None

    def _add(self, tools: list[Any], *, is_sure: bool) -> None:
        """Add the definitions in a list; `is_sure` if it answers `tools/list` for every reader."""
        for tool in tools:
            is_read_only = _is_read_only(tool)
            for name, name_is_sure in _members(tool, "name"):
                if not isinstance(name, str):
                    continue
                is_plain = name_is_sure and len(name) <= _MAX_NAME_CHARS and name.isprintable()
                if not is_read_only or not is_plain:
                    self._others.add(_folded(name))
                elif is_sure:
                    self._read_only.add(name)


def _parts(item: Item) -> Sequence[Item | Member]:
    return item.members or (item,)


def _answered_calls(item: Item, script: Script) -> list[int | None]:
    """Returns the call of `tools/list` that each message of an item answers; None for one that answers none."""
    return [
        part.call
        if part.kind == "response" and part.method == _LIST and script.answer_of(part.call) == item.number
        else None
        for part in _parts(item)
    ]


def _lists_of_tools(value: Any) -> Iterator[list[Any]]:
    """Yields all that some reader may take for a list of tools, at any depth."""
    rest = [value]
    while rest:
        inner = rest.pop()
        if isinstance(inner, Pairs):
            for key, each in inner:
                if isinstance(each, list):
                    rest.append(each)
                    if not isinstance(each, Pairs) and _is_spelling(key, "tools"):
                        yield each
        elif isinstance(inner, list):
            rest += (each for each in inner if isinstance(each, list))


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
    members = [(key, inner) for key, inner in (value if isinstance(value, Pairs) else ()) if _is_spelling(key, name)]
    for key, inner in members:
        yield inner, len(members) == 1 and key == name


def _is_spelling(key: str, name: str) -> bool:
    return key.casefold().replace("_", "") == name.casefold()


def _folded(name: str) -> str:
    """Returns a name without what a server may ignore: case, spaces, what is not printed, ways to write a letter."""
    folded = unicodedata.normalize("NFKC", name[:_MAX_NAME_CHARS]).casefold()
    return "".join(char for char in folded if char.isprintable() and not char.isspace())
