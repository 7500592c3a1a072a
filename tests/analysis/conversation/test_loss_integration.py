"""Losses accuse no peer: a capture with one record less gives no errors or warnings that the whole one does not."""

from pathlib import Path

import pytest
from orjson import loads

from analysis.rules.finding import Finding, Level
from captures.damage import Damage
from captures.frames import FrameAssembler
from captures.record import Record, decode
from mcpproxy.importers.case import Case
from tests.analysis.judged import Judged
from tests.analysis.traces import by_name, expected, names

DAMAGE = Damage(Path("lost.mcpcap"), 0, 9, "corrupt")


def checked(items: list[Record | Damage]) -> list[Finding]:
    checker, assembler, found = Judged(), FrameAssembler(), list[Finding]()
    for item in items:
        assembled = assembler.feed(item)
        if assembled is not None:
            found += checker.feed(assembled)
    for rest in assembler.finish():
        found += checker.feed(rest)
    found += checker.finish("closed")
    assert checker.faults == {}
    return found


def grave(found: list[Finding]) -> set[tuple[str, str]]:
    return {(one.rule, one.blames) for one in found if one.level > Level.NOTE}


def records_of(case: Case) -> list[Record]:
    made = [decode(line.rstrip(b"\n"), 0, loads) for _, line in case.records()]
    return [record for record in made if record is not None]


SHARE = 96
"""The suite loses one in this many records, different ones in each case; `make soak` loses each in turn."""


def lost(items: list[Record], at: int, how: str) -> list[Record | Damage]:
    """A capture without one of its records, which leaves damage in its place (`spoiled`) or nothing (`gone`)."""
    if how == "spoiled":
        return [*items[:at], DAMAGE, *items[at + 1 :]]
    if at + 1 < len(items):
        return [*items[:at], items[at + 1]._replace(skipped=1), *items[at + 2 :]]
    return [*items[:at]]


def accused(group: str, share: int) -> list[str]:
    """The errors and warnings that a loss causes in those cases of a file that violate no rule.

    What is left of a case that violates a rule may seem to violate another one.
    """
    wrong = []
    sound = [case for case in by_name()[group] if not expected(case)]
    for number, case in enumerate(sound):
        items = records_of(case)
        tries = [(at, how) for at in range(1, len(items)) for how in ("spoiled", "gone")]
        for at, how in tries[number % share :: share]:
            more = grave(checked(lost(items, at, how)))
            if more:
                wrong.append(f"{case.name}: record {at} {how}: {items[at].rec} {bytes(items[at].line)[:200]!r}: {more}")
    return wrong


@pytest.mark.costly("a check for one in so many records of a thousand cases")
def test_one_record_less_accuses_nobody() -> None:
    wrong = [told for group in names() for told in accused(group, SHARE)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.soak
def test_whichever_record_is_less_accuses_nobody() -> None:
    wrong = [told for group in names() for told in accused(group, 1)]
    assert not wrong, "\n".join(wrong)
