"""Latency: the counts match the exchanges, regardless of their names, and also while the capture grows."""

from pathlib import Path

import pytest

import analysis
from analysis.filter import parse
from captures.file import CaptureFile
from captures.record import members, seal
from mcpproxy.tui.data.call_selection import CallSelection
from mcpproxy.tui.data.latencies import Latencies
from mcpproxy.tui.screens.latency import LatencyScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import header, lines
from tests.mcpproxy.tui.hostile import HOSTILE_NAMES, calling, hostile_calls
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    INITIALIZE,
    INITIALIZED,
    WRONG,
    Stage,
    _pressed,
    captured,
    conversation,
    frame_record,
    play,
    play_each,
    record,
    sizes,
    timed,
)
from tests.mcpproxy.tui.test_call_selection import read
from tests.mcpproxy.tui.test_latency import counted

CORPUS = Path(__file__).parents[2] / "corpus/captures"


class TestCounts:
    """What the screen counts."""

    @pytest.mark.parametrize(
        "name",
        [
            "demo",
            "http",
            *(
                pytest.param(name, marks=pytest.mark.soak)
                for name in ("every-type", "gaps", "good", "killed", "ring.3", "damaged")
            ),
        ],
    )
    def test_they_are_those_of_the_sql_views(self, name: str) -> None:
        path = CORPUS / f"{name}.mcpcap"
        latencies, reading = counted(path)
        with analysis.open(path) as connection:
            rows = connection.execute(
                """
                select asked_by, method, name, count(*), count(*) filter (is_error), count(latency_ms), max(latency_ms)
                from calls group by all
                """
            ).fetchall()
        figures = [
            (*one.kind[:3], one.requests, one.errors, one.answered, None if one.max_ns is None else one.max_ns / 1e6)
            for one in latencies.rows
        ]
        assert sorted(figures, key=str) == sorted(rows, key=str)
        reading.close()


class TestSelection:
    """What the screen counts if it is limited to a filter."""

    @pytest.mark.parametrize(
        ("name", "expression", "condition"),
        [
            ("demo", "method:tools/*", "method like 'tools/%'"),
            ("demo", "latency>1ms", "latency_ms > 1"),
            ("demo", "has:error", "is_error"),
            ("http", "session:1 method:tools/call", "session = 1 and method = 'tools/call'"),
        ],
    )
    def test_they_are_those_of_the_sql_views_with_the_same_condition(
        self, name: str, expression: str, condition: str
    ) -> None:
        path = CORPUS / f"{name}.mcpcap"
        reading = read(path)
        selection = CallSelection(reading, parse(expression))
        latencies = Latencies(reading, selection)
        while latencies.step():
            pass
        with analysis.open(path) as connection:
            rows = connection.execute(
                f"""
                select asked_by, method, name, count(*), count(*) filter (is_error),
                    count(*) filter (state = 'unanswered'), count(*) filter (is_abandoned),
                    count(latency_ms), max(latency_ms), round(quantile_cont(latency_ms, 0.95), 3)
                from calls where {condition} group by all
                """
            ).fetchall()
        figures = [
            (
                *one.kind[:3],
                *(one.requests, one.errors, one.unanswered, one.abandoned, one.answered),
                None if one.max_ns is None else one.max_ns / 1e6,
                None if one.p95_ns is None else round(one.p95_ns / 1e6, 3),
            )
            for one in latencies.rows
            if one.requests
        ]
        assert rows
        assert sorted(figures, key=str) == sorted(rows, key=str)
        selection.close()
        reading.close()


def slow(path: Path) -> Path:
    """A capture whose fifth call takes 701 ms, in row 12."""
    made = conversation(6)
    return timed(path, made, [n if n < 13 else n + 700 for n in range(len(made))])


def slow_to_start(path: Path) -> Path:
    """A capture like `slow`, whose server takes even longer to start."""
    made = conversation(6)
    return timed(path, made, [0, 1, *(900 + n if n < 13 else 1000 + n for n in range(2, len(made)))])


def failing(path: Path) -> Path:
    """A capture with a tool that is called often, and one that fails."""
    middles = [("header", header()), frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]
    for number in range(1, 8):
        name = "often" if number < 6 else "failing"
        answer = WRONG % number if name == "failing" else FINE % (number, 1)
        middles += [frame_record("c2s", calling(name, number)), frame_record("s2c", answer)]
    return record(path, [*middles, END])


async def latency_of(stage: Stage, folder: str) -> LatencyScreen:
    """Open the screen from the traffic of a capture."""
    await stage.open(folder)
    await stage.press("L")
    screen = stage.app.screen
    assert isinstance(screen, LatencyScreen)
    return screen


async def rows_and_the_chosen_one(stage: Stage) -> None:
    await stage.resize((100, 30))
    await latency_of(stage, "thirty")
    await stage.see("thirty › latency", "tools/call search", "1.0ms", "p50 by time", "█", "by n", "31")
    await stage.see("30 responses to 31 requests", "1.0ms + █")
    await stage.press("down")
    await stage.see("1 response to 1 request")
    await stage.press("escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))


async def sorting_keeps_the_cursor_on_its_row(stage: Stage) -> None:
    screen = await latency_of(stage, "failing")
    await stage.see("tools/call often")
    # Without the focus, no bucket looks chosen.
    histogram = screen.detail.histogram
    bar, table = (histogram.get_component_rich_style("table--blurred", partial=True), histogram.rich_style)
    assert (bar.bgcolor, bar.underline) == (table.bgcolor, None)

    def names() -> list[str | None]:
        return [one.kind.name for one in screen._rows.items]

    assert names() == ["often", "failing", None]
    await stage.press("down", "s")
    await stage.see("by err")
    assert names() == ["failing", "often", None] or names()[0] == "failing"
    assert screen.selected is not None
    assert screen.selected.kind.name == "failing"
    for word in ("by p50", "by p90", "by p95", "by p99", "by max", "by unanswered", "by name", "by n"):
        await stage.press("s")
        await stage.see(word)


async def one_key_leads_to_the_answer_of_the_slowest_call(stage: Stage) -> None:
    await latency_of(stage, "slow")
    await stage.see("tools/call search")
    await stage.press("w")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("frame 13", "found 5", "1 text")
    assert stage.traffic.entry == 13
    await stage.press("escape", "escape")
    await stage.see("library › latency")
    await stage.press("down", "W")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 13


async def the_slowest_of_all_is_a_call_and_not_the_start_of_the_server(stage: Stage) -> None:
    await latency_of(stage, "slow-to-start")
    await stage.see("initialize", "tools/call search")
    await stage.press("W")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("frame 13", "found 5", "1 text")


async def a_capture_without_a_response_has_no_slowest_call(stage: Stage) -> None:
    await latency_of(stage, "unanswered")
    await stage.see("tools/call search")
    await stage.press("w")
    await stage.see("there is no response")
    await stage.press("W", "a", "tab", "enter")
    assert isinstance(stage.app.screen, LatencyScreen)


async def enter_and_a_bucket_filter_the_traffic(stage: Stage) -> None:
    await latency_of(stage, "slow")
    await stage.see("tools/call search")
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("method:tools/call name:search", "13 of 16 frames")
    await stage.press("escape", "tab", "G", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("method:tools/call name:search latency>=512ms latency<1.024s", "2 of 16 frames")
    await stage.press("escape", "k", "enter")
    await stage.see("no response took that long")
    await stage.press("g", "enter")
    await stage.see("latency>=1ms latency<2ms", "10 of 16 frames")


async def keys_wait_for_the_histogram(stage: Stage) -> None:
    await stage.open("slow")
    for _ in range(2):
        for key in ("L", "tab", "G", "enter"):
            stage.app.post_message(_pressed(key))
        await stage.see("latency>=512ms latency<1.024s", "2 of 16 frames")
        await stage.press("escape", "escape")
        await stage.until(lambda: "16 frames" in stage.text() and "of 16 frames" not in stage.text())


async def shapes_share_an_axis(stage: Stage) -> None:
    screen = await latency_of(stage, "slow")
    await stage.see("tools/call search")
    shared = [screen._rows.line(row).cells["shape"][0].text for row in range(2)]
    await stage.until(lambda: "max 1.0ms" in stage.text() and " 1.0s" in stage.text())
    assert len(shared[0]) > 10 > len(shared[1])
    await stage.press("a")
    await stage.see("max shape")
    assert screen._rows.line(1).cells["shape"][0].text.strip() == "│"
    await stage.press("a")
    assert [screen._rows.line(row).cells["shape"][0].text for row in range(2)] == shared


async def from_the_sessions_too(stage: Stage) -> None:
    await stage.resize((100, 30))
    await stage.choose("library")
    await stage.press("L")
    await stage.see("library › latency", "tools/call search", "7 requests")
    await stage.press("tab", "down", "G", "tab", "tab", "enter")
    await stage.see("method:tools/call name:search", "13 of 16 frames")
    await stage.press("escape", "escape")
    await stage.see("7 recorded")


async def nothing_to_count(stage: Stage) -> None:
    await stage.choose("empty")
    await stage.press("L")
    await stage.see("0 kinds of requests", "no requests")
    await stage.press("enter", "down", "s", "tab", "G", "escape")
    await stage.see("7 recorded")


class TestScreen:
    """What the keys of the screen do."""

    @pytest.mark.costly("every key of the screen, on seven captures")
    def test_the_keys(self, tmp_path: Path) -> None:
        captures = (
            captured(tmp_path),
            captured(tmp_path, "thirty", calls=30),
            slow(tmp_path / "slow" / "x.mcpcap"),
            slow_to_start(tmp_path / "slow-to-start" / "x.mcpcap"),
            failing(tmp_path / "failing" / "x.mcpcap"),
            record(
                tmp_path / "unanswered" / "x.mcpcap", [("header", header()), frame_record("c2s", CALL % (1, 1)), END]
            ),
            record(tmp_path / "empty" / "x.mcpcap", [("header", header()), ("close", members(ending="client"))]),
        )
        acts = (
            rows_and_the_chosen_one,
            sorting_keeps_the_cursor_on_its_row,
            one_key_leads_to_the_answer_of_the_slowest_call,
            the_slowest_of_all_is_a_call_and_not_the_start_of_the_server,
            a_capture_without_a_response_has_no_slowest_call,
            enter_and_a_bucket_filter_the_traffic,
            keys_wait_for_the_histogram,
            shapes_share_an_axis,
            from_the_sessions_too,
            nothing_to_count,
        )
        play_each(acts, *captures, size=(140, 40))

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
                made.append(seal(number * 2, number * 10**9, "frame", frame_record("c2s", CALL % (number, 1))[1]))
                answer = seal(
                    number * 2 + 1, number * 10**9 + 410_000_000, "frame", frame_record("s2c", FINE % (number, 1))[1]
                )
                made.append(answer)
            await stage.see("32 responses to 33 requests", "410ms")

        play(act, tmp_path / "x" / "live.mcpcap")
        made.close()

    @pytest.mark.parametrize("size", sizes((200, 60), soak=[(80, 24), (40, 10), (1, 1)]))
    def test_any_name_in_any_size(self, tmp_path: Path, size: tuple[int, int]) -> None:
        path = record(tmp_path / "x" / "x.mcpcap", [*hostile_calls(), END])

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("L")
            screen = stage.app.screen
            assert isinstance(screen, LatencyScreen)
            await stage.until(lambda: len(screen._rows.items) == len(HOSTILE_NAMES))
            await stage.press("down", "down", "s", "tab", "down", "tab", "G", "g")
            await stage.press("tab")
            assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(stage.text())
            assert all(len(line) <= size[0] for line in stage.text().splitlines())
            if size == (200, 60):
                await stage.see("\\x1b]52", "\\u202e", "[@click=app.quit]")
                await stage.squeezed()
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))

        play(act, path, size=size)
