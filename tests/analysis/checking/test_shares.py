"""The rules in shares find together what they find in one checker, in the same order."""

from collections.abc import Callable, Iterable

import pytest
from orjson import loads

from analysis.checking.checker import Checker, place_of
from analysis.checking.shares import families, shares
from analysis.rules.base import Rule
from analysis.rules.discovery import rules, rules_for
from analysis.rules.finding import Finding
from captures.frame import Frame
from captures.reader import Capture, FrameAssembler, read_frames
from captures.record import Record, decode
from mcpproxy.importers.trace import Case
from tests.analysis.traces import by_group, corpus
from tests.harness import ROOT


def every(_rule: str) -> bool:
    return True


def found_in(items: Iterable[object], picked: Iterable[type[Rule]]) -> list[tuple[int, Finding]]:
    """Findings with the number of the item with which they became certain."""
    checker, number = Checker(picked), 0
    found = []
    for number, item in enumerate(items):
        found += [(number, finding) for finding in checker.feed(item)]
    return found + [(number + 1, finding) for finding in checker.finish()]


def items_of(case: Case) -> list[Frame | Record]:
    assembler, items = FrameAssembler(), list[Frame | Record]()
    for _, line in case.records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        item = assembler.feed(record)
        if isinstance(item, Frame | Record):
            items.append(item)
    return [*items, *assembler.end()]


def merged(parts: list[list[tuple[int, Finding]]]) -> list[tuple[int, Finding]]:
    return sorted((each for part in parts for each in part), key=lambda each: (each[0], place_of(each[1])))


@pytest.mark.parametrize("picks", [every, lambda rule: rule < "n"], ids=["all", "some"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_rule_is_in_one_share(picks: Callable[[str], bool], count: int) -> None:
    parts = shares(picks, count)
    assert sorted(rule for part in parts for rule in part) == sorted(filter(picks, rules()))
    assert max(map(len, parts)) - min(map(len, parts)) <= len(families(picks)[0])
    assert len(parts) == count


def test_there_are_no_more_shares_than_rules() -> None:
    assert shares(lambda rule: rule in ("id/null", "shutdown/exit-status"), 4) == [
        {"id/null"},
        {"shutdown/exit-status"},
    ]


def test_rules_that_replace_findings_are_with_those_that_they_replace() -> None:
    for part in shares(every, 4):
        assert part == {rule.id for rule in rules_for(part.__contains__)}


GROUPS = by_group(corpus())


@pytest.mark.parametrize("group", GROUPS)
def test_each_rule_finds_alone_what_it_finds_among_all(group: str) -> None:
    for case in GROUPS[group]:
        items = items_of(case)
        among_all = found_in(items, rules_for(every))
        for rule in {finding.rule for _, finding in among_all}:
            alone = found_in(items, rules_for(rule.__eq__))
            assert [each for each in alone if each[1].rule == rule] == [
                each for each in among_all if each[1].rule == rule
            ]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_shares_find_together_what_one_checker_finds(count: int) -> None:
    parts = [rules_for(part.__contains__) for part in shares(every, count)]
    together = 0
    for _, case in list(corpus())[count::5]:
        items = items_of(case)
        alone = found_in(items, rules_for(every))
        assert merged([found_in(items, part) for part in parts]) == alone
        together += len(alone)
    assert together > 100


@pytest.mark.parametrize("path", sorted((ROOT / "tests/corpus").rglob("*.mcpcap")), ids=lambda path: path.stem)
def test_shares_find_the_same_in_kept_captures(path: object) -> None:
    assert isinstance(path, type(ROOT))
    try:
        items = list(read_frames(Capture(path)))
    except Exception:  # noqa: BLE001 - no capture: nothing to compare
        return
    parts = [rules_for(part.__contains__) for part in shares(every, 2)]
    assert merged([found_in(items, part) for part in parts]) == found_in(items, rules_for(every))
