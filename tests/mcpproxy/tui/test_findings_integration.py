"""Findings on every screen: listed, filtered, one key away from their frame, and shown even if they come late."""

import os
import signal
import threading
from pathlib import Path

import pytest

from analysis import tally
from analysis.child_process import PythonChild
from analysis.tally import Tally
from captures.file import CaptureFile
from captures.record import seal
from mcpproxy.tui import app as app_module
from mcpproxy.tui.data import checking
from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.rows.finding_rows import MAX_LISTED_AT_FIRST
from mcpproxy.tui.screens import sessions
from mcpproxy.tui.screens.findings import FindingsScreen
from mcpproxy.tui.screens.rule import RuleScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import lines
from tests.mcpproxy.tui.stage import (
    CALL,
    END,
    FINE,
    NOISE,
    Stage,
    captured,
    conversation,
    frame_record,
    play,
    play_each,
    record,
    wrong,
)


def strays(folder: Path, count: int) -> Path:
    """Responses without a request, each with a different id, from row 4 on."""
    made = [frame_record("s2c", b'{"jsonrpc":"2.0","id":%d,"result":{}}' % (4000 + number)) for number in range(count)]
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


async def on_traffic(stage: Stage, entry: int) -> None:
    """Wait for the traffic with the cursor on an entry."""
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.until(lambda: stage.traffic.entry == entry, f"the traffic at {entry}")


async def findings_above(stage: Stage) -> None:
    """Open the findings from the traffic."""
    await stage.press("F")
    await stage.until(lambda: isinstance(stage.app.screen, FindingsScreen))


async def the_list_folds_is_filtered_and_leads_to_the_pages_of_its_rules(stage: Stage) -> None:
    screen = await opened(stage)
    await stage.see("2 errors", "all 10 records", "✗ error    framing/stdout-not-json  1", "frame 6", "· note")
    # The evidence is shown below, with the place marked.
    await stage.see("  Loaded 3 plugins\n", "  ^^^^^^^^^^^^^^^^\n")
    rows = len(screen.table.rows)
    await stage.press("left")
    await stage.see("▸ ✗ error    framing/stdout-not-json")
    assert screen.table.cursor == 0
    assert len(screen.table.rows) == rows - 1
    await stage.press("enter")
    assert len(screen.table.rows) == rows
    await stage.press("enter", "l")
    assert len(screen.table.rows) == rows
    await stage.press("G")
    await stage.see('  {"jsonrpc":"2.0","id":7.0,"method":"ping"}', "written with a decimal point")
    await stage.press("r")
    await stage.see("id/float-integer", "Why it matters")
    # The page has the level and the number of findings in its title, and its own keys instead of those below.
    await stage.see("· note id/float-integer · 1 here  ↑↓ scroll  Esc back")
    assert "open" not in stage.text().splitlines()[-1]
    await stage.press("?")
    await stage.see("help: page")
    await stage.press("escape", "escape")
    assert not isinstance(stage.app.screen, RuleScreen)
    await stage.press("g", "r")
    await stage.see("framing/stdout-not-json", "Why it matters")
    await stage.press("q")
    assert isinstance(stage.app.screen, FindingsScreen)
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
    assert isinstance(stage.app.screen_stack[-1], SessionsScreen)


async def enter_goes_to_the_frame_escape_back_and_the_way_back_does_not_grow_without_end(stage: Stage) -> None:
    found = await opened(stage)
    await stage.press("down", "down", "enter")
    await on_traffic(stage, 7)
    await stage.press("escape")
    assert stage.app.screen_stack[-1] is found
    assert found.item is not None
    assert found.item.finding is not None
    assert found.item.finding.frame == 7
    await stage.press("g", "down", "enter")
    await on_traffic(stage, 6)
    await findings_above(stage)
    await stage.press("down", "down", "enter")
    await on_traffic(stage, 7)
    # Opened from a row with a finding, the list begins at that finding.
    await findings_above(stage)
    await stage.see("frame 7")
    await stage.press("enter")
    await on_traffic(stage, 7)
    await findings_above(stage)
    assert len(stage.app.screen_stack) <= app_module.MAX_SCREEN_DEPTH + 1
    await stage.press("G", "enter")
    await on_traffic(stage, 8)
    # The place is selected when the frame is opened.
    await stage.press("enter")
    await stage.see("jsonrpc", "7.0")
    pane = stage.traffic.pane
    await stage.until(lambda: pane.cursor == 2)
    await stage.press("up", "tab", "up", "down", "tab")
    await stage.until(lambda: pane.folding_tree is not None and pane.cursor == 0)
    await stage.press("7")
    await stage.see('  {"jsonrpc":"2.0","id":7.0,"method":"ping"}', "^^^")
    await stage.press("r")
    await stage.see("id/float-integer", "Why it matters")
    await stage.press("escape", "escape", "g", "r")
    await stage.see("this row has no findings")


async def a_tree_is_at_its_top_again_however_soon_the_cursor_comes_back(stage: Stage) -> None:
    await stage.open()
    stage.traffic.go_to_entry(8)
    await stage.press("enter", "2", "down", "down")
    pane, detail = stage.traffic.pane, stage.traffic.detail
    await stage.until(lambda: pane.cursor == 2)
    await stage.press("tab")
    # While its thread is busy, the detail of the other row is not read.
    is_free = threading.Event()
    detail._thread.submit(is_free.wait)
    try:
        await stage.press("up", "down")
    finally:
        is_free.set()
    await stage.settled()
    assert pane.folding_tree is not None
    assert pane.cursor == 0


async def the_traffic_counts_shows_and_filters_them(stage: Stage) -> None:
    await stage.resize((120, 30))
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.see("✗ 2 findings", "←  ✗ 1  not a message")
    (line,) = (line for line in stage.text().splitlines() if "ping" in line)
    assert "· 1" in line
    assert not stage.traffic.query_one("#lost").display, "nothing is told of losses where there are none"
    await stage.press("n", "n", "enter")
    await stage.see("✗ framing/stdout-not-json", "a line on stdout is not JSON")
    await stage.press("7")
    await stage.see("✗ error  framing/stdout-not-json", "writes a line to its standard")
    await stage.press("tab", "g")
    await stage.see("nothing found")
    await stage.press("escape")
    await stage.press("slash", *"rule:id/*", "enter")
    scan = stage.traffic.filter.scan
    assert scan is not None
    await stage.until(lambda: scan.has_ended)
    assert list(scan.rows) == [7, 8]
    # Enter in the list of findings shows a frame even if a filter hides it.
    await stage.press("slash", "ctrl+a", "ctrl+k", *"method:initialize", "enter")
    await stage.see("2 of 7 frames")
    await findings_above(stage)
    await stage.see("stdout-not-json")
    await stage.press("enter")
    await on_traffic(stage, 6)


async def what_is_folded_stays_folded_when_the_check_comes_by(stage: Stage) -> None:
    await stage.listed()
    await stage.press("enter")
    pid = await stage.worker()
    os.kill(pid, signal.SIGSTOP)
    try:
        await stage.until(lambda: stage.traffic.reading.index.has_ended)
        stage.traffic.go_to_entry(8)
        await stage.press("enter", "2")
        await stage.see('"method": "ping"')
        await stage.press("left")
        await stage.see("▸ { jsonrpc, id, method }")
    finally:
        os.kill(pid, signal.SIGCONT)
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.until(lambda: any("· 1" in line for line in stage.text().splitlines() if "ping" in line), "the finding")
    await stage.settled()
    assert "▸ { jsonrpc, id, method }" in stage.text()


@pytest.mark.costly("every key of the list, with the screens that it leads to and back")
def test_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_SCREEN_DEPTH", 5)
    acts = (
        what_is_folded_stays_folded_when_the_check_comes_by,  # first: once all is checked, no check comes by
        the_list_folds_is_filtered_and_leads_to_the_pages_of_its_rules,
        enter_goes_to_the_frame_escape_back_and_the_way_back_does_not_grow_without_end,
        a_tree_is_at_its_top_again_however_soon_the_cursor_comes_back,
        the_traffic_counts_shows_and_filters_them,
    )
    play_each(acts, wrong(tmp_path))


async def of_many_the_first_are_listed_and_the_rest_on_demand(stage: Stage) -> None:
    await stage.choose("strays")
    screen = await opened(stage)
    assert sum(item.finding is not None for item in screen._rows.items) == MAX_LISTED_AT_FIRST
    await stage.press(*["down"] * MAX_LISTED_AT_FIRST)
    await stage.see("… 30 more")
    await stage.press("enter")
    assert sum(item.finding is not None for item in screen._rows.items) == 50
    await stage.until(lambda: "more" not in stage.text())
    # Opened from a row further down, the list shows that finding, too.
    await stage.back()
    await stage.open("strays")
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    stage.traffic.go_to_entry(50)
    await stage.press("F")
    await stage.see("frame 50")


async def identical_ones_share_a_line_until_they_are_spread(stage: Stage) -> None:
    await stage.choose("wrong")
    screen = await opened(stage)
    await stage.see("framing/stdout-not-json  5", "×5  ")
    assert len(screen._rows.items) == 6
    await stage.press("right")
    await stage.until(lambda: "×5" not in stage.text())
    assert len(screen._rows.items) == 10
    await stage.press("down", "down", "enter")
    await on_traffic(stage, 8)
    # Opened from the row of a finding, the list begins with its line.
    await findings_above(stage)
    await stage.see("frame 8")
    await stage.press("escape", "escape", "left")
    await stage.see("×5  ")
    assert screen.table.cursor == 1
    await stage.press("left")
    await stage.see("▸ ✗ error    framing/stdout-not-json")


async def those_whose_text_is_not_kept_are_shown_in_the_traffic(stage: Stage) -> None:
    await stage.choose("wrong")
    screen = await opened(stage)
    del screen.findings.kept_findings[1:]
    screen.box.words = ""
    screen._arrange()
    await stage.see("… 4 more")
    await stage.press("g", "down", "down", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    await stage.see("rule:framing/stdout-not-json", "5 of 11 frames")


async def where_nothing_is_found_no_key_does_anything(stage: Stage) -> None:
    await stage.choose("fine")
    await opened(stage)
    await stage.see("nothing found", "all 7 records checked")
    await stage.press("enter", "r", "left", "right", "c", "j", "escape")
    assert isinstance(stage.app.screen, SessionsScreen)


def test_lists_that_are_long_full_of_the_same_or_empty(tmp_path: Path) -> None:
    ping = [
        frame_record("c2s", b'{"jsonrpc":"2.0","id":5,"method":"ping"}'),
        frame_record("s2c", b'{"jsonrpc":"2.0","id":5,"result":{}}'),
    ]
    fine = record(tmp_path / "fine" / "a.mcpcap", [*conversation(0)[:4], *ping, END])
    acts = (
        of_many_the_first_are_listed_and_the_rest_on_demand,
        identical_ones_share_a_line_until_they_are_spread,
        where_nothing_is_found_no_key_does_anything,
        those_whose_text_is_not_kept_are_shown_in_the_traffic,
    )
    play_each(acts, strays(tmp_path, 50), wrong(tmp_path, 5), fine)


def test_a_check_that_lags_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stopped before it can receive an order: on a busy machine it had checked all records before a key was handled.
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


def test_a_live_capture_is_checked_as_it_comes_and_again_after_its_worker_was_killed(tmp_path: Path) -> None:
    live = CaptureFile(tmp_path / "live.mcpcap")
    known = lines(conversation(2))
    for line in known:
        live.append(line)
    asked = len(known) - 1

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.see("● following", "waiting")
        live.append(seal(len(known), 10**9, *frame_record("s2c", NOISE)))
        await stage.see("✗ 1", "1 finding")
        findings = stage.traffic.reading.findings
        await stage.until(lambda: findings.has_caught_up and findings.checked_count == len(known) + 1)
        await stage.press("F")
        await stage.see("stdout-not-json")
        os.kill(await stage.worker(), signal.SIGKILL)
        await stage.see("the process that reads captures has ended", "stdout-not-json")
        await stage.press("escape")
        await stage.see("analysis stopped", "tools/call")
        await stage.press("F", "c")
        await stage.see("all 11 records checked", "stdout-not-json")
        # A late finding is selected late.
        await stage.press("escape", "slash", *"rule:timeout/* method:tools/call", "enter")
        scan = stage.traffic.filter.scan
        assert scan is not None
        await stage.until(lambda: scan.scanned_count == len(known) + 1)
        assert list(scan.rows) == []
        live.append(seal(len(known) + 1, 10**10, *END))
        live.close()
        await stage.until(lambda: scan.has_ended)
        assert list(scan.rows) == [asked]
        await stage.see("unanswered", "! 1")

    play(act, tmp_path / "live.mcpcap", size=(120, 30))


def test_what_is_folded_stays_folded_when_the_answer_comes(tmp_path: Path) -> None:
    live = CaptureFile(tmp_path / "live.mcpcap")
    known = lines([*conversation(0)[:4], frame_record("c2s", CALL % (7, 7))])
    for line in known:
        live.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.see("waiting")
        stage.traffic.go_to_entry(len(known) - 1)
        await stage.press("enter", "2")
        await stage.see('"method": "tools/call"')
        await stage.press("left")
        await stage.see("▸ { jsonrpc, id, method, params }")
        live.append(seal(len(known), 10**9, *frame_record("s2c", FINE % (7, 7))))
        reading = stage.traffic.reading
        await stage.until(lambda: len(reading.calls) > 1 and reading.outcome(1) is not None)
        await stage.settled()
        assert "▸ { jsonrpc, id, method, params }" in stage.text()

    play(act, tmp_path / "live.mcpcap", size=(120, 30))


def test_the_list_of_sessions_counts_what_is_visible_small_or_live_and_the_large_one_if_it_is_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_COUNTABLE_FRAMES", 10)
    live = CaptureFile(tmp_path / "live.mcpcap")
    known = lines([*conversation(2, "living"), frame_record("s2c", NOISE)])
    for line in known:
        live.append(line)
    finished = [wrong(tmp_path), captured(tmp_path, "large"), captured(tmp_path, "small", calls=2)]

    async def act(stage: Stage) -> None:
        def found(server: str) -> str:
            return next((line for line in stage.text().splitlines() if line[2:].startswith(server)), "…")

        # Once a row shows the revision, it shows all that is known of the capture.
        await stage.until(lambda: all("2025-" in found(server) for server in ("wrong", "small", "large")), "all rows")
        await stage.until(lambda: "…" not in found("wrong") + found("small"), "what is small")
        assert " 2 " in found("wrong")
        assert "…" in found("large")
        await stage.until(lambda: "  1 " in found("living"), "what is live")
        live.append(seal(len(known), 10**9, *frame_record("s2c", NOISE)))
        await stage.until(lambda: "  2 " in found("living"), "what is live, again")
        await stage.press("down", "down")
        screen = stage.app.screen
        assert isinstance(screen, SessionsScreen)
        assert screen.selected is not None
        assert screen.selected.server == "large"
        await stage.until(lambda: "…" not in found("large"), "what is large")

    play(act, *finished, tmp_path / "live.mcpcap", size=(110, 30))
    live.close()
    # The next run has the counts without a check.
    for path in finished:
        capture = ListedCapture(path)
        capture.begin()
        assert capture.tally is not None, path
        assert not sessions._is_countable(capture), path
    assert tally.cached(finished[0]) == Tally(errors=2, notes=1)


def test_a_wide_terminal_has_the_detail_next_to_the_list_with_the_page_of_the_rule(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        screen = await opened(stage)
        await stage.settled()
        assert screen.pane.region.x == 80
        assert screen.pane.region.y == screen.table.region.y
        await stage.see("Why it matters", "^^^^")
        await stage.resize((159, 40))
        await stage.settled()
        assert screen.pane.region.x == 0
        assert screen.pane.region.y > screen.table.region.y
        assert "Why it matters" not in stage.text()
        await stage.press("r")
        page = stage.app.screen.query_one("#frame")
        await stage.until(lambda: page.region.width <= 106, "a frame no wider than a readable line")
        assert page.region.y > 0
        assert page.region.bottom < 40
        await stage.resize((60, 20))
        await stage.settled()
        assert (page.region.width, page.region.height) == (60, 19)  # above the keys

    play(act, wrong(tmp_path), size=(160, 40))
