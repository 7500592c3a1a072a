"""Places in a tree: the line of the value that a finding is about."""

import json
from collections.abc import Sequence
from typing import Final

from analysis.rules.finding import Finding
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.widgets.tree import TreeLine

MAX_NAME_CHARS: Final = 200
"""The maximum number of characters of a member's name in a line."""


def line_of(lines: Sequence[TreeLine], finding: Finding) -> int:
    """Returns the line of the value that a finding is about or, if it is missing, of its nearest existing parent."""
    tokens = finding.pointer.split("/")[1:]
    if finding.item is not None and lines and _opens_with(lines[0], "["):
        tokens.insert(0, str(finding.item))
    line = 0
    for token in tokens:
        child = _child_line(lines, line, token.replace("~1", "/").replace("~0", "~"))
        if child is None:
            break
        line = child
    return line


def _child_line(lines: Sequence[TreeLine], parent: int, name: str) -> int | None:
    """Returns the line of a member or an element, or None if there is none."""
    is_array = _opens_with(lines[parent], "[")
    quoted = sanitise(json.dumps(name[:MAX_NAME_CHARS], ensure_ascii=False), None)
    number, line = 0, parent + 1
    while line < lines[parent].end:
        branch = lines[line]
        if str(number) == name if is_array else len(branch.spans) > 2 and branch.spans[0].text == quoted:
            return line
        number, line = number + 1, max(line, branch.end) + 1
    return None


def _opens_with(branch: TreeLine, bracket: str) -> bool:
    return branch.end > 0 and branch.spans[-1].text == bracket
