"""Comparing two rows of the traffic: by a mark, or with the call before; and what the screen of a comparison does."""

from pathlib import Path

from mcpproxy.tui.screens.row_comparison import RowComparisonScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.mcpproxy.tui.hostile import hostile
from tests.mcpproxy.tui.stage import Stage, captured, play, play_each


def at(stage: Stage) -> RowComparisonScreen:
    """The comparison on top."""
    assert isinstance(stage.app.screen, RowComparisonScreen)
    return stage.app.screen


def current(stage: Stage) -> str:
    """The line of the current difference."""
    return next((line.strip() for line in stage.text().splitlines()[1:-2] if "▸" in line), "")


async def a_call_and_the_one_before_in_two_keys(stage: Stage) -> None:
    await stage.open()
    stage.traffic.table.go(13)  # the third answer of an error
    await stage.press("equals_sign")
    await stage.see("library  = 14  ○ exited 0  16 frames", "= on another row compares both", "= +0.0")
    await stage.press("down", "equals_sign")
    await stage.see("both rows are the same call")
    await stage.press("up", "equals_sign")
    await stage.see("library › row comparison  5 differences  tools/call search", "frame 12, +0.0")
    # The current difference has a sign.
    shown = []
    for key in ("n", "n", "n", "n", "N"):
        await stage.press(key)
        await stage.settled()
        shown.append(current(stage).replace(" ", ""))
    assert shown[0].startswith("▸outcomeok≠outcomeerror")
    assert [line.split("≠")[0] for line in shown[1:]] == ['▸"n":5', '▸"found5"-', "▸+{", '▸"found5"-']
    await stage.press("n", "n")
    await stage.see("no difference")


async def the_frames_of_both_sides_are_a_key_away(stage: Stage) -> None:
    await stage.open()
    stage.traffic.table.go(4)
    # Filter and state stay in the title, also where there is little room.
    await stage.press("equals_sign", "slash", *"method:tools/*", "enter")
    await stage.resize((80, 24))
    await stage.see("= 5  ○ exited 0  method:tools/*")
    await stage.resize((140, 40))
    await stage.press("escape", "escape")
    stage.traffic.table.go(4)
    await stage.press("equals_sign", "down", "down", "equals_sign")
    await stage.see("row comparison", "n")
    assert (at(stage).old_row, at(stage).new_row) == (5, 7)
    for key, row in (("enter", 7), ("o", 5)):
        await stage.press(key)
        await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
        assert stage.traffic.entry == row
        await stage.press("escape")
        await stage.until(lambda: isinstance(stage.app.screen, RowComparisonScreen))
    await stage.press("x")
    await stage.settled()
    assert (at(stage).old_row, at(stage).new_row) == (7, 5)
    # In the box for a text to find, Enter leads to the matches.
    await stage.press("/", *"found", "enter")
    await stage.see("1 of 2")
    await stage.press("n")
    await stage.see("2 of 2")
    await stage.press("escape", "escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))
    assert stage.traffic.comparison_choice.marked is None


async def places_open_from_it_and_every_size_fits(stage: Stage) -> None:
    await stage.open()
    stage.traffic.table.go(13)
    await stage.press("equals_sign", "equals_sign")
    await stage.see("differences")
    await stage.resize((80, 24))
    await stage.see("- outcome   ok", "+ outcome   error")
    await stage.squeezed()
    await stage.press("O")
    await stage.see("› tools")
    await stage.press("escape")
    await stage.until(lambda: isinstance(stage.app.screen, TrafficScreen))


async def what_cannot_be_compared_is_said_and_escape_removes_the_mark(stage: Stage) -> None:
    await stage.open()
    stage.traffic.table.go(3)
    await stage.press("equals_sign", "equals_sign")
    await stage.see("no earlier call of this method and name")
    await stage.press("escape")
    await stage.until(lambda: " = 4  " not in stage.text())
    assert isinstance(stage.app.screen, TrafficScreen)
    stage.traffic.table.go(2)
    await stage.press("equals_sign", "equals_sign")
    await stage.see("this row is not a call")
    await stage.press("escape", "G", "equals_sign")
    await stage.see("only messages can be compared")


def test_two_rows_are_compared(tmp_path: Path) -> None:
    play_each(
        (
            a_call_and_the_one_before_in_two_keys,
            the_frames_of_both_sides_are_a_key_away,
            places_open_from_it_and_every_size_fits,
            what_cannot_be_compared_is_said_and_escape_removes_the_mark,
        ),
        captured(tmp_path),
    )


async def hostile_rows(stage: Stage) -> None:
    await stage.open()
    rows = stage.traffic.listing.rows
    frames = [
        row for row in range(len(rows)) if (entry := rows.view[row]) and stage.traffic.reading.index.is_frame(entry)
    ]
    for row in frames[3:40:7]:
        stage.traffic.table.go(row)
        await stage.press("equals_sign")
        stage.traffic.table.go(row + 1)
        await stage.press("down", "equals_sign")
        await stage.settled()
        if isinstance(stage.app.screen, RowComparisonScreen):
            await stage.press("n", "n")
            await stage.squeezed()
        await stage.press("escape")
        await stage.settled()


def test_hostile_rows_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    play(hostile_rows, hostile(tmp_path))
