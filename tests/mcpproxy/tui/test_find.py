"""Finding in the detail: in every view, over line ends, in folded values, and in 5 MB."""

import json
from pathlib import Path

from mcpproxy.report.text import Span
from mcpproxy.tui.find import MOST, Place, find, pattern_of
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.widgets.tree import Tree, branches, parse
from tests.captures.samples import header, in_pieces
from tests.mcpproxy.tui.stage import CALL, END, Stage, captured, play, record, said


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
            await stage.press("down", "enter", "slash", *"LIBRAR", "enter")
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
            await stage.press("escape")
            await stage.see("method:tools/call")
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
