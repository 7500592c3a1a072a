"""Latency: the counts are those of the exchanges, whatever they are called, at rest and while the capture grows."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.conversation.exchange import Outcome
from analysis.conversation.histogram import Histogram
from analysis.filter import Facts, parse
from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.report.blocks import blocks, shape, stretched
from mcpproxy.report.units import brief
from mcpproxy.tui.data.calls import MOST, Call, Calls
from mcpproxy.tui.data.durations import SLICES, Course
from mcpproxy.tui.data.exchanges import OUTCOMES
from mcpproxy.tui.data.latencies import Latencies
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.latency_lines import Bucket, bucket_filter, octave_ns
from mcpproxy.tui.screens.latency import LatencyScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    INITIALIZE,
    INITIALIZED,
    WRONG,
    Middles,
    Stage,
    _pressed,
    captured,
    conversation,
    play,
    record,
    said,
)

CORPUS = Path(__file__).parents[2] / "corpus/captures"
HOSTILE = [
    *("\x1b]52;c;aGk=\x07", "[/][@click=app.quit]x", "\u202egnp", "漢字" * 40, "x" * 10_000),
    *("", 'a b"c\\d', "\ud800"),
]


def calling(name: str, id_: int) -> bytes:
    """A call of a tool with any name."""
    params = {"name": name, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}).encode()


def hostile() -> Middles:
    """Calls of tools with names that would like to be something else."""
    made: Middles = [("header", header(name="x"))]
    for number, name in enumerate(HOSTILE):
        made += [said("c2s", calling(name, number)), said("s2c", FINE % (number, number))]
    return made


def timed(path: Path, middles: Middles, stamps_ms: list[int]) -> Path:
    """A capture whose records have given times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = zip([*middles, END], [*stamps_ms, stamps_ms[-1]], strict=True)
    path.write_bytes(b"".join(seal(seq, ms * 10**6, *middle) for seq, (middle, ms) in enumerate(records)))
    return path


def counted(path: Path) -> tuple[Latencies, Reading]:
    """All that is to be counted."""
    reading = Reading(path)
    while not reading.has_ended:
        reading.step()
    latencies = Latencies(reading)
    while latencies.step():
        pass
    return latencies, reading


class TestDurations:
    """How they changed, and how they are drawn."""

    @given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**30)), min_size=1, max_size=60))
    def test_a_course_keeps_all(self, ends: list[tuple[int, int]]) -> None:
        course = Course()
        for t_ns, ns in ends:
            course.add(t_ns, ns)
        found = course.quantiles(1.0)
        assert len(found) <= SLICES
        last = max(t_ns for t_ns, _ in ends)
        assert len(found) == last // course.slice_ns + 1
        assert max(value or 0 for value in found) == pytest.approx(max(ns for _, ns in ends), rel=0.04, abs=1)

    def test_what_is_there_is_seen(self) -> None:
        assert blocks([1, 0, None, 1000, 500]) == "▁  █▄"
        assert blocks([0, None]) == "  "
        assert stretched([1, None, 3, None, None, 2], 3) == [1, 3, 2]
        assert stretched([1, 2], 10) == [1, 2]
        assert shape({}, 10) == ""
        assert shape({3: 1, 4: 0, 30: 9}, 10) == "▁        █"

    @pytest.mark.parametrize(
        ("ns", "text"),
        [(None, "–"), (0, "0µs"), (341_000, "341µs"), (1_500_000, "1.5ms"), (410_000_000, "410ms"),
         (1_940_000_000, "1.9s"), (999_400_000_000, "999.4s"), (3_600_000_000_000, "60m")],
    )  # fmt: skip
    def test_durations_are_short(self, ns: int | None, text: str) -> None:
        assert brief(ns) == text
        assert len(text) <= 6


class TestCounts:
    """What is counted."""

    def test_counts_are_those_of_the_exchanges(self, tmp_path: Path) -> None:
        latencies, reading = counted(captured(tmp_path, calls=30))
        (tool,) = (one for one in latencies.rows if one.call.name == "search")
        assert (tool.call.method, tool.call.side) == ("tools/call", "client")
        assert (tool.asked, tool.answered, tool.errors) == (31, 30, 10)
        assert tool.p50_ns == pytest.approx(1_000_000, rel=0.03)
        assert tool.most_ns == 1_000_000
        (first,) = (one for one in latencies.rows if one.call.method == "initialize")
        assert (first.asked, first.answered, first.call.name) == (1, 1, None)
        assert sum(one.asked for one in latencies.rows) == len(reading.exchanges)
        reading.close()

    @pytest.mark.parametrize("name", ["demo", "every-type", "gaps", "good", "http", "killed", "ring.3", "damaged"])
    def test_they_are_those_of_the_sql_views(self, name: str) -> None:
        path = CORPUS / f"{name}.mcpcap"
        latencies, reading = counted(path)
        with analysis.open(path) as connection:
            rows = connection.execute(
                """
                select asked_by, method, name, count(*), count(*) filter (is_error), count(answer_ms), max(answer_ms)
                from calls group by all
                """
            ).fetchall()
        figures = [
            (*one.call[:3], one.asked, one.errors, one.answered, None if one.most_ns is None else one.most_ns / 1e6)
            for one in latencies.rows
        ]
        assert sorted(figures, key=str) == sorted(rows, key=str)
        reading.close()

    def test_a_cancelled_request_counts_as_no_answer(self, tmp_path: Path) -> None:
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'
        middles = [("header", header()), said("c2s", CALL % (1, 1)), said("c2s", cancel % 1)]
        middles += [said("s2c", FINE % (1, 1)), said("c2s", CALL % (2, 2)), said("c2s", cancel % 2)]
        middles += [said("c2s", CALL % (3, 3)), said("s2c", WRONG % 3), END]
        latencies, reading = counted(record(tmp_path / "x.mcpcap", middles))
        (only,) = latencies.rows
        assert (only.asked, only.answered, only.errors) == (3, 1, 1)
        assert [OUTCOMES[code] for code in reading.exchanges.outcome] == [
            Outcome.RESULT, Outcome.CANCELLED, Outcome.ERROR,
        ]  # fmt: skip
        reading.close()

    def test_both_sides_ask_for_themselves(self, tmp_path: Path) -> None:
        ping = b'{"jsonrpc":"2.0","id":5,"method":"ping"}'
        pong = b'{"jsonrpc":"2.0","id":5,"result":{}}'
        middles = [said("c2s", ping), said("s2c", pong), said("s2c", ping), said("c2s", pong)]
        latencies, reading = counted(record(tmp_path / "x.mcpcap", [("header", header()), *middles, END]))
        assert [one.call.text for one in latencies.rows] == ["ping", "← ping"]
        assert [one.answered for one in latencies.rows] == [1, 1]
        reading.close()

    def test_a_file_that_grows_counts_the_same(self, tmp_path: Path) -> None:
        rng, known = random.Random(2), lines([*conversation(60), END])
        made = CaptureFile(tmp_path / "x.mcpcap")
        made.append(known[0])
        reading = Reading(tmp_path / "x.mcpcap")
        latencies = Latencies(reading)
        latencies.choose(1)
        for line in known[1:]:
            made.append(line)
            for _ in range(rng.randrange(3)):
                reading.step()
                latencies.step()
        made.close()
        while not reading.has_ended or latencies.step():
            reading.step()
            latencies.step()
        again, other = counted(tmp_path / "x.mcpcap")
        again.choose(1)
        while again.step():
            pass
        assert latencies.rows == again.rows
        assert latencies.distribution == again.distribution
        assert again.distribution is not None
        assert again.distribution.is_whole
        assert sum(again.distribution.octaves.values()) == 60
        reading.close()
        other.close()

    def test_kinds_are_bounded(self) -> None:
        class Asked:
            sender, method = "client", "tools/call"

            def __init__(self, number: int) -> None:
                self.params = {"name": f"t{number}"}

        calls = Calls()
        numbers = [calls.number(Asked(number)) for number in range(MOST + 50)]  # type: ignore[arg-type]
        assert len(calls.all) == MOST + 1
        assert set(numbers[MOST:]) == {MOST}
        assert calls.number(Asked(3)) == 3  # type: ignore[arg-type]
        assert calls.all[MOST].filter is None

    @pytest.mark.parametrize("number", range(len(HOSTILE)))
    def test_its_filter_selects_a_kind(self, tmp_path: Path, number: int) -> None:
        path = record(tmp_path / "x.mcpcap", [*hostile(), said("c2s", b'{"jsonrpc":"2.0","id":77,"method":"m"}'), END])
        _, reading = counted(path)
        call = reading.calls.all[number]
        assert call.filter is not None
        scan = Scan(reading, parse(call.filter))
        while not scan.has_ended:
            scan.step()
        assert list(scan.rows) == [1 + 2 * number, 2 + 2 * number]
        scan.close()
        reading.close()

    @pytest.mark.parametrize("method", ["and", "a(b", "tools/*", "x" * 300, 'q"', "\x00"])
    def test_any_method_has_a_filter(self, method: str) -> None:
        call = Call("client", method[:256], None)
        assert call.filter is not None
        assert parse(call.filter).text


class TestScreen:
    """The keys."""

    def test_rows_and_the_chosen_one(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("library › latency", "tools/call search", "1.0ms", "p95 by time", "█", "by n", "31")
            await stage.see("30 responses to 31 requests", "524µs")
            await stage.press("down")
            await stage.see("1 response to 1 request")
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, captured(tmp_path, calls=30))

    def test_sorting_keeps_the_cursor_on_its_row(self, tmp_path: Path) -> None:
        middles = [("header", header()), said("c2s", INITIALIZE), said("s2c", INITIALIZED)]
        for number in range(1, 8):
            name = "often" if number < 6 else "failing"
            answer = WRONG % number if name == "failing" else FINE % (number, 1)
            middles += [said("c2s", calling(name, number)), said("s2c", answer)]
        path = record(tmp_path / "x" / "x.mcpcap", [*middles, END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("tools/call often")
            screen = stage.app.screen
            assert isinstance(screen, LatencyScreen)

            def names() -> list[str | None]:
                return [one.call.name for one in screen._rows.items]

            assert names() == ["often", "failing", None]
            await stage.press("down", "s")
            await stage.see("by err")
            assert names() == ["failing", "often", None] or names()[0] == "failing"
            assert screen.selected is not None
            assert screen.selected.call.name == "failing"
            for word in ("by p50", "by p90", "by p95", "by p99", "by max", "by name", "by n"):
                await stage.press("s")
                await stage.see(word)

        play(act, path)

    def test_enter_filters_the_traffic(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("tools/call search")
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.see("method:tools/call name:search", "13 of 16 frames")

        play(act, captured(tmp_path))

    def test_one_key_leads_to_the_slowest_call(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("tools/call search")
            await stage.press("w")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.see("n: 5", "1 text")
            assert stage.traffic.entry == slowest_row
            await stage.press("escape", "escape")
            await stage.see("library › latency")
            await stage.press("down", "W")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            assert stage.traffic.entry == slowest_row

        made = conversation(6)
        stamps_ms = [n if n < 13 else n + 700 for n in range(len(made))]
        path = timed(tmp_path / "x" / "x.mcpcap", made, stamps_ms)
        slowest_row = 12
        play(act, path)

    def test_the_slowest_of_all_is_a_call_and_not_the_start_of_the_server(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("initialize", "tools/call search")
            await stage.press("W")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.see("n: 5", "1 text")

        made = conversation(6)
        stamps_ms = [0, 1, *(900 + n if n < 13 else 1000 + n for n in range(2, len(made)))]
        play(act, timed(tmp_path / "x" / "x.mcpcap", made, stamps_ms))

    def test_a_capture_without_a_response_has_no_slowest_call(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), said("c2s", CALL % (1, 1)), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("tools/call search")
            await stage.press("w")
            await stage.see("there is no response")
            await stage.press("W", "a", "tab", "enter")
            assert isinstance(stage.app.screen, LatencyScreen)

        play(act, path)

    def test_a_bucket_filters_the_traffic(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.press("tab", "G", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.see(
                "method:tools/call name:search latency>=536.870912ms latency<1.073741824s", "2 of 16 frames"
            )
            await stage.press("escape", "k", "enter")
            await stage.see("no response took that long")
            await stage.press("g", "enter")
            await stage.see("latency>=524.288us latency<1.048576ms", "10 of 16 frames")

        made = conversation(6)
        path = timed(tmp_path / "x" / "x.mcpcap", made, [n if n < 13 else n + 700 for n in range(len(made))])
        play(act, path, size=(140, 40))

    def test_keys_wait_for_the_histogram(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            for _ in range(5):
                for key in ("L", "tab", "G", "enter"):
                    stage.app.post_message(_pressed(key))
                await stage.see("latency>=536.870912ms latency<1.073741824s", "2 of 16 frames")
                await stage.press("escape", "escape")
                await stage.until(lambda: "16 frames" in stage.text() and "of 16 frames" not in stage.text())

        made = conversation(6)
        path = timed(tmp_path / "x" / "x.mcpcap", made, [n if n < 13 else n + 700 for n in range(len(made))])
        play(act, path, size=(140, 40))

    @given(st.integers(0, 62), st.integers(0, 2**62))
    def test_a_buckets_filter_selects_what_it_counts(self, octave: int, ns: int) -> None:
        tests = parse(bucket_filter(Bucket(octave, 1, 1.0, 1.0, is_last=False)))
        low, high = octave_ns(octave)
        for value in (ns, low, high - 1, high):
            histogram = Histogram()
            histogram.add(value)
            facts = Facts(latency_ns=value)
            assert tests.matches(facts) == (octave in histogram.octaves())

    def test_shapes_share_an_axis(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            await stage.see("tools/call search")
            screen = stage.app.screen
            assert isinstance(screen, LatencyScreen)
            own = [screen._rows.line(row).cells["shape"][0].text for row in range(2)]
            assert own[1] == "█"
            await stage.press("a")
            await stage.see("shapes 524µs–1.1s")
            shared = [screen._rows.line(row).cells["shape"][0].text for row in range(2)]
            assert len(shared[0]) == len(shared[1])
            assert shared[1].rstrip() == "█"
            await stage.press("a")
            assert [screen._rows.line(row).cells["shape"][0].text for row in range(2)] == own

        made = conversation(6)
        path = timed(tmp_path / "x" / "x.mcpcap", made, [n if n < 13 else n + 700 for n in range(len(made))])
        play(act, path, size=(140, 40))

    def test_from_the_sessions_too(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.see("library")
            await stage.press("L")
            await stage.see("library › latency", "tools/call search", "7 requests")
            await stage.press("tab", "down", "G", "tab", "enter")
            await stage.see("method:tools/call name:search", "13 of 16 frames")
            await stage.press("escape", "escape")
            await stage.see("1 recorded")

        play(act, captured(tmp_path))

    def test_it_grows_with_the_capture(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        made = CaptureFile(tmp_path / "x" / "live.mcpcap")
        for line in lines(conversation(2)):
            made.append(line)

        async def act(stage: Stage) -> None:
            await stage.see("● library")
            await stage.press("enter", "L")
            await stage.see("2 responses to 3 requests", "● live")
            for number in range(200, 230):
                made.append(seal(number * 2, number * 10**9, "frame", said("c2s", CALL % (number, 1))[1]))
                answer = seal(number * 2 + 1, number * 10**9 + 410_000_000, "frame", said("s2c", FINE % (number, 1))[1])
                made.append(answer)
            await stage.see("32 responses to 33 requests", "410ms")

        play(act, tmp_path / "x" / "live.mcpcap")
        made.close()

    @pytest.mark.parametrize("size", [(80, 24), (40, 10), (1, 1), (200, 60)])
    def test_any_name_in_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*hostile(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            screen = stage.app.screen
            assert isinstance(screen, LatencyScreen)
            await stage.until(lambda: len(screen._rows.items) == len(HOSTILE))
            await stage.press("down", "down", "s", "tab", "down", "tab", "G", "g")
            assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
            assert all(len(line) <= size[0] for line in stage.text().splitlines())
            if size == (200, 60):
                await stage.see("\\x1b]52", "\\u202e", "[@click=app.quit]")
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)

    def test_nothing_to_count(self, tmp_path: Path) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [("header", header()), ("close", members(ending="client"))])

        async def act(stage: Stage) -> None:
            await stage.see("1 recorded")
            await stage.press("L")
            await stage.see("0 kinds of requests", "no requests")
            await stage.press("enter", "down", "s", "tab", "G", "escape")
            await stage.see("1 recorded")

        play(act, path)
