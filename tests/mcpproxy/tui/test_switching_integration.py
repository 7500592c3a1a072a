"""Each screen of a capture leads to each other one, and back to where the first of them was opened."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from textual.events import Resize
from textual.geometry import Size

from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.mcpproxy.tui.stage import Act, Stage, captured, play, play_each

KEYS = {entry.key: entry.word for entry in entries()}


def of(stage: Stage) -> str:
    """The module of the top screen, which identifies it: each screen has its own module."""
    return type(stage.app.screen).__module__


MODULES = {
    "E": "mcpproxy.tui.screens.stderr", "F": "mcpproxy.tui.screens.findings", "L": "mcpproxy.tui.screens.latency",
    "O": "mcpproxy.tui.screens.definitions", "Q": "mcpproxy.tui.screens.sql", "T": "mcpproxy.tui.screens.timeline",
}  # fmt: skip


def focus_rows(stage: Stage) -> None:
    """Focus the rows of SQL, as letters are typed into its box."""
    screen = stage.app.screen
    assert isinstance(screen, SqlScreen)
    screen.set_focus(screen.table)


async def leads_to_each_other(stage: Stage, key: str) -> None:
    await stage.open()
    depth = len(stage.app.screen_stack) + 1
    at: list[str] = []
    for other in MODULES:
        if other == key:
            continue
        at[:] = [other]
        await stage.press(key)
        await stage.until(lambda: of(stage) == MODULES[key])
        if key == "Q":
            focus_rows(stage)
        await stage.resize((200, 30))
        await stage.until(lambda: f"{at[0]} {KEYS[at[0]]}" in stage.text().splitlines()[-1])
        assert f"▸{key} {KEYS[key]}" in stage.text().splitlines()[-1]
        await stage.press(other)
        await stage.until(lambda: of(stage) == MODULES[at[0]])
        assert len(stage.app.screen_stack) == depth
        await stage.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == depth - 1)
        stage.traffic  # noqa: B018 - it asserts


@pytest.mark.soak
@pytest.mark.parametrize("key", "EFLOT")
def test_each_screen_of_a_capture_leads_to_each_other(tmp_path: Path, key: str) -> None:
    play(partial(leads_to_each_other, key=key), captured(tmp_path))


async def what_is_typed_stays_text(stage: Stage) -> None:
    await stage.open()
    await stage.press("E", "slash", *"FLOTQ")
    await stage.see("FLOTQ")
    assert of(stage) == MODULES["E"]
    await stage.press("escape", "Q", *"FLEOT")
    await stage.see("FLEOT")
    assert of(stage) == MODULES["Q"]


async def help_says_that_they_lead_to_each_other(stage: Stage) -> None:
    await stage.open()
    await stage.press("question_mark", "/", *"places")
    assert isinstance(stage.app.screen, HelpScreen)
    await stage.see("  Q  SQL", "  L  latency")
    await stage.press("enter")


async def sql_over_all_captures_leads_to_no_screen_of_one(stage: Stage) -> None:
    await stage.listed()
    await stage.press("Q")
    await stage.until(lambda: isinstance(stage.app.screen, SqlScreen))
    focus_rows(stage)
    await stage.press("F")
    assert isinstance(stage.app.screen, SqlScreen)
    await stage.press("escape", "escape")
    await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))


async def a_resize_of_a_screen_that_is_being_left_does_no_harm(stage: Stage, key: str = "T") -> None:
    await stage.open()
    # How far the screen is taken down when the resize comes depends on the turns of the event loop.
    for turns in range(6):
        await stage.press(key)
        left = stage.app.screen
        stage.app.pop_screen()
        for _ in range(turns):
            await asyncio.sleep(0)
        size = Size(120 + turns, 30)
        left.post_message(Resize(size, size))
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.settled()


@pytest.mark.soak
def test_a_resize_of_another_screen_that_is_being_left(tmp_path: Path) -> None:
    play(partial(a_resize_of_a_screen_that_is_being_left_does_no_harm, key="E"), captured(tmp_path))


@pytest.mark.costly("five screens are opened from one, and left again")
def test_from_screen_to_screen(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        partial(leads_to_each_other, key="Q"),
        what_is_typed_stays_text,
        help_says_that_they_lead_to_each_other,
        sql_over_all_captures_leads_to_no_screen_of_one,
        a_resize_of_a_screen_that_is_being_left_does_no_harm,
    )
    play_each(acts, captured(tmp_path), captured(tmp_path, "other"))
