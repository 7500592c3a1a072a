"""Timeline: which captures belong to one client, where calls lie on the clock, and what the keys do."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.call import Outcome
from analysis.reading import Reading as Whole
from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.client_captures import ClientCaptures, client_of, header_of, start_difference_ns
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.heat import ABANDONED, BAD, MAX_OUTLIERS, NOTHING, RUNNING, HeatRow
from mcpproxy.tui.data.timelines import CALLS_PER_BLOCK, MIN_STRETCH_AROUND_NS, CallBar, Startup, Timeline, cells_of
from mcpproxy.tui.rows.heat_scale import CLASSES, class_of, limit_texts, limits_over
from mcpproxy.tui.rows.timeline_rows import duration_span
from mcpproxy.tui.rows.waterfall import (
    LEGEND,
    axis,
    bar_cells,
    heat_cells,
    heat_legend,
    legend,
    server_cells,
    time_text,
)
from tests.analysis.http_trace import HttpTrace, request, result
from tests.captures.samples import frame, header, lines
from tests.examples import examples
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import CALL, END, FINE, INITIALIZE, INITIALIZED, frame_record

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
    """A frame at a given time."""
    return ms, "frame", frame(direction, raw)  # type: ignore[arg-type]


def served(name: str, mono_ms: int = 0, capture: str = "a", **more: object) -> bytes:
    """The header of a capture whose client is Cursor."""
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
    """The records of a server's start, in four phases."""
    return [
        (1, "process", members(event="spawned", pid=7, start=9)),
        at(2, "c2s", INITIALIZE),
        (delay, "stderr", stderr_members(b"ready")),
        at(delay + 40, "s2c", INITIALIZED),
        at(delay + 41, "c2s", LIST),
        at(delay + 100, "s2c", LISTED),
    ]


def session(folder: Path, name: str = "library", mono_ms: int = 0, capture: str = "a", delay: int = 300) -> Path:
    """Write a capture of a server with its start, two overlapping calls, and a request from the server."""
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
    """The timeline, once the ends of all calls are known."""
    while timeline.step():
        pass
    return timeline


class TestKin:
    """Which captures belong to one client."""

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
        assert start_difference_ns(one, {"boot_id": "b", "mono_ns": 17, "wall_ns": 9000}) == 7
        assert start_difference_ns(one, {"boot_id": "c", "mono_ns": 17, "wall_ns": 480}) == -20
        assert start_difference_ns(one, {"boot_id": "b", "mono_ns": None, "wall_ns": 480}) == -20
        assert start_difference_ns(one, {"boot_id": "c", "wall_ns": 2**80}) is None
        assert start_difference_ns(one, {"wall_ns": True}) is None
        assert start_difference_ns({}, {}) is None

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
            kin.list_files()
            while kin.step():
                pass
            assert sorted(kin.related) == sorted([(beside, 5 * MS), (listed, -7 * MS)])

    def test_a_header_is_read_alone_or_as_the_reader_does(self, tmp_path: Path) -> None:
        path = session(tmp_path)
        assert header_of(path)["name"] == "library"
        path.write_bytes(b"x" + path.read_bytes())
        assert "name" not in header_of(path) or header_of(path)["name"] == "library"


class TestLanes:
    """The lanes of calls: what lies where on the clock."""

    def test_a_session_on_the_clock(self, tmp_path: Path) -> None:
        reading = read(session(tmp_path))
        timeline = settled(Timeline(reading, 50 * MS))
        assert timeline.startup() == Startup(51 * MS, 350 * MS, 450 * MS)
        assert timeline.startup().total_ns == 399 * MS
        bars = [timeline.bar(number) for number in range(len(reading.calls))]
        assert [(one.kind.method, one.start_ns // MS, one.end_ns and one.end_ns // MS) for one in bars] == [
            ("initialize", 52, 390), ("tools/list", 391, 450), ("tools/call", 1050, 1250), ("tools/call", 1150, 1550),
            ("sampling/createMessage", 1300, 1500), ("tools/call", 1950, None),
        ]  # fmt: skip
        assert bars[3].waits == ((1300 * MS, 1500 * MS),)
        assert bars[4].waits == ()
        assert timeline.calls_within(1260 * MS, 1400 * MS, 10) == [3, 4]
        assert timeline.calls_within(0, 10**12, 3) is None
        assert timeline.call_count(0, 400 * MS) == 2
        assert timeline.calls_within(10**12, 2 * 10**12, 10) == [5]
        counts = timeline.call_counts(0, 2000 * MS, 4)
        assert counts == [2, 0, 3, 1]
        # The last call was never answered.
        assert timeline.bad_cells(0, 2000 * MS, counts) == {3}
        assert timeline.bad_cells(0, 1900 * MS, timeline.call_counts(0, 1900 * MS, 4)) == set()
        reading.close()

    @given(st.integers(0, 2**32))
    @examples(4)
    def test_what_runs_in_a_stretch_is_what_a_slow_look_finds(
        self, tmp_path_factory: pytest.TempPathFactory, seed: int
    ) -> None:
        rng = random.Random(seed)
        made: list[Timed] = []
        for number in range(CALLS_PER_BLOCK + 90):
            start = rng.randrange(10_000)
            made.append(at(start, "c2s", CALL % (number, number)))
            if rng.random() < 0.97:
                made.append(at(start + int(rng.expovariate(1 / 20)), "s2c", FINE % (number, number)))
        made.sort(key=lambda one: one[0])
        reading = read(timed(tmp_path_factory.mktemp("any") / "x.mcpcap", served("x"), made))
        timeline = settled(Timeline(reading, 0))
        bars = [timeline.bar(number) for number in range(len(reading.calls))]
        for _ in range(30):
            low = rng.randrange(11_000) * MS
            high = low + rng.randrange(1, 500) * MS
            found = timeline.calls_within(low, high, 10**6)
            wanted = [
                number for number, bar in enumerate(bars)
                if bar.start_ns < high and (bar.start_ns >= low or bar.end_ns is None or bar.end_ns >= low)
            ]  # fmt: skip
            assert found == wanted
            counts = timeline.call_counts(low, high, 7)
            assert sum(counts) == timeline.call_count(low, high) == sum(low <= bar.start_ns < high for bar in bars)
        reading.close()

    def test_a_stretch_around_calls_that_begin_at_once_is_no_single_moment(self, tmp_path: Path) -> None:
        made = [at(5000, "c2s", CALL % (number, number)) for number in range(9)]
        reading = read(timed(tmp_path / "x.mcpcap", served("x"), made))
        timeline = settled(Timeline(reading, 50 * MS))
        low, high = timeline.stretch_around(4, 6)
        assert (low + high) // 2 == 5050 * MS
        assert high - low == MIN_STRETCH_AROUND_NS
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
        assert list(timeline._open_counts) == list(again._open_counts) == [1]
        reading.close()
        again.reading.close()

    def test_cancelled_ones_end_where_they_were_cancelled(self, tmp_path: Path) -> None:
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}'
        made = [at(10, "c2s", CALL % (2, 2)), at(40, "c2s", cancel), at(90, "c2s", CALL % (3, 3))]
        reading = read(timed(tmp_path / "x.mcpcap", served("x"), made))
        timeline = settled(Timeline(reading, 0))
        assert timeline.bar(0)[1] == 40 * MS
        assert timeline.bar(0).outcome is Outcome.CANCELLED
        assert reading.calls.end[1] == NONE
        assert list(timeline._open_counts) == [1]
        reading.close()


class TestHeatScale:
    """Which latencies each height of a block means."""

    @given(st.integers(1, 10**12), st.integers(1, 10**5))
    def test_the_shortest_and_the_longest_are_in_other_classes(self, low: int, factor: int) -> None:
        limits = limits_over([(low, low * max(20, factor)), None])
        assert list(limits) == sorted(limits)
        if low > 1000:
            assert class_of(low, limits) == CLASSES[0]
            assert class_of(low * max(20, factor), limits) == CLASSES[-1]

    def test_calls_that_take_about_as_long_are_in_the_middle(self) -> None:
        limits = limits_over([(5 * MS, 5 * MS)])
        assert {class_of(ns, limits) for ns in (4 * MS, 5 * MS, 6 * MS)} == {CLASSES[2]}
        assert class_of(0, limits) == CLASSES[0]

    def test_the_legend_says_the_limits(self) -> None:
        assert limit_texts(limits_over([(2 * MS, 2000 * MS)])) == [
            ("▁", "<8.0ms"),
            ("▂", "<32ms"),
            ("▄", "<130ms"),
            ("▆", "<500ms"),
            ("█", "≥500ms"),
        ]

    def test_few_errors_do_not_hide_the_durations(self) -> None:
        row = HeatRow(3)
        for number in range(30):
            row.add(0, 5 * MS, is_bad=number < 7, is_abandoned=False)
            row.add(1, 5 * MS, is_bad=number < 8, is_abandoned=False)
        row.add(2, 7 * MS, is_bad=False, is_abandoned=True)
        row.finish()
        assert row.worst_ns == [5 * MS, BAD, ABANDONED]
        assert row.bad_count == 16
        limits = limits_over([(5 * MS, 5 * MS)])
        # A few errors have a form and a colour of their own; only many of them are red.
        assert heat_cells(row, limits) == [("⣤", "warm"), ("!✗", "bad")]
        assert {role for _, role in CLASSES} == {"dim", "accent"}

    def test_there_is_a_scale_without_calls(self) -> None:
        assert limit_texts(limits_over([None])) == limit_texts(limits_over([]))
        assert len(set(limits_over([]))) == len(CLASSES) - 1


class TestDrawing:
    """How times are drawn as cells."""

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
        call = CallKind("client", "tools/call", "x")
        bar = CallBar(0, 100, call, Outcome.RESULT, ((20, 60),))
        assert [span.text for span in bar_cells(bar, (0, 100), 10, 100)] == ["██╌╌╌╌████"]
        assert "".join(span.text for span in bar_cells(bar._replace(waits=()), (-100, 300), 8, 0)) == "  ██    "
        (opened,) = bar_cells(bar._replace(end_ns=None, outcome=Outcome.UNANSWERED, waits=()), (0, 100), 4, 100)
        assert opened == ("████", "bad")
        init = bar._replace(kind=CallKind("client", "initialize", None), waits=())
        assert bar_cells(init, (0, 100), 3, 100)[0].text == "▓▓▓"

    def test_a_start(self) -> None:
        spans = server_cells([0, 0, 0, 4, 0, 1], Startup(10, 50, 60), (0, 120), 120)
        assert "".join(span.text for span in spans) == "▒▒▒█ ▂"
        bad = server_cells([0, 0, 0, 4, 0, 1], Startup(10, 50, 60), (0, 120), 120, {5})
        assert bad[-2:] == [("█ ", "accent"), ("⣀", "bad")]
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
        assert time_text(1_500_000_000, 10_000_000) == "1.50s"
        assert time_text(125 * 10**9, 10**9) == "2m05s"
        assert time_text(-2 * 10**9, 10**9) == "-2s"

    def test_a_legend_has_all_signs_in_eighty_columns(self) -> None:
        for signs in (LEGEND, heat_legend(limits_over(()))):
            narrow, wide = ("".join(span.text for span in legend(signs, width)) for width in (78, 120))
            left_out = ["╌", "+"] if signs is not LEGEND else []
            assert [sign.sign for sign in signs if sign.sign not in narrow] == left_out
            assert len(narrow) <= 78
            assert len(wide) <= 120
            assert all(f"{sign.sign} {sign.text}" in wide for sign in signs)
            # Each sign is drawn in the colour that it explains.
            assert {(sign.sign, sign.role) for sign in signs} <= set(legend(signs, 120))


CANCEL = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"%b"}}'


def test_a_call_lasts_until_its_cancellation_and_a_late_response_says_so(tmp_path: Path) -> None:
    calls = [at(n, "c2s", CALL % (n, n)) for n in (0, 1, 2, 3)]
    ends = [
        at(300, "c2s", CANCEL % (1, b"the user left")),
        at(303, "c2s", CANCEL % (3, b"timed out")),
        at(403, "c2s", CANCEL % (0, b"timed out")),
        at(500, "s2c", FINE % (2, 2)),
        at(1000, "s2c", FINE % (1, 1)),
        at(1008, "s2c", FINE % (0, 0)),
    ]
    reading = read(timed(tmp_path / "x.mcpcap", served("x"), [*calls, *ends]))
    timeline = settled(Timeline(reading, 0))
    bars = [timeline.bar(number) for number in range(4)]
    assert [(bar.end_ns or 0) // MS for bar in bars] == [403, 300, 500, 303]
    assert [reading.lasted_ns(number) for number in range(4)] == [403 * MS, 299 * MS, 498 * MS, 300 * MS]
    assert [reading.calls.latency_ns[number] for number in (0, 1, 2)] == [1008 * MS, 999 * MS, 498 * MS]
    words = [duration_span(bar, is_live=False).text for bar in bars]
    assert words == ["✗ 403ms, late", "299ms, late", "498ms", "✗ 300ms"]
    timeline.request_heat_map(0, 2000 * MS, 1)
    while timeline.step():
        pass
    heat_map = timeline.request_heat_map(0, 2000 * MS, 1)
    assert heat_map is not None
    assert heat_map.outliers == [0, 1, 2, 3]
    assert [(row.max_ns, row.worst_ns) for row in heat_map.rows.values()] == [(498 * MS, [ABANDONED])]
    reading.close()


GIVEN_UP = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32800,"message":"Request cancelled"}}'


def test_a_call_without_a_response_lasts_until_the_end_in_a_map(tmp_path: Path) -> None:
    records: list[Timed] = [
        at(100, "c2s", CALL % (1, 1)),
        at(110, "s2c", FINE % (1, 1)),
        at(300, "c2s", CALL % (2, 2)),
        at(900, "c2s", b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'),
    ]
    timeline = settled(Timeline(read(timed(tmp_path / "x.mcpcap", served("library"), records)), 0))
    timeline.request_heat_map(0, 1000 * MS, 10)
    while timeline.step():
        pass
    heat_map = timeline.request_heat_map(0, 1000 * MS, 10)
    assert heat_map is not None
    assert [row.worst_ns for row in heat_map.rows.values()] == [
        [NOTHING, 10 * MS, NOTHING, BAD, *[RUNNING] * 5, NOTHING]
    ]
    assert [row.max_ns for row in heat_map.rows.values()] == [timeline.reading.index.last_ns - 300 * MS]
    assert heat_map.outliers == [0, 1]
    timeline.reading.close()


def test_a_cancelled_call_is_no_error_and_says_how_long_it_had_waited(tmp_path: Path) -> None:
    calls = [at(n, "c2s", CALL % (n, n)) for n in (0, 1, 2, 3)]
    ends = [
        at(300, "c2s", CANCEL % (0, b"the user left")),
        at(302, "c2s", CANCEL % (1, b"the user left")),
        at(310, "s2c", GIVEN_UP % 0),
        at(320, "s2c", GIVEN_UP % 2),
        at(403, "s2c", FINE % (4, 4)),
    ]
    reading = read(timed(tmp_path / "x.mcpcap", served("x"), [*calls, *ends]))
    timeline = settled(Timeline(reading, 0))
    bars = [timeline.bar(number) for number in range(4)]
    words = [duration_span(bar, is_live=False) for bar in bars]
    assert [span.text for span in words] == ["cancelled 300ms", "cancelled 301ms", "! 318ms", "unanswered 400ms"]
    assert [span.role for span in words] == ["dim", "dim", "bad", "bad"]
    assert [bar_cells(bar, (0, 500 * MS), 1, 0)[0].role for bar in bars] == ["dim", "dim", "bad", "bad"]
    timeline.request_heat_map(0, 2 * MS, 2)
    while timeline.step():
        pass
    heat_map = timeline.request_heat_map(0, 2 * MS, 2)
    assert heat_map is not None
    assert [row.worst_ns for row in heat_map.rows.values()] == [[300 * MS, 301 * MS]]
    reading.close()


def test_a_call_lasts_until_its_http_exchange_has_failed(tmp_path: Path) -> None:
    trace = HttpTrace()
    exchange = trace.post(request(1, "tools/call", name="search"))
    trace.stream(exchange)
    trace.end(exchange)
    trace.answer(trace.post(request(2, "ping")), result(2))
    path = tmp_path / "x.mcpcap"
    path.write_bytes(b"".join(line for _, line in trace.case().records()))
    reading = read(path)
    call = {call.number: call for step in Whole(path).to_end() for call in step.changed}[0]
    assert call.exchange_end is not None
    bar = settled(Timeline(reading, 0)).bar(0)
    assert (bar.outcome, bar.end_ns) == (Outcome.FAILED, call.exchange_end.t_ns)
    reading.close()


class TestScreen:
    """What the screen shows of a timeline."""

    @given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000) | st.none()), max_size=60), st.integers(1, 30))
    @examples(15)
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
        timeline.request_heat_map(7 * MS, 5007 * MS, cells)
        while timeline.step():
            pass
        heat_map = timeline.request_heat_map(7 * MS, 5007 * MS, cells)
        assert heat_map is not None
        begun = [number for number in range(len(reading.calls)) if timeline.bar(number).start_ns < 5007 * MS]
        assert sum(row.count for row in heat_map.rows.values()) == len(begun)
        slowest = sorted((timeline.bar(number).lasted_ns or 0 for number in begun), reverse=True)[:MAX_OUTLIERS]
        found = sorted((timeline.bar(number).lasted_ns or 0 for number in heat_map.outliers), reverse=True)
        assert found == slowest
        for row in heat_map.rows.values():
            assert len("".join(span.text for span in heat_cells(row, limits_over([heat_map.usual_ns])))) == cells
        reading.close()


def test_stamps_that_make_no_sense(tmp_path: Path) -> None:
    records = lines([("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", FINE % (1, 1))])
    late = seal(3, 2**62, *frame_record("c2s", CALL % (2, 2)))
    early = seal(4, 5, *frame_record("s2c", FINE % (2, 2)))
    (tmp_path / "x.mcpcap").write_bytes(
        b"".join([*records, late, early, seal(5, 6, *frame_record("c2s", CALL % (3, 3)))])
    )
    reading = read(tmp_path / "x.mcpcap")
    timeline = settled(Timeline(reading, 0))
    for low, high in ((0, 10), (0, 2**63), (2**62, 2**62 + 1)):
        assert len(timeline.call_counts(low, high, 9)) == 9
        assert all(count >= 0 for count in timeline.call_counts(low, high, 9))
        for number in timeline.calls_within(low, high, 50) or ():
            assert len("".join(span.text for span in bar_cells(timeline.bar(number), (low, high), 20, high))) == 20
    reading.close()
