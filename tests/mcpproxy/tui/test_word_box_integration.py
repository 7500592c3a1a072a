"""The box for words: Esc empties and hides it wherever the focus is, and Tab completes a word or goes to the list."""

from pathlib import Path

from mcpproxy.tui.widgets.word_box import WordBox
from tests.mcpproxy.tui.stage import Stage, captured, play


def test_tab_and_escape_leave_no_text_behind(tmp_path: Path) -> None:
    paths = [captured(tmp_path, name) for name in ("meteo", "library")]

    async def act(stage: Stage) -> None:
        await stage.listed()
        screen = stage.app.screen
        box = screen.query_one(WordBox)
        # Tab first completes a word; then there is nothing to complete.
        await stage.press("slash", *"met", "tab")
        assert box.value == "meteo"
        await stage.press("tab")
        assert not box.display
        await stage.see("filter: meteo (1)")
        await stage.press("escape")
        await stage.see("library")
        assert not box.display
        await stage.press("slash")
        assert box.value == ""
        # The focus can also leave the box by a click on the list.
        await stage.press(*"met")
        screen.query_one("#sessions").focus()
        await stage.press("escape")
        assert not box.display
        assert "met" not in [line.strip() for line in stage.text().splitlines()]
        # Where Tab leads to the detail otherwise, it leaves the box, too.
        await stage.press("enter", "F", "slash", *"id", "tab")
        assert not stage.app.screen.query_one(WordBox).display
        await stage.see("filter: id")

    play(act, *paths)
