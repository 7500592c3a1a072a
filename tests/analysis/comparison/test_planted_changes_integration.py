"""Every planted change is reported as what it is, and nothing else is (`tests/corpus/comparisons`)."""

import copy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from analysis.comparison.change import Comparison, Witness
from analysis.comparison.compare import compare
from analysis.comparison.kind import Severity
from analysis.comparison.kinds.table import KINDS
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side
from tests.analysis.comparison.permuted import write_permuted
from tests.analysis.comparison.planted import TRANSPORTS, Line, edit_value, edited, rows, write
from tests.analysis.comparison.sides import kinds, observed
from tests.rows import row

SCHEMA_MEMBERS = {"arguments": "inputSchema", "result": "outputSchema"}
LISTING = ("initialize request", "initialize", "initialized", "tools 1 request", "tools 1")


def _failures(comparison: Comparison) -> list[str]:
    return [gap.what for gap in comparison.gaps if gap.is_failure]


@pytest.mark.costly("a check of the rules and a comparison for each of some ninety conversations")
def test_each_planted_change_is_reported_and_nothing_else(tmp_path: Path) -> None:
    bases = {transport: rows(transport) for transport in TRANSPORTS}
    sides = {name: observed(write(tmp_path / f"{name}.mcpcap", base, name)) for name, base in bases.items()}
    planted = rows("changes")
    for case in planted:
        with row(case["name"]):
            base = case["base"]
            new = observed(write(tmp_path / f"{case['name']}.mcpcap", edited(bases[base], case["edits"]), base))
            comparison = compare(sides[base], new, CompareOptions())
            assert sorted(kinds(comparison)) == sorted(case["due"])
            assert _failures(comparison) == case.get("failures", [])
    assert {*KINDS} >= {kind for case in planted for kind in case["due"]}
    assert sum(bool(case["due"]) for case in planted) >= 60
    assert sum(case.get("looks_ignored", False) for case in planted) >= 20


def test_a_conversation_in_any_order_is_the_same_conversation(tmp_path: Path) -> None:
    (tmp_path / "permuted").mkdir()
    for transport in TRANSPORTS:
        path = write(tmp_path / f"{transport}.mcpcap", rows(transport), transport)
        for seed in (1, 2):
            with row(transport, seed):
                assert write_permuted(path, tmp_path / "permuted", seed) >= 20
                comparison = compare(observed(path), observed(tmp_path / "permuted" / path.name), CompareOptions())
                assert (comparison.changes, _failures(comparison)) == ((), [])


# ---- lists of tools


def _listing(path: Path, tools: list[Any]) -> Side:
    """Returns the side of a session in which only the tools are listed, on one page."""
    lines: list[Line] = [copy.deepcopy(line) for line in rows("stdio") if line["label"] in LISTING]
    lines[-1]["message"]["result"] = {"tools": tools}
    return observed(write(path, lines, "stdio"))


def _assert_proves(witness: Witness, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Check with the validator alone that a value fits one schema and not the other."""
    fits = [jsonschema_rs.Draft202012Validator(schema).is_valid(witness.value) for schema in (old, new)]
    assert fits == [witness.fits_old, not witness.fits_old]


def test_each_change_of_a_definition_is_judged_and_proved(tmp_path: Path) -> None:
    base, *cases = rows("tools")
    old = _listing(tmp_path / "old.mcpcap", base["tools"])
    breaking = 0
    for number, case in enumerate(cases):
        with row(case["name"]):
            tools = copy.deepcopy(base["tools"])
            for edit in case["edits"]:
                edit_value(tools[0], edit)
            comparison = compare(old, _listing(tmp_path / f"{number}.mcpcap", tools), CompareOptions())
            assert _failures(comparison) == []
            assert [(change.kind.id, str(change.severity)) for change in comparison.changes] == (
                [] if case["due"] is None else [(case["due"], case["severity"])]
            )
            for change in comparison.changes:
                group = change.kind.id.partition("/")[0]
                if change.severity is Severity.BREAKING and group in SCHEMA_MEMBERS:
                    breaking += 1
                    member = SCHEMA_MEMBERS[group]
                    assert change.witness is not None
                    assert change.witness.fits_old == (group == "arguments")
                    _assert_proves(change.witness, base["tools"][0][member], tools[0][member])
    assert len(cases) >= 40
    assert breaking >= 20
