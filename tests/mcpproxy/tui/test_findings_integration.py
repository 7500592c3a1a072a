"""Findings on every screen: listed, filtered, one key from their frame; in the traffic, in the list, live and late."""

import os
import signal
from pathlib import Path

import pytest

from analysis.child_process import PythonChild
from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui import app as app_module
from mcpproxy.tui.data import checking
from mcpproxy.tui.rows.finding_rows import AT_FIRST
from mcpproxy.tui.screens import sessions
from mcpproxy.tui.screens.findings import FindingsScreen
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import lines
from tests.mcpproxy.tui.stage import (
    END,
    NOISE,
    Stage,
    captured,
    conversation,
    lossy,
    play,
    play_each,
    record,
    said,
    wrong,
)


def strays(folder: Path, count: int) -> Path:
    """Responses that nobody asked for, each with an id of its own, from row 4 on."""
    made = [said("s2c", b'{"jsonrpc":"2.0","id":%d,"result":{}}' % (4000 + number)) for number in range(count)]
    return record(folder / "strays" / "20261121T101502Z-0001.mcpcap", [*conversation(0, "strays"), *made, END])


async def opened(stage: Stage) -> FindingsScreen:
    """Open the findings of the first capture, and wait until all is checked."""
    await stage.listed()
    await stage.press("F")
    await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))
    screen = stage.app.screen
    assert isinstance(screen, FindingsScreen)
    await stage.until(lambda: screen.findings.has_ended)
    await stage.until(lambda: screen.reading.has_ended)
    await stage.pilot.pause()
    return screen


async def the_worst_comes_first_and_the_text_of_one_stands_below(stage: Stage) -> None:
    await opened(stage)
    await stage.see("✗ error    framing/stdout-not-json  1", "✗ error    id/unknown-response  1", "all 10 records")
    await stage.see("2 errors", "· note", "id/float-integer", "server", "frame 6")
    text = stage.text()
    assert text.index("framing/stdout") < text.index("id/unknown") < text.index("id/float")
    await stage.press("G")
    await stage.see("written as a fraction")


async def escape_leads_back_to_them_from_the_frame(stage: Stage) -> None:
    found = await opened(stage)
    await stage.press("down", "down", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == 7)
    await stage.press("escape")
    assert stage.app.screen_stack[-1] is found
    assert found.item is not None
    assert found.item.finding is not None
    assert found.item.finding.frame == 7
    await stage.press("escape")
    assert [type(one) for one in stage.app.screen_stack][-1] is SessionsScreen


async def enter_goes_to_the_frame(stage: Stage) -> None:
    await opened(stage)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == 6)
    await stage.press("F")
    await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))
    await stage.press("down", "down", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 7
    # OpenCapture from a row with a finding, the list begins there.
    await stage.press("F")
    await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))
    await stage.see("frame 7")
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 7


async def enter_shows_the_frame_though_a_filter_hides_it(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"method:initialize", "enter")
    await stage.see("2 of 7 frames")
    await stage.press("F")
    await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))
    await stage.see("stdout-not-json")
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.entry == 6


async def rules_fold(stage: Stage) -> None:
    screen = await opened(stage)
    rows = len(screen.table.rows)
    await stage.press("left")
    await stage.see("▸ ✗ error    framing/stdout-not-json")
    assert screen.table.cursor == 0
    assert len(screen.table.rows) == rows - 1
    await stage.press("enter")
    assert len(screen.table.rows) == rows
    await stage.press("enter", "l")
    assert len(screen.table.rows) == rows


async def the_page_of_the_rule(stage: Stage) -> None:
    await opened(stage)
    await stage.press("r")
    await stage.see("Why it matters", "Instead", "Write logs to standard error", "broken by   server")
    await stage.press("escape")
    assert not isinstance(stage.app.screen, RuleScreen)
    await stage.press("g", "r")
    await stage.see("Why it matters")
    await stage.press("q")
    assert isinstance(stage.app.screen, FindingsScreen)


async def filter_by_words_and_patterns(stage: Stage) -> None:
    screen = await opened(stage)
    await stage.press("slash", *"id/*")
    await stage.until(lambda: "stdout-not-json" not in stage.text())
    await stage.see("id/unknown-response", "filter: id/*")
    await stage.press("enter", "slash", *"id/* error")
    await stage.until(lambda: "float-integer" not in stage.text())
    await stage.press(*" never", "enter")
    await stage.see("no finding contains all of these words")
    await stage.press("escape")
    await stage.see("stdout-not-json")
    await stage.press("slash", "up")
    assert screen.query_one(FilterBox).value == "id/* error never"
    await stage.press("escape", "tab")
    assert not screen.table.has_focus
    await stage.press("tab", "escape")
    assert isinstance(stage.app.screen, SessionsScreen)


async def the_way_back_does_not_grow_without_end(stage: Stage) -> None:
    await opened(stage)
    for _ in range(app_module.DEEPEST):
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        await stage.press("F")
        await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))
    assert len(stage.app.screen_stack) <= app_module.DEEPEST + 1


async def the_proof_stands_below_with_the_place_marked(stage: Stage) -> None:
    await opened(stage)
    await stage.see("  Loaded 3 plugins\n", "  ^^^^^^^^^^^^^^^^\n")
    await stage.press("G")
    await stage.see('  {"jsonrpc":"2.0","id":7.0,"method":"ping"}')
    marked = next(line for line in stage.text().splitlines() if "7.0" in line and "jsonrpc" in line)
    carets = stage.text().splitlines()[stage.text().splitlines().index(marked) + 1]
    assert (carets.index("^"), carets.count("^")) == (marked.index("7.0"), 3)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.press("7")
    await stage.see('  {"jsonrpc":"2.0","id":7.0,"method":"ping"}', "^^^")
    await stage.press("r")
    await stage.see("id/float-integer", "Why it matters")
    await stage.press("escape", "escape", "g", "r")
    await stage.see("this row has no findings")


async def the_place_is_selected_when_the_frame_is_opened(stage: Stage) -> None:
    await opened(stage)
    await stage.press("G", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.press("enter")
    await stage.see("jsonrpc", "7.0")
    pane = stage.traffic.pane
    await stage.until(lambda: pane.cursor == 2)
    await stage.press("up", "tab", "up", "down", "tab")
    await stage.until(lambda: pane.branching is not None and pane.cursor == 0)


class TestScreen:
    """The list of findings."""

    @pytest.mark.costly("every key of the list, with the screens that it leads to and back")
    def test_the_keys(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(app_module, "DEEPEST", 5)
        acts = (
            the_worst_comes_first_and_the_text_of_one_stands_below,
            escape_leads_back_to_them_from_the_frame,
            enter_goes_to_the_frame,
            enter_shows_the_frame_though_a_filter_hides_it,
            rules_fold,
            the_page_of_the_rule,
            filter_by_words_and_patterns,
            the_way_back_does_not_grow_without_end,
            the_proof_stands_below_with_the_place_marked,
            the_place_is_selected_when_the_frame_is_opened,
            the_detail_has_them_with_their_rules,
            filters_ask_for_rules_and_levels,
        )
        play_each(acts, wrong(tmp_path))

    def test_of_many_the_first_are_listed_and_the_rest_on_demand(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            screen = await opened(stage)
            assert sum(item.finding is not None for item in screen._rows.items) == AT_FIRST
            await stage.press(*["down"] * AT_FIRST)
            await stage.see("… 30 more")
            await stage.press("enter")
            assert sum(item.finding is not None for item in screen._rows.items) == 50
            await stage.until(lambda: "more" not in stage.text())

        async def far(stage: Stage) -> None:
            await stage.open()
            await stage.until(lambda: stage.traffic.reading.findings.has_ended)
            stage.traffic.reach(50)
            await stage.press("F")
            await stage.see("frame 50")

        play(act, strays(tmp_path, 50))
        play(far, strays(tmp_path, 50))

    def test_identical_ones_share_a_line_until_they_are_spread(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            screen = await opened(stage)
            await stage.see("framing/stdout-not-json  5", "×5  ")
            assert len(screen._rows.items) == 6
            await stage.press("right")
            await stage.until(lambda: "×5" not in stage.text())
            assert len(screen._rows.items) == 10
            await stage.press("down", "down", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen) and stage.traffic.entry == 8)
            await stage.press("escape", "left")
            await stage.see("×5  ")
            assert screen.table.cursor == 1
            await stage.press("left")
            await stage.see("▸ ✗ error    framing/stdout-not-json")

        async def from_its_row(stage: Stage) -> None:
            await stage.open()
            await stage.until(lambda: stage.traffic.reading.findings.has_ended)
            stage.traffic.reach(8)
            await stage.press("F")
            await stage.see("frame 8")

        play(act, wrong(tmp_path, 5))
        play(from_its_row, wrong(tmp_path, 5))

    def test_a_proof_is_bounded_and_nothing_in_it_acts(self, tmp_path: Path) -> None:
        made = [said("s2c", b"\x1b]0;EVIL\x07" + b"x" * 300), said("s2c", b"y" * (2 << 20))]
        path = record(tmp_path / "x" / "x.mcpcap", [*conversation(0, "wrong"), *made, END])

        async def act(stage: Stage) -> None:
            screen = await opened(stage)
            screen._spread.update(item.identity for item in screen._rows.items if item.identity is not None)
            screen._arrange()
            await stage.see("\\x1b]0;EVIL")
            await stage.press("down")
            await stage.see("a frame of 2.1 MB: open it in the traffic")

        play(act, path)

    def test_those_whose_text_is_not_kept_are_shown_in_the_traffic(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            screen = await opened(stage)
            findings = screen.findings
            del findings.kept[1:]
            screen.box.words = ""
            screen._arrange()
            await stage.see("… 4 more")
            await stage.press("g", "down", "down", "enter")
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.see("rule:framing/stdout-not-json", "5 of 11 frames")

        play(act, wrong(tmp_path, 5))

    def test_nothing_found(self, tmp_path: Path) -> None:
        ping = [
            said("c2s", b'{"jsonrpc":"2.0","id":5,"method":"ping"}'),
            said("s2c", b'{"jsonrpc":"2.0","id":5,"result":{}}'),
        ]
        path = record(tmp_path / "fine" / "a.mcpcap", [*conversation(0)[:4], *ping, END])

        async def act(stage: Stage) -> None:
            await opened(stage)
            await stage.see("nothing found", "all 7 records checked")
            for key in ("enter", "r", "left", "right", "c", "j", "escape"):
                await stage.press(key)
            assert isinstance(stage.app.screen, SessionsScreen)

        play(act, path)

    def test_a_check_that_lags_says_how_far_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Stopped before it can hear an order: on a busy machine it had all of them checked before a key was handled.
        class Stopped(PythonChild):
            def __init__(self, module: str) -> None:
                super().__init__(module)
                os.kill(self.pid, signal.SIGSTOP)

        monkeypatch.setattr(checking, "PythonChild", Stopped)

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter")
            pid = await stage.worker()
            try:
                await stage.until(lambda: stage.traffic.reading.index.has_ended)
                await stage.press("F")
                await stage.see(" of 1,009 records")
            finally:
                os.kill(pid, signal.SIGCONT)
            await stage.see("all 1,009 records checked")

        play(act, wrong(tmp_path, 1_000))

    def test_a_worker_that_is_killed_is_told_of_and_can_be_started_again(self, tmp_path: Path) -> None:
        live = CaptureFile(tmp_path / "live.mcpcap")
        for line in lines([*conversation(2), said("s2c", NOISE)]):
            live.append(line)

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter", "F")
            await stage.see("stdout-not-json")
            pid = await stage.worker()
            os.kill(pid, signal.SIGKILL)
            await stage.see("the process that reads captures has ended", "stdout-not-json")
            await stage.press("escape")
            await stage.see("analysis stopped", "tools/call")
            await stage.press("F", "c")
            await stage.see("all 11 records checked", "stdout-not-json")

        play(act, tmp_path / "live.mcpcap", size=(120, 30))
        live.close()


async def they_stand_beside_the_detail_of_wide_terminals(stage: Stage) -> None:
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.press("n", "n", "enter")
    await stage.see("✗ framing/stdout-not-json", "a line on stdout is not JSON")


async def what_is_folded_stays_folded_when_the_check_comes_by(stage: Stage) -> None:
    await stage.listed()
    await stage.press("enter")
    pid = await stage.worker()
    os.kill(pid, signal.SIGSTOP)
    try:
        await stage.until(lambda: stage.traffic.reading.index.has_ended)
        stage.traffic.reach(8)
        await stage.press("enter", "2")
        await stage.see('"method": "ping"')
        await stage.press("left")
        await stage.see("▸ { jsonrpc, id, method }")
    finally:
        os.kill(pid, signal.SIGCONT)
    await stage.see("· 1  ping", "· id/float-integer")
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    assert "▸ { jsonrpc, id, method }" in stage.text()


async def the_detail_has_them_with_their_rules(stage: Stage) -> None:
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.press("n", "n", "7")
    await stage.see("✗ error  framing/stdout-not-json", "a line on stdout is not JSON", "writes a line to its standard")
    await stage.press("g")
    await stage.see("nothing found")


async def filters_ask_for_rules_and_levels(stage: Stage) -> None:
    await stage.open()
    for text, rows in (
        ("rule:id/*", [7, 8]),
        ("level:error", [6, 7]),
        ("level>=note", [6, 7, 8]),
        ("has:finding rule:framing/*", [6]),
        ("not has:finding", [1, 2, 3, 5]),
    ):
        await stage.press("slash", "ctrl+a", "ctrl+k", *text, "enter")
        scan = stage.traffic.filter.scan
        assert scan is not None
        await stage.until(lambda scan=scan: scan.has_ended, text)  # type: ignore[misc]
        assert list(scan.rows) == rows, text


class TestTraffic:
    """Findings beside the messages."""

    def test_the_column_and_the_title(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("✗ 2 findings", "←✗ ✗ 1  not a message")
            (line,) = (line for line in stage.text().splitlines() if "ping" in line)
            assert "· 1" in line

        play(act, wrong(tmp_path), size=(120, 30))

    def test_what_is_found_late_is_selected_late(self, tmp_path: Path) -> None:
        live = CaptureFile(tmp_path / "live.mcpcap")
        known = lines(conversation(2))
        for line in known:
            live.append(line)
        asked = len(known) - 1

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter")
            await stage.see("waiting")
            await stage.press("slash", *"rule:timeout/* method:tools/call", "enter")
            scan = stage.traffic.filter.scan
            assert scan is not None
            await stage.until(lambda: scan.scanned == len(known))
            assert list(scan.rows) == []
            live.append(seal(len(known), 10**10, *END))
            live.close()
            await stage.until(lambda: scan.has_ended)
            assert list(scan.rows) == [asked]
            await stage.see("unanswered", "! 1")

        play(act, tmp_path / "live.mcpcap")

    def test_what_comes_is_checked_as_it_comes(self, tmp_path: Path) -> None:
        live = CaptureFile(tmp_path / "live.mcpcap")
        known = lines(conversation(2))
        for line in known:
            live.append(line)

        async def act(stage: Stage) -> None:
            await stage.listed()
            await stage.press("enter")
            await stage.see("● following")
            live.append(seal(len(known), 10**9, *said("s2c", NOISE)))
            await stage.see("✗ 1", "1 finding")
            findings = stage.traffic.reading.findings
            await stage.until(lambda: findings.has_caught_up and findings.checked == len(known) + 1)

        play(act, tmp_path / "live.mcpcap")
        live.close()

    def test_lost_records_are_told_above_the_rows(self, tmp_path: Path) -> None:
        made = conversation(1)
        path = lossy(tmp_path / "lossy" / "a.mcpcap", made, 7)

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see(f"▲ 7 records lost: {len(made)} to {len(made) + 6}")

        play(act, path)

    def test_losses_in_several_places_are_summed_up(self, tmp_path: Path) -> None:
        made = lines([*conversation(5), END])
        path = tmp_path / "holes" / "a.mcpcap"
        path.parent.mkdir()
        path.write_bytes(b"".join(line for n, line in enumerate(made) if n not in (5, 6, 9)))

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see("▲ 3 records lost in 2 places, the first 5 to 6")

        play(act, path)

    def test_nothing_is_told_of_losses_where_there_are_none(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
            await stage.open()
            assert not stage.traffic.query_one("#lost").display

        play(act, captured(tmp_path))


class TestSessions:
    """The column of the list."""

    def test_what_is_visible_is_counted_and_then_known(self, tmp_path: Path) -> None:
        paths = [captured(tmp_path, "first"), wrong(tmp_path)]

        def found(stage: Stage, server: str) -> str:
            return next((line for line in stage.text().splitlines() if f"○ {server}" in line), "…")

        async def act(stage: Stage) -> None:
            await stage.see("○ wrong", "○ first")
            await stage.until(lambda: "…" not in found(stage, "first"))
            await stage.until(lambda: " 2 " in found(stage, "wrong"))

        play(act, *paths, size=(110, 30))

        async def again(stage: Stage) -> None:
            await stage.until(lambda: " 2 " in found(stage, "wrong") and "…" not in found(stage, "first"))
            assert stage.app.checking.pid is None

        play(again, *paths, size=(110, 30))

    def test_a_large_one_is_counted_only_if_selected(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "LARGEST_COUNTED", 10)
        paths = [wrong(tmp_path), captured(tmp_path, "large"), captured(tmp_path, "small", calls=2)]

        def line(stage: Stage, server: str) -> str:
            return next((line for line in stage.text().splitlines() if f"○ {server}" in line), "…")

        async def act(stage: Stage) -> None:
            await stage.until(lambda: all("…" not in line(stage, server) for server in ("wrong", "small")))
            assert "…" in line(stage, "large")
            await stage.press("down")
            await stage.until(lambda: "…" not in line(stage, "large"))

        play(act, *paths, size=(110, 30))

    def test_live_ones_are_counted_in_the_background(self, tmp_path: Path) -> None:
        live = CaptureFile(tmp_path / "live.mcpcap")
        known = lines([*conversation(2, "living"), said("s2c", NOISE)])
        for line in known:
            live.append(line)

        async def act(stage: Stage) -> None:
            def errors() -> str:
                return next((line for line in stage.text().splitlines() if "● living" in line), "")

            await stage.see("● living")
            await stage.until(lambda: "  1 " in errors())
            live.append(seal(len(known), 10**9, *said("s2c", NOISE)))
            await stage.until(lambda: "  2 " in errors())

        play(act, captured(tmp_path, "other"), tmp_path / "live.mcpcap", size=(110, 30))
        live.close()
