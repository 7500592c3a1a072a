"""The output of `check --profile`: how often each rule ran, how long that took, and which rules never ran."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from analysis.checking.profile import Cost
from analysis.rules.discovery import group_of
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration
from mcpproxy.wording.wrapping import wrapped

WIDTH: Final = 80
SHOWN: Final = 20
"""Rules that are listed individually."""


def cost_lines(costs: Mapping[str, Cost], every: Collection[str], frames: int, took_ns: int) -> Iterator[str]:
    """A table of the most expensive rules, and the rules that never ran.

    Args:
        costs: the costs of the rules that could run, by id.
        every: the ids of the rules that were run.
        frames: how many were checked.
        took_ns: how long the whole check took.
    """
    costly = sorted(((id_, cost) for id_, cost in costs.items() if cost.calls), key=lambda row: -row[1].ns)
    spent = sum(cost.ns for _, cost in costly)
    each = spent / frames / 1000 if frames else 0
    yield f"{count_text(frames, 'frame')} took {duration(took_ns)}, measuring included; rules: {each:.1f} µs a frame"
    if costly:
        yield f"{'rule':<44}{'runs':>12}{'µs each':>10}{'share':>8}"
    for id_, cost in costly[:SHOWN]:
        share = cost.ns / spent if spent else 0
        yield f"{id_:<44}{cost.calls:>12,}{cost.ns / cost.calls / 1000:>10.2f}{share:>8.1%}"
    if len(costly) > SHOWN:
        rest = costly[SHOWN:]
        count, ns = sum(cost.calls for _, cost in rest), sum(cost.ns for _, cost in rest)
        name = count_text(len(rest), "other rule")
        yield f"{name:<44}{count:>12,}{ns / count / 1000:>10.2f}{ns / spent if spent else 0:>8.1%}"
    silent = set(every) - {id_ for id_, _ in costly}
    groups = sorted({group_of(id_) for id_ in every} - {group_of(id_) for id_, _ in costly})
    unused = f"; of these groups none: {', '.join(groups)}" if groups else ""
    text = f"{count_text(len(silent), 'rule')} of {len(every)} had nothing to look at and never ran{unused}"
    yield from wrapped(text, WIDTH)
