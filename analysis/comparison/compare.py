"""Compares two sides, aspect by aspect."""

from collections.abc import Iterator
from typing import Final

from analysis.comparison.aspect import Aspect
from analysis.comparison.aspects import ASPECTS
from analysis.comparison.change import AspectResult, Comparison, Gap
from analysis.comparison.kind import AspectName, FailOn
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side

_WORDS: Final[dict[AspectName, frozenset[FailOn]]] = {
    "definitions": frozenset({"breaking", "may-break"}),
    "session": frozenset({"may-break"}),
    "findings": frozenset({"finding"}),
    "outcomes": frozenset({"outcome"}),
    "values": frozenset({"value"}),
    "sequence": frozenset(),
    "latency": frozenset({"slower"}),
}
"""The words of `--fail-on` that need an aspect."""


def compare(old: Side, new: Side, options: CompareOptions) -> Comparison:
    """Compare two sides.

    Args:
        old: the side that was relied on.
        new: the side that is to be judged.
        options: what the user chose.

    Returns:
        The changes, worst first, and what could not be compared. If `gaps` has failures, it must not be read as clean.
    """
    results = [_result(aspect, old, new, options) for aspect in ASPECTS]
    ranked = sorted(
        ((number, change) for number, result in enumerate(results) for change in result.changes),
        key=lambda item: (-item[1].severity, item[0], item[1].subject, item[1].pointer, item[1].kind.id),
    )
    return Comparison(
        old.summary,
        new.summary,
        tuple(change for _, change in ranked),
        (*_common_gaps(old, new), *(gap for result in results for gap in result.gaps)),
        tuple(count for result in results for count in result.compared),
        tuple(ignored for result in results for ignored in result.ignored),
        tuple(row for result in results for row in result.latencies),
        tuple(row for result in results for row in result.sizes),
    )


def _result(aspect: Aspect, old: Side, new: Side, options: CompareOptions) -> AspectResult:
    if aspect.name in old.records and aspect.name in new.records:
        return aspect.compare(old.records[aspect.name], new.records[aspect.name], options)
    lacking = [word for word, side in (("old", old), ("new", new)) if aspect.name not in side.records]
    sides = "neither side was" if len(lacking) == 2 else f"the {lacking[0]} side was not"
    # Findings are left out on request; nothing else is ever left out.
    is_failure = len(lacking) == 1 and aspect.name != "findings"
    return AspectResult(gaps=(Gap(aspect.name, f"{sides} observed with it", is_failure, _WORDS[aspect.name]),))


def _common_gaps(old: Side, new: Side) -> Iterator[Gap]:
    """Yields a failure if the sides have nothing in common that could have been compared."""
    empty = [word for word, side in (("old", old), ("new", new)) if not side.summary.frames]
    if empty:
        sides = "both sides have" if len(empty) == 2 else f"the {empty[0]} side has"
        yield Gap("everything", f"{sides} no message", is_failure=True)
        return
    old_items, new_items = _recognisable_items(old), _recognisable_items(new)
    if (old_items or new_items) and old_items.isdisjoint(new_items):
        reason = "the sides have no call and no item of a list in common"
        servers = old.summary.server, new.summary.server
        if None not in servers and servers[0] != servers[1]:
            reason += f" (their servers are {servers[0]} and {servers[1]})"
        yield Gap("everything", reason, is_failure=True)


def _recognisable_items(side: Side) -> set[str]:
    return {
        item
        for aspect in ASPECTS
        if aspect.name in side.records
        for item in aspect.recognisable(side.records[aspect.name])
    }
