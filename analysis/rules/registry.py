"""The registry: every implemented rule, found by walking the groups of this package.

A group is a module of this package, or a package of modules if it has many rules.
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

GROUPS: Final = (
    *("framing", "jsonrpc", "id", "batch", "lifecycle", "version", "modern", "meta"),
    *("capability", "method", "schema", "error", "progress", "cancel", "timeout", "subscribe", "listen"),
    *("tasks", "ext-tasks", "mrtr", "page", "cache", "tool"),
    *("resource", "prompt", "completion", "logging", "sampling", "roots"),
    *("elicitation", "deprecated", "http", "sse", "legacy-sse", "auth", "shutdown"),
)
"""The implemented groups, in the order of the catalogue."""


def group_of(rule_id: str) -> str:
    """The group of a rule."""
    return rule_id.partition("/")[0]


def module_of(group: str) -> ModuleType:
    """The module of a group, or its package."""
    return import_module(f"analysis.rules.{group.replace('-', '_')}")


def _modules(group: str) -> list[ModuleType]:
    """The modules with the rules of a group, in the order of their names."""
    first = module_of(group)
    if not hasattr(first, "__path__"):
        return [first]
    return [import_module(f"{first.__name__}.{found.name}") for found in iter_modules(first.__path__)]


@cache
def rules() -> dict[str, type[Rule]]:
    """Every implemented rule, by its id, in the order of the catalogue's groups."""
    found: dict[str, type[Rule]] = {}
    for group in GROUPS:
        for module in _modules(group):
            for rule in _classes(module):
                found[rule.id] = rule
    return found


def rules_for(picks: Callable[[str], bool]) -> list[type[Rule]]:
    """The rules needed for the wanted ones: these, and those that replace findings of theirs, in order.

    Args:
        picks: whether a rule is wanted, by its id.
    """
    needed = {id_ for id_ in rules() if picks(id_)}
    waiting = set(rules()) - needed
    while found := {id_ for id_ in waiting if any(_fits(id_, needed))}:
        needed |= found
        waiting -= found
    return [rule for id_, rule in rules().items() if id_ in needed]


def _fits(id_: str, needed: set[str]) -> Iterator[bool]:
    """For each pattern of a rule, whether it replaces any of some other rules."""
    for pattern in rules()[id_].replaces:
        yield pattern in needed or ("*" in pattern and any(fnmatchcase(one, pattern) for one in needed))


def _classes(module: ModuleType) -> Iterator[type[Rule]]:
    for value in vars(module).values():
        if (
            inspect.isclass(value)
            and issubclass(value, Rule)
            and value.__module__ == module.__name__
            and "id" in vars(value)
        ):
            yield value
