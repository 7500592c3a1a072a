"""Folds changes that are the same for several subjects, so that a text names the change once."""

from collections.abc import Iterable, Sequence
from typing import Any

from analysis.comparison.change import ABSENT, Change
from mcpproxy.wording.changes import subject_text


def folded(changes: Iterable[Change]) -> list[list[Change]]:
    """Returns changes, those that differ only in the subject together, each group at the place of its first."""
    groups: dict[Any, list[Change]] = {}
    for change in changes:
        groups.setdefault(_key(change), []).append(change)
    return list(groups.values())


def subjects_text(group: Sequence[Change], max_named: int) -> str:
    """Returns the first subjects of a group, sanitised, and how many more it has: `tool a, tool b and 11 more`."""
    names = ", ".join(subject_text(change) for change in group[:max_named])
    return f"{names} and {len(group) - max_named:,} more" if len(group) > max_named else names


def _key(change: Change) -> Any:
    """Returns what is the same for changes that differ only in the subject; of others, it differs."""
    values = change.before, change.after
    if change.witness is not None or not all(value is ABSENT or isinstance(value, bool) for value in values):
        return id(change)
    return change.kind.id, change.severity, change.message, change.pointer, change.times, change.unproved, values
