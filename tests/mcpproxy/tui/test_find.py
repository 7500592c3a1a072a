"""Search in the detail: in every view, across line ends, in folded values, and in 5 MB."""

import json

from mcpproxy.tui.details.byte_pages import PAGE_BYTES, HexPage, RawPage
from mcpproxy.tui.details.find import MAX_MATCHES, MatchPosition, find, pattern_of
from mcpproxy.tui.text.lines import TextLines
from mcpproxy.tui.widgets.tree import Tree, tree_lines
from mcpproxy.wording.exact_json import parse
from mcpproxy.wording.spans import Span


class TestBytes:
    """Search in bytes."""

    def test_in_raw_text_a_match_goes_over_the_end_of_a_line_and_of_a_page(self) -> None:
        raw = b"x" * (PAGE_BYTES - 3) + b"needle"
        pages = [RawPage(lambda: (raw,), page, 10, 0) for page in (0, 1)]
        found = pages[0].find("NEEDLE")
        assert found.positions == [MatchPosition(0, start=PAGE_BYTES - 3, page=0)]
        assert pages[0].position_of(found.positions[0]) == MatchPosition(6553, start=3)
        assert found.ranges == {6553: [(3, 6)]}
        assert pages[1].with_ranges("NEEDLE", found).ranges == {}

    def test_in_hex_a_text_and_numbers(self) -> None:
        page = HexPage(lambda: (b"0123456789abcde", b"NEEDLE\x00\xff"), 0, 80, 0)
        found = page.find("needle")
        assert found.positions == [MatchPosition(0, start=15)]
        line = "".join(span.text for span in page[0]), "".join(span.text for span in page[1])
        ranges = found.ranges or {}
        assert [line[0][start:end] for start, end in ranges[0]] == ["4e", "N"]
        assert [line[1][start:end] for start, end in ranges[1]] == ["45 45 44 4c 45", "EEDLE"]
        assert page.find("00 FF").positions == page.find("00ff").positions == [MatchPosition(0, start=21)]
        assert page.find("é").positions == []

    def test_it_is_bounded_and_ends_when_it_is_not_wanted(self) -> None:
        page = RawPage(lambda: (b"x" * 100_000,), 0, 80, 0)
        assert len(page.find("x").positions) == MAX_MATCHES
        assert page.find("x").is_cut
        assert page.find("x", lambda: False).positions == []


class TestFinding:
    """Search in lines of text and trees."""

    def test_a_match_goes_over_the_end_of_a_line(self) -> None:
        lines = TextLines(10)
        lines.write_foreign("a needle in a haystack\nneedle", 2)
        found = find(lines, pattern_of("NEEDLE IN"))
        assert found.positions == [MatchPosition(0, start=4)]
        assert found.ranges == {0: [(4, 11)], 1: [(2, 4)]}

    def test_no_match_goes_from_one_line_to_another(self) -> None:
        lines = TextLines(40)
        lines.write_foreign("nee\ndle")
        assert find(lines, pattern_of("needle")).positions == []
        assert find([[Span("nee"), Span("dle")]], pattern_of("needle")).positions == [MatchPosition(0)]

    def test_the_text_is_not_a_pattern(self) -> None:
        assert find([[Span("a.c abc")]], pattern_of("a.c")).ranges == {0: [(0, 3)]}

    def test_in_a_tree_also_in_what_is_folded_and_cut(self) -> None:
        value = {"a": ["needle"], "long": "x" * 5000 + "\nneedle", "needle": 1}
        tree = Tree(tree_lines(parse(json.dumps(value))))
        tree.fit(40)
        tree.toggle(0)
        found = find(tree, pattern_of("needle"))
        assert [place.line for place in found.positions] == [2, 4, 5]
        assert found.positions[1].part > 100

    def test_it_is_bounded(self) -> None:
        lines = TextLines(80)
        lines.write_foreign("x" * 100_000)
        found = find(lines, pattern_of("x"))
        assert len(found.positions) == MAX_MATCHES
        assert found.is_cut
        assert find(lines, None).positions == ()
