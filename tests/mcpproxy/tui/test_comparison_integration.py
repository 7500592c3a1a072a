"""Two captures are compared from the list of sessions: one key chooses both, and one more leads to the frames."""

import os
import signal
from pathlib import Path

import orjson
import pytest

from captures.file import CaptureFile
from mcpproxy.tui.rows.comparison_rows import VIEWS
from mcpproxy.tui.screens.comparison import EMPTY_TEXTS, ComparisonScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import lines
from tests.mcpproxy.tui.hostile import hostile, hostile_calls
from tests.mcpproxy.tui.scenes import Talk, versions
from tests.mcpproxy.tui.stage import END, NOISE, Stage, conversation, frame_record, play, play_each, record

OLD, NEW = "20261118T110640Z-0001", "20261119T110640Z-0002"


def version(folder: Path, number: int) -> Path:
    """A recording of a server whose second version fails on a call that worked, and writes a log line to stdout."""
    talk = Talk("library", wall_ns=1_795_000_000_000_000_000 + number * 86_400_000_000_000)
    talk.begin("Cursor", "2.1", 40)
    if number > 1:
        talk.stray("Loaded 3 plugins", 60)
    for at_ms in range(100, 400, 100):
        talk.call("search", at_ms, 5)
    talk.call("read_file", 500, 9, "" if number == 1 else "Access denied")
    talk.end()
    return talk.write(folder, OLD if number == 1 else NEW)


def pair(folder: Path) -> list[Path]:
    """Both versions, the newest first, as the list has them."""
    return [version(folder, 2), version(folder, 1)]


async def compared(stage: Stage, *keys: str) -> ComparisonScreen:
    """Choose two captures with these keys, and wait for their comparison."""
    await stage.listed()
    await stage.press(*keys)
    await stage.until(lambda: isinstance(stage.app.screen, ComparisonScreen), "the comparison")
    screen = stage.app.screen
    assert isinstance(screen, ComparisonScreen)
    await stage.until(lambda: not screen.comparing.is_busy, "the result")
    await stage.settled()
    return screen


def listing(stage: Stage) -> SessionsScreen:
    """The list of sessions."""
    screen = stage.app.screen
    assert isinstance(screen, SessionsScreen)
    return screen


def test_the_first_difference_is_in_sight_and_the_list_is_as_high_as_its_rows(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        screen = await compared(stage, "=", "=")
        await stage.see('+       "limit": {', '"description": "the most', '"type": "integer"')
        await stage.resize((80, 12))
        await stage.press("down")
        await stage.see('"limit": {')
        await stage.press("up")
        await stage.resize((160, 50))
        await stage.settled()
        assert screen.table.size.height == 1 + len(screen._rows)
        await stage.see("tool get_file_info: argument `limit` is required now", "is required now", '"limit": {')
        await stage.press("3")
        await stage.settled()
        assert screen.table.size.height == 1 + len(screen._rows)

    play(act, *versions(tmp_path))


@pytest.mark.costly("five acts, each of which compares and draws")
def test_two_captures_are_compared_and_each_change_leads_to_its_frames(tmp_path: Path) -> None:
    new, old = pair(tmp_path)

    async def the_older_one_is_the_old_side(stage: Stage) -> None:
        await stage.listed()
        await stage.press("=")
        await stage.see("◆ library", "0 live · 2 recorded  ◆ = on another compares", "[1/2]")
        screen = await compared(stage, "down", "=")
        assert (screen.comparing.old, screen.comparing.new) == (old, new)
        await stage.see("old  library/", "new  library/", "worse", "finding/new", "framing/")
        await stage.press("escape")
        assert "◆" not in stage.text()
        screen = await compared(stage, "g", "down", "=", "up", "=")
        assert (screen.comparing.old, screen.comparing.new) == (old, new)

    async def a_capture_alone_is_compared_with_the_one_before(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        assert (screen.comparing.old, screen.comparing.new) == (old, new)
        await stage.press("escape")
        await stage.press("down", "=", "=")
        await stage.see("this server has no earlier capture", "◆")
        await stage.press("escape")
        assert "◆" not in stage.text()
        assert stage.app.screen is listing(stage)

    async def enter_and_o_lead_to_the_frames(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        assert screen.comparing.comparison is not None
        changes = screen.comparing.comparison.changes
        number = next(n for n, change in enumerate(changes) if change.old is not None and change.new is not None)
        screen.table.go(number)
        for key, path, place in (("enter", new, changes[number].new), ("o", old, changes[number].old)):
            await stage.press(key)
            await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
            await stage.settled()
            traffic = stage.traffic
            assert place is not None
            assert traffic.reading.path == path
            assert traffic.capture.entry == traffic.reading.index.entry_of_seq(place.frame)
            await stage.press("escape")
            assert stage.app.screen is screen

    async def the_sides_can_be_swapped(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        assert screen.comparing.comparison is not None
        before = screen.comparing.comparison
        await stage.press("x")
        await stage.settled()
        after = screen.comparing.comparison
        assert (screen.comparing.old, screen.comparing.new) == (new, old)
        assert (after.old, after.new) == (before.new, before.old)
        assert {change.kind.id for change in after.changes} != {change.kind.id for change in before.changes}

    async def lists_filter_page_and_full_screen(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        count = len(screen._rows)
        await stage.press("/", *"finding", "enter")
        assert 0 < len(screen._rows) < count
        await stage.see("filter: finding")
        await stage.press("escape")
        assert len(screen._rows) == count
        for number, view in (*enumerate(VIEWS[1:], 2), (1, VIEWS[0])):
            await stage.press(str(number))
            await stage.settled()
            assert screen.view == view
            shown_items = screen.table.display
            assert bool(shown_items) == bool(len(screen._rows)), view
            assert shown_items or EMPTY_TEXTS[view] in stage.text()
        await stage.press("r")
        await stage.see("Why it matters")
        await stage.press("escape", "z")
        await stage.settled()
        assert screen.has_class("-full")
        await stage.press("/", *"was", "enter")
        await stage.see("1 of ")
        await stage.press("escape", "escape")
        assert "severity" in stage.text()
        assert stage.app.screen is screen
        await stage.press("question_mark")
        await stage.see("swap the sides")

    play_each(
        [
            the_older_one_is_the_old_side,
            a_capture_alone_is_compared_with_the_one_before,
            enter_and_o_lead_to_the_frames,
            the_sides_can_be_swapped,
            lists_filter_page_and_full_screen,
        ],
        new,
        old,
    )


def test_a_failed_comparison_never_looks_clean(tmp_path: Path) -> None:
    new, old = pair(tmp_path)
    empty = record(tmp_path / "empty" / f"{OLD}.mcpcap", [*conversation(0, "empty")[:1], END])

    async def nothing_in_common(stage: Stage) -> None:
        await stage.choose("empty")
        await compared(stage, "=", "g", "=")
        await stage.see("✗ could not be compared", "✗ not compared: everything")
        assert "nothing changed" not in stage.text()

    async def a_process_that_dies(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        worker = screen.comparing._worker
        assert worker is not None
        os.kill(worker.pid, signal.SIGSTOP)
        await stage.press("x")
        assert "worse" not in stage.text()
        os.kill(worker.pid, signal.SIGKILL)
        await stage.see("✗ failed", "SIGKILL", "c: compare again")
        await stage.press("c")
        await stage.until(lambda: screen.comparing.comparison is not None)
        await stage.settled()
        assert "✗ failed" not in stage.text()

    async def a_process_that_dies_after_the_result(stage: Stage) -> None:
        screen = await compared(stage, "g", "=", "=")
        worker = screen.comparing._worker
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        await stage.until(lambda: screen.comparing.trouble)
        await stage.press("down")
        await stage.see("2 worse", "SIGKILL", "c: compare again")
        assert "✗ failed" not in stage.text()

    async def an_unreadable_capture(stage: Stage) -> None:
        await stage.listed()
        await stage.press("g", "=")
        old.write_bytes(b"nothing of ours")
        await compared(stage, "=")
        await stage.see("✗ failed", "The comparison has failed")
        assert "nothing changed" not in stage.text()

    acts = [nothing_in_common, a_process_that_dies, a_process_that_dies_after_the_result, an_unreadable_capture]
    play_each(acts, new, old, empty)


def test_a_capture_with_itself_has_no_change(tmp_path: Path) -> None:
    first = version(tmp_path, 1)
    second = first.with_name(f"{NEW}.mcpcap")
    second.write_bytes(first.read_bytes())

    async def act(stage: Stage) -> None:
        await compared(stage, "=", "=")
        await stage.see("nothing changed", "1 changes 0")

    play(act, second, first)


def test_a_capture_that_is_being_recorded_is_compared_up_to_its_present_end(tmp_path: Path) -> None:
    ended = record(tmp_path / "library" / f"{OLD}.mcpcap", [*conversation(3), END])
    live = CaptureFile(tmp_path / "library" / f"{NEW}.mcpcap")
    for line in lines(conversation(3)):
        live.append(line)

    async def act(stage: Stage) -> None:
        screen = await compared(stage, "=", "down", "=")
        await stage.see("still being recorded")
        assert screen.comparing.comparison is not None
        count = screen.comparing.comparison.new.frames
        for line in lines([*conversation(3), frame_record("s2c", NOISE)])[len(conversation(3)) :]:
            live.append(line)
        await stage.press("c")
        await stage.settled()
        assert screen.comparing.comparison.new.frames == count + 1

    try:
        play(act, tmp_path / "library" / f"{NEW}.mcpcap", ended)
    finally:
        live.close()


def test_hostile_captures_act_on_nothing(tmp_path: Path) -> None:
    old = record(tmp_path / "calls" / f"{OLD}.mcpcap", [*hostile_calls(), END])
    middles = [*hostile_calls()[:-2], frame_record("s2c", orjson.dumps({"jsonrpc": "2.0", "id": 99, "result": 5})), END]
    new = record(tmp_path / "calls" / f"{NEW}.mcpcap", middles)
    other = hostile(tmp_path)

    async def act(stage: Stage) -> None:
        screen = await compared(stage, "=", "down", "=")
        await stage.see("tab pane", "x swap")
        for key in "12345":
            await stage.press(key)
            await stage.squeezed()
        await stage.press("1")
        for _ in range(min(10, len(screen._rows))):
            await stage.press("down")
            await stage.settled()
        await stage.press("escape")
        await compared(stage, "g", "=", "G", "=")
        await stage.squeezed()

    play(act, new, old, other, size=(80, 24))
