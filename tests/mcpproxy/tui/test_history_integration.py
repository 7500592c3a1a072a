"""Filters are kept for the next run, readable only by their user; if they cannot be kept, the program goes on."""

import shutil
from pathlib import Path

import pytest

from mcpproxy.history import MAX_LINES, filters_of, past_statements, remember_filter
from mcpproxy.tui.colours.themes import LIGHT
from mcpproxy.tui.widgets.filter_box import MAX_HISTORY_ENTRIES, FilterBox
from tests.mcpproxy.tui.stage import Stage, captured, play
from tests.mcpproxy.tui.test_history import hinder, kept
from tests.mcpproxy.tui.test_layout_state import state


def box(stage: Stage) -> FilterBox:
    """The box in which a filter is typed."""
    return stage.app.screen.query_one(FilterBox)


async def typed(stage: Stage, text: str) -> None:
    """Type a filter and apply it."""
    await stage.press("slash", "ctrl+u", *text, "enter")


@pytest.mark.costly("six filters are typed on two screens")
def test_a_filter_of_an_earlier_run_is_there_on_its_own_screen_and_what_is_typed_is_kept(tmp_path: Path) -> None:
    for number in range(MAX_LINES + 5):
        remember_filter("traffic", f"id:{number}")
    remember_filter("sessions", "library")
    assert len(kept().read_text().splitlines()) == MAX_LINES

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("slash", "up")
        assert box(stage).value == "library"
        await stage.press("up")
        assert box(stage).value == "library", "the only one of the sessions"
        await stage.press("escape", "escape")
        await stage.open()
        assert len(box(stage).history) == MAX_HISTORY_ENTRIES
        await stage.press("slash", "up")
        assert box(stage).value == f"id:{MAX_LINES + 4}"
        await stage.press("up")
        assert box(stage).value == f"id:{MAX_LINES + 3}"
        await stage.press("escape")
        for text in ("has:error", "kind:request", "has:error"):
            await typed(stage, text)
        await stage.press("slash", *"method:", "enter")  # not a valid filter, so not kept
        await stage.see("expected")
        await stage.press("escape", "escape")
        # A note is not a filter, and is not kept either.
        await stage.press("M", *"mine", "enter")
        await stage.see("◆")
        await stage.back()
        await typed(stage, "curs")
        await stage.see("filter: curs")

    play(act, captured(tmp_path), size=(80, 24))
    assert filters_of("traffic")[-3:] == [f"id:{MAX_LINES + 4}", "kind:request", "has:error"]
    assert filters_of("sessions") == ["library", "curs"]
    assert not {"mine", "method:"} & set(kept().read_text().split())
    assert kept().stat().st_mode & 0o777 == 0o600
    assert kept().parent.stat().st_mode & 0o077 == 0
    assert past_statements() == []


@pytest.mark.costly("a capture is opened and filtered beside each of four hindrances")
def test_what_cannot_be_kept_or_read_is_no_error(tmp_path: Path) -> None:
    """This holds for the filters, the layout and the theme."""

    async def act(stage: Stage) -> None:
        for what in ("folder", "pipe", "directory", "junk"):
            if kept().parent.is_dir():
                shutil.rmtree(kept().parent)
            kept().parent.unlink(missing_ok=True)
            hinder(what)
            if what != "folder":
                state().mkdir(parents=True)
            await stage.open()
            await typed(stage, "has:error")
            await stage.see("has:error  2 of")
            await stage.press("slash", "up")
            assert box(stage).value == "has:error", what
            for _ in range(4):
                await stage.press("up")
                assert not {"\x1b", "\x07", "\udcff"} & set(stage.text()), what
            if what == "junk":
                assert "\\x1b]0;x" in box(stage).value or len(box(stage).value) <= 4096
            await stage.press("escape", "escape")
            if what == "pipe":
                await stage.press("g", "enter", "z")
                await stage.see("protocolVersion:")
                stage.app._set_theme(LIGHT)
                await stage.drawn()
                assert stage.app.theme == LIGHT.name
            await stage.back()

    play(act, captured(tmp_path))
