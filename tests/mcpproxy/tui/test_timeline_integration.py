"""Timeline: which captures belong to one client, where calls lie on the clock, and what the keys do."""

from functools import partial
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from mcpproxy.tui.data.checking import CaptureChecker
from mcpproxy.tui.data.heat import MAX_OUTLIERS
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.timelines import MAX_TIMELINES, Timelines
from mcpproxy.tui.rows.timeline_rows import FIRST_KIND_NUMBER, HEAD_NUMBER, MAX_BARS
from mcpproxy.tui.screens.timeline import TimelineScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.table import layout
from tests.captures.samples import header
from tests.harness import wait_until
from tests.mcpproxy.tui.hostile import hostile_calls
from tests.mcpproxy.tui.stage import CALL, FINE, WRONG, Stage, frame_record, play, play_each, record, sizes
from tests.mcpproxy.tui.test_timeline import MS, at, served, session, startup, timed


def called(folder: Path, name: str, calls: int, slow: dict[int, int], wrong: int | None = None) -> Path:
    """Write a capture of a server with its own client that is called every 10 ms, with slow calls and a failing one."""
    made = []
    for number in range(calls):
        made.append(at(number * 10, "c2s", CALL % (number, 1)))
        reply = WRONG % number if number == wrong else FINE % (number, 1)
        made.append(at(number * 10 + slow.get(number, 5), "s2c", reply))
    made.sort(key=lambda record: record[0])
    parents = [{"pid": 100 + calls, "start": 1, "exe": name}]
    return timed(folder / name / "x.mcpcap", served(name, parents=parents), made)


async def all_servers_of_a_client(stage: Stage) -> None:
    await stage.resize((110, 40))
    await stage.open("library")
    await stage.press("T")
    await stage.see("2 servers", "▾ library (this)", "▸ second")
    await stage.press("a")
    await stage.see("Cursor 2.1", "2 servers", "start-up 999ms", "▾ library (this)", "▾ second", "▒▒", "▓", "╌")
    assert all("start-up " in line for line in stage.text().splitlines() if "▾ " in line)
    await stage.see("  tools/call search", "unanswered", "← sampling/createMessage", "400ms", "1.0s", "waits for")
    assert "third" not in stage.text()
    await stage.press("escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))


async def servers_fold(stage: Stage) -> None:
    await stage.resize((120, 30))
    await stage.choose("library")
    await stage.press("enter", "T")
    await stage.see("2 servers", "▸ second", "unanswered", "o fold")
    await stage.press("a", "a")
    # The row of a folded server shows that calls failed.
    await stage.see("▸ library (this)", "▸ second", "⣿")
    await stage.press("a")
    await stage.see("▾ library (this)", "▾ second")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    library, second = screen.timelines.all
    # Both servers with six exchanges each, once the second has been read.
    await stage.until(lambda: len(screen._rows.items) == 14)
    whole = list(screen._rows.items)
    # When a server is folded, the cursor goes from its exchange to its row.
    await stage.press("g", "down", "down", "o")
    await stage.see("▸ library (this)", "▾ second")
    assert screen.selected == (library, HEAD_NUMBER)
    assert screen._rows.items == [(library, HEAD_NUMBER), *(place for place in whole if place[0] is second)]
    await stage.press("n", "o")
    await stage.see("▸ library (this)", "▸ second")
    assert screen._rows.items == [(library, HEAD_NUMBER), (second, HEAD_NUMBER)]
    # New records and another time range leave them folded.
    await stage.press("plus", "0")
    assert screen._rows.items == [(library, HEAD_NUMBER), (second, HEAD_NUMBER)]
    await stage.press("o")
    assert screen.selected == (second, HEAD_NUMBER)
    await stage.press("g", "o")
    assert screen._rows.items == whole
    await stage.pilot.click("#timeline", offset=(5, 1))
    await stage.see("▸ library (this)", "▾ second")
    await stage.pilot.click("#timeline", offset=(5, 3))
    assert screen._rows.items[2] == screen.selected
    assert library in screen._rows.folded_timelines
    await stage.pilot.click("#timeline", offset=(5, 0))
    await stage.pilot.click("#timeline", offset=(5, 1))
    await stage.until(lambda: screen._rows.items == whole)
    # A double click opens it like any row, and folds nothing.
    await stage.pilot.click("#timeline", offset=(5, 1), times=2)
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert not screen._rows.folded_timelines


async def enter_opens_another_capture(stage: Stage) -> None:
    await stage.resize((100, 40))
    await stage.choose("library")
    await stage.press("enter", "T")
    await stage.see("2 servers", "▸ second", "unanswered")
    await stage.settled()
    await stage.press("a")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    await stage.press("g", "n")
    assert screen.selected == (screen.timelines.all[1], HEAD_NUMBER)
    await stage.press("N")
    assert screen.selected == (screen.timelines.own_timeline, HEAD_NUMBER)
    await stage.press("G", "up")
    assert screen.selected is not None
    timeline, number = screen.selected
    assert timeline is not screen.timelines.own_timeline
    row = timeline.reading.calls.request[number]
    await stage.press("z")
    window = screen.window
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == row)
    assert stage.traffic.reading.path == timeline.reading.path
    # Escape leads back to the timeline of the capture that was left, to the same row and period.
    await stage.press("escape")
    await stage.see("2 servers", "▾ library (this)", "▾ second")
    await stage.settled()
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    assert screen.window == window
    assert screen.selected is not None
    assert (screen.selected[0].reading.path, screen.selected[1]) == (timeline.reading.path, number)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.press("T")
    await stage.see("2 servers", "▾ second (this)")
    await stage.press("g", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))


async def every_key(stage: Stage) -> None:
    await stage.resize((80, 24))
    await stage.open("library")
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
    assert stage.traffic.entry == stage.traffic.reading.calls.request[1]


async def it_opens_at_a_frame_nearby(stage: Stage) -> None:
    await stage.open("library")
    stage.traffic.go_to_entry(stage.traffic.reading.calls.request[3])
    await stage.press("T")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    await stage.until(lambda: screen.selected == (screen.timelines.own_timeline, 3))


async def the_chart_makes_room_for_a_scroll_bar(stage: Stage) -> None:
    await stage.resize((100, 20))
    await stage.open("some")
    await stage.press("T")
    await stage.see("some", "5.0ms")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    rows, table = screen._rows, screen.table

    def chart() -> int:
        return next(size for column, size in layout(table.columns, table.room.width) if column.name == "chart")

    await stage.press("o")
    await stage.until(lambda: len(rows) == 1 and not table.show_vertical_scrollbar and rows.cells == chart())
    await stage.press("o")
    await stage.until(lambda: len(rows) == 31 and table.show_vertical_scrollbar and rows.cells == chart())


async def too_many_are_a_map_of_latencies_with_the_slowest_on_top(stage: Stage) -> None:
    await stage.choose("map")
    await stage.press("T")
    await stage.see(
        "map", "300× tools/call search", "▁", "█", "✗", "≤ 4.0s", "<280ms", "⣤ some errors", "! ≥25% errors"
    )
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    numbers = [number for _, number in screen._rows.items]
    assert numbers[0] == HEAD_NUMBER
    assert numbers[-1] == FIRST_KIND_NUMBER
    assert {40, 170} <= set(numbers[1:-1])
    assert len(numbers) == 2 + MAX_OUTLIERS
    await stage.press("G", "enter")
    await stage.see("method:tools/call name:search")
    await stage.press("escape")
    # The row leads to the calls of the period, and Esc back to it.
    window = (500 * MS, 2900 * MS)
    screen._show_period(*window)
    await stage.until(lambda: [number for _, number in screen._rows.items][-1] == FIRST_KIND_NUMBER)
    await stage.press("G", "enter")
    await stage.see("method:tools/call name:search frame:", "..", " of 600 frames")
    await stage.press("escape")
    assert (screen.window, screen.selected) == (window, (screen.timelines.own_timeline, FIRST_KIND_NUMBER))
    await stage.press("0", "plus", "plus")
    await stage.see("  tools/call search", "5.0ms", "waits for")
    assert len(screen.table.rows) <= MAX_BARS + 1
    assert FIRST_KIND_NUMBER not in [number for _, number in screen._rows.items]


async def it_opens_at_the_frame_it_was_opened_from(stage: Stage) -> None:
    await stage.open("many")
    stage.traffic.go_to_entry(1 + 2 * 400 + 1)
    await stage.press("T")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    await stage.until(lambda: screen.selected == (screen.timelines.own_timeline, 400))
    assert screen.window[0] > 3000 * MS
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == 801)
    await stage.press("escape", "0")
    await stage.see("600× tools/call search")


def test_it_grows_with_the_capture(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    made = CaptureFile(tmp_path / "x" / "live.mcpcap")
    for seq, (ms, rec, middle) in enumerate([(0, "header", served("living")), *startup(20)]):
        made.append(seal(seq, ms * MS, rec, middle))

    async def act(stage: Stage) -> None:
        await stage.see("● living")
        await stage.press("enter", "T")
        await stage.see("● living", "tools/list")
        made.append(seal(90, 3000 * MS, *frame_record("c2s", CALL % (50, 1))))
        await stage.see("tools/call search", "waiting")
        made.append(seal(91, 3410 * MS, *frame_record("s2c", FINE % (50, 1))))
        await stage.see("410ms")
        timed(tmp_path / "x" / "late.mcpcap", served("late", 9, "e"), startup(30))
        await stage.see("2 servers", "late")

    play(act, tmp_path / "x" / "live.mcpcap", size=(110, 30))
    made.close()


@pytest.mark.costly("servers side by side, folded and opened, in three runs of keys and clicks")
def test_servers_of_a_client(tmp_path: Path) -> None:
    paths = [session(tmp_path, "library", 0, "a"), session(tmp_path, "second", 200, "b", 700)]
    other = [{"pid": 77, "start": 1, "exe": "other"}]
    paths.append(timed(tmp_path / "third" / "c.mcpcap", served("third", 0, "c", parents=other), startup(9)))
    play_each((all_servers_of_a_client, servers_fold, enter_opens_another_capture), *paths)


def test_a_map_of_another_server_leads_to_its_calls_and_back(tmp_path: Path) -> None:
    calls = [
        at(10 * number + late, *part)
        for number in range(250)
        for late, part in enumerate((("c2s", CALL % (number, 1)), ("s2c", FINE % (number, 1))))
    ]
    busy = timed(tmp_path / "busy" / "b.mcpcap", served("busy", 100, "b"), calls)

    async def act(stage: Stage) -> None:
        await stage.open("library")
        await stage.press("T")
        await stage.see("2 servers", "▾ library (this)", "▸ busy")
        await stage.settled()
        await stage.press("a")
        await stage.see("250× tools/call search")
        await stage.press("G", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        assert stage.traffic.reading.path == busy
        await stage.see("method:tools/call name:search", "500 of 500 frames")
        await stage.press("escape")
        await stage.see("▾ library (this)", "▾ busy", "250× tools/call search")
        await stage.settled()
        screen = stage.app.screen
        assert isinstance(screen, TimelineScreen)
        assert screen.selected is not None
        assert (screen.selected[0].reading.path, screen.selected[1]) == (busy, FIRST_KIND_NUMBER)

    play(act, session(tmp_path), busy, size=(100, 40))


@pytest.mark.costly("every key, in charts of four up to 600 calls")
def test_a_server_alone(tmp_path: Path) -> None:
    acts = (
        every_key,
        it_opens_at_a_frame_nearby,
        the_chart_makes_room_for_a_scroll_bar,
        too_many_are_a_map_of_latencies_with_the_slowest_on_top,
        it_opens_at_the_frame_it_was_opened_from,
    )
    paths = [
        session(tmp_path, "library"),
        called(tmp_path, "some", 30, {}),
        called(tmp_path, "map", MAX_BARS + 100, {40: 900, 170: 4000}, 299),
        called(tmp_path, "many", 3 * MAX_BARS, {}),
    ]
    play_each(acts, *paths)


async def any_capture_is_drawn(stage: Stage, folder: str) -> None:
    await stage.choose(folder)
    await stage.press("T")
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    await stage.until(lambda: screen.reading.has_ended and len(screen.table.rows))
    await stage.press("down", "plus", "left", "right", "minus", "z", "u", "0", "f", "G", "g", "j")
    assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
    assert all(len(line) <= stage.app.size.width for line in stage.text().splitlines())
    await stage.squeezed()
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))


@pytest.mark.parametrize("size", sizes((80, 24), soak=[(40, 10), (1, 1), (200, 60)]))
def test_any_capture_in_any_size(tmp_path: Path, size: tuple[int, int]) -> None:
    made = {"hostile": hostile_calls(), "empty": [("header", header())], "odd": conversationless()}
    end = ("close", members(ending="client"))
    paths = [record(tmp_path / folder / "x.mcpcap", [*middles, end]) for folder, middles in made.items()]
    play_each([partial(any_capture_is_drawn, folder=folder) for folder in made], *paths, size=size)


def conversationless() -> list[tuple[str, bytes]]:
    """A capture with a hostile name and clocks that make no sense."""
    head = header(name="\x1b[31m\u202eevil" * 50, parents=[{"pid": 1, "start": 2, "exe": "\x1b]0;x\x07"}],
                  boot_id="\x07", mono_ns=-(2**90), wall_ns="x")  # fmt: skip
    return [("header", head), frame_record("c2s", CALL % (1, 1)), ("stderr", stderr_members(b"\x1b"))]


def test_lanes_are_bounded_and_a_worker_reads_them(tmp_path: Path) -> None:
    own = session(tmp_path, "own", capture="a")
    for number in range(MAX_TIMELINES + 5):
        path = tmp_path / "own" / f"{number}.mcpcap"
        timed(path, served(str(number), mono_ms=number, capture=f"{number:032}"), startup(5))
    reading, checking = Reading(own), CaptureChecker(lambda: None)
    checking.read(reading)
    timelines = Timelines(reading, list, checking)

    def is_read() -> bool:
        reading.step()
        timelines.step()
        return timelines.has_searched and all(timeline.reading.has_ended for timeline in timelines.all)

    wait_until(is_read)
    assert len(timelines.all) == MAX_TIMELINES
    assert timelines.omitted_count == 6
    assert max(timeline.offset_ns for timeline in timelines.all) == (MAX_TIMELINES - 2) * MS
    assert all(timeline.startup().listed_ns is not None for timeline in timelines.all)
    timelines.close()
    checking.close()
    reading.close()
