"""Discovery: every rule, found by walking the groups of this package.

A group is a module of this package, or a package of modules if it has many rules. The order of rules is the order of
their findings about a message, so nothing in it depends on the name of a module: groups have the order of `GROUPS`,
modules of a group that of `MODULES` in its `__init__`, and rules of a module that of their classes.
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
"""The groups in the order in which rules are listed, and what errors and warnings of each usually break.

The order leads from bytes to meaning to transports, so it cannot be derived from names.
"""


def group_of(rule_id: str) -> str:
    """The group of a rule."""
    return rule_id.partition("/")[0]


def module_of(group: str) -> ModuleType:
    """The module of a group, or its package."""
    return import_module(f"analysis.rules.{group.replace('-', '_')}")


def _modules(group: str) -> list[ModuleType]:
    """The modules with the rules of a group, in the order of `MODULES` in its package.

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
    """Every rule, by its id, in the order of the groups."""
    return {rule.id: rule for group in GROUPS for module in _modules(group) for rule in _classes(module)}


@cache
def numbers() -> dict[str, int]:
    """The place of each rule in this order, by its id."""
    return {id_: number for number, id_ in enumerate(rules())}


def rules_for(picks: Callable[[str], bool]) -> list[type[Rule]]:
    """The selected rules, the rules that replace or cause their findings, and all rules on which these rely, in order.

    Args:
        picks: whether a rule is selected, by its id.
    """
    chosen = {id_ for id_ in rules() if picks(id_)}
    waiting = set(rules()) - chosen
    while more := {id_ for id_ in waiting if any(_fits(id_, chosen))} | (waiting & _needed(chosen)):
        chosen |= more
        waiting -= more
    return [rule for id_, rule in rules().items() if id_ in chosen]


def impact(rule_id: str, level: Level) -> Impact:
    """What a finding breaks, from its rule's id and its level; the lowest impact for an unknown rule."""
    rule = rules().get(rule_id)
    if rule is not None and rule.impact is not None:
        return rule.impact
    # A note reports something legal, which peers have to handle.
    return Impact.HINT if level == Level.NOTE else GROUPS.get(group_of(rule_id), Impact.HINT)


def _fits(id_: str, chosen: set[str]) -> Iterator[bool]:
    """For each pattern in a rule's `replaces`, whether it matches one of the chosen rules."""
    for pattern in rules()[id_].replaces:
        yield pattern in chosen or ("*" in pattern and any(fnmatchcase(other, pattern) for other in chosen))


def _needed(chosen: set[str]) -> set[str]:
    return {other for id_ in chosen for other in (*rules()[id_].relies_on, *rules()[id_].follows)}


def _classes(module: ModuleType) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if (
            inspect.isclass(value)
            and issubclass(value, Rule)
            and value.__module__ == module.__name__
            and "id" in vars(value)
        ):
            yield value
