"""Compares the lists of definitions of both sides: what came and went, was renamed, and changed."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.aspect import Aspect
from analysis.comparison.canonical import json_digest
from analysis.comparison.change import ABSENT, AspectResult, Change, Gap, SizeRow
from analysis.comparison.definitions.definition_changes import (
    SCHEMA_MEMBERS,
    SchemaJudgement,
    definition_changes,
    hidden_text_changes,
)
from analysis.comparison.definitions.definition_lists import (
    LISTS,
    UNKNOWN_STATES,
    DefinitionList,
    DefinitionsObserver,
    DefinitionsRecord,
    ListedDefinition,
    ListName,
    ListRecord,
    ListState,
)
from analysis.comparison.definitions.renames import renamings, untitled, with_following_titles
from analysis.comparison.kind import FailOn, Kind
from analysis.comparison.kinds import definitions as kinds
from analysis.comparison.members import members_of
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.requests import bounded
from analysis.comparison.schemas.witness import TryBudget
from analysis.comparison.servers import MAX_SERVERS, pair_servers
from analysis.rules.support.uri_templates import template_variables
from analysis.store.definitions import tokens_estimate

NEED_LISTS: Final[frozenset[FailOn]] = frozenset({"breaking", "may-break"})
"""The words of `--fail-on` that cannot be judged without any list."""


_SIDES: Final = ("old", "new")


class _ListKinds(NamedTuple):
    removed: Kind
    renamed: Kind
    added: Kind
    rename: str
    """How the message says that one was renamed; the new name follows."""


_LIST_KINDS: Final[dict[ListName, _ListKinds]] = {
    "tools": _ListKinds(kinds.TOOL_REMOVED, kinds.TOOL_RENAMED, kinds.TOOL_ADDED, "the tool is called"),
    "prompts": _ListKinds(kinds.PROMPT_REMOVED, kinds.PROMPT_RENAMED, kinds.PROMPT_ADDED, "the prompt is called"),
    "resources": _ListKinds(
        *(kinds.RESOURCE_REMOVED, kinds.RESOURCE_MOVED, kinds.RESOURCE_ADDED, "the URI of the resource is")
    ),
    "resource templates": _ListKinds(
        *(kinds.TEMPLATE_REMOVED, kinds.TEMPLATE_CHANGED, kinds.TEMPLATE_ADDED, "the template is")
    ),
}


class DefinitionsAspect(Aspect):
    """The aspect `definitions`."""

    name = "definitions"
    record = DefinitionsRecord

    def observer(self, options: ObserveOptions) -> DefinitionsObserver:  # noqa: ARG002 - lists have no options
        """Returns an observer for one side."""
        return DefinitionsObserver()

    def compare(self, old: DefinitionsRecord, new: DefinitionsRecord, options: CompareOptions) -> AspectResult:  # noqa: ARG002
        """Compare the lists of both sides."""
        servers = pair_servers(old.servers, new.servers)
        changes: list[Change] = []
        gaps = [
            *_unpaired_gaps(servers.only_old, old, "old"),
            *_unpaired_gaps(servers.only_new, new, "new"),
            *_uncompared_gaps(old, new),
        ]
        totals, budget = _Totals(), TryBudget()
        for pair in servers.pairs:
            old_lists, new_lists = old.servers[pair.old], new.servers[pair.new]
            # A client that lists only tools does not depend on prompts. But without any list, nothing is known.
            is_any_listed = any(listed.state == "complete" for listed in (*old_lists.values(), *new_lists.values()))
            needed_by = frozenset[FailOn]() if is_any_listed else NEED_LISTS
            for row in LISTS:
                old_list, new_list = old_lists[row.name], new_lists[row.name]
                label = f"{row.name}{servers.suffix(pair)}"
                gap = _gap(label, old_list, new_list, needed_by)
                if gap is not None:
                    gaps.append(gap)
                elif "complete" in (old_list.state, new_list.state):
                    changes += list_changes(row, old_list, new_list, budget, servers.suffix(pair))
                    gaps += _side_gaps(row.name, label, old_list, "old") + _side_gaps(row.name, label, new_list, "new")
                    totals.add(row.name, old_list, new_list)
        if budget.has_validator_failed:
            gaps.append(Gap("schemas", "the validator could not run", is_failure=True))
        return AspectResult(tuple(changes), tuple(gaps), totals.compared, sizes=totals.sizes)

    def recognisable(self, record: DefinitionsRecord) -> Collection[str]:
        """Returns the definitions of all lists: each by its name and, as it may be renamed, by all else of it."""
        return {
            key
            for lists in record.servers.values()
            for row in LISTS
            for definition in lists[row.name].definitions
            for key in (f"{row.item} {definition.name}", f"{row.item} like {_digest_without_name(row, definition)}")
        }


def list_changes(
    row: DefinitionList, old: ListRecord, new: ListRecord, budget: TryBudget, suffix: str = ""
) -> Iterator[Change]:
    """Yields the changes between two lists. Their order does not count.

    Args:
        row: which list it is.
        old: the list on the old side.
        new: the list on the new side.
        budget: how many values may still be tried as witnesses, in the whole comparison.
        suffix: the end of subjects, which names the server if there are several.
    """
    judgement = SchemaJudgement(budget, old.predates_dialects, new.predates_dialects)
    old_by_name, new_by_name = _by_name(old.definitions), _by_name(new.definitions)
    removed = [definitions[0] for name, definitions in old_by_name.items() if name not in new_by_name]
    added = [definitions[0] for name, definitions in new_by_name.items() if name not in old_by_name]
    list_kinds = _LIST_KINDS[row.name]
    old_values, new_values = [parsed(each) for each in removed], [parsed(each) for each in added]
    pairs = renamings(row.name, old_values, new_values)
    for pair in pairs:
        before, after = removed[pair.old], added[pair.new]
        subject = f"{row.item} {bounded(before.name)}{suffix}"
        message = f"{list_kinds.rename} {bounded(after.name)!r} now"
        if row.name == "resource templates":
            message += _variables_clause(before.name, after.name)
        change = Change(list_kinds.renamed, subject, message, before=before.name, after=after.name)
        values = with_following_titles(old_values[pair.old], new_values[pair.new]), new_values[pair.new]
        changes = [change, *definition_changes(row.name, subject, *values, judgement)]
        yield from _placed(changes, before, after)
    renamed_old, renamed_new = {pair.old for pair in pairs}, {pair.new for pair in pairs}
    for index, definition in enumerate(removed):
        if index not in renamed_old:
            subject = f"{row.item} {bounded(definition.name)}{suffix}"
            yield Change(list_kinds.removed, subject, f"the {row.item} was removed", old=definition.place)
    for index, definition in enumerate(added):
        if index not in renamed_new:
            subject = f"{row.item} {bounded(definition.name)}{suffix}"
            yield Change(list_kinds.added, subject, f"the {row.item} was added", new=definition.place)
            yield from _placed(hidden_text_changes(subject, ABSENT, new_values[index]), None, definition)
    for name, definitions in old_by_name.items():
        for before, after in _different(definitions, new_by_name.get(name, [])):
            subject = f"{row.item} {bounded(name)}{suffix}"
            changes = definition_changes(row.name, subject, parsed(before), parsed(after), judgement)
            yield from _placed(changes, before, after)


def parsed(definition: ListedDefinition) -> Any:
    """Returns the JSON value of a definition."""
    return json.loads(definition.text)


def _digest_without_name(row: DefinitionList, definition: ListedDefinition) -> str:
    members = {name: value for name, value in members_of(parsed(definition)).items() if name != row.identity}
    if row.name == "tools":
        members |= {name: untitled(members[name]) for name in SCHEMA_MEMBERS if name in members}
    return json_digest(members)


def _variables_clause(before: str, after: str) -> str:
    """Returns how the variables of a template changed, as the end of a sentence; empty if they did not."""
    old, new = template_variables(before), template_variables(after)
    if old is None or new is None or old == new:
        return ""
    return bounded(
        f"; its variables were {', '.join(sorted(old)) or 'none'} and are {', '.join(sorted(new)) or 'none'}"
    )


class _Totals:
    """Sums the sizes of lists over all servers."""

    def __init__(self) -> None:
        self._rows: dict[ListName, SizeRow] = {}

    def add(self, name: ListName, old: ListRecord, new: ListRecord) -> None:
        row = self._rows.get(name) or SizeRow(name, 0, 0, 0, 0, 0, 0)
        old_sizes, new_sizes = _sizes(old), _sizes(new)
        self._rows[name] = SizeRow(
            name,
            row.old_count + len(old_sizes),
            row.new_count + len(new_sizes),
            row.old_bytes + sum(old_sizes),
            row.new_bytes + sum(new_sizes),
            row.old_tokens + sum(map(tokens_estimate, old_sizes)),
            row.new_tokens + sum(map(tokens_estimate, new_sizes)),
        )

    @property
    def sizes(self) -> tuple[SizeRow, ...]:
        return tuple(self._rows.values())

    @property
    def compared(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((row.list, row.old_count, row.new_count) for row in self._rows.values())


def _sizes(listed: ListRecord) -> list[int]:
    return [len(definition.text.encode()) for definition in listed.definitions]


def _by_name(definitions: Iterable[ListedDefinition]) -> dict[str, list[ListedDefinition]]:
    by_name: defaultdict[str, list[ListedDefinition]] = defaultdict(list)
    for definition in definitions:
        by_name[definition.name].append(definition)
    return by_name


def _different(
    old: list[ListedDefinition], new: list[ListedDefinition]
) -> Iterator[tuple[ListedDefinition, ListedDefinition]]:
    """Yields the pairs of definitions with the same name that differ; usually there is one definition on each side."""
    if len(old) == len(new) == 1:
        if old[0].text != new[0].text:
            yield old[0], new[0]
        return
    old_left, new_left = _without(old, new), _without(new, old)
    yield from zip(old_left, new_left, strict=False)


def _without(definitions: list[ListedDefinition], others: list[ListedDefinition]) -> list[ListedDefinition]:
    """Returns the definitions for which there is no equal one among the others, sorted by their texts."""
    equal = Counter(other.text for other in others)
    left: list[ListedDefinition] = []
    for definition in sorted(definitions, key=lambda each: each.text):
        if equal[definition.text]:
            equal[definition.text] -= 1
        else:
            left.append(definition)
    return left


def _placed(
    changes: Iterable[Change], before: ListedDefinition | None, after: ListedDefinition | None
) -> Iterator[Change]:
    old, new = None if before is None else before.place, None if after is None else after.place
    for change in changes:
        yield change._replace(old=old, new=new)


# ---- what was not compared

_CLAUSES: Final[dict[ListState, str]] = {
    "unasked": "does not",
    "unanswered": "got no answer when it asked for them",
    "refused": "got an error when it asked for them",
    "lost": "lacks the answer: records are lost",
    "unreadable": "has an answer that could not be examined",
}
"""What a side does or has instead of a list."""


def _gap(label: str, old: ListRecord, new: ListRecord, needed_by: frozenset[FailOn]) -> Gap | None:
    """Returns why two lists cannot be compared, or None if they can."""
    states = (old.state, new.state)
    cut_sides = [side for side, state in zip(_SIDES, states, strict=True) if state == "cut"]
    if cut_sides:
        where = "both sides" if len(cut_sides) == 2 else f"the {cut_sides[0]} side"
        return Gap(
            label, f"the list is incomplete on {where}: a page is missing, refused or too large", is_failure=True
        )
    if _CLAUSES.keys().isdisjoint(states):
        return None
    if "complete" in states:
        listed, other = _SIDES if old.state == "complete" else _SIDES[::-1]
        clause = _CLAUSES[new.state if listed == "old" else old.state]
        return Gap(label, f"the {listed} side lists them and the {other} side {clause}", is_failure=True)
    reasons = [(side, _CLAUSES[state]) for side, state in zip(_SIDES, states, strict=True) if state in UNKNOWN_STATES]
    if len({clause for _, clause in reasons}) == 1 < len(reasons):
        return Gap(label, f"each side {reasons[0][1]}", is_failure=True)
    if reasons:
        return Gap(label, " and ".join(f"the {side} side {clause}" for side, clause in reasons), is_failure=True)
    return Gap(label, "neither side lists them", is_failure=False, needed_by=needed_by)


def _side_gaps(list_name: ListName, label: str, listed: ListRecord, side: str) -> list[Gap]:
    """Returns what is peculiar about a list that was compared."""
    gaps: list[Gap] = []
    if listed.is_outdated:
        reason = f"the newest list of the {side} side is incomplete, so an earlier one was compared"
        gaps.append(Gap(f"newest {label}", reason, is_failure=False, needed_by=NEED_LISTS))
    if listed.is_superseded:
        reason = f"the server of the {side} side announced other {list_name}, which nobody asked for"
        gaps.append(Gap(f"newest {label}", reason, is_failure=False, needed_by=NEED_LISTS))
    if listed.unnamed:
        reason = f"items of the {side} side that are not objects with a name: {listed.unnamed:,}"
        gaps.append(Gap(f"items of {label}", reason, is_failure=False))
    repeated = len(listed.definitions) - len({definition.name for definition in listed.definitions})
    if repeated:
        reason = f"items of the {side} side that repeat a name: {repeated:,}; they were compared where they fit"
        gaps.append(Gap(f"repeated items of {label}", reason, is_failure=False))
    return gaps


def _unpaired_gaps(keys: list[str], record: DefinitionsRecord, side: str) -> Iterator[Gap]:
    for key in keys:
        is_listed = any(listed.state in ("complete", "cut") for listed in record.servers[key].values())
        what = f"definitions of {key or 'a server without a name'}"
        yield Gap(what, f"only the {side} side has this server", is_failure=is_listed)


def _uncompared_gaps(old: DefinitionsRecord, new: DefinitionsRecord) -> Iterator[Gap]:
    count = old.uncompared + new.uncompared
    if count:
        yield Gap(
            "definitions of further servers",
            f"captures beyond the first {MAX_SERVERS:,} servers: {count:,}",
            is_failure=True,
        )
