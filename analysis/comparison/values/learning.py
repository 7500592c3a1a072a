"""Learns from two recordings of the same thing which values vary by themselves, beyond what the normaliser knows."""

from collections import Counter
from itertools import islice
from typing import Final

from analysis.comparison.values.ignored_places import ANY_STEP, IgnoredPlace, parse_place, place_line
from analysis.comparison.values.value_changes import ComparedSide, common_rows, different_pairs, parsed, pointer_of
from analysis.comparison.values.value_differences import differences
from analysis.comparison.values.value_record import ValuesRecord

MAX_ROUNDS: Final = 20
"""The most times that the recordings are compared. Each round ignores what the earlier ones left."""
MAX_PAIRS_PER_ROUND: Final = 1_000
"""The most different results of one call that are examined in a round."""
MAX_LEARNT: Final = 10_000
"""The most places of all calls."""
MAX_DIFFERENCES_PER_PAIR: Final = 10_000
"""The most differences of two results that are examined in a round."""
MAX_PLACES_PER_CALL: Final = 500
"""The most places of a call; if there are more, its whole result is ignored."""

_Call = tuple[str, str]
"""Method and name."""
_Steps = tuple[str, ...]


def learn(old: ValuesRecord, new: ValuesRecord) -> list[str]:
    """Returns the places to ignore so that the results of two recordings are equal, each as a line.

    The places are as few and as deep as possible: of a value in each element of a list, one place with `*`; of a list
    whose length varies, the list.

    Args:
        old: the values of one recording.
        new: the values of another recording of the same thing.
    """
    learnt: dict[_Call, set[_Steps]] = {}
    for _ in range(MAX_ROUNDS):
        found = _differing_places(old, new, _places(learnt))
        if not found:
            break
        for call, steps in found.items():
            together = learnt.get(call, set()) | steps
            is_few = len(together) <= MAX_PLACES_PER_CALL
            learnt[call] = _without_covered(together) if is_few else {()}
    return [place.line for place in _places(learnt)][:MAX_LEARNT]


def _places(learnt: dict[_Call, set[_Steps]]) -> list[IgnoredPlace]:
    return [
        parse_place(place_line(method, name, pointer_of(steps)))
        for (method, name), all_steps in sorted(learnt.items())
        for steps in sorted(all_steps)
    ]


def _differing_places(old: ValuesRecord, new: ValuesRecord, places: list[IgnoredPlace]) -> dict[_Call, set[_Steps]]:
    sides = ComparedSide(old, places), ComparedSide(new, places)
    found: dict[_Call, set[_Steps]] = {}
    pairs: Counter[_Call] = Counter()
    known: set[tuple[_Call, str, str]] = set()
    for old_row, new_row in common_rows(old, new):
        call = old_row.method, old_row.name
        for pair in different_pairs(sides, old_row, new_row):
            old_result, new_result = (
                sides[0].result(old_row, pair.old.result),
                sides[1].result(new_row, pair.new.result),
            )
            key = call, old_result.digest, new_result.digest
            if key in known:
                continue
            known.add(key)
            pairs[call] += 1
            if pairs[call] > MAX_PAIRS_PER_ROUND:
                continue
            steps = found.setdefault(call, set())
            if old_result.text is None or new_result.text is None:
                steps.add(())
            else:
                differing = differences(parsed(old_result.text), parsed(new_result.text))
                steps.update(difference.steps for difference in islice(differing, MAX_DIFFERENCES_PER_PAIR))
    return {call: steps for call, steps in found.items() if steps}


def _without_covered(all_steps: set[_Steps]) -> set[_Steps]:
    """Returns the steps that no shorter ones among them cover."""
    kept: list[_Steps] = []
    for steps in sorted(all_steps, key=len):
        if not any(_covers(shorter, steps) for shorter in kept):
            kept.append(steps)
    return set(kept)


def _covers(shorter: _Steps, steps: _Steps) -> bool:
    return all(step in (ANY_STEP, other) for step, other in zip(shorter, steps, strict=False))
