"""Partitions rules so that several processes together report the same findings as one.

Most rules are independent of each other. But a finding can replace a finding of another rule about the same message,
and some rules rely on data that others collect. Such rules form a family, which is never divided, so the findings of
different processes never affect each other.

Rules whose hooks depend on the same test of each message also form a family, so that only one checker runs the test.
"""

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase

from analysis.checking.budget import DEFAULT_RULE_COST, HOOK_TEST_COSTS, RULE_COSTS
from analysis.rules.base import Rule
from analysis.rules.discovery import rules, rules_for


def families(is_selected: Callable[[str], bool]) -> list[list[str]]:
    """The families of the rules that a selection needs (`rules_for`), the most expensive first.

    Args:
        is_selected: returns whether the rule with an id is selected.
    """
    family_of = {rule.id: [rule.id] for rule in rules_for(is_selected)}
    first_by_test: dict[str, str] = {}
    for id_ in [*family_of]:
        for other in (
            *_related_rules(id_, family_of),
            *(first_by_test.setdefault(test, id_) for test in _tested_hooks(id_)),
        ):
            own_family, other_family = family_of[id_], family_of[other]
            if own_family is not other_family:
                own_family += other_family
                family_of.update(dict.fromkeys(other_family, own_family))
    distinct_families = {id(family): family for family in family_of.values()}
    return sorted(distinct_families.values(), key=cost_of, reverse=True)


def shares(is_selected: Callable[[str], bool], count: int) -> list[frozenset[str]]:
    """Divide the selected rules into at most `count` nonempty shares of about the same cost; return their ids."""
    ids_by_share: list[list[str]] = [[] for _ in range(count)]
    for family in families(is_selected):
        min(ids_by_share, key=cost_of).extend(family)
    return [part for part in (frozenset(filter(is_selected, part)) for part in ids_by_share) if part]


def cost_of(ids: Collection[str]) -> float:
    """The total cost of rules per frame, in microseconds."""
    tests = {hook for id_ in ids for hook in _tested_hooks(id_)}
    return sum(RULE_COSTS.get(id_, DEFAULT_RULE_COST) for id_ in ids) + sum(HOOK_TEST_COSTS[hook] for hook in tests)


def _tested_hooks(id_: str) -> list[str]:
    """The hooks of a rule that depend on a test of each message."""
    return [hook for hook in HOOK_TEST_COSTS if getattr(rules()[id_], hook) is not getattr(Rule, hook)]


def _related_rules(id_: str, others: dict[str, list[str]]) -> list[str]:
    patterns = (*rules()[id_].replaces, *rules()[id_].relies_on, *rules()[id_].follows)
    return [other for other in others if any(fnmatchcase(other, pattern) for pattern in patterns)]
