"""Limits inheritance: what a class does must be found in a few places, so classes hold their parts."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("captures", "analysis", "mcpproxy")
MOST = 3
"""The largest number of mcpproxy's own classes that a class may have as ancestors."""

CLASS = re.compile(r"^[ \t]*class (\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?:", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from ([\w.]+) import (?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)
"""Parsing all modules would take seconds; only the first lines of classes and the imports are needed."""


def bases_in(module: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """The classes of a module with their bases, by their full names."""
    names = dict[str, str]()
    for source, many, few in IMPORT.findall(text):
        for name in re.sub("#.*", "", many or few).split(","):
            first, _, alias = name.strip().partition(" as ")
            names[alias or first] = f"{source}.{first}"
    classes = CLASS.findall(text)
    names |= {name: f"{module}.{name}" for name, _ in classes}
    for name, inside in classes:
        call = ast.parse(f"f({inside})", mode="eval").body
        assert isinstance(call, ast.Call)
        bases = [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in call.args]
        full = [names.get(base.partition(".")[0], base) + "".join(base.partition(".")[1:]) for base in bases]
        yield f"{module}.{name}", full


def all_bases() -> dict[str, list[str]]:
    found = dict[str, list[str]]()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found |= bases_in(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path.read_text("utf-8"))
    return found


def ancestors(name: str, bases: Mapping[str, list[str]]) -> set[str]:
    """mcpproxy's own classes from which a class inherits, directly or not."""
    own = {base for base in bases.get(name, ()) if base in bases}
    return own.union(*(ancestors(base, bases) for base in own))


def test_no_class_has_many_ancestors() -> None:
    bases = all_bases()
    found = {name: ancestors(name, bases) for name in bases}
    assert MOST in map(len, found.values()), "the check does not find the bases"
    assert {name: sorted(own) for name, own in found.items() if len(own) > MOST} == {}


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("class B:\n", []),
        ("class B(A): ...\n", ["m.A"]),
        ("from x.y import A\nclass B(A[int], Generic[T], metaclass=M): ...\n", ["x.y.A", "Generic"]),
        (
            "from x import (\n    Z,  # why, not that\n    Y as A,\n)\nclass B(\n    A,\n    Z,\n): ...\n",
            ["x.Y", "x.Z"],
        ),
        ("from x import y\nif True:\n    class B(y.A): ...\n", ["x.y.A"]),
        ('class B(A["(x)"], f(A)): ...\n', ["m.A", "f(A)"]),
    ],
)
def test_the_check_finds_bases(text: str, bases: list[str]) -> None:
    found = dict(bases_in("m", f"class A(object): ...\n{text}" if "import" not in text else text))
    assert found["m.B"] == bases


def test_the_check_finds_ancestors() -> None:
    bases = {"m.A": ["object"], "m.B": ["m.A"], "n.C": ["m.B", "m.A"], "n.D": ["n.C", "x.Y"]}
    assert ancestors("n.D", bases) == {"m.A", "m.B", "n.C"}
