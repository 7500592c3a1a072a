"""Every case of the corpus gives exactly the findings that it expects, and every rule has a case that fires it."""

from collections import Counter

import pytest

from analysis.rules.discovery import GROUPS, group_of, rules, rules_for
from mcpproxy.importers.case import Case
from tests.analysis.traces import (
    SHARED,
    TOLD_BY_RECORDS,
    by_name,
    check,
    checked_once,
    corpus,
    due_notes,
    expected,
    grave,
    names,
    read,
    silent,
)


def mistakes(case: Case) -> str:
    """The differences from what the case expects, and all findings; empty if there are no differences."""
    found = checked_once(case)
    unlike = {
        "unexpected": grave(found) - expected(case),
        "missed": expected(case) - grave(found),
        "notes missed": due_notes(case) - {(one.rule, one.frame) for one in found},
        "not silent": silent(case) & {one.rule for one in found},
    }
    told = [f"{what}: {wrong}" for what, wrong in unlike.items() if wrong]
    return "\n".join([f"{case.name}: {'; '.join(told)}", *(f"  {one.finding}" for one in found)]) if told else ""


@pytest.mark.parametrize("group", names())
def test_the_cases_of_a_file_give_the_findings_that_they_expect(group: str) -> None:
    wrong = [told for case in by_name()[group] if (told := mistakes(case))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.soak
@pytest.mark.parametrize("group", names())
def test_a_group_finds_alone_what_it_finds_among_all(group: str) -> None:
    """Rules share state, but each must work alone, as `checking/test_partition_integration` checks for each rule."""
    picked = rules_for(lambda id_: group_of(id_) == group)
    for case in by_name()[group]:
        of_group = [
            Counter((one.rule, one.frame) for one in those if group_of(one.rule) == group)
            for those in (checked_once(case), check(case, picked))
        ]
        assert of_group[0] == of_group[1], case.name


def test_every_rule_has_a_case_that_fires_it() -> None:
    fired = {name for _, case in corpus() for name, _ in (*expected(case), *due_notes(case))}
    assert set(rules()) - TOLD_BY_RECORDS - fired == set()


@pytest.mark.skipif(not SHARED.exists(), reason="the shared protocol traces are not on this machine")
def test_the_shared_traces_pass_for_the_groups_that_are_built() -> None:
    for case in read(SHARED):
        built = {key: count for key, count in expected(case).items() if group_of(key[0]) in GROUPS}
        assert grave(check(case)) == built, case.name
