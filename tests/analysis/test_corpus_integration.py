"""Every case of the corpus gives just the findings that it expects, and every rule has a case that fires it."""

import pytest

from analysis.rules.discovery import GROUPS, group_of, rules, rules_for
from mcpproxy.importers.trace import Case
from tests.analysis.traces import (
    SHARED,
    TOLD_BY_RECORDS,
    by_group,
    check,
    corpus,
    due_notes,
    expected,
    grave,
    read,
    silent,
)

CASES = by_group(corpus())


def mistakes(case: Case) -> str:
    """What is not as the case expects, and all findings; empty if everything is as expected."""
    found = check(case)
    unlike = {
        "unexpected": grave(found) - expected(case),
        "missed": expected(case) - grave(found),
        "notes missed": due_notes(case) - {(one.rule, one.frame) for one in found},
        "not silent": silent(case) & {one.rule for one in found},
    }
    told = [f"{what}: {wrong}" for what, wrong in unlike.items() if wrong]
    return "\n".join([f"{case.name}: {'; '.join(told)}", *(f"  {one.finding}" for one in found)]) if told else ""


@pytest.mark.parametrize("group", CASES)
def test_the_cases_of_a_file_give_the_findings_that_they_expect(group: str) -> None:
    wrong = [told for case in CASES[group] if (told := mistakes(case))]
    assert not wrong, "\n".join(wrong)


SHARE = 16
"""The suite runs a group alone on one of so many of its cases; `make soak` on all."""


def found_alone(every_nth: int) -> None:
    """Rules share what they remember; each group must do without the others."""
    for group in GROUPS:
        picked = rules_for(lambda id_, group=group: group_of(id_) == group)  # type: ignore[misc]
        for case in CASES.get(group, [])[::every_nth]:
            among = sorted((one.rule, one.frame) for one in check(case) if group_of(one.rule) == group)
            alone = sorted((one.rule, one.frame) for one in check(case, picked) if group_of(one.rule) == group)
            assert alone == among, case.name


@pytest.mark.dear("a check of some 150 cases, twice")
def test_a_group_alone_finds_what_it_finds_among_all() -> None:
    found_alone(SHARE)


@pytest.mark.soak
def test_a_group_alone_finds_in_any_case_what_it_finds_among_all() -> None:
    found_alone(1)


def test_every_rule_has_a_case_that_fires_it() -> None:
    fired = {name for _, case in corpus() for name, _ in (*expected(case), *due_notes(case))}
    assert set(rules()) - TOLD_BY_RECORDS - fired == set()


@pytest.mark.skipif(not SHARED.exists(), reason="the shared protocol traces are not on this machine")
def test_the_shared_traces_pass_for_the_groups_that_are_built() -> None:
    for case in read(SHARED):
        built = {key: count for key, count in expected(case).items() if group_of(key[0]) in GROUPS}
        assert grave(check(case)) == built, case.name
