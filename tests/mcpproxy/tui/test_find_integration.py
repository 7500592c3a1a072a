"""Search in the detail: in every view, across line ends, in folded values, and in 5 MB."""

import json
from pathlib import Path

import pytest

from mcpproxy.tui.details.byte_pages import PAGE_BYTES
from mcpproxy.wording import units
from tests.captures.samples import header, in_pieces
from tests.mcpproxy.tui.stage import CALL, END, Act, Stage, captured, frame_record, play, play_each, record


def marked(stage: Stage) -> int:
    """The number of visible lines of the detail that have a match."""
    pane = stage.traffic.pane
    top, height = int(pane.scroll_y), pane.scrollable_content_region.height
    return sum(top <= line < top + height for line in pane.matches.ranges or ())


def underlined(stage: Stage) -> list[str]:
    """The underlined texts in the list."""
    table = stage.traffic.table
    return [
        segment.text
        for y in range(1, table.page_rows + 1)
        for segment in table.render_line(y)
        if segment.style is not None and segment.style.underline
    ]


async def the_keys(stage: Stage) -> None:
    await stage.open()
    await stage.see("/ filter")
    await stage.press("down", "enter")
    await stage.see("/ find")
    await stage.press("slash", *"LIBRAR")
    await stage.see("⏎ to the matches", "esc cancel")
    await stage.press("enter")
    await stage.see("1 of 1   n N")
    await stage.press("n")
    await stage.see("1 of 1")
    for view, count in (("2", "1 of 1"), ("3", "1 of 1"), ("4", "1 of 1"), ("5", "not found"), ("1", "1 of 1")):
        await stage.press(view)
        await stage.see(count)
    assert stage.traffic.table.cursor == 1
    await stage.press("tab", "down")
    await stage.see("not found")
    await stage.press("up", "tab")
    await stage.see("1 of 1")
    await stage.press("escape")
    await stage.until(lambda: "1 of 1" not in stage.text())
    assert stage.traffic.detail.display
    await stage.press("n")
    await stage.until(lambda: stage.traffic.table.cursor > 1)
    await stage.press("slash", "a", "escape")
    await stage.until(lambda: not stage.traffic.detail.reader.is_finding)
    assert stage.traffic.pane.has_focus


async def the_filter_stays_as_it_is(stage: Stage) -> None:
    await stage.open()
    await stage.press("slash", *"method:tools/call", "enter")
    await stage.see("13 of 16 frames")
    await stage.press("enter", "slash", *"search", "enter")
    await stage.see("1 of 1")
    await stage.until(lambda: "search" in underlined(stage), "the mark in the list")
    await stage.press("escape")
    await stage.see("method:tools/call")
    assert underlined(stage) == []
    await stage.press("escape")
    await stage.until(lambda: not stage.traffic.detail.display)
    await stage.see("method:tools/call")


class TestScreen:
    """What the keys of the search do."""

    @pytest.mark.costly("a text is found in every view, which is drawn for each")
    def test_the_keys(self, tmp_path: Path) -> None:
        acts: tuple[Act, ...] = (
            the_keys,
            the_filter_stays_as_it_is,
        )
        play_each(acts, captured(tmp_path))

    @pytest.mark.costly("5 MB are decoded, shown and searched")
    def test_five_megabytes_are_read_to_the_end_and_searched(self, tmp_path: Path) -> None:
        lines = [f"line {n} " + ("needle" if n % 30_000 == 29_999 else "hay " * 10) for n in range(100_000)]
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "\n".join(lines)}]}}
        raw = json.dumps(answer).encode()
        assert len(raw) > 5_000_000
        middles = [("header", header()), frame_record("c2s", CALL % (1, 1)), *in_pieces("s2c", raw, 1 << 20), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "enter")
            await stage.see("line 0", "line 1")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 3", "line 29999 needle")
            await stage.press("n", "n")
            await stage.see("3 of 3", "line 89999 needle")
            await stage.press("escape", "G")
            await stage.see("line 99999 hay")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))

    @pytest.mark.parametrize(
        ("view", "pages"),
        [("4", 20), *(pytest.param(view, 80, marks=pytest.mark.soak) for view in "34")],
    )
    def test_all_pages_of_raw_text_and_of_hex_are_turned_and_searched(
        self, tmp_path: Path, view: str, pages: int
    ) -> None:
        # The second match begins on one page and ends on the next.
        raw = bytearray(
            b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"hay " * (pages * PAGE_BYTES // 4 - 50) + b'END"}}'
        )
        for at in (100, 3 * PAGE_BYTES - 3, (pages - 3) * PAGE_BYTES - 999):
            raw[at : at + 6] = b"Needle"
        middles = [("header", header()), *in_pieces("s2c", bytes(raw), 1 << 20), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.see(units.size(len(raw)))
            await stage.press("enter")
            await stage.see("text:", "hay hay")
            await stage.press("3")
            await stage.see(f"page 1 of {pages}")
            await stage.press("right_square_bracket")
            await stage.see(f"page 2 of {pages}")
            await stage.press(*["right_square_bracket"] * (pages - 1))
            await stage.see(f"page {pages} of {pages}")
            await stage.press("G")
            await stage.see("END")
            await stage.press("left_square_bracket")
            await stage.see(f"page {pages - 1} of {pages}")
            # Another view begins with its first page.
            await stage.press("4" if view == "3" else "3", view)
            await stage.see(f"page 1 of {pages}")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 3   n N", f"page 1 of {pages}")
            await stage.press("n")
            await stage.see("2 of 3", f"page 3 of {pages}")
            assert marked(stage) >= 1
            await stage.press("n")
            await stage.see("3 of 3", f"page {pages - 3} of {pages}")
            assert marked(stage) >= 1
            await stage.press("n")
            await stage.see("1 of 3", f"page 1 of {pages}")
            await stage.press("N")
            await stage.see("3 of 3", f"page {pages - 3} of {pages}")
            await stage.press("left_square_bracket")
            await stage.see(f"page {pages - 4} of {pages}", "3 of 3")
            await stage.press("n")
            await stage.see("1 of 3", f"page 1 of {pages}")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))

    def test_a_match_in_a_folded_string_unfolds_it(self, tmp_path: Path) -> None:
        text = "one\n" + "hay " * 100 + "\nneedle here"
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})
        middles = [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", answer.encode()), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "enter", "2")
            await stage.see('"jsonrpc"')
            await stage.press("enter")
            await stage.see("▸ {")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 1", " hay hay", "needle here")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))
