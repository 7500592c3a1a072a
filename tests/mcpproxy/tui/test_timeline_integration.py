"""Timeline: which captures are of one client, where things lie on the clock, and what the keys do with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from mcpproxy.tui.data.heat import OUTLIERS
from mcpproxy.tui.screens.timeline import TimelineScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.timeline_rows import HEAD, KINDS, MOST_BARS
from mcpproxy.tui.widgets.table import layout
from tests.captures.samples import header
from tests.mcpproxy.tui.hostile import hostile_calls
from tests.mcpproxy.tui.stage import CALL, FINE, WRONG, Stage, play, record, said, sizes
from tests.mcpproxy.tui.test_timeline import MS, at, served, session, startup, timed


class TestScreen:
    """The keys."""

    def test_all_servers_of_a_client(self, tmp_path: Path) -> None:
        paths = [session(tmp_path, "library", 0, "a"), session(tmp_path, "second", 200, "b", 700)]
        other = [{"pid": 77, "start": 1, "exe": "other"}]
        paths.append(timed(tmp_path / "third" / "c.mcpcap", served("third", 0, "c", parents=other), startup(9)))

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("T")
            await stage.see("2 servers", "▾ library (this)", "▸ second")
            await stage.press("a")
            await stage.see("Cursor 2.1", "2 servers", "start-up 999ms", "▾ library (this)", "▾ second", "▒▒", "▓", "░")
            await stage.see(
                "  tools/call search", "no answer", "← sampling/createMessage", "400ms", "1.0s", "waits for"
            )
            assert "third" not in stage.text()
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, *paths, size=(110, 40))

    def test_every_key(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("T")
            await stage.see("1 server", "tools/call search")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            whole = screen.window
            size = whole[1] - whole[0]
            await stage.press("plus")
            assert screen.window[1] - screen.window[0] == pytest.approx(size // 2, rel=0.01)
            await stage.press("minus")
            assert screen.window[1] - screen.window[0] == pytest.approx(size, rel=0.01)
            before = screen.window
            await stage.press("right")
            assert screen.window[0] - before[0] == pytest.approx(size / 4, rel=0.01)
            await stage.press("left", "h", "l")
            assert screen.window[0] == pytest.approx(before[0], abs=size / 100)
            await stage.press("u")
            assert screen.window[0] < 1 * MS
            assert 400 * MS < screen.window[1] < 500 * MS
            await stage.press("0")
            assert screen.window == whole
            await stage.press("g", "down", "down", "down", "down", "z")
            assert screen.selected is not None
            assert screen.selected[1] == 3
            assert screen.window[0] < 1100 * MS
            assert 1500 * MS < screen.window[1] < 1700 * MS
            await stage.press("f")
            assert "following" not in stage.text()  # nothing is live
            assert screen.window[1] == screen.timelines.extent()[1]
            await stage.press("0", "z")
            await stage.press(*["plus"] * 30)
            assert screen.window[1] - screen.window[0] == 10_000
            await stage.press(*["minus"] * 40)
            assert screen.window[1] - screen.window[0] <= 2 * size
            await stage.press("0", "g", "down", "down", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            assert stage.traffic.entry == stage.traffic.reading.exchanges.request[1]

        play(act, session(tmp_path), size=(80, 24))

    def test_servers_fold(self, tmp_path: Path) -> None:
        paths = [session(tmp_path, "library", 0, "a"), session(tmp_path, "second", 200, "b")]

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter", "T")
            await stage.see("2 servers", "▸ second", "no answer", "o fold")
            await stage.press("a", "a")
            await stage.see("▸ library (this)", "▸ second")
            await stage.press("a")
            await stage.see("▾ library (this)", "▾ second")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            library, second = screen.timelines.all
            whole = list(screen._rows.items)
            # From an exchange the cursor goes to the row of its server.
            await stage.press("g", "down", "down", "o")
            await stage.see("▸ library (this)", "▾ second")
            assert screen.selected == (library, HEAD)
            assert screen._rows.items == [(library, HEAD), *(place for place in whole if place[0] is second)]
            await stage.press("n", "o")
            await stage.see("▸ library (this)", "▸ second")
            assert screen._rows.items == [(library, HEAD), (second, HEAD)]
            # What comes, and another stretch, leave them folded.
            await stage.press("plus", "0")
            assert screen._rows.items == [(library, HEAD), (second, HEAD)]
            await stage.press("o")
            assert screen.selected == (second, HEAD)
            await stage.press("g", "o")
            assert screen._rows.items == whole
            await stage.pilot.click("#timeline", offset=(5, 1))
            await stage.see("▸ library (this)", "▾ second")
            await stage.pilot.click("#timeline", offset=(5, 3))
            assert screen._rows.items[2] == screen.selected
            assert library in screen._rows.folded
            await stage.pilot.click("#timeline", offset=(5, 0))
            await stage.pilot.click("#timeline", offset=(5, 1))
            await stage.until(lambda: screen._rows.items == whole)
            # Two clicks open it as they open any row, and fold nothing.
            await stage.pilot.click("#timeline", offset=(5, 1), times=2)
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            assert not screen._rows.folded

        play(act, *paths, size=(120, 30))

    def test_the_chart_makes_room_for_a_scroll_bar(self, tmp_path: Path) -> None:
        made = []
        for number in range(30):
            made += [at(number * 10, "c2s", CALL % (number, 1)), at(number * 10 + 5, "s2c", FINE % (number, 1))]
        path = timed(tmp_path / "many" / "x.mcpcap", served("many"), made)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("T")
            await stage.see("many", "5.0ms")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            rows, table = screen._rows, screen.table

            def chart() -> int:
                return next(size for column, size in layout(table.columns, table.room.width) if column.name == "chart")

            await stage.press("o")
            await stage.until(lambda: len(rows) == 1 and not table.show_vertical_scrollbar and rows.cells == chart())
            await stage.press("o")
            await stage.until(lambda: len(rows) == 31 and table.show_vertical_scrollbar and rows.cells == chart())

        play(act, path, size=(100, 20))

    def test_enter_opens_another_capture(self, tmp_path: Path) -> None:
        paths = [session(tmp_path, "library", 0, "a"), session(tmp_path, "second", 200, "b")]

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter", "T")
            await stage.see("2 servers", "▸ second", "no answer")
            await stage.press("a")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            await stage.press("g", "n")
            assert screen.selected == (screen.timelines.all[1], HEAD)
            await stage.press("N")
            assert screen.selected == (screen.timelines.own, HEAD)
            await stage.press("G", "up")
            assert screen.selected is not None
            timeline, number = screen.selected
            assert timeline is not screen.timelines.own
            row = timeline.reading.exchanges.request[number]
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == row)
            assert stage.traffic.reading.path == timeline.reading.path
            # Back is the timeline of the capture that was left.
            await stage.press("escape")
            await stage.see("2 servers", "▾ library (this)", "▸ second")
            await stage.press("a", "G", "up", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.press("T")
            await stage.see("2 servers", "▾ second (this)")
            await stage.press("g", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, *paths, size=(100, 40))

    def test_too_many_are_a_map_of_latencies_with_the_slowest_on_top(self, tmp_path: Path) -> None:
        made, slow = [], {40: 900, 170: 4000}
        for number in range(MOST_BARS + 100):
            made.append(at(number * 10, "c2s", CALL % (number, 1)))
            reply = WRONG % number if number == 299 else FINE % (number, 1)
            made.append(at(number * 10 + slow.get(number, 5), "s2c", reply))
        made.sort(key=lambda record: record[0])
        path = timed(tmp_path / "many" / "x.mcpcap", served("many"), made)

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("T")
            await stage.see("many", "300× tools/call search", "▂", "█", "✗", "≤ 4.0s", "<100ms", "zoom in")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            numbers = [number for _, number in screen._rows.items]
            assert numbers[0] == HEAD
            assert numbers[-1] == KINDS
            assert {40, 170} <= set(numbers[1:-1])
            assert len(numbers) == 2 + OUTLIERS
            await stage.press("G", "enter")
            await stage.see("method:tools/call name:search")
            await stage.press("escape", "plus", "plus")
            await stage.see("  tools/call search", "5.0ms", "waits for")
            assert len(screen.table.rows) <= MOST_BARS + 1
            assert KINDS not in [number for _, number in screen._rows.items]

        play(act, path)

    def test_it_opens_at_the_frame_it_was_opened_from(self, tmp_path: Path) -> None:
        made = []
        for number in range(3 * MOST_BARS):
            made += [at(number * 10, "c2s", CALL % (number, 1)), at(number * 10 + 5, "s2c", FINE % (number, 1))]
        path = timed(tmp_path / "many" / "x.mcpcap", served("many"), made)
        few = session(tmp_path, "library")

        async def far(stage: Stage) -> None:
            await stage.open()
            stage.traffic.reach(1 + 2 * 400 + 1)
            await stage.press("T")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            await stage.until(lambda: screen.selected == (screen.timelines.own, 400))
            assert screen.window[0] > 3000 * MS
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == 801)
            await stage.press("escape", "0")
            await stage.see("600× tools/call search")

        async def near(stage: Stage) -> None:
            await stage.open()
            stage.traffic.reach(stage.traffic.reading.exchanges.request[3])
            await stage.press("T")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            await stage.until(lambda: screen.selected == (screen.timelines.own, 3))

        play(far, path)
        play(near, few)

    def test_it_grows_with_the_capture(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        made = CaptureFile(tmp_path / "x" / "live.mcpcap")
        for seq, (ms, rec, middle) in enumerate([(0, "header", served("living")), *startup(20)]):
            made.append(seal(seq, ms * MS, rec, middle))

        async def act(stage: Stage) -> None:
            await stage.see("● living")
            await stage.press("enter", "T")
            await stage.see("● living", "tools/list")
            made.append(seal(90, 3000 * MS, *said("c2s", CALL % (50, 1))))
            await stage.see("tools/call search", "waiting")
            made.append(seal(91, 3410 * MS, *said("s2c", FINE % (50, 1))))
            await stage.see("410ms")
            timed(tmp_path / "x" / "late.mcpcap", served("late", 9, "e"), startup(30))
            await stage.see("2 servers", "late")

        play(act, tmp_path / "x" / "live.mcpcap", size=(110, 30))
        made.close()

    @pytest.mark.parametrize("size", sizes((80, 24), soak=[(40, 10), (1, 1), (200, 60)]))
    @pytest.mark.parametrize("make", [hostile_calls, lambda: [("header", header())], lambda: conversationless()])
    def test_any_capture_in_any_size(
        self, tmp_path: Path, size: tuple[int, int], make: Callable[[], list[tuple[str, bytes]]]
    ) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*make(), ("close", members(ending="client"))])

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("T")
            screen = stage.app.screen
            assert isinstance(screen, TimelineScreen)
            await stage.until(lambda: screen.reading.has_ended and len(screen.table.rows))
            await stage.press("down", "plus", "left", "right", "minus", "z", "u", "0", "f", "G", "g", "j")
            assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
            assert all(len(line) <= size[0] for line in stage.text().splitlines())
            await stage.squeezed()
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)


def conversationless() -> list[tuple[str, bytes]]:
    """A name that would like to be something else, and clocks that make no sense."""
    head = header(name="\x1b[31m\u202eevil" * 50, parents=[{"pid": 1, "start": 2, "exe": "\x1b]0;x\x07"}],
                  boot_id="\x07", mono_ns=-(2**90), wall_ns="x")  # fmt: skip
    return [("header", head), said("c2s", CALL % (1, 1)), ("stderr", stderr_members(b"\x1b"))]
