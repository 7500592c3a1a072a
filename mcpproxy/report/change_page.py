"""Generates docs/changes.md, the reference of the kinds of changes and of the JSON lines, from their tables.

`python -m mcpproxy.report.change_page docs/changes.md` rewrites it.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from analysis.comparison.kind import Kind
from mcpproxy.report.comparison_drift import DRIFT_MEMBERS
from mcpproxy.report.comparison_json import MEMBERS, PARTS
from mcpproxy.wording.change_kinds import SEVERITY_MEANINGS, fail_on_words, kinds_by_group, page_of

_OPENING: Final = """\
# Changes

These are the kinds of changes that `mcpproxy compare` reports. `mcpproxy compare --explain` lists them, and
`mcpproxy compare --explain ID` shows one. This page is generated from their table.

A change of a schema is compatible if it only widens what a client may send, or only narrows what a server may answer.
Any other is breaking if a value proves it, which `compare` prints; without such a value, it may break. What cannot be
decided is unknown, which is not the same as compatible.
"""
_JSON: Final = """\
## JSON lines

`--format json` prints an object on each line. The member `type` says what it is. Lines of the type `change` can be
pasted into a baseline; those of the type `accepted` are the changes that the baseline accepted.
"""
_EACH: Final = """\
## JSON lines of `--each`

`compare --each SERVER --format json` prints a line of the type `drift` for each change of a tool, the oldest first.
"""


def page() -> str:
    """Returns the whole page."""
    lines = [_OPENING, "| severity | meaning |", "|---|---|"]
    lines += [f"| {severity} | {meaning} |" for severity, meaning in SEVERITY_MEANINGS.items()]
    lines += ["", "| kind | severity | what happened | `--fail-on` |", "|---|---|---|---|"]
    groups = kinds_by_group()
    lines += [_overview_row(kind) for kinds in groups.values() for kind in kinds]
    for group, kinds in groups.items():
        lines += ["", f"## {group}"]
        lines += (text for kind in kinds for text in ("", f"### {kind.id}", "", page_of(kind)))
    lines += ["", _JSON]
    for type_name, members in MEMBERS.items():
        lines += _member_lines(f"A line of the type `{type_name}`", members)
    for part, members in PARTS.items():
        lines += _member_lines(f"The members of a `{part}`", members)
    lines.append(_EACH)
    for type_name, members in DRIFT_MEMBERS.items():
        lines += _member_lines(f"A line of the type `{type_name}`", members)
    return "\n".join(lines).rstrip("\n") + "\n"


def _overview_row(kind: Kind) -> str:
    anchor = re.sub(r"[^\w-]", "", kind.id)
    words = ", ".join(f"`{word}`" for word in fail_on_words(kind))
    return f"| [{kind.id}](#{anchor}) | {kind.severity} | {_cell(kind.title)} | {words} |"


def _member_lines(title: str, members: Mapping[str, str]) -> Iterator[str]:
    yield f"{title}:\n"
    yield "| member | meaning |\n|---|---|"
    for name, meaning in members.items():
        yield f"| `{name}` | {_cell(meaning)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
