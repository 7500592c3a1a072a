"""Only tables say what a revision has: no other code of the product names its date."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from analysis.protocol.revisions import REVISIONS

ROOT = Path(__file__).parents[1]
TABLES: Final = (
    "analysis/protocol/revisions.py",
    "analysis/protocol/features.py",
    "analysis/protocol/deprecations.py",
    "analysis/protocol/extensions.py",
    "analysis/shapes/since.py",
    "analysis/shapes/revision_changes.py",
)
EXCEPTIONS: Final = {
    "mcpproxy/demo/": "its server and client implement these revisions by hand, and must not follow the tables",
    "mcpproxy/clients/hosted.py": "it repeats what the pages of other vendors say",
}
"""Files, and folders, that may name a revision, with the reason."""
DATE: Final = re.compile("|".join(REVISIONS))
PAGE: Final = re.compile(rf"(?:; )?(?:{DATE.pattern}) (?:schema|changelog|deprecated|[a-z]+/[\w/ ,;-]+)")
"""A page of the specification, as the sources of rules name it."""


def exempt_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The constants that are docstrings, or belong to the source of a rule."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield from (statement.value for statement in body if isinstance(statement, ast.Expr))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "source" for target in targets):
                yield from ast.walk(node)


def dates_in(text: str) -> list[str]:
    """The texts in the code of a module that name a revision."""
    if DATE.search(text) is None:
        return []
    tree = ast.parse(text)
    exempt = set(map(id, exempt_nodes(tree)))
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in exempt]
    texts = [value.decode("latin-1") if isinstance(value, bytes) else value for value in constants]
    return [text for text in texts if isinstance(text, str) and DATE.search(text) and PAGE.fullmatch(text) is None]


def test_only_tables_name_revisions() -> None:
    files = sorted(path for package in ("captures", "analysis", "mcpproxy") for path in (ROOT / package).rglob("*.py"))
    names = {str(path.relative_to(ROOT)): dates_in(path.read_text("utf-8")) for path in files}
    found = {name: dates for name, dates in names.items() if dates and not name.startswith(tuple(EXCEPTIONS))}
    assert found.keys() <= set(TABLES), "name a feature of analysis/protocol/features.py, or a row of another table"
    assert "analysis/protocol/revisions.py" in found, "the check does not find the dates where they are"
    for exception in EXCEPTIONS:
        assert any(dates and name.startswith(exception) for name, dates in names.items()), exception


def test_the_check_finds_dates() -> None:
    for text in (
        "versions = since('2025-06-18')",
        "X = '2025-06-18'",
        "text = f'{name} was withdrawn in 2026-07-28'",
        "if revision >= b'2025-06-18': pass",
        "source = X\nY = '2025-06-18'",
        "def f(): return '2025-06-18'",
    ):
        assert dates_in(text), text
    for text in (
        "'''Since 2025-06-18.'''\nX = 1  # 2025-06-18",
        "class A:\n    '''In 2025-06-18.'''\n    source = '2025-06-18 schema; RFC 3986 §3'",
        "PAGE = '2025-06-18 basic/transports'",
        "X = 1\n'''The first of 2025-06-18.'''",
        "X = '2026-11-20'",
    ):
        assert dates_in(text) == [], text
