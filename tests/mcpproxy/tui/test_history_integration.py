"""Filters that were typed are there in the next run, for their user alone; whoever cannot keep them goes on without."""

from pathlib import Path

import pytest

from mcpproxy.history import LENGTH, filters_of, remember_filter, remembered
from mcpproxy.tui.widgets.filter_box import REMEMBERED, FilterBox
from tests.mcpproxy.tui.stage import Stage, captured, play
from tests.mcpproxy.tui.test_history import hinder, kept


def box(stage: Stage) -> FilterBox:
    """Where a filter is typed."""
    return stage.app.screen.query_one(FilterBox)


async def typed(stage: Stage, text: str) -> None:
    """A filter that is taken."""
    await stage.press("slash", "ctrl+u", *text, "enter")


def test_a_filter_is_there_in_the_next_run_on_its_own_screen(tmp_path: Path) -> None:
    path = captured(tmp_path)

    async def first(stage: Stage) -> None:
        await stage.open()
        for text in ("has:error", "kind:request", "has:error"):
            await typed(stage, text)
        await stage.press("slash", *"method:", "enter")  # is none, and not kept
        await stage.see("expected")
        await stage.press("escape", "escape", "escape")
        await stage.see("recorded")
        await typed(stage, "library")

    async def second(stage: Stage) -> None:
        await stage.open()
        await stage.press("slash", "up")
        assert box(stage).value == "has:error"
        await stage.press("up")
        assert box(stage).value == "kind:request"
        await stage.press("up", "enter")
        assert filters_of("traffic") == ["has:error", "kind:request"]
        await stage.press("escape", "escape")
        await stage.see("recorded")
        await stage.press("slash", "up")
        assert box(stage).value == "library"
        await stage.press("up")
        assert box(stage).value == "library"

    play(first, path)
    assert filters_of("traffic") == ["kind:request", "has:error"]
    assert kept().stat().st_mode & 0o777 == 0o600
    assert kept().parent.stat().st_mode & 0o077 == 0
    play(second, path)
    assert remembered() == []


def test_what_is_kept_is_bounded_and_a_note_is_no_filter(tmp_path: Path) -> None:
    for number in range(LENGTH + 5):
        remember_filter("traffic", f"id:{number}")
    assert len(kept().read_text().splitlines()) == LENGTH

    async def act(stage: Stage) -> None:
        await stage.open()
        assert len(box(stage).history) == REMEMBERED
        await stage.press("slash", "up")
        assert box(stage).value == f"id:{LENGTH + 4}"
        await stage.press("escape", "M")
        await stage.press(*"mine", "enter")
        await stage.see("◆")

    play(act, captured(tmp_path), size=(140, 30))
    assert "mine" not in kept().read_text()


@pytest.mark.parametrize("what", ["folder", "pipe", "directory", "junk"])
def test_what_cannot_be_kept_or_read_is_no_error(tmp_path: Path, what: str) -> None:
    hinder(what)

    async def act(stage: Stage) -> None:
        await stage.open()
        await typed(stage, "has:error")
        await stage.see("has:error  2 of")
        await stage.press("slash", "up")
        assert box(stage).value == "has:error"
        for _ in range(4):
            await stage.press("up")
            assert not {"\x1b", "\x07", "\udcff"} & set(stage.text())
        if what == "junk":
            assert "\\x1b]0;x" in box(stage).value or len(box(stage).value) <= 4096
        await stage.press("escape")

    play(act, captured(tmp_path))
