"""What broken rules break: each has a kind, and the tables say nothing twice."""

from analysis.checking import impact as tables
from analysis.checking.impact import Impact, impact
from analysis.rules.catalogue import Row, catalogue
from analysis.rules.finding import Level
from analysis.rules.registry import rules


def levels_of(row: Row) -> list[Level]:
    return [level for level in Level if row.has_level(str(level))]


def test_every_group_of_the_rules_stands_in_the_table_once() -> None:
    told = [group for groups in tables._GROUPS.values() for group in groups.split()]
    assert sorted(told) == sorted({rule.partition("/")[0] for rule in rules()})


def test_what_is_said_of_a_rule_is_of_one_that_there_is_and_differs_from_its_group() -> None:
    for rule, own in tables._by_rule().items():
        row = catalogue()[rule]
        grave = tables._by_group()[row.group]
        assert any(own != (Impact.HINT if level == Level.NOTE else grave) for level in levels_of(row)), rule


def test_no_rule_is_named_twice() -> None:
    named = [rule for lines in tables._RULES.values() for rule in tables._ids(lines)]
    assert len(named) == len(tables._by_rule())


def test_every_rule_breaks_something_at_each_of_its_levels() -> None:
    for rule in rules():
        for level in levels_of(catalogue()[rule]):
            assert isinstance(impact(rule, level), Impact), (rule, level)
        # No group is left to what holds for rules that there are not.
        assert rule.partition("/")[0] in tables._by_group(), rule


def test_what_drops_the_connection_comes_before_what_leaks_and_that_before_a_missing_hint() -> None:
    order = ["framing/stdout-not-json", "logging/secret", "id/type-changed", "error/undefined-mcp-code"]
    order += ["cancel/unknown-request", "cache/missing-hints"]
    assert [impact(rule, Level.ERROR) for rule in order] == sorted(Impact, reverse=True)


def test_what_is_legal_breaks_nothing_unless_its_rule_says_so() -> None:
    assert impact("auth/challenge-missing", Level.ERROR) == Impact.CONNECTION
    assert impact("auth/challenge-missing", Level.NOTE) == Impact.HINT
    assert impact("cache/public-with-authorization", Level.NOTE) == Impact.SECURITY


def test_a_rule_that_there_is_not_breaks_as_little_as_can_be() -> None:
    assert impact("later/rule", Level.ERROR) == Impact.HINT
    assert impact("", Level.NOTE) == Impact.HINT
