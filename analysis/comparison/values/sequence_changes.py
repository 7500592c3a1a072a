"""Compares the calls of two sides: which ones come, go, are made more or less often, or move."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from analysis.comparison.change import AspectResult, Change, Gap, Place
from analysis.comparison.kind import Kind
from analysis.comparison.kinds.sequence import (
    CALL_LESS_OFTEN,
    CALL_MISSING,
    CALL_MORE_OFTEN,
    CALL_MOVED,
    CALL_NEW,
)
from analysis.comparison.requests import subject_of
from analysis.comparison.values.alignment import MAX_STEPS, aligned
from analysis.comparison.values.sequence_record import CallName, CallRun, SequenceRecord

_POLLS: Final = frozenset({"tasks/get", "tasks/result"})
"""Methods that clients repeat until something is ready: how often says how long it took, and nothing else."""


class _Moves(NamedTuple):
    """The calls that are in other positions than on the other side."""

    old: Counter[CallName]
    new: Counter[CallName]
    """How often each call is made on one side where the other side does not make it."""
    excused: Counter[CallName]
    """How many of them were in flight together with other calls."""
    old_places: dict[CallName, Place]
    new_places: dict[CallName, Place]
    """Where each call is first made in such a position."""


def compare_sequences(old: SequenceRecord, new: SequenceRecord, max_steps: int = MAX_STEPS) -> AspectResult:
    """Compare the calls of two sides.

    Args:
        old: the calls of the old side.
        new: the calls of the new side.
        max_steps: how much work to do to align them; see `aligned`.
    """
    old_counts, new_counts = (dict(zip(side.calls, side.counts, strict=True)) for side in (old, new))
    gaps: list[Gap] = []
    moves = None
    if old.is_cut or new.is_cut:
        gaps.append(_gap("a side has too many calls to keep their order; they were counted"))
    else:
        moves = _moves(old, new, max_steps)
        if moves is None:
            gaps.append(_gap("the sequences differ too much to be aligned; the calls were counted"))
    is_complete = not old.uncounted and not new.uncounted
    if not is_complete:
        reason = "a side calls too many different things to count them all"
        gaps.append(Gap("calls on one side only", reason, is_failure=False))
    places = _first_places(old), _first_places(new)
    changes: list[Change] = []
    for call in sorted(old_counts.keys() | new_counts.keys(), key=lambda call: (call.method, call.name, call.sender)):
        counts = old_counts.get(call, 0), new_counts.get(call, 0)
        if all(counts) or is_complete:
            changes += _changes(call, counts, moves, places)
    compared = ("calls", sum(old.counts) + old.uncounted, sum(new.counts) + new.uncounted)
    return AspectResult(tuple(changes), tuple(gaps), (compared,))


def _changes(
    call: CallName,
    counts: tuple[int, int],
    moves: _Moves | None,
    places: tuple[dict[CallName, Place], dict[CallName, Place]],
) -> Iterator[Change]:
    """Yields the change of a call, if there is one. The number of calls matters more than their order."""
    kind = _kind_of_counts(call, *counts)
    old_place, new_place = places[0].get(call), places[1].get(call)
    if moves is not None:
        old_place, new_place = moves.old_places.get(call, old_place), moves.new_places.get(call, new_place)
    if kind is not None:
        yield Change(
            kind,
            subject_of(call.method, call.name),
            f"{kind.title}: {_times(counts[1])} instead of {_times(counts[0])}",
            before=counts[0],
            after=counts[1],
            old=old_place,
            new=new_place,
            times=abs(counts[0] - counts[1]),
        )
    elif moves is not None:
        moved = min(moves.old[call], moves.new[call]) - moves.excused[call]
        if moved > 0:
            subject = subject_of(call.method, call.name)
            yield Change(CALL_MOVED, subject, CALL_MOVED.title, old=old_place, new=new_place, times=moved)


def _kind_of_counts(call: CallName, old: int, new: int) -> Kind | None:
    if not new:
        return CALL_MISSING
    if not old:
        return CALL_NEW
    if old == new or call.method in _POLLS:
        return None
    return CALL_LESS_OFTEN if new < old else CALL_MORE_OFTEN


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times" if count else "never"


def _moves(old: SequenceRecord, new: SequenceRecord, max_steps: int) -> _Moves | None:
    """Returns the calls in other positions, or None if the sequences differ too much."""
    numbers: dict[CallName, int] = {}
    sequences: list[list[int]] = []
    for side in (old, new):
        own_numbers = [numbers.setdefault(call, len(numbers)) for call in side.calls]
        sequences.append([own_numbers[run.call] for run in side.runs])
    pairs = aligned(sequences[0], sequences[1], max_steps)
    if pairs is None:
        return None
    moves = _Moves(Counter(), Counter(), Counter(), {}, {})
    for old_index, new_index in pairs:
        old_run, new_run = old.runs[old_index], new.runs[new_index]
        surplus = old_run.times - new_run.times
        if surplus > 0:
            _add(old, old_run, surplus, moves.old, moves)
        elif surplus < 0:
            _add(new, new_run, -surplus, moves.new, moves)
    _add_unpaired(old, {old_index for old_index, _ in pairs}, moves.old, moves.old_places, moves)
    _add_unpaired(new, {new_index for _, new_index in pairs}, moves.new, moves.new_places, moves)
    return moves


def _add_unpaired(
    side: SequenceRecord, paired: set[int], counts: Counter[CallName], places: dict[CallName, Place], moves: _Moves
) -> None:
    for index, run in enumerate(side.runs):
        if index not in paired:
            places.setdefault(side.calls[run.call], side.place(run))
            _add(side, run, run.times, counts, moves)


def _add(side: SequenceRecord, run: CallRun, times: int, counts: Counter[CallName], moves: _Moves) -> None:
    call = side.calls[run.call]
    counts[call] += times
    if run.is_concurrent:
        moves.excused[call] += times


def _first_places(side: SequenceRecord) -> dict[CallName, Place]:
    first_runs = {run.call: run for run in reversed(side.runs)}
    return {side.calls[call]: side.place(run) for call, run in first_runs.items()}


def _gap(reason: str) -> Gap:
    return Gap("order of calls", reason, is_failure=False)
