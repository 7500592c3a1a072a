"""Stderr: the lines in order of arrival, a search for words, and the frames that crossed at the same time."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from mcpproxy.tui.screens.stderr import StderrScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import HOSTILE_NAMES
from tests.mcpproxy.tui.stage import END, Stage, conversation, play, play_each, record, sizes
from tests.mcpproxy.tui.test_stderr import talkative, wrote


def of(stage: Stage) -> StderrScreen:
    """The stderr screen, which must be on top."""
    assert isinstance(stage.app.screen, StderrScreen)
    return stage.app.screen


async def alone_when_narrow_and_beside_frames_when_wide(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open("library")
    await stage.press("E")
    await stage.see("library › stderr", "41 lines", "Ready to lend", "WARNING low on shelves call 5", "+0.003")
    assert "tools/call" not in stage.text()
    await stage.resize((110, 30))
    await stage.see("tools/call search   ok", "WARNING low on shelves call 5")
    await stage.pilot.resize_terminal(140, 40)
    await stage.see("meanwhile", "tools/call search", "ok", "+0.004")
    screen = of(stage)
    # If there is room for all frames, none is hidden.
    await stage.press(*["down"] * 13)
    page, at = screen.frames.page_rows, screen.frames.cursor
    assert page // 2 < at < page * 3 // 4
    assert screen.frames.scroll_y == 0
    # Further down, the frame at the time of the line is in the middle.
    await stage.press(*["down"] * 7)
    assert screen.frames.cursor - screen.frames.scroll_y == page // 2
    await stage.press("g")
    assert screen.frames.scroll_y == 0
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


async def words_and_the_way_to_the_traffic_at_that_time(stage: Stage) -> None:
    await stage.choose("library")
    await stage.press("E")
    await stage.see("41 lines")
    screen = of(stage)
    await stage.press("slash", *"low WARN", "enter")
    await stage.see("low WARN  8 of 41", "shelves call 20")
    assert "info call" not in stage.text()
    await stage.press("down")
    assert screen.entry == screen.reading.stderr_rows[10]
    await stage.press("escape")
    await stage.see("41 lines", "info call")
    assert screen.entry == screen.reading.stderr_rows[10]
    await stage.press("slash", *"zzz", "enter")
    await stage.see("zzz  0 of 41", "no line contains all of these words")
    await stage.press("slash", "escape")
    assert not screen.query_one(FilterBox).display
    await stage.press("enter", "escape")
    await stage.see("41 lines")
    await stage.press("down", "down")
    entry = screen.entry
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == entry
    assert stage.traffic.reading.index.kind(stage.traffic.entry or 0) == "stderr"
    # From there, the screen opens at the line of the cursor.
    await stage.press("G", "E")
    await stage.see("41 lines")
    assert of(stage).table.cursor == 40
    await stage.press("escape", "escape", "escape")
    await stage.see("recorded")


async def a_long_line_gets_the_room_that_the_list_leaves(stage: Stage) -> None:
    await stage.resize((110, 50))
    await stage.choose("long")
    await stage.press("E", "G")
    await stage.see("part 0;", "part 199;")
    assert next(line for line in stage.text().splitlines() if "stderr" in line and "time" in line).startswith("  time")
    screen = of(stage)
    assert 0 <= screen.frames.cursor - screen.frames.scroll_y < screen.frames.page_rows
    await stage.resize((110, 20))
    await stage.see("part 0;", "… more: Enter shows it")
    assert "part 199;" not in stage.text()
    await stage.back()


async def nothing_was_written(stage: Stage) -> None:
    for name, why in (
        ("http", "over HTTP, mcpproxy cannot see the server's stderr"),
        ("silent", "wrote nothing to stderr"),
    ):
        await stage.choose(name)
        await stage.press("E")
        await stage.see("0 lines", why)
        await stage.press("enter", "down", "f", "t", "G", "slash", "a", "enter", "escape", "escape")
        await stage.see("recorded")


class TestScreen:
    """What the keys of the screen do."""

    @pytest.mark.costly("every key, in three widths and on three captures")
    def test_the_keys(self, tmp_path: Path) -> None:
        closed = ("close", members(ending="client"))
        quiet = [
            record(tmp_path / name / "x.mcpcap", [("header", header(transport=via, name=name)), closed])
            for name, via in (("http", "http"), ("silent", "stdio"))
        ]
        acts = (
            alone_when_narrow_and_beside_frames_when_wide,
            words_and_the_way_to_the_traffic_at_that_time,
            a_long_line_gets_the_room_that_the_list_leaves,
            nothing_was_written,
        )
        text = " ".join(f"part {number};" for number in range(200))
        long = [("header", header(name="long")), *(made for made in talkative(40) if made[0] == "frame"), wrote(text)]
        quiet.append(record(tmp_path / "long" / "x.mcpcap", [*long, END]))
        play_each(acts, record(tmp_path / "library" / "x.mcpcap", [*talkative(40), END]), *quiet)

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
                # A line that is cut is shown in full below.
                assert stage.text().count("x" * 70) > 3
                await stage.squeezed()
            await stage.press("t", "f", "slash", *"gnp", "enter")
            await stage.until(lambda: len(screen._rows.view) == 1)
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)


async def a_run_is_one_row_of_the_traffic(stage: Stage) -> None:
    await stage.open()
    await stage.see("▸", "97 lines: stderr: line 0")
    assert len(stage.traffic.table.rows) == 18
    stage.traffic.table.go(15)
    # Its detail shows all lines.
    await stage.press("enter")
    await stage.see("record 16", "\n line 1", "\n line 5")
    await stage.press("escape", "right")
    await stage.see("▾", " stderr: line 1", "[16/114]")
    await stage.press("down", "down", "left")
    await stage.see("97 lines: stderr: line 0", "[16/18]")
    # Keys that lead to one of the lines unfold it; sorted rows have no folds.
    await stage.press("colon", *"20", "enter")
    await stage.see("[20/114]")
    assert stage.traffic.entry == 20
    await stage.press("left", "s")
    await stage.see("by latency", "/114]")
    await stage.press("escape", "g")
    await stage.see("[1/18]")
    await stage.press("b")
    await stage.see("all records", "/114]")
    await stage.press("b")
    await stage.see("messages only", "/17]")


def test_lines_that_follow_each_other_share_a_row(tmp_path: Path) -> None:
    middles = conversation(6)
    noise = [("stderr", stderr_members(b"line %d" % number)) for number in range(97)]
    at = next(number for number, (kind, _) in enumerate(middles) if kind == "stderr")
    path = record(
        tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap", [*middles[:at], *noise, *middles[at + 1 :], END]
    )
    play(a_run_is_one_row_of_the_traffic, path, size=(100, 40))
