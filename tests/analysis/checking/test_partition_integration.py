"""The rules, divided into shares, find the same as in one checker, in the same order."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import pytest
from orjson import loads

from analysis.checking.checker import sort_key
from analysis.checking.partition import shares
from analysis.rules.base import Rule
from analysis.rules.discovery import rules, rules_for
from analysis.rules.finding import Finding
from captures.damage import Damage
from captures.errors import CaptureError
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.reader import Capture, read_frames
from captures.record import Record, decode
from mcpproxy.importers.case import Case
from tests.analysis.judged import Judged
from tests.analysis.traces import TOLD_BY_RECORDS, corpus, due_notes, expected
from tests.harness import ROOT


def found_in(items: Iterable[Frame | Record | Damage], picked: Iterable[type[Rule]]) -> list[tuple[int, Finding]]:
    """All findings, each with the number of the item at which it was reported."""
    checker, number = Judged(picked), 0
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
    return [*items, *assembler.finish()]


def merged(parts: list[list[tuple[int, Finding]]]) -> list[tuple[int, Finding]]:
    return sorted((each for part in parts for each in part), key=lambda each: (each[0], sort_key(each[1])))


@cache
def only(rule: str) -> list[type[Rule]]:
    return rules_for(rule.__eq__)


def is_found_alone(case: Case, picked: Iterable[str] | None = None) -> set[str]:
    """The rules that find something in a case; checks that each (of those `picked`) finds the same when run alone."""
    items = items_of(case)
    among_all = found_in(items, rules().values())
    fired = {finding.rule for _, finding in among_all}
    for rule in fired if picked is None else fired.intersection(picked):
        alone = [each for each in found_in(items, only(rule)) if each[1].rule == rule]
        assert alone == [each for each in among_all if each[1].rule == rule], (case.name, rule)
    return fired


@pytest.mark.costly("two checks for each of some 250 rules")
def test_each_rule_finds_alone_what_it_finds_among_all() -> None:
    """Each rule is checked in the first case that fires it; `make soak` checks every case."""
    left = set(rules())
    for _, case in corpus():
        due = {rule for rule, _ in (*expected(case), *due_notes(case))}
        if due & left:
            left -= is_found_alone(case, left)
    assert left == TOLD_BY_RECORDS


@pytest.mark.soak
def test_each_rule_finds_alone_in_any_case_what_it_finds_among_all() -> None:
    for _, case in corpus():
        is_found_alone(case)


def same_in_shares(every_nth: int) -> None:
    cases = [case for _, case in corpus()]
    for count in (2, 3, 4):
        parts = [rules_for(part.__contains__) for part in shares(rules().__contains__, count)]
        together = 0
        for case in cases[count::every_nth]:
            items = items_of(case)
            alone = found_in(items, rules().values())
            assert merged([found_in(items, part) for part in parts]) == alone, (count, case.name)
            together += len(alone)
        assert together > 1000 / every_nth


def test_shares_find_together_what_one_checker_finds() -> None:
    same_in_shares(97)


@pytest.mark.soak
def test_shares_find_together_in_any_case_what_one_checker_finds() -> None:
    same_in_shares(1)


def test_shares_find_the_same_in_kept_captures() -> None:
    parts = [rules_for(part.__contains__) for part in shares(rules().__contains__, 2)]
    compared = 0
    for path in sorted((ROOT / "tests/corpus").rglob("*.mcpcap")):
        with suppress(CaptureError):
            items = list(read_frames(Capture(path)))
            assert merged([found_in(items, part) for part in parts]) == found_in(items, rules().values()), path
            compared += 1
    assert compared > 20
