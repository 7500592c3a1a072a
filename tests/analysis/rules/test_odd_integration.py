"""No rule misses findings by naming too few oddities."""

import pytest

from analysis.checking.plans import _hook_plans_of
from analysis.rules.base import Rule
from analysis.rules.discovery import group_of, rules, rules_for
from analysis.rules.odd import NOTHING
from analysis.rules.odd_exchange import USUAL
from tests.analysis.traces import check, corpus


@pytest.mark.costly("checks every case of seven groups twice")
def test_a_rule_finds_nothing_in_oddities_that_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    naming = [rule for rule in rules().values() if rule.on_anomaly is not Rule.on_anomaly]
    groups = {group_of(rule.id) for rule in naming}
    cases = [case for group, case in corpus() if group in groups]
    # The other rules find the same in both checks, as nothing that concerns them changes.
    picked = rules_for({rule.id for rule in naming}.__contains__)
    found = [check(case, picked) for case in cases]
    for rule in naming:
        monkeypatch.setattr(rule, "oddities", ~NOTHING)
    for case, those in zip(cases, found, strict=True):
        assert check(case, picked) == those, case.name


@pytest.mark.costly("checks every case of the groups about exchanges twice")
def test_a_rule_finds_nothing_in_odd_exchanges_that_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    naming = [rule for rule in rules().values() if rule.exchanges]
    groups = {group_of(rule.id) for rule in naming}
    cases = [case for group, case in corpus() if group in groups]
    picked = rules_for({rule.id for rule in naming}.__contains__)
    found = [check(case, picked) for case in cases]
    for rule in naming:
        monkeypatch.setattr(rule, "exchanges", USUAL)
    _hook_plans_of.cache_clear()
    try:
        for case, those in zip(cases, found, strict=True):
            assert check(case, picked) == those, case.name
    finally:
        _hook_plans_of.cache_clear()


def test_each_oddity_of_an_exchange_is_what_a_rule_is_about() -> None:
    wanted = USUAL
    for rule in rules().values():
        wanted |= rule.exchanges
        hooks = ("on_response_start", "on_exchange_end", "on_messages_exchanged")
        assert not rule.exchanges or any(getattr(rule, hook) is not getattr(Rule, hook) for hook in hooks), rule.id
    assert wanted == ~USUAL
