"""Drift: which tool definitions of a server changed over all its captures, when, and which sessions received which.

The view `tool_changes` finds the definitions that changed. Tools that come or go between the lists of two sessions are
found as well, because a tool that is renamed changes no definition. The table of kinds judges all of them, as in a
comparison of two captures.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import Change, Place
from analysis.comparison.definitions.definition_changes import SCHEMA_MEMBERS, SchemaJudgement, definition_changes
from analysis.comparison.definitions.definition_lists import LISTS, ListedDefinition, ListRecord
from analysis.comparison.definitions.definitions import list_changes
from analysis.comparison.kinds.definitions import TOOL_RENAMED
from analysis.comparison.members import is_same
from analysis.comparison.requests import bounded
from analysis.comparison.schemas.witness import TryBudget
from analysis.protocol.features import SCHEMA_DIALECT
from analysis.protocol.revisions import rank_of
from analysis.store.definition_history import (
    CaptureHole,
    ChangedList,
    ChangedTool,
    DefinitionHistory,
    ListedTool,
    Sightings,
    definition_history,
)
from analysis.store.open import Progress, Sources, use_sources
from analysis.store.stats import DEFAULT_MEMORY_BYTES

MAX_ROWS: Final = 100_000
"""The most changes that are returned."""
MAX_EFFORT: Final = 20_000
"""How much is judged: a pair of definitions counts 1, or `SCHEMA_EFFORT` if their schemas differ, and of two lists each
definition counts 1."""
SCHEMA_EFFORT: Final = 20
"""What a pair of schemas costs more than other members, because a child process may have to judge values."""
_MAX_NAMES: Final = 4
"""The most names that one server gives itself, and the most such servers, that are named."""
_BATCH: Final = 500
"""How many rows are judged with the definitions in memory."""

(_TOOLS,) = (row for row in LISTS if row.name == "tools")


class DriftRow(NamedTuple):
    """A tool whose definition changed, or that came or went. Text is untrusted."""

    time_ns: int | None
    """When the new definition was listed or, for a tool that came or went, when the session began that shows it; in
    nanoseconds since 1970."""
    server: str | None
    """The name under which the server was recorded."""
    tool: str
    """The name of the tool; if it was renamed, the old one."""
    version_before: str | None
    """The version that the server gave itself with the old definition."""
    version: str | None
    before: Sightings
    """The sessions that received the old definition; none if the tool came."""
    after: Sightings
    """The sessions that received the new definition; none if the tool went."""
    changes: tuple[Change, ...]
    """What changed, worst first; empty if only the form of the definition changed, or if it was not judged."""
    is_judged: bool = True
    """Whether the change was judged; False if there are too many different ones (`MAX_EFFORT`)."""
    old: Place | None = None
    """The last list with the old definition or, of a tool that came, the last one without it."""
    new: Place | None = None
    """The first list with the new definition or, of a tool that went, the first one without it."""
    hash_before: str | None = None
    """A hash of the old definition; None if there was none."""
    hash: str | None = None
    """A hash of the new definition; None if there is none."""


class Drift(NamedTuple):
    """The history of the definitions of some captures."""

    rows: tuple[DriftRow, ...]
    """Oldest first."""
    captures: int
    sessions: int
    definitions: int
    """How many different definitions were received."""
    is_truncated: bool
    """Whether there are more than `MAX_ROWS` changes."""
    unjudged: int
    """How many rows were not judged, because there are too many different ones."""
    refused: tuple[tuple[Path, str], ...]
    """Captures that could not be read, and why: the history lacks them."""
    incomplete: tuple[tuple[Path, str], ...]
    """Captures that may lack definitions, and why, as a clause: a change in them may be missing."""
    notices: tuple[str, ...]
    """Lines about captures that are copies of others, and about servers that are told apart. Untrusted text."""
    has_validator_failed: bool = False
    """Whether the validator could not run, so that a change of a schema may be worse than it looks."""


def drift(paths: Iterable[Path], *, progress: Progress | None = None, memory: int = DEFAULT_MEMORY_BYTES) -> Drift:
    """Walk the captures of a server, or of several, and judge each change of a tool's definition.

    Args:
        paths: the captures, in any order.
        progress: called with the progress of loading them.
        memory: the bytes of memory that DuckDB may use.

    Raises:
        OutOfMemoryError: the captures need more memory than is allowed (`analysis.store.stats`).
    """
    return use_sources(paths, lambda sources: _drift(sources, progress, memory), progress=progress, memory=memory)


def _drift(sources: Sources, progress: Progress | None, memory: int) -> Drift:
    with definition_history(sources.readable, progress=progress, memory=memory) as history:
        refused = [(path, str(error)) for path, error in (*sources.refused, *history.refused)]
        changed_tools = history.changed_tools(MAX_ROWS + 1)
        changed_lists, has_more_lists = history.changed_lists(MAX_ROWS)
        judge = _Judge(history, changed_tools, changed_lists)
        rows = list(judge.changed_rows(changed_tools[:MAX_ROWS]))
        for changed_list in changed_lists:
            if len(rows) <= MAX_ROWS:
                rows += judge.list_rows(changed_list)
        rows.sort(key=lambda row: (row.time_ns is None, row.time_ns, row.server or "", row.tool))
        is_truncated = has_more_lists or max(len(changed_tools), len(rows)) > MAX_ROWS
        return Drift(
            tuple(rows[:MAX_ROWS]),
            *history.totals(),
            is_truncated,
            sum(not row.is_judged for row in rows[:MAX_ROWS]),
            tuple(refused),
            tuple((Path(hole.path), _hole_text(hole)) for hole in history.holes()),
            (*sources.duplicate_notices, *_name_notices(history)),
            judge.has_validator_failed,
        )


def _hole_text(hole: CaptureHole) -> str:
    """Returns what a capture lacks, as a clause."""
    parts = (
        (hole.damage, "it is damaged"),
        (hole.lost, "records are lost"),
        (hole.unanswered, "a request for the tools was not answered"),
        (hole.refused, "a request for the tools got an error"),
        (hole.cut, "a list of tools is not known to be complete"),
    )
    return ", ".join(text for count, text in parts if count)


def _name_notices(history: DefinitionHistory) -> Iterator[str]:
    """Yields a line about each recorded server that changed its own name: that is another server, and not compared."""
    for server, names in history.names(_MAX_NAMES, _MAX_NAMES):
        listed = ", then ".join(f"'{bounded(name)}'" for name in names)
        yield f"{server or 'a server'} calls itself {listed}: definitions under different names are not compared"


class _Judge:
    """Judges pairs of definitions, each different pair once."""

    def __init__(
        self, history: DefinitionHistory, changed_tools: list[ChangedTool], changed_lists: list[ChangedList]
    ) -> None:
        self._history = history
        self._judged: dict[tuple[Any, ...], list[Change]] = {}
        self._effort, self._budget = 0, TryBudget()
        listed = [(changed.name, each) for changed in changed_tools for each in (changed.before, changed.after)]
        listed += [
            each for changed in changed_lists for tools in (changed.gone, changed.come) for each in tools.items()
        ]
        absences = (
            (changed.server, changed.calls_itself, name, changed.time_ns)
            for changed in changed_lists
            for name in changed.gone
        )
        self._sightings = history.sightings(listed, absences)

    @property
    def has_validator_failed(self) -> bool:
        """Whether the validator could not run for one of the pairs."""
        return self._budget.has_validator_failed

    def changed_rows(self, changed_tools: Sequence[ChangedTool]) -> Iterator[DriftRow]:
        """Yields the rows of definitions that changed."""
        for start in range(0, len(changed_tools), _BATCH):
            batch = {_pair_identity(changed): changed for changed in changed_tools[start : start + _BATCH]}
            unjudged = [changed for pair, changed in batch.items() if pair not in self._judged]
            if unjudged and self._effort < MAX_EFFORT:
                hashes = [tool.hash for changed in unjudged for tool in (changed.before, changed.after)]
                self._judge_pairs(unjudged, self._history.definitions(hashes))
            for changed in changed_tools[start : start + _BATCH]:
                changes = self._judged.get(_pair_identity(changed))
                yield self._row(changed, changed.name, changed.before, changed.after, changes)

    def list_rows(self, changed: ChangedList) -> Iterator[DriftRow]:
        """Yields the rows of the tools that came, went or were renamed between two sessions."""
        key = _identity(changed.gone), _identity(changed.come)
        if key not in self._judged and self._effort < MAX_EFFORT:
            self._effort += len(changed.gone) + len(changed.come)
            hashes = [tool.hash for tools in (changed.gone, changed.come) for tool in tools.values()]
            definitions = self._history.definitions(hashes)
            lists = _list_record(changed.gone, definitions), _list_record(changed.come, definitions)
            self._judged[key] = _worst_first(list_changes(_TOOLS, *lists, self._budget))
        judged = self._judged.get(key)
        changes: defaultdict[str, list[Change]] = defaultdict(list)
        for change in judged or ():
            changes[change.subject].append(change)
        renamed: set[str] = set()
        for name, tool in changed.gone.items():
            tool_changes = changes[_subject(name)]
            new_name = next((change.after for change in tool_changes if change.kind is TOOL_RENAMED), None)
            if new_name is not None:
                renamed.add(new_name)
            new_tool = changed.come.get(new_name) if new_name is not None else None
            yield self._row(changed, name, tool, new_tool, None if judged is None else tool_changes, new_name)
        for name, tool in changed.come.items():
            if name not in renamed:
                yield self._row(changed, name, None, tool, None if judged is None else changes[_subject(name)])

    def _judge_pairs(self, changed_tools: Iterable[ChangedTool], definitions: dict[str, str]) -> None:
        """Judge pairs of definitions, as long as there is effort left."""
        for changed in changed_tools:
            if self._effort >= MAX_EFFORT:
                return
            before, after = changed.before, changed.after
            old, new = json.loads(definitions[before.hash]), json.loads(definitions[after.hash])
            has_same_schemas = all(is_same(old.get(name), new.get(name)) for name in SCHEMA_MEMBERS)
            self._effort += 1 if has_same_schemas else SCHEMA_EFFORT
            judgement = SchemaJudgement(self._budget, _predates_dialects(before), _predates_dialects(after))
            changes = definition_changes("tools", _subject(changed.name), old, new, judgement)
            self._judged[_pair_identity(changed)] = _worst_first(changes)

    def _row(
        self,
        changed: ChangedTool | ChangedList,
        name: str,
        before: ListedTool | None,
        after: ListedTool | None,
        changes: list[Change] | None,
        new_name: str | None = None,
    ) -> DriftRow:
        old, new = _place(before), _place(after)
        if isinstance(changed, ChangedList):
            old, new = old or Place(*changed.place_before), new or Place(*changed.place)
        return DriftRow(
            changed.time_ns,
            changed.server,
            name,
            changed.version_before,
            changed.version,
            self._sightings_of(name, before),
            self._sightings_of(new_name or name, after),
            tuple(change._replace(old=old, new=new) for change in changes or ()),
            is_judged=changes is not None,
            old=old,
            new=new,
            hash_before=None if before is None else before.hash,
            hash=None if after is None else after.hash,
        )

    def _sightings_of(self, name: str, tool: ListedTool | None) -> Sightings:
        return Sightings() if tool is None else self._sightings.get((name, tool), Sightings())


def _pair_identity(changed: ChangedTool) -> tuple[Any, ...]:
    """Returns what the judgement of a pair depends on."""
    before, after = changed.before, changed.after
    return changed.name, before.hash, after.hash, _predates_dialects(before), _predates_dialects(after)


def _subject(name: str) -> str:
    return f"{_TOOLS.item} {bounded(name)}"


def _place(tool: ListedTool | None) -> Place | None:
    return None if tool is None else Place(tool.path, tool.session, tool.frame)


def _identity(tools: dict[str, ListedTool]) -> tuple[tuple[str, str, bool], ...]:
    """Returns what the judgement of some tools depends on."""
    return tuple((name, tool.hash, _predates_dialects(tool)) for name, tool in sorted(tools.items()))


def _list_record(tools: dict[str, ListedTool], definitions: dict[str, str]) -> ListRecord:
    """Returns some tools as a list."""
    listed = [
        ListedDefinition(name, canonical_json(json.loads(definitions[tool.hash])).decode(), Place("", 0, 0))
        for name, tool in tools.items()
    ]
    predates_dialects = any(_predates_dialects(tool) for tool in tools.values())
    return ListRecord("complete", listed, predates_dialects=predates_dialects)


def _predates_dialects(tool: ListedTool) -> bool:
    return not SCHEMA_DIALECT.includes(rank_of(tool.revision))


def _worst_first(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: -change.severity)
