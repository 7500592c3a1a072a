"""Definitions of hostile servers, whose schemas a child process may have to judge."""

import copy
from typing import Any

from analysis.comparison.definitions.definitions import DefinitionsAspect
from tests.analysis.comparison.conversations import compared, conversation

ASPECT = DefinitionsAspect()


def test_hostile_definitions_are_compared_in_bounded_time() -> None:
    nested: Any = {}
    for _ in range(400):
        nested = {"items": nested}
    hostile: list[Any] = [
        {"name": "\ud800", "description": "\udfff" * 1000, "title": 2**70, "_meta": [1], "annotations": 3},
        {"name": "deep", "inputSchema": {"type": "object", "x": nested}},
        {"name": "x" * 100_000, "_meta": {str(number): number for number in range(1000)}, "execution": "no"},
        {"name": "", "inputSchema": 7, "icons": {"src": 1}},
        *({"name": f"tool {number}", "inputSchema": {"type": "object"}} for number in range(2000)),
    ]
    changed = copy.deepcopy(hostile)
    changed[0].update(title=2**70 + 2**30, _meta={}, annotations={"readOnlyHint": True})
    changed[1]["inputSchema"]["x"] = {"items": nested}
    changed[2].update(_meta={}, execution={"taskSupport": 8})
    changed[3].update(inputSchema=True, icons=[{}])
    for number, tool in enumerate(changed[4:]):
        tool["name"] = f"other {number}"
    assert compared(ASPECT, conversation(hostile), conversation(hostile)).changes == ()
    changes = compared(ASPECT, conversation(hostile), conversation(changed)).changes
    assert len(changes) > 4000
    assert all(len(change.message) < 1000 and len(change.subject) < 300 for change in changes)
