"""The page writes durations as every command does (mcpproxy/wording/units.py)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import mcpproxy.html_report.page as page
from mcpproxy.wording.units import duration

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = (page.SOURCE_FOLDER / "units.js").read_text("utf-8")
UNITS_NS = [10**power for power in range(3, 12)] + [60 * 10**9, 3600 * 10**9, 86_400 * 10**9]


def test_page_rounds_durations_as_commands_do(started: Browser) -> None:
    rng = random.Random(7)
    # The halves of all units and their neighbours, and random values that a JavaScript number holds exactly.
    halves = [count * unit // 2 for unit in UNITS_NS for count in range(1, 200)]
    values = [0, *(half + step for half in halves for step in (-1, 0, 1))]
    values += [rng.randrange(10 ** rng.randrange(1, 16)) for _ in range(5000)]
    with started.new_context() as context:
        texts = context.new_page().evaluate(f"(values) => {{ {SCRIPT}; return values.map(duration); }}", values)
    assert [pair for pair in zip(values, texts, strict=True) if pair[1] != duration(pair[0])] == []
