"""Shares: the rules in several parts, which find together what all of them find in one checker.

Most rules know nothing of each other. But a finding can replace one of another rule about the same message, and some
rules rely on what others collect. Such rules are a family, which is never divided, so nothing is left to settle.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase

from analysis.rules.discovery import rules, rules_for


def families(picks: Callable[[str], bool]) -> list[list[str]]:
    """The families of the rules that a selection needs (`rules_for`), the largest first.

    Args:
        picks: whether a rule is selected, by its id.
    """
    family_of = {rule.id: [rule.id] for rule in rules_for(picks)}
    for id_ in [*family_of]:
        for other in _relatives(id_, family_of):
            joined, left = family_of[id_], family_of[other]
            if joined is not left:
                joined += left
                family_of.update(dict.fromkeys(left, joined))
    distinct = {id(family): family for family in family_of.values()}
    return sorted(distinct.values(), key=len, reverse=True)


def shares(picks: Callable[[str], bool], count: int) -> list[frozenset[str]]:
    """Divide the selected rules, by their ids, into at most `count` shares of about the same size; none is empty."""
    parts: list[list[str]] = [[] for _ in range(count)]
    for family in families(picks):
        min(parts, key=len).extend(filter(picks, family))
    return [frozenset(part) for part in parts if part]


def _relatives(id_: str, others: dict[str, list[str]]) -> list[str]:
    patterns = (*rules()[id_].replaces, *rules()[id_].relies_on, *rules()[id_].follows)
    return [other for other in others if any(fnmatchcase(other, pattern) for pattern in patterns)]
