"""Partitions rules so that several processes together report the same findings as one.

Most rules know nothing of each other. But a finding can replace one of another rule about the same message, and some
rules rely on what others collect. Such rules are a family, which is never divided, so nothing is left to settle.

Rules that wait for the same test of each message are a family, too: so only one of the checkers has to run the test.
"""

from collections.abc import Callable, Collection
from fnmatch import fnmatchcase

from analysis.checking.budget import COSTS, OTHERS, TESTS
from analysis.rules.base import Rule
from analysis.rules.discovery import rules, rules_for


def families(picks: Callable[[str], bool]) -> list[list[str]]:
    """The families of the rules that a selection needs (`rules_for`), the one that costs most first.

    Args:
        picks: whether a rule is selected, by its id.
    """
    family_of = {rule.id: [rule.id] for rule in rules_for(picks)}
    first: dict[str, str] = {}
    for id_ in [*family_of]:
        for other in (*_relatives(id_, family_of), *(first.setdefault(test, id_) for test in _tests(id_))):
            joined, left = family_of[id_], family_of[other]
            if joined is not left:
                joined += left
                family_of.update(dict.fromkeys(left, joined))
    distinct = {id(family): family for family in family_of.values()}
    return sorted(distinct.values(), key=cost_of, reverse=True)


def shares(picks: Callable[[str], bool], count: int) -> list[frozenset[str]]:
    """Divide the selected rules into at most `count` nonempty shares of about the same cost; return their ids."""
    parts: list[list[str]] = [[] for _ in range(count)]
    for family in families(picks):
        min(parts, key=cost_of).extend(family)
    return [part for part in (frozenset(filter(picks, part)) for part in parts) if part]


def cost_of(ids: Collection[str]) -> float:
    """The total cost of rules for each frame, in microseconds."""
    tests = {hook for id_ in ids for hook in _tests(id_)}
    return sum(COSTS.get(id_, OTHERS) for id_ in ids) + sum(TESTS[hook] for hook in tests)


def _tests(id_: str) -> list[str]:
    """The hooks of a rule that wait for a test of each message."""
    return [hook for hook in TESTS if getattr(rules()[id_], hook) is not getattr(Rule, hook)]


def _relatives(id_: str, others: dict[str, list[str]]) -> list[str]:
    patterns = (*rules()[id_].replaces, *rules()[id_].relies_on, *rules()[id_].follows)
    return [other for other in others if any(fnmatchcase(other, pattern) for pattern in patterns)]
