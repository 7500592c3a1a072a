"""Latency, timeline and tools opened from a filtered traffic: figures of the selected calls, or of all calls again."""

from pathlib import Path

import pytest

from mcpproxy.tui.screens.definitions import ToolsScreen
from mcpproxy.tui.screens.latency import LatencyScreen
from mcpproxy.tui.screens.timeline import TimelineScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.mcpproxy.tui.scenes import filesystem
from tests.mcpproxy.tui.stage import Stage, play_each


async def filtered(stage: Stage, *keys: str, expression: str = "has:error name:search") -> None:
    """Filter the traffic, and press some keys."""
    await stage.open()
    await stage.press("/", *expression, "enter")
    await stage.until(lambda: stage.traffic.filter.text)
    await stage.settled()
    await stage.press(*keys)


async def latency_counts_selected_calls(stage: Stage) -> None:
    await filtered(stage, "L")
    screen = stage.app.screen
    assert isinstance(screen, LatencyScreen)
    await stage.see("limited to has:error name:search", "1 kind of requests")
    await stage.settled()
    assert [(figures.kind.name, figures.requests, figures.errors) for figures in screen._rows.items] == [
        ("search", 1, 1)
    ]
    await stage.see("1 response to 1 request")
    await stage.press("A")
    await stage.see("all calls, not only has:error name:search", "5 kinds of requests")
    await stage.press("A")
    await stage.see("limited to", "1 kind of requests")
    # A kind is shown with the same limit.
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("has:error name:search method:tools/call name:search", "1 of 127")
    await stage.press("L")
    await stage.see("limited to has:error name:search m")


async def the_other_screens_keep_the_limit(stage: Stage) -> None:
    await filtered(stage, "F", "T")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    await stage.see("limited to has:error name:search", "▾ filesystem")
    await stage.until(lambda: [number >= 0 for _, number in screen._rows.items] == [False, True])
    await stage.press("A")
    await stage.see("all calls, not only")
    await stage.until(lambda: len(screen._rows.items) == 64)
    await stage.press("A")
    await stage.until(lambda: len(screen._rows.items) == 2)
    await stage.press("O")
    await stage.see("limited to has:error name:search", "6 tools", "3 never called")
    await stage.settled()
    tools = stage.app.screen
    assert isinstance(tools, ToolsScreen)
    calls = {tool.name: tool.calls for tool in tools._rows.items}
    assert {name: count for name, count in calls.items() if count} == {"search": 1}
    await stage.press("A")
    await stage.see("all calls, not only")
    await stage.until(lambda: sum(tool.calls for tool in tools._rows.items) == 61)


async def without_a_filter_nothing_is_limited(stage: Stage) -> None:
    await stage.open()
    await stage.press("L")
    await stage.see("5 kinds of requests")
    await stage.press("A")
    assert "limited" not in stage.text()
    assert "not only" not in stage.text()


async def the_title_of_the_traffic_counts_what_is_wrong(stage: Stage) -> None:
    await filtered(stage, expression="name:search")
    await stage.see("45 of 127 frames  1 error  Claude")


async def a_long_filter_is_cut(stage: Stage) -> None:
    await filtered(stage, "L", expression=" ".join(f"not name:x{number}" for number in range(40)))
    await stage.see("limited to not name:x0", "…", "by n")


@pytest.mark.costly("three screens, each with and without a filter")
def test_figures_are_limited_to_the_filter(tmp_path: Path) -> None:
    acts = (
        latency_counts_selected_calls,
        the_other_screens_keep_the_limit,
        without_a_filter_nothing_is_limited,
        a_long_filter_is_cut,
        the_title_of_the_traffic_counts_what_is_wrong,
    )
    play_each(acts, filesystem(tmp_path), size=(140, 80))
