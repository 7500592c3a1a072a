"""Discovery: finds every rule in the groups of this package.

A group is a module of this package, or a package of modules if it has many rules. The order of rules is the order of
their findings about a message, so it does not depend on the names of modules: groups are in the order of `GROUPS`, the
modules of a group in the order of `MODULES` in its `__init__`, and the rules of a module in the order of their classes.
"""

import inspect
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

from analysis.rules.base import Rule
from analysis.rules.finding import Impact, Level

GROUPS: Final = {
    "framing": Impact.MESSAGE,
    "jsonrpc": Impact.MESSAGE,
    "id": Impact.MESSAGE,
    "batch": Impact.MESSAGE,
    "lifecycle": Impact.MESSAGE,
    "version": Impact.CONNECTION,
    "modern": Impact.MESSAGE,
    "meta": Impact.HINT,
    "capability": Impact.MESSAGE,
    "method": Impact.MESSAGE,
    "schema": Impact.MESSAGE,
    "error": Impact.WRONG,
    "progress": Impact.WRONG,
    "cancel": Impact.COST,
    "timeout": Impact.MESSAGE,
    "subscribe": Impact.COST,
    "listen": Impact.MESSAGE,
    "tasks": Impact.WRONG,
    "ext-tasks": Impact.MESSAGE,
    "ext-skills": Impact.MESSAGE,
    "ext-apps": Impact.WRONG,
    "ext-events": Impact.HINT,
    "mrtr": Impact.MESSAGE,
    "page": Impact.MESSAGE,
    "cache": Impact.HINT,
    "tool": Impact.MESSAGE,
    "resource": Impact.WRONG,
    "prompt": Impact.MESSAGE,
    "completion": Impact.WRONG,
    "logging": Impact.COST,
    "sampling": Impact.MESSAGE,
    "roots": Impact.WRONG,
    "elicitation": Impact.MESSAGE,
    "deprecated": Impact.HINT,
    "http": Impact.MESSAGE,
    "sse": Impact.MESSAGE,
    "legacy-sse": Impact.MESSAGE,
    "auth": Impact.CONNECTION,
    "shutdown": Impact.COST,
}
"""The groups in the order in which rules are listed, and what the errors and warnings of each usually break.

The order goes from bytes to meaning to transports, so it cannot be derived from names.
"""


def group_of(rule_id: str) -> str:
    """Returns the group of a rule."""
    return rule_id.partition("/")[0]


def module_of(group: str) -> ModuleType:
    """Returns the module or the package of a group."""
    return import_module(f"analysis.rules.{group.replace('-', '_')}")


def _modules_of(group: str) -> list[ModuleType]:
    """Returns the modules with the rules of a group, in the order of `MODULES` in its package.

    Raises:
        ValueError: `MODULES` does not list one of the package's modules.
    """
    package = module_of(group)
    if not hasattr(package, "__path__"):
        return [package]
    names = sorted((module.name for module in iter_modules(package.__path__)), key=package.MODULES.index)
    return [import_module(f"{package.__name__}.{name}") for name in names]


@cache
def rules() -> dict[str, type[Rule]]:
    """Returns every rule, by its id, in the order of the groups."""
    return {rule.id: rule for group in GROUPS for module in _modules_of(group) for rule in _rule_classes(module)}


@cache
def rule_numbers() -> dict[str, int]:
    """Returns the position of each rule in this order, by its id."""
    return {id_: number for number, id_ in enumerate(rules())}


def rules_for(is_selected: Callable[[str], bool]) -> list[type[Rule]]:
    """Returns the selected rules, rules that replace or cause their findings, and rules that these rely on, in order.

    Args:
        is_selected: returns whether the rule with an id is selected.
    """
    chosen_ids = {id_ for id_ in rules() if is_selected(id_)}
    other_ids = set(rules()) - chosen_ids
    while added_ids := {id_ for id_ in other_ids if any(_replaced_matches(id_, chosen_ids))} | (
        other_ids & _required_ids(chosen_ids)
    ):
        chosen_ids |= added_ids
        other_ids -= added_ids
    return [rule for id_, rule in rules().items() if id_ in chosen_ids]


def impact_of(rule_id: str, level: Level) -> Impact:
    """Returns the impact of a finding, from its rule's id and its level; an unknown rule has the lowest impact."""
    rule = rules().get(rule_id)
    if rule is not None and rule.impact is not None:
        return rule.impact
    # A note reports something legal, which peers must handle.
    return Impact.HINT if level == Level.NOTE else GROUPS.get(group_of(rule_id), Impact.HINT)


def _replaced_matches(id_: str, chosen_ids: set[str]) -> Iterator[bool]:
    """Yields for each pattern in a rule's `replaces` whether it matches one of the chosen rules."""
    for pattern in rules()[id_].replaces:
        yield pattern in chosen_ids or (
            "*" in pattern and any(fnmatchcase(other_id, pattern) for other_id in chosen_ids)
        )


def _required_ids(chosen_ids: set[str]) -> set[str]:
    return {other_id for id_ in chosen_ids for other_id in (*rules()[id_].relies_on, *rules()[id_].follows)}


def _rule_classes(module: ModuleType) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if (
            inspect.isclass(value)
            and issubclass(value, Rule)
            and value.__module__ == module.__name__
            and "id" in vars(value)
        ):
            yield value
