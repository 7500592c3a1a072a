"""The rules are divided into shares that can run apart."""

from analysis.checking.shares import families, shares
from analysis.rules.discovery import rules, rules_for


def every(_rule: str) -> bool:
    return True


def test_every_rule_is_in_one_share() -> None:
    for picks in (every, lambda rule: rule < "n"):
        for count in (1, 2, 3, 4):
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
