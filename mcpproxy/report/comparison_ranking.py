"""Which changes a bounded output names first, and which of them fail `--fail-on`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from analysis.comparison.change import Change
from analysis.comparison.kind import FailOn, Severity
from mcpproxy.wording.changes import telling_words

_NOTE_RANKS: Final = {"value": 0, "finding": 2, "sequence": 3}
"""The order of notes, by the group of their kind: what a server answers before what follows from it."""
_OTHER_RANK: Final = 1


class RankedChanges(NamedTuple):
    """The changes of a comparison, the worst first."""

    listed: list[Change]
    """Those that are more than notes, and the notes that fail `--fail-on`; of each severity, what fails is first."""
    notes: list[Change]
    """The other notes: values first, findings and the sequence of calls last."""


def ranked(changes: Iterable[Change], fail_on: frozenset[FailOn]) -> RankedChanges:
    """Returns changes in the order in which to list them.

    Args:
        changes: the changes.
        fail_on: the words of `--fail-on`; empty if nothing fails.
    """
    listed: list[Change] = []
    notes: list[Change] = []
    for change in changes:
        (listed if change.severity > Severity.NOTE or change.fails(fail_on) else notes).append(change)
    listed.sort(key=lambda change: (-change.severity, not change.fails(fail_on)))
    notes.sort(key=lambda note: _NOTE_RANKS.get(note.kind.id.partition("/")[0], _OTHER_RANK))
    return RankedChanges(listed, notes)


def mark_text(change: Change, fail_on: frozenset[FailOn]) -> str:
    """Returns the mark of a change that fails: `fails --fail-on value`; empty if it does not."""
    return f"fails --fail-on {','.join(telling_words(change, fail_on))}" if change.fails(fail_on) else ""
