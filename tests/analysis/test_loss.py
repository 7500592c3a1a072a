"""What is lost accuses nobody: a capture with a record less says nothing grave that the whole one does not say."""

from pathlib import Path

import pytest
from orjson import loads

from analysis.checker import Checker
from analysis.finding import Finding, Level
from captures.reader import Damage, FrameAssembler
from captures.record import Record, decode
from mcpproxy.importers.trace import Case
from tests.analysis.traces import corpus

DAMAGE = Damage(Path("lost.mcpcap"), 0, 9, "corrupt")


def checked(items: list[Record | Damage]) -> list[Finding]:
    checker, assembler, found = Checker(), FrameAssembler(), list[Finding]()
    for item in items:
        assembled = assembler.feed(item)
        if assembled is not None:
            found += checker.feed(assembled)
    for rest in assembler.end():
        found += checker.feed(rest)
    found += checker.finish("closed")
    assert checker.faults == {}
    return found


def grave(found: list[Finding]) -> set[tuple[str, str]]:
    return {(one.rule, one.blames) for one in found if one.level > Level.NOTE}


def records_of(case: Case) -> list[Record]:
    made = [decode(line.rstrip(b"\n"), 0, loads) for _, line in case.records()]
    return [record for record in made if record is not None]


CASES = list(corpus())


@pytest.mark.parametrize("how", ["spoiled", "gone"])
@pytest.mark.parametrize(("group", "case"), CASES, ids=[f"{group}:{case.name}" for group, case in CASES])
def test_one_record_less_accuses_nobody(group: str, case: Case, how: str) -> None:
    items = records_of(case)
    whole = grave(checked([*items]))
    if whole:
        pytest.skip("who breaks a rule may be seen to break another one by what is left")
    for at in range(1, len(items)):
        left: list[Record | Damage]
        if how == "spoiled":
            left = [*items[:at], DAMAGE, *items[at + 1 :]]
        elif at + 1 < len(items):
            left = [*items[:at], items[at + 1]._replace(skipped=1), *items[at + 2 :]]
        else:
            left = [*items[:at]]
        more = grave(checked(left))
        assert more == set(), f"record {at} {how}: {items[at].rec} {bytes(items[at].line)[:200]!r}"
