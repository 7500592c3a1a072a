"""A live capture: what grows with time alone, and how the end that is followed is left with the mouse."""

import time
from pathlib import Path

from textual.scrollbar import ScrollTo, ScrollUp

from captures.file import CaptureFile
from mcpproxy.tui.screens.sessions import SessionsScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.stage import Stage, conversation, play


def test_how_long_it_has_lasted_grows_in_the_list_and_in_the_title(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / "x.mcpcap")
    made.append(lines([("header", header(name="library", wall_ns=time.time_ns() - 20 * 10**9))])[0])

    def lasted(stage: Stage) -> str:
        screen = stage.app.screen
        assert isinstance(screen, SessionsScreen)
        return screen.table.rows.line(0).cells["lasted"][0].text

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.until(lambda: "lasted" in screen_cells(stage))
        first = lasted(stage)
        assert first[:1] == "2", first
        await stage.until(lambda: lasted(stage) != first)
        await stage.press("enter")
        await stage.see("0 frames in 2")
        title = stage.text().split("\n")[0]
        await stage.until(lambda: stage.text().split("\n")[0] != title)

    def screen_cells(stage: Stage) -> dict[str, object]:
        screen = stage.app.screen
        assert isinstance(screen, SessionsScreen)
        return dict(screen.table.rows.line(0).cells)

    play(act, tmp_path / "x.mcpcap", size=(160, 24))
    made.close()


def test_the_scroll_bar_pauses_following_and_the_cursor_stays(tmp_path: Path) -> None:
    made = CaptureFile(tmp_path / "x.mcpcap")
    for line in lines(conversation(40)):
        made.append(line)

    async def act(stage: Stage) -> None:
        await stage.see("● following", " 84 ")
        table = stage.traffic.table
        for message in (ScrollTo(y=3, animate=False), ScrollUp()):
            await stage.press("f" if not table.following else "G")
            assert table.following
            cursor = table.cursor
            table.post_message(message)
            await stage.drawn()
            assert (table.following, table.cursor) == (False, cursor)
        await stage.press("down")
        assert table.scroll_y + table.page_rows > table.cursor, "in sight again"

    play(act, first=tmp_path / "x.mcpcap", size=(80, 24))
    made.close()
