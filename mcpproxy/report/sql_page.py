"""Generates docs/sql.md, the reference of the tables and views, from their definitions.

`python -m mcpproxy.report.sql_page docs/sql.md` rewrites it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.store.reference import Relation, relations

_OPENING: Final = """\
# Tables and views

`mcpproxy query`, the SQL prompt and `analysis.open` in a notebook all query these tables and views. This page is
generated from their definitions.

Start with the views: they use the terms of someone who runs a server, and say what they count. They are built from the
tables below, which hold everything. The SQL dialect is DuckDB 2.

- Frame, session and exchange numbers and message ids are unique only within a capture: if you join two tables, also
  join on `capture`. Commands accept its value, or its first eight digits, as the name of a capture:
  `mcpproxy show 4f2a90d1`.
- Times are UTC. Columns that end in `_ns` are in nanoseconds, and columns that end in `_ms` in milliseconds; points in
  time are counted from when the capture opened.
- `server` is the name under which a server was recorded. Two servers recorded under the same name count as one.
- Names, errors, descriptions and lines of stderr are untrusted text: the peer chose them. In a program that displays
  them, they could act as a control sequence, a formula or an instruction to a model.
- `findings` and the views built from it are filled only when a query names them, because all rules have to run first.
"""


def page() -> str:
    """Returns the whole page."""
    all_relations = relations()
    views = [relation for relation in all_relations if relation.is_view]
    tables = [relation for relation in all_relations if not relation.is_view]
    return "\n".join([_OPENING, *_part_lines("Views", views), *_part_lines("Tables", tables)])


def _part_lines(heading: str, relations: list[Relation]) -> Iterator[str]:
    yield f"## {heading}\n"
    yield f"| {heading.lower().removesuffix('s')} | one row per |\n|---|---|"
    for relation in relations:
        yield f"| [{relation.name}](#{relation.name}) | {_cell(relation.row.removeprefix('one row per '))} |"
    for relation in relations:
        yield f"\n### {relation.name}\n"
        yield f"{relation.row[:1].upper()}{relation.row[1:]}."
        if relation.about:
            yield f"\n{relation.about}"
        yield f"\n```sql\n{relation.example}\n```\n"
        yield "| column | type | meaning |\n|---|---|---|"
        for column in relation.columns:
            yield f"| `{column.name}` | {column.type.lower()} | {_cell(column.meaning)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
