"""Timeline: which captures are of one client, where things lie on the clock, and what the keys do with it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.conversation.exchange import Outcome
from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from mcpproxy.tui.data.calls import Call
from mcpproxy.tui.data.client_captures import ClientCaptures, apart_ns, client_of, header_of
from mcpproxy.tui.data.exchanges import NONE
from mcpproxy.tui.data.heat import OUTLIERS
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.timelines import BLOCK, MOST_TIMELINES, Bar, Startup, Timeline, Timelines, cells_of
from mcpproxy.tui.screens.timeline import TimelineScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.timeline_rows import HEAD, KINDS, MOST_BARS
from mcpproxy.tui.waterfall import axis, bar_cells, heat_cells, moment, server_cells
from mcpproxy.tui.widgets.table import layout
from tests.captures.samples import frame, header, lines
from tests.mcpproxy.tui.stage import CALL, END, FINE, INITIALIZE, INITIALIZED, WRONG, Stage, play, record, said
from tests.mcpproxy.tui.test_latency_integration import hostile

PARENTS = [
    {"pid": 5, "start": 70, "exe": "sh"},
    {"pid": 4, "start": 60, "exe": "Cursor"},
    {"pid": 1, "start": 1, "exe": "systemd"},
]
MS = 1_000_000
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
LISTED = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
ASK = b'{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}'
SAID = b'{"jsonrpc":"2.0","id":"s","result":{}}'

Timed = tuple[int, str, bytes]


def at(ms: int, direction: str, raw: bytes) -> Timed:
    """A frame at a moment."""
    return ms, "frame", frame(direction, raw)  # type: ignore[arg-type]


def served(name: str, mono_ms: int = 0, capture: str = "a", **more: object) -> bytes:
    """The header of a capture of Cursor."""
    fields: dict[str, object] = {
        "parents": PARENTS,
        "boot_id": "b",
        "mono_ns": mono_ms * MS,
        "capture": capture * 32,
        "name": name,
    }
    segment = more.pop("segment", 1)
    return header(int(str(segment)), **{**fields, **more})


def timed(path: Path, head: bytes, records: list[Timed], *, is_closed: bool = True) -> Path:
    """A capture whose records have given times, in ms."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [(0, "header", head), *records]
    if is_closed:
        records.append((records[-1][0], *END))
    path.write_bytes(b"".join(seal(seq, ms * MS, rec, middle) for seq, (ms, rec, middle) in enumerate(records)))
    return path


def startup(delay: int) -> list[Timed]:
    """A server that comes up in four parts."""
    return [
        (1, "process", members(event="spawned", pid=7, start=9)),
        at(2, "c2s", INITIALIZE),
        (delay, "stderr", stderr_members(b"ready")),
        at(delay + 40, "s2c", INITIALIZED),
        at(delay + 41, "c2s", LIST),
        at(delay + 100, "s2c", LISTED),
    ]


def session(folder: Path, name: str = "library", mono_ms: int = 0, capture: str = "a", delay: int = 300) -> Path:
    """A server with its start, two calls that overlap, and one that asks back."""
    calls = [
        at(1000, "c2s", CALL % (2, 2)), at(1100, "c2s", CALL % (3, 3)), at(1200, "s2c", FINE % (2, 2)),
        at(1250, "s2c", ASK), at(1450, "c2s", SAID), at(1500, "s2c", FINE % (3, 3)),
        at(1900, "c2s", CALL % (4, 4)),
    ]  # fmt: skip
    stamp = f"20261121T10150{capture}Z-0000" if capture.isdigit() else f"20261121T101502Z-{capture * 4}"
    return timed(folder / name / f"{stamp}.mcpcap", served(name, mono_ms, capture), [*startup(delay), *calls])


def read(path: Path) -> Reading:
    """A capture, read and understood."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    return reading


def settled(timeline: Timeline) -> Timeline:
    """With all ends known."""
    while timeline.step():
        pass
    return timeline


class TestKin:
    """Who started what."""

    def test_the_client_is_the_nearest_that_is_no_launcher(self) -> None:
        base = {"transport": "stdio", "boot_id": "b", "parents": PARENTS}
        assert client_of(base) == ("b", 4, 60, "Cursor")
        by_hand = [{"pid": 5, "start": 7, "exe": "bash"}, {"pid": 2, "start": 1, "exe": "sshd"}, *PARENTS[1:]]
        assert client_of({**base, "parents": by_hand}) == ("b", 5, 7, "bash")
        npm = [{"pid": 8, "start": 9, "exe": "npm exec thing"}, *PARENTS]
        assert client_of({**base, "parents": npm}) == ("b", 4, 60, "Cursor")
        wrongs: tuple[dict[str, object], ...] = (
            {}, {"transport": "http"}, {"boot_id": None}, {"parents": "x"}, {"parents": []},
            {"parents": [{"pid": "4"}]},
            {"parents": [None, {"pid": True, "start": 1, "exe": "x"}, {"pid": 1, "start": 1, "exe": 3}]},
        )  # fmt: skip
        for wrong in wrongs:
            assert client_of({**base, **wrong} if wrong else {}) is None

    def test_clocks(self) -> None:
        one = {"boot_id": "b", "mono_ns": 10, "wall_ns": 500}
        assert apart_ns(one, {"boot_id": "b", "mono_ns": 17, "wall_ns": 9000}) == 7
        assert apart_ns(one, {"boot_id": "c", "mono_ns": 17, "wall_ns": 480}) == -20
        assert apart_ns(one, {"boot_id": "b", "mono_ns": None, "wall_ns": 480}) == -20
        assert apart_ns(one, {"boot_id": "c", "wall_ns": 2**80}) is None
        assert apart_ns(one, {"wall_ns": True}) is None
        assert apart_ns({}, {}) is None

    def test_those_of_one_process_are_found(self, tmp_path: Path) -> None:
        own = session(tmp_path, "one", capture="a")
        beside = session(tmp_path, "one", capture="b", mono_ms=5)
        listed = session(tmp_path, "two", capture="c", mono_ms=-7)
        other = [dict(PARENTS[0]), {**PARENTS[1], "pid": 99}]
        strange = timed(tmp_path / "one" / "x.mcpcap", served("x", capture="d", parents=other), [])
        again = timed(tmp_path / "one" / "y.mcpcap", served("one", capture="a"), [])
        (tmp_path / "one" / "broken.mcpcap").write_bytes(b"nothing")
        for path in (own, beside):
            timed(path.with_suffix(".2.mcpcap"), served("one", 5, "b" if path == beside else "a", segment=2), [])
        torn = tmp_path / "one" / "torn.mcpcap"
        torn.write_bytes(strange.read_bytes()[5:] + again.read_bytes())
        kin = ClientCaptures(own, header_of(own), lambda: [listed, own, tmp_path / "gone.mcpcap"])
        for _ in range(2):
            kin.look()
            while kin.step():
                pass
            assert sorted(kin.related) == sorted([(beside, 5 * MS), (listed, -7 * MS)])

    def test_a_header_is_read_alone_or_as_the_reader_does(self, tmp_path: Path) -> None:
        path = session(tmp_path)
        assert header_of(path)["name"] == "library"
        path.write_bytes(b"x" + path.read_bytes())
        assert "name" not in header_of(path) or header_of(path)["name"] == "library"


class TestLanes:
    """What lies where."""

    def test_a_session_on_the_clock(self, tmp_path: Path) -> None:
        reading = read(session(tmp_path))
        timeline = settled(Timeline(reading, 50 * MS))
        assert timeline.startup() == Startup(51 * MS, 350 * MS, 450 * MS)
        assert timeline.startup().total_ns == 399 * MS
        bars = [timeline.bar(number) for number in range(len(reading.exchanges))]
        assert [(one.call.method, one.start_ns // MS, one.end_ns and one.end_ns // MS) for one in bars] == [
            ("initialize", 52, 390), ("tools/list", 391, 450), ("tools/call", 1050, 1250), ("tools/call", 1150, 1550),
            ("sampling/createMessage", 1300, 1500), ("tools/call", 1950, None),
        ]  # fmt: skip
        assert bars[3].waits == ((1300 * MS, 1500 * MS),)
        assert bars[4].waits == ()
        assert timeline.within(1260 * MS, 1400 * MS, 10) == [3, 4]
        assert timeline.within(0, 10**12, 3) is None
        assert timeline.count(0, 400 * MS) == 2
        assert timeline.within(10**12, 2 * 10**12, 10) == [5]
        assert timeline.counts(0, 2000 * MS, 4) == [2, 0, 3, 1]
        reading.close()

    @given(st.integers(0, 2**32))
    @settings(max_examples=15, deadline=None)
    def test_what_runs_in_a_stretch_is_what_a_slow_look_finds(
        self, tmp_path_factory: pytest.TempPathFactory, seed: int
    ) -> None:
        rng = random.Random(seed)
        made: list[Timed] = []
        for number in range(BLOCK + 90):
            start = rng.randrange(10_000)
            made.append(at(start, "c2s", CALL % (number, number)))
            if rng.random() < 0.97:
                made.append(at(start + int(rng.expovariate(1 / 20)), "s2c", FINE % (number, number)))
        made.sort(key=lambda one: one[0])
        reading = read(timed(tmp_path_factory.mktemp("any") / "x.mcpcap", served("x"), made))
        timeline = settled(Timeline(reading, 0))
        bars = [timeline.bar(number) for number in range(len(reading.exchanges))]
        for _ in range(30):
            low = rng.randrange(11_000) * MS
            high = low + rng.randrange(1, 500) * MS
            found = timeline.within(low, high, 10**6)
            wanted = [
                number for number, bar in enumerate(bars)
                if bar.start_ns < high and (bar.start_ns >= low or bar.end_ns is None or bar.end_ns >= low)
            ]  # fmt: skip
            assert found == wanted
            counts = timeline.counts(low, high, 7)
            assert sum(counts) == timeline.count(low, high) == sum(low <= bar.start_ns < high for bar in bars)
        reading.close()

    def test_a_lane_that_grows(self, tmp_path: Path) -> None:
        path, rng = session(tmp_path), random.Random(3)
        whole = path.read_bytes().splitlines(keepends=True)
        made = CaptureFile(tmp_path / "x.mcpcap")
        made.append(whole[0])
        reading = Reading(tmp_path / "x.mcpcap")
        timeline = Timeline(reading, 0)
        for line in whole[1:]:
            made.append(line)
            for _ in range(rng.randrange(3)):
                reading.step()
                timeline.step()
        made.close()
        while not reading.has_ended or timeline.step():
            reading.step()
        again = settled(Timeline(read(path), 0))
        bars = [[one.bar(number) for number in range(6)] for one in (timeline, again)]
        assert bars[0] == bars[1]
        assert timeline._ends == again._ends
        assert list(timeline._open) == list(again._open) == [1]
        reading.close()
        again.reading.close()

    def test_cancelled_ones_end_where_they_were_cancelled(self, tmp_path: Path) -> None:
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'
        made = [at(10, "c2s", CALL % (2, 2)), at(40, "c2s", cancel), at(90, "c2s", CALL % (3, 3))]
        reading = read(timed(tmp_path / "x.mcpcap", served("x"), made))
        timeline = settled(Timeline(reading, 0))
        assert timeline.bar(0)[1] == 40 * MS
        assert timeline.bar(0).outcome is Outcome.CANCELLED
        assert reading.exchanges.end[1] == NONE
        assert list(timeline._open) == [1]
        reading.close()

    def test_lanes_are_bounded(self, tmp_path: Path) -> None:
        own = session(tmp_path, "own", capture="a")
        for number in range(MOST_TIMELINES + 5):
            path = tmp_path / "own" / f"{number}.mcpcap"
            timed(path, served(str(number), mono_ms=number, capture=f"{number:032}"), startup(5))
        reading = read(own)
        timelines = Timelines(reading, list)
        while timelines.step() or not timelines.has_looked:
            pass
        assert len(timelines.all) == MOST_TIMELINES
        assert timelines.left_out == 6
        assert max(timeline.offset_ns for timeline in timelines.all) == (MOST_TIMELINES - 2) * MS
        timelines.close()
        reading.close()


class TestDrawing:
    """Cells."""

    @given(st.tuples(*[st.integers(-(2**70), 2**70)] * 4), st.integers(1, 300))
    def test_cells_stay_in_the_line(self, times: tuple[int, ...], cells: int) -> None:
        start, end, low, high = times
        found = cells_of(start, end, (low, high), cells)
        assert set(found) <= set(range(cells))
        window = (min(low, high), max(low, high))
        if window[0] < window[1] and window[0] <= start <= window[1] and start <= end:
            assert found or cells_of(start, end, window, cells)
        line = axis(window, low, cells)
        assert len(line) <= cells

    def test_a_bar_with_a_wait(self) -> None:
        call = Call("client", "tools/call", "x")
        bar = Bar(0, 100, call, Outcome.RESULT, ((20, 60),))
        assert [span.text for span in bar_cells(bar, (0, 100), 10, 100)] == ["██░░░░████"]
        assert "".join(span.text for span in bar_cells(bar._replace(waits=()), (-100, 300), 8, 0)) == "  ██    "
        (opened,) = bar_cells(bar._replace(end_ns=None, outcome=Outcome.UNANSWERED, waits=()), (0, 100), 4, 100)
        assert opened == ("████", "bad")
        init = bar._replace(call=Call("client", "initialize", None), waits=())
        assert bar_cells(init, (0, 100), 3, 100)[0].text == "▓▓▓"

    def test_a_start(self) -> None:
        spans = server_cells([0, 0, 0, 4, 0, 1], Startup(10, 50, 60), (0, 120), 120)
        assert "".join(span.text for span in spans) == "▒▒▒█ ▂"
        waiting = server_cells([0, 0, 0], Startup(10, None, None), (0, 30), 30)
        assert "".join(span.text for span in waiting) == " ▒▒"

    @pytest.mark.parametrize(
        ("window", "cells", "line"),
        [((0, 10**9), 40, "0.0s    0.2s    0.4s    0.6s    0.8s"), ((0, 10**9), 1, ""), ((5, 5), 9, ""),
         ((0, 7200 * 10**9), 20, "0s        1h00m")],
    )  # fmt: skip
    def test_an_axis(self, window: tuple[int, int], cells: int, line: str) -> None:
        assert axis(window, 0, cells) == line

    def test_moments(self) -> None:
        assert moment(1_500_000_000, 10_000_000) == "1.50s"
        assert moment(125 * 10**9, 10**9) == "2m05s"
        assert moment(-2 * 10**9, 10**9) == "-2s"


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

    @given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000) | st.none()), max_size=60), st.integers(1, 30))
    @settings(max_examples=30, deadline=None)
    def test_a_map_is_what_a_slow_look_finds(
        self, tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int | None]], cells: int
    ) -> None:
        made: list[Timed] = []
        for number, (start, took) in enumerate(calls):
            made.append(at(start, "c2s", CALL % (number, number)))
            if took is not None:
                made.append(at(start + took, "s2c", FINE % (number, number)))
        made.sort(key=lambda one: one[0])
        reading = read(timed(tmp_path_factory.mktemp("any") / "x.mcpcap", served("x"), made, is_closed=False))
        timeline = settled(Timeline(reading, 7 * MS))
        timeline.heat_map(7 * MS, 5007 * MS, cells)
        while timeline.step():
            pass
        heat_map = timeline.heat_map(7 * MS, 5007 * MS, cells)
        assert heat_map is not None
        exchanges = reading.exchanges
        begun = [number for number in range(len(exchanges)) if timeline.bar(number).start_ns < 5007 * MS]
        assert sum(row.count for row in heat_map.rows.values()) == len(begun)
        slowest = sorted((exchanges.latency_ns[number] for number in begun), reverse=True)[:OUTLIERS]
        found = sorted((exchanges.latency_ns[number] for number in heat_map.outliers), reverse=True)
        assert found == [latency for latency in slowest if latency >= 0]
        for row in heat_map.rows.values():
            assert len("".join(span.text for span in heat_cells(row.worst_ns))) == cells
        reading.close()

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

    @pytest.mark.parametrize("size", [(80, 24), (40, 10), (1, 1), (200, 60)])
    @pytest.mark.parametrize("make", [hostile, lambda: [("header", header())], lambda: conversationless()])
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
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)


def conversationless() -> list[tuple[str, bytes]]:
    """A name that would like to be something else, and clocks that make no sense."""
    head = header(name="\x1b[31m\u202eevil" * 50, parents=[{"pid": 1, "start": 2, "exe": "\x1b]0;x\x07"}],
                  boot_id="\x07", mono_ns=-(2**90), wall_ns="x")  # fmt: skip
    return [("header", head), said("c2s", CALL % (1, 1)), ("stderr", stderr_members(b"\x1b"))]


def test_stamps_that_make_no_sense(tmp_path: Path) -> None:
    records = lines([("header", header()), said("c2s", CALL % (1, 1)), said("s2c", FINE % (1, 1))])
    late = seal(3, 2**62, *said("c2s", CALL % (2, 2)))
    early = seal(4, 5, *said("s2c", FINE % (2, 2)))
    (tmp_path / "x.mcpcap").write_bytes(b"".join([*records, late, early, seal(5, 6, *said("c2s", CALL % (3, 3)))]))
    reading = read(tmp_path / "x.mcpcap")
    timeline = settled(Timeline(reading, 0))
    for low, high in ((0, 10), (0, 2**63), (2**62, 2**62 + 1)):
        assert len(timeline.counts(low, high, 9)) == 9
        assert all(count >= 0 for count in timeline.counts(low, high, 9))
        for number in timeline.within(low, high, 50) or ():
            assert len("".join(span.text for span in bar_cells(timeline.bar(number), (low, high), 20, high))) == 20
    reading.close()
