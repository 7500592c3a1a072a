"""The whole definitions on both sides of a change of a tool, a resource or a prompt, to show them side by side."""

from typing import Any

from analysis.comparison.change import ABSENT, Change, Place
from analysis.comparison.definitions.definition_lists import LISTS, DefinitionsRecord
from analysis.comparison.definitions.definitions import parsed
from analysis.comparison.requests import bounded
from analysis.comparison.side import Side


def changed_definitions(change: Change, old: Side, new: Side) -> tuple[Any, Any]:
    """Returns the definitions on the old and the new side that a change is about; ABSENT where there is none."""
    return _definition(change.subject, change.old, old), _definition(change.subject, change.new, new)


def _definition(subject: str, place: Place | None, side: Side) -> Any:
    record = side.records.get("definitions")
    if place is None or not isinstance(record, DefinitionsRecord):
        return ABSENT
    for lists in record.servers.values():
        for row in LISTS:
            for definition in lists[row.name].definitions if row.name in lists else ():
                # A subject may end with the name of its server.
                name = f"{row.item} {bounded(definition.name)} "
                if definition.place == place and f"{subject} ".startswith(name):
                    return parsed(definition)
    return ABSENT
