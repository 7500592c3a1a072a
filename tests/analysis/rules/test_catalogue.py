"""The catalogue as data."""

import re

from analysis.protocol.revisions import REVISIONS
from analysis.rules.catalogue import MARKS, catalogue
from analysis.rules.registry import rules


def test_every_row_has_the_form_of_one() -> None:
    span = rf"all|all except {DATE}|[≤≥]{DATE}|{DATE} only|{DATE} to {DATE}"
    for row in catalogue().values():
        assert re.fullmatch(r"[a-z-]+/[a-z0-9-]+", row.id)
        assert row.who in ("client", "server", "either"), row
        assert re.fullmatch(span, row.versions), row
        assert row.level.split(",")[0] in ("error", "warning", "note"), row
        assert set(row.marks) <= set(MARKS), row


DATE = r"\d{4}-\d{2}-\d{2}"


def test_every_rule_that_is_built_stands_in_it() -> None:
    assert set(rules()) - set(catalogue()) == set()


def test_who_can_break_a_built_rule_is_said_alike() -> None:
    rows = catalogue()
    assert {rule: made.who for rule, made in rules().items() if made.who != rows[rule].who} == {}


def revisions_of(rule: str) -> list[int]:
    return [rank for rank, revision in enumerate(REVISIONS) if catalogue()[rule].holds(revision)]


def test_revisions_in_which_a_row_holds() -> None:
    assert revisions_of("framing/bom") == [0, 1, 2, 3, 4]
    assert revisions_of("batch/not-supported-version") == [0, 2, 3, 4]
    assert revisions_of("batch/mixed-kinds") == [1]
    assert revisions_of("id/duplicate-request") == [0, 1, 2, 3]
    assert revisions_of("modern/missing-meta") == [4]
    assert revisions_of("cancel/by-disconnect") == [1, 2, 3]


def test_levels_that_a_row_has_somewhere() -> None:
    row = catalogue()["batch/not-supported-version"]
    assert [level for level in ("error", "warning", "note") if row.has_level(level)] == ["error", "warning"]
