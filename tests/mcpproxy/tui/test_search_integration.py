"""`S` in the list of sessions finds a text in all sessions listed; each result opens with the messages that have it."""

from pathlib import Path

import pytest

from captures.paths import SUFFIX
from mcpproxy.tui.screens.search import SearchScreen
from tests.mcpproxy.tui.stage import END, Stage, captured, conversation, frame_record, play, record

HOSTILE = "\u202e\x1b[31m中" * 50


def sessions(folder: Path) -> list[Path]:
    """Three sessions, of which two contain `no such page`, and a file that is no capture, the newest first."""
    broken = folder / "broken" / f"20261124T101502Z-0004{SUFFIX}"
    broken.parent.mkdir()
    broken.write_bytes(b"no such page")
    return [
        broken,
        captured(folder, "newest", 9, "20261123T101502Z-0003"),
        captured(folder, "quiet", 1, "20261122T101502Z-0002"),
        captured(folder, "oldest", 6, "20261121T101502Z-0001"),
    ]


async def lists_counts_and_opens(stage: Stage) -> None:
    await stage.listed()
    await stage.press("S", *"no such PAGE"[:7], "enter")
    assert isinstance(stage.app.screen, SearchScreen)
    await stage.until(lambda: not stage.app.screen.run.is_busy)  # type: ignore[attr-defined]
    await stage.see("no such", "5 in 2 sessions", "newest", "oldest", "cannot be read")
    assert "quiet" not in stage.text()
    await stage.press("down")
    await stage.see("[2/3]")
    await stage.press("enter")
    await stage.see('text:"no such"', "3 of 22 frames")
    await stage.press("escape")
    assert isinstance(stage.app.screen, SearchScreen)
    await stage.see("[2/3]")
    await stage.press("s")
    await stage.see("by matches")
    # The messages of the session at the cursor are below, with their excerpts; `/` searches for another text.
    await stage.press("down")
    await stage.see("first 2 of 2", "15 ← error #6", "newest", "by matches")
    await stage.press("slash")
    await stage.see("find in 4 sessions", "no such")
    await stage.press("ctrl+u", *"No such", "enter")
    await stage.until(lambda: not stage.app.screen.run.is_busy)  # type: ignore[attr-defined]
    await stage.see("0 in 0 sessions")
    await stage.press("escape", "S", *"No such", "enter")
    await stage.until(lambda: not stage.app.screen.run.is_busy)  # type: ignore[attr-defined]
    await stage.see("0 in 0 sessions")
    await stage.squeezed()
    await stage.press("escape", "S", "escape")


def test_it_lists_the_sessions_with_a_text(tmp_path: Path) -> None:
    paths = sessions(tmp_path)
    play(lists_counts_and_opens, *paths, size=(120, 30))


def test_it_stops_when_it_is_left_and_when_it_is_interrupted(tmp_path: Path) -> None:
    paths = sessions(tmp_path)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("S", *"zebra", "enter")
        screen = stage.app.screen
        assert isinstance(screen, SearchScreen)
        screen.interrupt()
        await stage.until(lambda: not screen.run.is_busy)
        await stage.press("escape")
        assert screen.run._worker is not None
        assert not screen.run._worker.is_alive

    play(act, *paths)


@pytest.mark.parametrize("text", [HOSTILE, '"\\(', "x" * 5000])
def test_any_text_can_be_searched_for(tmp_path: Path, text: str) -> None:
    path = record(tmp_path / "x" / f"a{SUFFIX}", [*conversation(1), frame_record("s2c", text.encode()), END])

    async def act(stage: Stage) -> None:
        await stage.listed()
        stage.app.screen._search(text)  # type: ignore[attr-defined]
        await stage.until(lambda: isinstance(stage.app.screen, SearchScreen))
        await stage.until(lambda: not stage.app.screen.run.is_busy)  # type: ignore[attr-defined]
        await stage.squeezed()

    play(act, path, size=(80, 24))
