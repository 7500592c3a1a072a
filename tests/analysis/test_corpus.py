"""Every case of the corpus gives just the findings that it expects, and every rule has a case that fires it."""

import pytest

from analysis.rules import GROUPS, group_of, rules, rules_for
from mcpproxy.importers.trace import Case
from tests.analysis.traces import SHARED, check, corpus, due_notes, expected, grave, read, silent

CASES = list(corpus())


@pytest.mark.parametrize(("group", "case"), CASES, ids=[f"{group}:{case.name}" for group, case in CASES])
def test_a_case_gives_the_findings_that_it_expects(group: str, case: Case) -> None:
    found = check(case)
    assert grave(found) == expected(case), [one.finding for one in found]
    missing = due_notes(case) - {(one.rule, one.frame) for one in found}
    assert not missing, [one.finding for one in found]
    assert not silent(case) & {one.rule for one in found}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_finds_what_it_finds_among_all(group: str) -> None:
    """Rules share what they remember; each must do without the others."""
    picked = rules_for(lambda id_: group_of(id_) == group)
    for where, case in CASES:
        if where == group:
            among = sorted((one.rule, one.frame) for one in check(case) if group_of(one.rule) == group)
            alone = sorted((one.rule, one.frame) for one in check(case, picked) if group_of(one.rule) == group)
            assert alone == among, case.name


TOLD_BY_RECORDS = {"shutdown/killed-first"}
"""Rules about what no frame of a trace can tell, such as signals; tests of their own feed them records."""


@pytest.mark.parametrize("rule", sorted(set(rules()) - TOLD_BY_RECORDS))
def test_every_rule_has_a_case_that_fires_it(rule: str) -> None:
    fired = {name for _, case in CASES for name, _ in (*expected(case), *due_notes(case))}
    assert rule in fired


@pytest.mark.skipif(not SHARED.exists(), reason="the shared protocol traces are not on this machine")
def test_the_shared_traces_pass_for_the_groups_that_are_built() -> None:
    for case in read(SHARED):
        built = {key: count for key, count in expected(case).items() if group_of(key[0]) in GROUPS}
        assert grave(check(case)) == built, case.name
