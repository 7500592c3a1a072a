"""Discovery: which rules exist, their groups, and the impact of a violation."""

import re
from pkgutil import iter_modules

from analysis import rules as package
from analysis.protocol.revisions import REVISIONS
from analysis.rules.discovery import GROUPS, group_of, impact_of, module_of, rules
from analysis.rules.finding import Impact, Level
from analysis.rules.old_ids import RENAMED, current_id

NO_GROUPS = {"base", "finding", "discovery", "odd", "odd_exchange", "old_ids", "support", "unchanged_content"}
DATE = r"\d{4}-\d{2}-\d{2}"


def test_every_module_except_the_base_is_a_group_with_rules() -> None:
    modules = {module.name for module in iter_modules(package.__path__)}
    assert {name.replace("_", "-") for name in modules - NO_GROUPS} == set(GROUPS)
    assert list(dict.fromkeys(map(group_of, rules()))) == list(GROUPS)


def test_the_order_in_a_group_is_the_one_that_its_package_states() -> None:
    packages = [group for group in map(module_of, GROUPS) if hasattr(group, "__path__")]
    assert len(packages) > 10
    for group in packages:
        assert sorted(group.MODULES) == [module.name for module in iter_modules(group.__path__)], group.__name__
        homes = [rule.__module__ for rule in rules().values() if rule.__module__.startswith(f"{group.__name__}.")]
        assert list(dict.fromkeys(homes)) == [f"{group.__name__}.{name}" for name in group.MODULES]


def test_attributes_have_the_form_that_pages_need() -> None:
    span = rf"all|all except {DATE}|[≤≥]{DATE}|{DATE} only|{DATE} to {DATE}"
    for rule in rules().values():
        assert re.fullmatch(r"[a-z-]+/[a-z0-9-]+", rule.id)
        assert rule.who in ("client", "server", "either"), rule.id
        assert re.fullmatch(span, str(rule.versions)), rule.id


def test_an_old_id_leads_to_a_rule_and_is_not_reused() -> None:
    assert [current_id(old) in rules() for old in RENAMED] == [True] * len(RENAMED)
    assert RENAMED.keys().isdisjoint(rules())
    assert current_id("id/null") == "id/null"


def levels_of(id_: str) -> set[Level]:
    rule = rules()[id_]
    return {rule.level_at(rank) for rank in range(len(REVISIONS))}


def test_a_rule_has_an_impact_of_its_own_only_if_it_differs_from_its_group() -> None:
    for id_, rule in rules().items():
        usual = {Impact.HINT if level == Level.NOTE else GROUPS[group_of(id_)] for level in levels_of(id_)}
        assert rule.impact is None or usual != {rule.impact}, id_


def test_what_drops_the_connection_comes_before_what_leaks_and_that_before_a_missing_hint() -> None:
    order = ["framing/stdout-not-json", "logging/secret", "id/type-changed", "error/undefined-mcp-code"]
    order += ["cancel/unknown-request", "cache/missing-hints"]
    assert [impact_of(rule, Level.ERROR) for rule in order] == sorted(Impact, reverse=True)


def test_what_is_legal_breaks_nothing_unless_its_rule_says_so() -> None:
    assert impact_of("tool/unlisted", Level.WARNING) == Impact.COST, "the call is refused, and nothing is lost"
    assert impact_of("auth/challenge-missing", Level.ERROR) == Impact.CONNECTION
    assert impact_of("auth/challenge-missing", Level.NOTE) == Impact.HINT
    assert impact_of("cache/public-with-authorization", Level.NOTE) == Impact.SECURITY


def test_an_unknown_rule_has_the_least_impact() -> None:
    assert impact_of("later/rule", Level.ERROR) == Impact.HINT
    assert impact_of("", Level.NOTE) == Impact.HINT


def test_what_follows_from_a_cause_is_no_graver_than_the_cause() -> None:
    for rule in rules().values():
        for cause in rule.follows:
            assert max(levels_of(rule.id)) <= max(levels_of(cause)), (rule.id, cause)
            # A finding names the first cause that was found, so the cause at the beginning of a chain comes first.
            earlier = rule.follows[: rule.follows.index(cause)]
            assert set(rules()[cause].follows) <= set(earlier), (rule.id, cause)
