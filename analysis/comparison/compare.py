"""Compares two sides, aspect by aspect."""

from collections.abc import Iterator, Sequence
from typing import Final

from analysis.comparison.aspect import Aspect
from analysis.comparison.aspects import ASPECTS
from analysis.comparison.change import AspectResult, Comparison, Gap, SideSummary
from analysis.comparison.contents import lacks_contents
from analysis.comparison.kind import AspectName
from analysis.comparison.losses import loss_gaps, losses, with_lost_answers
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side

_UNFILTERED: Final[frozenset[AspectName]] = frozenset({"definitions", "session"})
"""The aspects that a filter cannot select sensibly, because they need whole lists and handshakes."""
_FILTERED_GAP: Final = Gap(
    "definitions and session",
    "the filter selects messages and calls; compare without --filter",
    is_failure=False,
    needed_by=frozenset({"breaking", "may-break"}),
)


def compare(old: Side, new: Side, options: CompareOptions) -> Comparison:
    """Compare two sides.

    Args:
        old: the side that was relied on.
        new: the side that is to be judged.
        options: what the user chose.

    Returns:
        The changes, worst first, and what could not be compared. If `gaps` has failures, it must not be read as clean.
    """
    no_messages = _no_messages(old.summary, new.summary)
    if no_messages is not None:
        return Comparison(old.summary, new.summary, (), (*_failed_sides(old, new), no_messages), ())
    is_filtered = bool(old.summary.only or new.summary.only)
    aspects = [aspect for aspect in ASPECTS if not (is_filtered and aspect.name in _UNFILTERED)]
    results = [_result(aspect, old, new, options) for aspect in aspects]
    ranked = sorted(
        ((number, change) for number, result in enumerate(results) for change in result.changes),
        key=lambda item: (-item[1].severity, item[0], item[1].subject, item[1].pointer, item[1].kind.id),
    )
    gaps = [gap for result in results for gap in result.gaps]
    if not is_filtered:
        gaps = with_lost_answers(gaps, old, new)
    return Comparison(
        old.summary,
        new.summary,
        tuple(change for _, change in ranked),
        (
            *_failed_sides(old, new),
            *_common_gaps(old, new, aspects, results),
            *([_FILTERED_GAP] if is_filtered else []),
            *gaps,
            *loss_gaps(old.summary, new.summary),
        ),
        tuple(count for result in results for count in result.compared),
        tuple(ignored for result in results for ignored in result.ignored),
        tuple(row for result in results for row in result.latencies),
        tuple(row for result in results for row in result.sizes),
        caveats=(
            *(loss.clause for loss in losses(old.summary, new.summary)),
            *(["no list and no call of a tool was recorded"] if lacks_contents(old) and lacks_contents(new) else []),
        ),
    )


def _result(aspect: Aspect, old: Side, new: Side, options: CompareOptions) -> AspectResult:
    if aspect.name in old.records and aspect.name in new.records:
        return aspect.compare(old.records[aspect.name], new.records[aspect.name], options)
    lacking = [word for word, side in (("old", old), ("new", new)) if aspect.name not in side.records]
    sides = "either side" if len(lacking) == 2 else f"the {lacking[0]} side"
    if aspect.name == "findings":  # they are left out on request
        gap = Gap(
            aspect.name, f"the rules were not checked on {sides}", is_failure=False, needed_by=frozenset({"finding"})
        )
    else:
        gap = Gap(aspect.name, f"another version of mcpproxy saved {sides}, without it", is_failure=True)
    return AspectResult(gaps=(gap,))


def _failed_sides(old: Side, new: Side) -> Iterator[Gap]:
    """Yields a failure for each side that is not whole."""
    for word, side in (("old", old), ("new", new)):
        if side.summary.has_failed:
            yield Gap(f"all of the {word} side", "a capture is damaged, or a rule crashed on it", is_failure=True)


def _no_messages(old: SideSummary, new: SideSummary) -> Gap | None:
    """Returns the failure that a side has no message, with how its server ended; None if both have some."""
    empty = [(word, side) for word, side in (("old", old), ("new", new)) if not side.frames]
    if not empty:
        return None
    ends = ", ".join(dict.fromkeys(side.server_end for _, side in empty if side.server_end))
    reason = "neither side has a message" if len(empty) == 2 else f"the {empty[0][0]} side has no message"
    return Gap("everything", f"{reason} ({ends})" if ends else reason, is_failure=True)


def _common_gaps(old: Side, new: Side, aspects: Sequence[Aspect], results: Sequence[AspectResult]) -> Iterator[Gap]:
    """Yields a failure if the sides have nothing in common that could have been compared."""
    counts = [count for result in results for _, *both_counts in result.compared for count in both_counts]
    if not any(counts) and not any(gap.is_failure for result in results for gap in result.gaps):
        yield Gap("everything", "neither side has anything to compare, or the filter selects nothing", is_failure=True)
        return
    common_aspects = [aspect for aspect in aspects if aspect.name in old.records and aspect.name in new.records]
    old_items, new_items = (
        {item for aspect in common_aspects for item in aspect.recognisable(side.records[aspect.name])}
        for side in (old, new)
    )
    if (old_items or new_items) and old_items.isdisjoint(new_items):
        yield Gap("everything", "the sides have no call and no item of a list in common", is_failure=True)
