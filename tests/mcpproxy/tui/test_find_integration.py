"""Finding in the detail: in every view, over line ends, in folded values, and in 5 MB."""

import json
from pathlib import Path

import pytest

from mcpproxy.report.text import Span
from mcpproxy.tui.byte_pages import PAGE, HexPage, RawPage
from mcpproxy.tui.find import MOST, Place, find, pattern_of
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.widgets.tree import Tree, branches, parse
from tests.captures.samples import header, in_pieces
from tests.mcpproxy.tui.stage import CALL, END, Stage, captured, play, record, said


def marked(stage: Stage) -> int:
    """How many lines of the detail in sight have a match."""
    pane = stage.traffic.pane
    top, height = int(pane.scroll_y), pane.scrollable_content_region.height
    return sum(top <= line < top + height for line in pane.found.ranges or ())


def underlined(stage: Stage) -> list[str]:
    """What is underlined in the list."""
    table = stage.traffic.table
    return [
        segment.text
        for y in range(1, table.page + 1)
        for segment in table.render_line(y)
        if segment.style is not None and segment.style.underline
    ]


class TestBytes:
    """Where a text is in bytes."""

    def test_in_raw_text_a_match_goes_over_the_end_of_a_line_and_of_a_page(self) -> None:
        raw = b"x" * (PAGE - 3) + b"needle"
        pages = [RawPage(lambda: (raw,), page, 10, 0) for page in (0, 1)]
        found = pages[0].find("NEEDLE")
        assert found.places == [Place(0, start=PAGE - 3, page=0)]
        assert pages[0].place(found.places[0]) == Place(6553, start=3)
        assert found.ranges == {6553: [(3, 6)]}
        assert pages[1].mark("NEEDLE", found).ranges == {}

    def test_in_hex_a_text_and_numbers(self) -> None:
        page = HexPage(lambda: (b"0123456789abcde", b"NEEDLE\x00\xff"), 0, 80, 0)
        found = page.find("needle")
        assert found.places == [Place(0, start=15)]
        line = "".join(span.text for span in page[0]), "".join(span.text for span in page[1])
        ranges = found.ranges or {}
        assert [line[0][start:end] for start, end in ranges[0]] == ["4e", "N"]
        assert [line[1][start:end] for start, end in ranges[1]] == ["45 45 44 4c 45", "EEDLE"]
        assert page.find("00 FF").places == page.find("00ff").places == [Place(0, start=21)]
        assert page.find("é").places == []

    def test_it_is_bounded_and_ends_when_it_is_not_wanted(self) -> None:
        page = RawPage(lambda: (b"x" * 100_000,), 0, 80, 0)
        assert len(page.find("x").places) == MOST
        assert page.find("x").is_cut
        assert page.find("x", lambda: False).places == []


class TestFinding:
    """Where a text is."""

    def test_a_match_goes_over_the_end_of_a_line(self) -> None:
        lines = TextLines(10)
        lines.foreign("a needle in a haystack\nneedle", 2)
        found = find(lines, pattern_of("NEEDLE IN"))
        assert found.places == [Place(0, start=4)]
        assert found.ranges == {0: [(4, 11)], 1: [(2, 4)]}

    def test_no_match_goes_from_one_line_to_another(self) -> None:
        lines = TextLines(40)
        lines.foreign("nee\ndle")
        assert find(lines, pattern_of("needle")).places == []
        assert find([[Span("nee"), Span("dle")]], pattern_of("needle")).places == [Place(0)]

    def test_the_text_is_no_pattern(self) -> None:
        assert find([[Span("a.c abc")]], pattern_of("a.c")).ranges == {0: [(0, 3)]}

    def test_in_a_tree_also_in_what_is_folded_and_cut(self) -> None:
        value = {"a": ["needle"], "long": "x" * 5000 + "\nneedle", "needle": 1}
        tree = Tree(branches(parse(json.dumps(value))))
        tree.fit(40)
        tree.toggle(0)
        found = find(tree, pattern_of("needle"))
        assert [place.line for place in found.places] == [2, 4, 5]
        assert found.places[1].part > 100

    def test_it_is_bounded(self) -> None:
        lines = TextLines(80)
        lines.foreign("x" * 100_000)
        found = find(lines, pattern_of("x"))
        assert len(found.places) == MOST
        assert found.is_cut
        assert find(lines, None).places == ()


class TestScreen:
    """The keys."""

    def test_the_keys(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
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

        play(act, captured(tmp_path))

    def test_the_filter_stays_as_it_is(self, tmp_path: Path) -> None:
        async def act(stage: Stage) -> None:
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

        play(act, captured(tmp_path))

    def test_five_megabytes(self, tmp_path: Path) -> None:
        lines = [f"line {n} " + ("needle" if n % 30_000 == 29_999 else "hay " * 10) for n in range(100_000)]
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "\n".join(lines)}]}}
        raw = json.dumps(answer).encode()
        assert len(raw) > 5_000_000
        middles = [("header", header()), said("c2s", CALL % (1, 1)), *in_pieces("s2c", raw, 1 << 20), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "enter")
            await stage.see("line 0")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 3", "line 29999 needle")
            await stage.press("n", "n")
            await stage.see("3 of 3", "line 89999 needle")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))

    @pytest.mark.parametrize("view", ["3", "4"])
    def test_all_pages_of_raw_text_and_of_hex(self, tmp_path: Path, view: str) -> None:
        # The second match begins on one page and ends on the next.
        raw = bytearray(b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"hay " * 1_300_000 + b'"}}')
        for at in (100, 3 * PAGE - 3, 5_000_000):
            raw[at : at + 6] = b"Needle"
        assert len(raw) > 5_000_000
        middles = [("header", header()), *in_pieces("s2c", bytes(raw), 1 << 20), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("enter", view)
            await stage.see("page 1 of 80")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 3   n N", "page 1 of 80")
            await stage.press("n")
            await stage.see("2 of 3", "page 3 of 80")
            assert marked(stage) >= 1
            await stage.press("n")
            await stage.see("3 of 3", "page 77 of 80")
            assert marked(stage) >= 1
            await stage.press("n")
            await stage.see("1 of 3", "page 1 of 80")
            await stage.press("N")
            await stage.see("3 of 3", "page 77 of 80")
            await stage.press("left_square_bracket")
            await stage.see("page 76 of 80", "3 of 3")
            await stage.press("n")
            await stage.see("1 of 3", "page 1 of 80")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))

    def test_a_match_in_a_folded_string_unfolds_it(self, tmp_path: Path) -> None:
        text = "one\n" + "hay " * 100 + "\nneedle here"
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})
        middles = [("header", header()), said("c2s", CALL % (1, 1)), said("s2c", answer.encode()), END]

        async def act(stage: Stage) -> None:
            await stage.open()
            await stage.press("down", "enter", "2")
            await stage.see('"jsonrpc"')
            await stage.press("enter")
            await stage.see("▸ {")
            await stage.press("slash", *"needle", "enter")
            await stage.see("1 of 1", " hay hay", "needle here")

        play(act, record(tmp_path / "x" / "x.mcpcap", middles), size=(80, 24))
