"""Tells whether a side has anything worth comparing: a list of definitions, or a call that not every client makes."""

from analysis.comparison.aspects import ASPECTS
from analysis.comparison.definitions.definition_lists import DefinitionsRecord
from analysis.comparison.side import Side


def lacks_contents(side: Side) -> bool:
    """Whether no list and no such call of the side is known, so that no change of its server could be noticed."""
    definitions = side.records.get("definitions")
    has_list = isinstance(definitions, DefinitionsRecord) and any(
        listed.state == "complete" for lists in definitions.servers.values() for listed in lists.values()
    )
    return not has_list and not any(
        aspect.recognisable(side.records[aspect.name]) for aspect in ASPECTS if aspect.name in side.records
    )
