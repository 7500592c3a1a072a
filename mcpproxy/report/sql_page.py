"""The reference of the tables and views, generated from the SQL that defines them: docs/sql.md.

python -m mcpproxy.report.sql_page docs/sql.md     rewrites it
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.store.reference import Relation, relations

_OPENING: Final = """\
# Tables and views

What `mcpproxy query` asks, and `analysis.open` in a notebook. This page is made from the tables and views themselves.

Ask the views first: they are in the words of those who use a server, and say what they count. The tables below hold all
that the views are made of. The dialect is that of DuckDB 2.

- Numbers of frames, sessions and exchanges, and ids of messages, mean something within one capture only: where two
  tables are joined, join on `capture`, too. Commands take what stands there, or its first eight digits, for the name of
  a capture: `mcpproxy show 4f2a90d1`.
- Times are UTC. What ends in `_ns` counts nanoseconds, what ends in `_ms` milliseconds, since the capture opened.
- `server` is the name under which a server was recorded. Two servers that were recorded under one name are one here.
- Text that a peer chose (names, errors, descriptions, lines of stderr) is foreign: to a program that shows it, it may
  be a control sequence, a formula or an order to a model.
- `findings`, and the views that are made of them, are filled when a query names them: the rules have to read everything
  first.
"""


def page() -> str:
    """The whole page."""
    all_relations = relations()
    views = [relation for relation in all_relations if relation.is_view]
    tables = [relation for relation in all_relations if not relation.is_view]
    return "\n".join([_OPENING, *_part("Views", views), *_part("Tables", tables)])


def _part(heading: str, relations: list[Relation]) -> Iterator[str]:
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
