"""The filter of the traffic applies while it is typed; filters are saved under names."""

from pathlib import Path

import pytest

from captures.file import CaptureFile
from mcpproxy.history import history_path, save_filter, saved_filters
from mcpproxy.tui.widgets.filter_box import FilterBox
from tests.captures.samples import lines
from tests.mcpproxy.tui.stage import END, Stage, captured, conversation, play, play_each


async def rows_change_with_every_key(stage: Stage) -> None:
    await stage.open()
    await stage.press("G", *["up"] * 4)
    entry = stage.traffic.entry
    await stage.press("slash", *"kind:error")
    await stage.see("kind:error", "2 of 16 frames", "[2/2]")
    assert stage.traffic.query_one(FilterBox).has_focus
    assert stage.traffic.entry == 15, "the cursor stays near its row"
    # An expression that is wrong leaves the last valid rows, and says so without a toast.
    await stage.press(*" or latency>fast")
    await stage.see("expected a time such as 100ms", "2 of 16 frames")
    assert "^" not in [line.strip() for line in stage.text().splitlines()]
    assert not stage.app._notifications
    await stage.press("escape")
    await stage.see("[14/18]", "16 frames")
    assert stage.traffic.entry == entry


async def enter_keeps_and_escape_restores(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"kind:error", "enter")
    await stage.see("2 of 16 frames")
    assert stage.traffic.table.has_focus
    await stage.press("slash", *"id:6")
    await stage.see("kind:error id:6", "1 of 16 frames")
    await stage.press("escape")
    await stage.see("kind:error  2 of 16 frames")
    # The next word is a word of its own, and if nothing is typed, nothing changes.
    scan = stage.traffic.filter.scan
    await stage.press("slash", "enter")
    assert stage.traffic.filter.scan is scan
    await stage.press("slash", *"id:6", "enter")
    await stage.see("kind:error id:6", "1 of 16 frames")


async def exchanges_are_filtered_too(stage: Stage) -> None:
    await stage.open()
    # Both ways: the exchanges whose request or response is selected.
    await stage.press("G", "exclamation_mark", "x")
    await stage.see("has:failure", "3 of 8 exchanges", "6 ⇒ no such page", "[3/3]")
    assert stage.traffic.entry == 17
    assert sorted(stage.traffic.listing.entries()) == [8, 9, 14, 15, 17]
    await stage.press("s", "up")
    await stage.see("by latency", "3 of 8 exchanges")
    await stage.press("escape", "g", "n")
    await stage.see("[2/3]")
    assert stage.traffic.entry == 14
    # The response of the exchange at the cursor is where the cursor is among the frames.
    await stage.press("x")
    await stage.see("3 of 16 frames", "[2/3]")
    assert stage.traffic.entry == 15
    await stage.press("x", "escape")
    await stage.see("⇒ found 1", "[7/8]")
    await stage.press("slash", *"text:FOUND or method:initialize")
    await stage.see("of 8 exchanges")
    await stage.press("ctrl+u", *"method:notifications/*", "enter")
    await stage.see("no exchange matches method:notifications/*; x shows 1 row", "0 of 8 exchanges")
    await stage.press("x")
    await stage.see("1 of 16 frames", "[1/1]")


async def an_order_and_exchanges_come_back(stage: Stage) -> None:
    await stage.open()
    await stage.press("x", "slash", *"kind:error")
    await stage.see("2 of 8 exchanges")
    await stage.press("escape")
    await stage.see("⇒ found 1")
    await stage.press("x", "s")
    await stage.see("by latency")
    await stage.press("slash", *"kind:error")
    await stage.see("2 of 16 frames")
    await stage.press("escape")
    await stage.see("by latency", "16 frames")


async def what_is_half_typed_is_suggested_and_selects_nothing(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"kind:err")
    await stage.see("kind:error")
    box = stage.traffic.query_one(FilterBox)
    await stage.press("tab", *" o")
    await stage.see("kind:error  2 of 16 frames")
    await stage.press("r")
    await stage.see("kind:error  2 of 16 frames", "Tab completes")
    await stage.press(*" me")
    await stage.see("Tab method:  the method", "filter kind:error or me")
    await stage.press("tab")
    await stage.see("Tab method:initialize  method:tools/call")
    assert box.value == "kind:error or method:"
    # Tab leaves the box if there is nothing to complete, as in a box for words.
    await stage.press(*"initialize", "tab")
    await stage.see("4 of 16 frames")
    assert not box.display
    assert stage.traffic.table.has_focus


async def text_is_found_in_any_case(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"text:no")
    await stage.see("text:no", "of 16 frames")
    await stage.press(*" text:SUCH")
    await stage.see("0 of 16 frames", "Esc shows what was shown before")
    await stage.press("ctrl+u", *'text:"NO such"')
    await stage.see("0 of 16 frames")
    await stage.press("ctrl+u", *'text:"no such"')
    await stage.see("2 of 16 frames")


@pytest.mark.costly("five acts, each of which draws the rows after every key")
def test_a_filter_applies_as_it_is_typed(tmp_path: Path) -> None:
    acts = (
        rows_change_with_every_key,
        enter_keeps_and_escape_restores,
        exchanges_are_filtered_too,
        an_order_and_exchanges_come_back,
        what_is_half_typed_is_suggested_and_selects_nothing,
        text_is_found_in_any_case,
    )
    play_each(acts, captured(tmp_path), size=(140, 30))


def test_new_rows_obey_a_filter_that_is_being_typed(tmp_path: Path) -> None:
    path = tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap"
    path.parent.mkdir()
    told = lines([*conversation(30), END])
    writer = CaptureFile(path)
    for line in told[:40]:
        writer.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter", "slash", *"kind:error")
        await stage.see("kind:error", "6 of 39 frames")
        for line in told[40:]:
            writer.append(line)
        await stage.see("kind:error", "10 of 64 frames")
        writer.close()

    play(act, path, size=(140, 30))


def test_new_exchanges_obey_a_filter(tmp_path: Path) -> None:
    path = tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap"
    path.parent.mkdir()
    told = lines([*conversation(30), END])
    writer = CaptureFile(path)
    # The request of call 18, which fails, is the last line.
    for line in told[:39]:
        writer.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("exclamation_mark")
        await stage.see("has:failure or has:waiting", "waiting first", "6 of 38 frames")
        await stage.press("x")
        await stage.see("6 of 19 exchanges", "waiting first")
        assert stage.traffic.listing.rows.view[0] == 38
        await stage.press("g", "p")
        await stage.see("no response so far; w says why")
        for line in told[39:]:
            writer.append(line)
        await stage.see("11 of 32 exchanges")
        writer.close()

    play(act, path, size=(140, 30))


def test_a_filter_is_saved_used_and_deleted(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.press("slash", *"kind:error or id:2", "ctrl+s")
        await stage.see("save this filter as @")
        await stage.press(*"bad", "enter")
        await stage.see("saved as @bad")
        await stage.press("ctrl+u", *"@b", "tab")
        assert stage.traffic.query_one(FilterBox).value == "@bad"
        await stage.press(*" id:6")
        await stage.see("(kind:error or id:2) id:6", "1 of 16 frames")
        await stage.press("ctrl+u", *"@nobody")
        await stage.see("expected the name of a saved filter (@bad)")
        await stage.press("ctrl+u", "ctrl+s", *"a b", "enter")
        await stage.see("expected a name of letters")
        await stage.press("ctrl+s", *"bad", "enter")
        await stage.see("@bad is deleted")

    play(act, captured(tmp_path), size=(140, 30))
    assert saved_filters() == {}
    path = history_path("saved_filters")
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("tmp_path")
def test_saved_filters_replace_each_other() -> None:
    save_filter("a", "id:1")
    save_filter("b", "id:2")
    save_filter("a", "id:3")
    save_filter("c", "two\nlines")
    assert saved_filters() == {"b": "id:2", "a": "id:3"}
    save_filter("b", "")
    assert saved_filters() == {"a": "id:3"}
