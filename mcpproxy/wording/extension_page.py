"""Generates docs/extensions.md, the page of the known extensions, from their table.

`python -m mcpproxy.wording.extension_page docs/extensions.md` rewrites it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.protocol.extensions import EXTENSIONS, Extension, ExtensionMethod
from analysis.rules.discovery import GROUPS, group_of, rules
from analysis.shapes.extension_table import has_shapes, short_name, table_of

_OPENING: Final = """\
# Extensions

These are the extensions of MCP that mcpproxy knows. Client and server declare an extension under `extensions` in their
capabilities. This page is generated from the table that says what each of them defines.

- The rules about the core do not report the methods of a known extension as unknown. What the extension requires is
  checked by a group of rules of its own. Findings about a draft are notes, because it can still change.
- The column `extension` of [`exchanges` and `calls`](sql.md) and the key `extension` of [filters](filter.md) contain
  the identifier, and the page of a message names the extension.
- Using an extension that is not on this page is never a fault. `show`, the report and the screens show its messages,
  and how long its requests took, with the mark `[not judged]`. What only the core forbids, such as an error code that
  it does not define, is then a note at most, and the rules about unknown methods are silent if one side has declared
  such an extension, except about names that begin as those of MCP do, such as `tools/lst`.
"""
_SENDERS: Final = {"client": "client", "server": "server", "both": "app or host"}
"""Who sends a message, by the side that may. Only messages between an app and its host may come from either side."""


def page() -> str:
    """Returns the whole page."""
    lines = [_OPENING, "| extension | status | versions | revisions of MCP | rules |", "|---|---|---|---|---|"]
    lines += map(_overview_row, EXTENSIONS.values())
    for extension in EXTENSIONS.values():
        lines += _part_lines(extension)
    return "\n".join([*lines, ""])


def _overview_row(extension: Extension) -> str:
    versions = ", ".join(extension.versions) or "–"
    title = f"[{extension.title}](#{extension.title.lower()})"
    return f"| {title} | {extension.status} | {versions} | {extension.revisions} | {_rules_text(extension)} |"


def _rules_text(extension: Extension) -> str:
    """Returns the group of an extension and how many rules it has, with a link to its page."""
    if extension.group not in GROUPS:
        return "none yet"
    count = sum(group_of(id_) == extension.group for id_ in rules())
    return f"[{extension.group}](rules/{extension.group}.md), {count}"


def _part_lines(extension: Extension) -> Iterator[str]:
    yield f"\n## {extension.title}\n"
    sides = " and the ".join(sorted(extension.declared_by))
    yield f"`{extension.identifier}`, declared by the {sides}. Source: {extension.source}."
    if extension.sketch_capability:
        yield f"Servers of the sketch before it declare the capability `{extension.sketch_capability}` instead."
    if extension.methods:
        yield "\n| method | sent by | required setting | in the table of shapes |\n|---|---|---|---|"
        yield from (_method_row(extension, method) for method in extension.methods)
    others = [
        *_list_lines("Members of `_meta`", extension.meta_members),
        *_list_lines("Values of `resultType`", extension.result_types),
        *(f"- Error code {error.code}: {error.meaning}." for error in extension.error_codes),
    ]
    if others:
        yield ""
        yield from others


def _method_row(extension: Extension, method: ExtensionMethod) -> str:
    need = f"`{method.setting}`" if method.setting else ""
    parts = ("params", "result") if method.is_request else ("notification",)
    bodies = table_of(short_name(extension))["bodies"] if has_shapes(extension) else {}
    checked = ", ".join(
        "params" if part == "notification" else part for part in parts if f"{part} {method.name}" in bodies
    )
    note = ", gets no response" if method.is_endless else ""
    note += f", selected by `{method.filter_member}`" if method.filter_member else ""
    return f"| `{method.name}`{note} | {_SENDERS[method.sender]} | {need} | {checked} |"


def _list_lines(title: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"- {title}: {', '.join(f'`{name}`' for name in names)}."


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
