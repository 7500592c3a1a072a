"""The rules are divided into shares that can run separately."""

from analysis.checking.budget import HOOK_TEST_COSTS
from analysis.checking.partition import cost_of, families, shares
from analysis.rules.base import Rule
from analysis.rules.discovery import rules, rules_for


def every(_rule: str) -> bool:
    return True


def test_every_rule_is_in_one_share() -> None:
    for picks in (every, lambda rule: rule < "n"):
        largest = cost_of(families(picks)[0])
        for count in (1, 2, 3, 4):
            parts = shares(picks, count)
            assert sorted(rule for part in parts for rule in part) == sorted(filter(picks, rules()))
            costs = [cost_of(part) for part in parts]
            assert max(costs) - min(costs) <= largest
            assert len(parts) == count


def test_there_are_no_more_shares_than_rules() -> None:
    assert shares(lambda rule: rule in ("id/null", "shutdown/exit-status"), 4) == [
        {"id/null"},
        {"shutdown/exit-status"},
    ]


def test_rules_that_replace_findings_are_with_those_that_they_replace() -> None:
    for part in shares(every, 4):
        assert part == {rule.id for rule in rules_for(part.__contains__)}


def test_the_shares_for_two_processes_cost_the_same() -> None:
    one, other = map(cost_of, shares(every, 2))
    assert abs(one - other) < 0.05 * (one + other)


def test_only_one_share_tests_each_message_for_what_several_rules_wait_for() -> None:
    for hook in HOOK_TEST_COSTS:
        waiting = {rule.id for rule in rules().values() if getattr(rule, hook) is not getattr(Rule, hook)}
        assert sum(not waiting.isdisjoint(part) for part in shares(every, 4)) == 1
