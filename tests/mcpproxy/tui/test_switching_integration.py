"""From each screen of a capture to each other, and back to where the first of them was opened."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Resize
from textual.geometry import Size

from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.screens.help import HelpScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.table import Table
from tests.mcpproxy.tui.stage import Act, Stage, captured, play, play_each

KEYS = {entry.key: entry.word for entry in entries()}


def of(stage: Stage) -> str:
    """The module of the screen: each of them has one of its own."""
    return type(stage.app.screen).__module__


MODULES = {
    "E": "mcpproxy.tui.screens.stderr", "F": "mcpproxy.tui.screens.findings", "L": "mcpproxy.tui.screens.latency",
    "O": "mcpproxy.tui.screens.definitions", "Q": "mcpproxy.tui.screens.sql", "T": "mcpproxy.tui.screens.timeline",
}  # fmt: skip


@pytest.mark.costly("five screens are opened from one, and left again")
@pytest.mark.parametrize("key", ["Q", *(pytest.param(key, marks=pytest.mark.soak) for key in "EFLOT")])
def test_each_screen_of_a_capture_leads_to_each_other(tmp_path: Path, key: str) -> None:
    async def act(stage: Stage) -> None:
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
                stage.app.screen.set_focus(stage.app.screen.query_one(Table))
            await stage.pilot.resize_terminal(200, 30)
            await stage.until(lambda: f"{at[0]} {KEYS[at[0]]}" in stage.text().splitlines()[-1])
            assert f"{key} {KEYS[key]}" not in stage.text().splitlines()[-1]
            await stage.press(other)
            await stage.until(lambda: of(stage) == MODULES[at[0]])
            assert len(stage.app.screen_stack) == depth
            await stage.press("escape")
            await stage.until(lambda: len(stage.app.screen_stack) == depth - 1)
            stage.traffic  # noqa: B018 - it asserts

    play(act, captured(tmp_path))


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
    await stage.press("question_mark", "G")
    assert isinstance(stage.app.screen, HelpScreen)
    await stage.see("screens of a capture", "  Q  ")


def test_sql_over_all_captures_leads_to_no_screen_of_one(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("escape", "Q")
        await stage.until(lambda: isinstance(stage.app.screen, SqlScreen))
        stage.app.screen.set_focus(stage.app.screen.query_one(Table))
        await stage.press("F")
        assert isinstance(stage.app.screen, SqlScreen)
        await stage.press("escape", "escape")
        await stage.until(lambda: isinstance(stage.app.screen, SessionsScreen))

    play(act, captured(tmp_path), captured(tmp_path, "other"))


def test_typing_and_help(tmp_path: Path) -> None:
    acts: tuple[Act, ...] = (
        what_is_typed_stays_text,
        help_says_that_they_lead_to_each_other,
    )
    play_each(acts, captured(tmp_path))


@pytest.mark.parametrize("key", ["T", pytest.param("E", marks=pytest.mark.soak)])
def test_a_resize_of_a_screen_that_is_being_left_does_no_harm(tmp_path: Path, key: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        # How far the screen is taken down when it comes is a matter of key_queue of the loop.
        for key_queue in range(6):
            await stage.press(key)
            left = stage.app.screen
            stage.app.pop_screen()
            for _ in range(key_queue):
                await asyncio.sleep(0)
            size = Size(120 + key_queue, 30)
            left.post_message(Resize(size, size))
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        await stage.settled()

    play(act, captured(tmp_path))
