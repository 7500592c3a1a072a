"""Tools: every tool definition in a capture, its cost, how often the tool was called, and whether it changed.

Each `tools/list` response is read again from the file, one per step. Only the size, hash and position of a definition
are kept; its text is read when it is shown.
"""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.conversation.call import Outcome
from analysis.conversation.message import Response, messages
from analysis.store.definitions import Definition, definitions_in
from captures.frame import Frame
from mcpproxy.tui.data.call_kinds import MAX_CALL_NAME_CHARS
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.columns import NONE, OUTCOMES
from mcpproxy.tui.data.latencies import Latencies
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import message_at
from mcpproxy.tui.text.content import MessageWriter
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.text.messages import write_tool
from mcpproxy.tui.widgets.tree import Tree, tree_lines
from mcpproxy.wording.exact_json import parse

MAX_TOOLS: Final = 5000
"""How many tools are distinguished."""
MAX_VERSIONS_PER_TOOL: Final = 50
"""How many definitions of one tool are distinguished; further ones are only counted."""
MAX_CALLS_PER_STEP: Final = 2000
"""How many calls are searched for a list per step."""
MAX_DESCRIPTION_CHARS: Final = 300
"""How many characters of a description are kept for its row."""

_RESULT: Final = OUTCOMES.index(Outcome.RESULT)


class Version(NamedTuple):
    """One definition, and its position."""

    row: int
    """Row of the first list that contained it."""
    position: int
    """Its position in that list."""
    hash: str
    size: int
    tokens_estimate: int
    description: str = ""
    """The beginning of the description. Untrusted text."""


class Tool(NamedTuple):
    """One tool. Its name is untrusted, and may be cut."""

    name: str
    versions: tuple[Version, ...] = ()
    """Different definitions, in order of arrival; empty if the tool was called but never listed."""
    last: Version | None = None
    """The latest definition."""
    calls: int = 0
    errors: int = 0
    abandoned: int = 0
    p95_ns: int | None = None
    number: int | None = None
    """The number of its kind of requests."""


class ShownDefinition(NamedTuple):
    """The definition that the screen shows."""

    name: str
    version: int
    """Its number, from 0."""
    tree: Tree | None
    """Its JSON; None if it can no longer be read."""
    lines: TextLines
    """Its text: description and parameters."""
    changed_members: tuple[str, ...]
    """The members in which it differs from the previous definition. Untrusted text."""


class Tools:
    """Counts definitions and calls. One thread calls `step`; others read `rows` and `shown_definition`."""

    def __init__(self, reading: Reading, selection: CallSelection | None = None) -> None:
        """Start empty.

        Args:
            reading: the capture.
            selection: the calls to count; None for all calls.
        """
        self.rows: list[Tool] = []
        """The tools, in the order in which they were first listed or called."""
        self.shown_definition: ShownDefinition | None = None
        self.omitted_count = 0
        """How many definitions of tools above the limit were dropped."""
        self._reading = reading
        self._latencies = Latencies(reading, selection)
        self._settled = 0
        self._unread_lists: list[int] = []
        self._numbers: dict[str, int] = {}
        self._chosen: tuple[str, int, int] | None = None

    @property
    def is_searching(self) -> bool:
        """Whether there may be more calls to select already."""
        return self._latencies.is_searching

    def close(self) -> None:
        """Stop searching for selected calls."""
        self._latencies.close()

    def choose_definition(self, name: str, version: int, width: int = 80) -> None:
        """Choose the definition of a tool that the next step reads.

        Args:
            name: the name of the tool.
            version: its number, from 0.
            width: the width of a line, in cells.
        """
        self._chosen = name, version, width

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        is_busy = self._read_chosen()
        if self._unread_lists:
            self._read_list(self._unread_lists.pop(0))
            return True
        return self._find_lists() or self._update_counts() or is_busy

    # ---- lists

    def _find_lists(self) -> bool:
        calls, kinds = self._reading.calls, self._reading.kinds.all
        settled_calls = calls.settled[self._settled : self._settled + MAX_CALLS_PER_STEP]
        self._settled += len(settled_calls)
        for number in settled_calls:
            kind = kinds[calls.kind[number]]
            if kind.method == "tools/list" and kind.side == "client" and calls.outcome[number] == _RESULT:
                self._unread_lists.append(calls.response[number])
        return bool(settled_calls)

    def _read_list(self, row: int) -> None:
        for position, definition in enumerate(self._definitions(row)):
            name = definition.name[:MAX_CALL_NAME_CHARS]
            number = self._add_tool(name)
            if number is None:
                self.omitted_count += 1
                continue
            tool = self.rows[number]
            known_version = next((earlier for earlier in tool.versions if earlier.hash == definition.hash), None)
            description = "" if known_version is not None else _description(definition)
            version = Version(row, position, definition.hash, definition.size, definition.tokens_estimate, description)
            versions = (
                tool.versions
                if known_version is not None or len(tool.versions) >= MAX_VERSIONS_PER_TOOL
                else (*tool.versions, version)
            )
            self.rows[number] = tool._replace(versions=versions, last=known_version or version)

    def _definitions(self, row: int) -> Iterator[Definition]:
        """Yields the definitions in the response in a row, or in the responses of a batch."""
        item = self._reading.index.read_item(row) if row != NONE else None
        if not isinstance(item, Frame):
            return
        is_batch = item.verdict.kind == "batch"
        for message in messages(item) if is_batch else (message_at(self._reading, row, item),):
            if isinstance(message, Response):
                yield from definitions_in(message.result)

    def _add_tool(self, name: str) -> int | None:
        number = self._numbers.get(name)
        if number is None and len(self.rows) < MAX_TOOLS:
            self.rows.append(Tool(name))
            number = self._numbers[name] = len(self.rows) - 1
        return number

    # ---- calls

    def _update_counts(self) -> bool:
        is_busy = self._latencies.step()
        for figures in self._latencies.rows:
            kind = figures.kind
            if kind.method != "tools/call" or kind.side != "client" or kind.name is None or kind.is_catch_all:
                continue
            # Of the tools that no list contains, only those with selected calls are listed.
            number = self._add_tool(kind.name) if figures.requests else self._numbers.get(kind.name)
            if number is not None:
                tool = self.rows[number]
                updated_tool = tool._replace(
                    calls=figures.requests,
                    errors=figures.errors,
                    abandoned=figures.abandoned,
                    p95_ns=figures.p95_ns,
                    number=figures.number,
                )
                if updated_tool != tool:
                    self.rows[number] = updated_tool
        return is_busy

    # ---- one definition

    def _read_chosen(self) -> bool:
        if self._chosen is None:
            return False
        (name, number, width), self._chosen = self._chosen, None
        tool = self.rows[self._numbers[name]]
        writer = MessageWriter(width)
        if not 0 <= number < len(tool.versions):
            self.shown_definition = ShownDefinition(name, number, None, writer.lines, ())
            return True
        definition = self._definition(tool.versions[number])
        previous = self._definition(tool.versions[number - 1]) if number else None
        changes = changed_members(previous, definition) if previous is not None and definition is not None else ()
        tree = None
        if definition is not None:
            value = parse(definition.text)
            tree = Tree(tree_lines(value))
            tree.fit(width)
            write_tool(writer, value)
        self.shown_definition = ShownDefinition(name, number, tree, writer.lines, changes)
        return True

    def _definition(self, version: Version) -> Definition | None:
        return next(
            (
                definition
                for position, definition in enumerate(self._definitions(version.row))
                if position == version.position
            ),
            None,
        )


def _description(definition: Definition) -> str:
    """Returns the beginning of the description in a definition."""
    description = json.loads(definition.text, parse_int=str, parse_float=str).get("description")
    return description[:MAX_DESCRIPTION_CHARS] if isinstance(description, str) else ""


def changed_members(before: Definition, after: Definition) -> tuple[str, ...]:
    """The members in which two definitions of a tool differ."""
    old_members, new_members = (
        json.loads(definition.text, parse_int=str, parse_float=str) for definition in (before, after)
    )
    names = dict.fromkeys([*old_members, *new_members])
    return tuple(
        name
        for name in names
        if (name in old_members, old_members.get(name)) != (name in new_members, new_members.get(name))
    )
