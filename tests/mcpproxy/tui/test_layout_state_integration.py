"""The layout: list and detail side by side, in full, of any size, and restored at the next start."""

from pathlib import Path

import pytest

from mcpproxy.tui import layout_state
from mcpproxy.tui.app import TuiApp
from mcpproxy.tui.colours.themes import DARK, LIGHT
from mcpproxy.tui.layout_state import Layout, saved_layout
from tests.captures.samples import header
from tests.mcpproxy.tui.stage import CALL, END, FINE, Stage, captured, frame_record, play, play_each, record
from tests.mcpproxy.tui.test_layout_state import state


class TestTheme:
    """The colours."""

    def test_it_is_as_it_was_last_time(self, tmp_path: Path) -> None:
        async def light(stage: Stage) -> None:
            await stage.listed()
            assert stage.app.theme == DARK.name
            await stage.press("ctrl+p")
            await stage.see("Search")
            await stage.press(*"light")
            await stage.see("dark text on light")
            await stage.press("enter")
            await stage.until(lambda: stage.app.theme == LIGHT.name)

        play(light, captured(tmp_path))
        assert TuiApp(list, "").theme == LIGHT.name

    def test_an_unknown_theme_is_ignored(self) -> None:
        state().parent.mkdir(parents=True)
        for text in (b"theme no such theme\n", b"theme textual-light\n", b"theme \xff\0\n", b"theme"):
            state().write_bytes(text)
            assert TuiApp(list, "").theme == DARK.name, text


def is_listed(stage: Stage) -> bool:
    """Whether the list is on the screen, and not only the detail."""
    return bool(stage.traffic.split.children[0].display)


async def from_160_columns_on_the_detail_is_beside_the_list(stage: Stage) -> None:
    await stage.resize((160, 45))
    await stage.open("library")
    await stage.press("down", "enter")
    table, box = stage.traffic.table, stage.traffic.detail
    await stage.until(lambda: box.region.x > 0)
    assert box.region.y == table.region.y
    assert box.region.width == 64
    assert table.region.width == 96
    await stage.see("protocolVersion:")
    await stage.pilot.resize_terminal(159, 40)
    await stage.until(lambda: box.region.x == 0)
    assert box.region.y > table.region.y
    assert box.region.width == table.region.width == 159
    await stage.press("escape")
    await stage.until(lambda: table.region.height == stage.traffic.split.region.height)
    await stage.pilot.resize_terminal(160, 40)
    await stage.until(lambda: table.region.width == box.region.x == 96)
    assert table.has_focus


async def it_can_be_resized_and_stays_so(stage: Stage) -> None:
    await stage.open("library")
    await stage.press("enter")
    table, box = stage.traffic.table, stage.traffic.detail
    before = box.region.height
    await stage.press("greater_than_sign", "greater_than_sign")
    await stage.until(lambda: box.region.height > before)
    for _ in range(6):
        await stage.press("less_than_sign")
    await stage.until(lambda: box.region.height < before)
    assert box.region.height >= 5
    await stage.press("z")
    await stage.until(lambda: not is_listed(stage))
    assert stage.traffic.pane.has_focus
    await stage.press("z")
    await stage.until(lambda: is_listed(stage))
    await stage.press("z", "left")
    await stage.until(lambda: table.has_focus)
    await stage.press("z", "tab")
    await stage.until(lambda: table.has_focus)
    for _ in range(3):
        await stage.press("less_than_sign")
    await stage.press("z")
    # No earlier layout had this size, so nothing is left to be saved.
    await stage.until(lambda: saved_layout() == Layout(20, 40, is_full=True))
    await stage.press("escape")
    await stage.until(lambda: table.has_focus and is_listed(stage))
    # A traffic screen that is opened later reads the kept layout.
    await stage.back()
    await stage.open("library")
    assert is_listed(stage)
    await stage.press("enter")
    await stage.until(lambda: not is_listed(stage))
    await stage.see("protocolVersion:")
    await stage.press("z")
    await stage.until(lambda: is_listed(stage))
    assert stage.traffic.detail.region.height < 8


async def the_last_layout_is_kept_however_soon_the_screen_is_left(stage: Stage) -> None:
    await stage.open("library")
    await stage.press("enter")
    with layout_state._file_lock:  # as on a slow disk
        await stage.press("greater_than_sign", "greater_than_sign", "greater_than_sign")
        await stage.back()
    await stage.until(lambda: saved_layout() == Layout(35, 40))


async def the_exchange_shows_arguments_and_answer(stage: Stage) -> None:
    def line_with(text: str) -> int:
        return next(number for number, line in enumerate(stage.text().splitlines()) if text in line)

    await stage.open("library")
    await stage.press("down", "down", "down", "down", "enter", "6", "z")
    for width, is_beside in ((60, True), (59, False)):
        await stage.resize((width, 30))
        await stage.see("tools/call search", "n: 1", "found 1", "1.0 ms")
        answered, took, asked = (line_with(text) for text in ("found 1", "1.0 ms", "tools/call search"))
        assert (asked == answered) == is_beside, width
        assert took == min(asked, answered) - 1, "the times come first"
        assert is_beside or answered < asked, "the row itself comes first"
        await stage.press("p")
        if not is_beside:
            await stage.until(lambda: line_with("1.0 ms") < line_with("tools/call search") < line_with("found 1"))
        assert stage.traffic.pane.has_focus
        await stage.press("p")
    # A call without a response says so.
    await stage.press("z", "tab", "G", "up", "tab")
    for size in ((80, 24), (120, 30)):
        await stage.resize(size)
        await stage.see("n: 99", "unanswered")


async def nothing_is_shown_twice(stage: Stage) -> None:
    await stage.resize((155, 40))
    await stage.open("x")
    # Findings come late, because the rules run in another process.
    await stage.settled()
    await stage.press("enter", "1")
    await stage.see("sent ", "latency   ", "outcome", "lifecycle/")
    await stage.press("6")
    await stage.see("found 1", "lifecycle/")
    assert "outcome" not in stage.text()
    assert stage.text().count("frame 1, ") == 1
    await stage.press("7")
    await stage.see("latency   ")
    assert stage.text().count("lifecycle/") == 1
    await stage.press("1")
    await stage.pilot.resize_terminal(120, 40)
    await stage.press("6")
    await stage.see("found 1", "lifecycle/")
    assert stage.text().count("lifecycle/") == 1


@pytest.mark.costly("list and detail in seven sizes")
def test_list_and_detail_in_any_shape(tmp_path: Path) -> None:
    once = record(
        tmp_path / "x" / "x.mcpcap",
        [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", FINE % (1, 1)), END],
    )
    acts = (
        from_160_columns_on_the_detail_is_beside_the_list,
        nothing_is_shown_twice,
        the_exchange_shows_arguments_and_answer,
        it_can_be_resized_and_stays_so,  # late, as the others begin with the default layout
        the_last_layout_is_kept_however_soon_the_screen_is_left,
    )
    play_each(acts, captured(tmp_path), once)
