"""The output of `check --profile`: how often each rule ran, how long that took, and which rules never ran."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from analysis.checking.profile import Cost
from analysis.rules.discovery import group_of
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration
from mcpproxy.wording.wrapping import wrapped

WIDTH: Final = 80
MAX_LISTED_RULES: Final = 20
"""The maximum number of rules that are listed individually."""


def cost_lines(costs: Mapping[str, Cost], rule_ids: Collection[str], frames: int, took_ns: int) -> Iterator[str]:
    """Yields a table of the most expensive rules, and the rules that never ran.

    Args:
        costs: the costs of the rules that could run, by id.
        rule_ids: the ids of the selected rules.
        frames: how many frames were checked.
        took_ns: how long the whole check took.
    """
    ranked = sorted(((id_, cost) for id_, cost in costs.items() if cost.calls), key=lambda row: -row[1].ns)
    total_ns = sum(cost.ns for _, cost in ranked)
    us_per_frame = total_ns / frames / 1000 if frames else 0
    took = duration(took_ns)
    yield f"{count_text(frames, 'frame')} took {took}, measuring included; rules: {us_per_frame:.1f} µs a frame"
    if ranked:
        yield f"{'rule':<44}{'runs':>12}{'µs each':>10}{'share':>8}"
    for id_, cost in ranked[:MAX_LISTED_RULES]:
        share = cost.ns / total_ns if total_ns else 0
        yield f"{id_:<44}{cost.calls:>12,}{cost.ns / cost.calls / 1000:>10.2f}{share:>8.1%}"
    if len(ranked) > MAX_LISTED_RULES:
        other_costs = ranked[MAX_LISTED_RULES:]
        count, ns = sum(cost.calls for _, cost in other_costs), sum(cost.ns for _, cost in other_costs)
        name = count_text(len(other_costs), "other rule")
        yield f"{name:<44}{count:>12,}{ns / count / 1000:>10.2f}{ns / total_ns if total_ns else 0:>8.1%}"
    silent_rules = set(rule_ids) - {id_ for id_, _ in ranked}
    groups = sorted({group_of(id_) for id_ in rule_ids} - {group_of(id_) for id_, _ in ranked})
    unused_text = f"; of these groups none: {', '.join(groups)}" if groups else ""
    text = (
        f"{count_text(len(silent_rules), 'rule')} of {len(rule_ids)} had nothing to look at and never ran{unused_text}"
    )
    yield from wrapped(text, WIDTH)
