"""Stderr: the lines as they came, found by words, and what crossed beside them."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.screens.stderr import StderrScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import HOSTILE_NAMES
from tests.mcpproxy.tui.stage import END, Stage, play, record, sizes
from tests.mcpproxy.tui.test_stderr import talkative, wrote


class TestScreen:
    """The keys."""

    def test_alone_when_narrow_and_beside_frames_when_wide(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*talkative(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("E")
            await stage.see("library › stderr", "21 lines", "Ready to lend", "WARNING low on shelves call 5", "+0.003")
            assert "tools/call" not in stage.text()
            await stage.pilot.resize_terminal(140, 40)
            await stage.see("meanwhile", "tools/call search", "ok")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            await stage.press("G", "up")
            entry = screen.entry
            assert entry is not None
            beside_it = screen._frames.entry(screen.frames.cursor)
            assert beside_it is not None
            assert beside_it > entry
            await stage.press("t")
            await stage.press("t")
            await stage.until(lambda: ":" in stage.text().splitlines()[3])
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=(80, 24))

    def test_no_frame_is_hidden_where_there_is_room(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*talkative(40), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("E")
            await stage.see("41 lines")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            await stage.pilot.resize_terminal(140, 40)
            await stage.see("meanwhile", "+0.004")
            for _ in range(13):
                await stage.press("down")
            page, at = screen.frames.page, screen.frames.cursor
            assert page // 2 < at < page * 3 // 4
            assert screen.frames.scroll_y == 0
            # Further on the moment is in the middle.
            for _ in range(7):
                await stage.press("down")
            assert screen.frames.cursor - screen.frames.scroll_y == page // 2
            await stage.press("g")
            assert screen.frames.scroll_y == 0

        play(act, path, size=(80, 24))

    def test_enter_goes_to_that_time(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*talkative(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("E", "down", "down")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            entry = screen.entry
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            assert stage.traffic.entry == entry
            assert stage.traffic.reading.index.sort(stage.traffic.entry or 0) == "stderr"
            # From there it opens where the cursor is.
            await stage.press("G", "E")
            await stage.see("21 lines")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            assert screen.table.cursor == 20

        play(act, path)

    def test_words(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*talkative(), END])

        async def act(stage: Stage) -> None:
            await stage.see("library")
            await stage.press("E")
            await stage.see("21 lines")
            await stage.press("slash", *"low WARN", "enter")
            await stage.see("low WARN  4 of 21", "shelves call 20")
            assert "info call" not in stage.text()
            await stage.press("down")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            assert screen.entry == screen.reading.stderr[10]
            await stage.press("escape")
            await stage.see("21 lines", "info call")
            assert screen.entry == screen.reading.stderr[10]
            await stage.press("slash", *"zzz", "enter")
            await stage.see("zzz  0 of 21", "no line contains all of these words")
            await stage.press("slash", "escape")
            assert not screen.query_one(FilterBox).display
            await stage.press("enter", "escape")
            await stage.see("21 lines")
            await stage.press("escape")
            await stage.see("1 recorded")

        play(act, path)

    def test_it_follows(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        made = CaptureFile(tmp_path / "x" / "live.mcpcap")
        for line in lines(talkative(40)):
            made.append(line)

        async def act(stage: Stage) -> None:
            await stage.see("● library")
            await stage.press("E")
            await stage.see("● following", "call 40")
            made.append(seal(500, 10**9, *wrote("something new")))
            await stage.see("something new")
            await stage.press("up")
            await stage.see("● live")
            made.append(seal(501, 10**9, *wrote("and newer")))
            await stage.see("43 lines")
            await stage.press("f")
            await stage.see("● following", "and newer")
            await stage.press("slash", *"new", "enter")
            await stage.see("new  2 of 43")
            made.append(seal(502, 10**9, *wrote("newest")))
            await stage.see("new  3 of 44", "newest")

        play(act, tmp_path / "x" / "live.mcpcap", size=(120, 30))
        made.close()

    @pytest.mark.parametrize("size", sizes((80, 24), soak=[(40, 10), (1, 1), (200, 60)]))
    def test_any_line_in_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        made = [
            ("header", header(name="\x1b]0;x\x07")),
            *(wrote(text, skipped=n) for n, text in enumerate(HOSTILE_NAMES)),
            END,
        ]
        path = record(tmp_path / "x" / "x.mcpcap", made)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("E")
            screen = stage.app.screen
            assert isinstance(screen, StderrScreen)
            for _ in HOSTILE_NAMES:
                await stage.press("down")
                assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
                assert all(len(line) <= size[0] for line in stage.text().splitlines())
            await stage.press("g", "down", "down", "down", "down")
            if size == (80, 24):
                # A line that is cut stands below in full.
                assert stage.text().count("x" * 70) > 3
                await stage.squeezed()
            await stage.press("t", "f", "slash", *"gnp", "enter")
            await stage.until(lambda: len(screen._rows.view) == 1)
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)

    @pytest.mark.parametrize("transport", ["stdio", "http"])
    def test_nothing_was_written(self, tmp_path: Path, transport: str) -> None:
        path = record(
            tmp_path / "x" / "x.mcpcap", [("header", header(transport=transport)), ("close", members(ending="client"))]
        )

        async def act(stage: Stage) -> None:
            await stage.see("1 recorded")
            await stage.press("E")
            await stage.see(
                "0 lines",
                "over HTTP, mcpproxy cannot see the server's stderr"
                if transport == "http"
                else "wrote nothing to stderr",
            )
            await stage.press("enter", "down", "f", "t", "G", "slash", "a", "enter", "escape", "escape")
            await stage.see("1 recorded")

        play(act, path, size=(120, 30))
