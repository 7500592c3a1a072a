"""Findings on every screen: listed, filtered, one key away from their frame, and shown even if they come late."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.finding import Finding, Level
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.details.tree_place import line_of
from mcpproxy.tui.rows.finding_rows import has_all_words, list_items
from mcpproxy.tui.widgets.tree import Tree, tree_lines
from mcpproxy.wording.exact_json import parse
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured


class TestScreen:
    """The list of findings."""

    FINDING = Finding("id/x", Level.ERROR, "server", 1, 3, "x")

    @given(
        st.recursive(
            st.none() | st.text(max_size=4),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
            max_leaves=15,
        ),
        st.data(),
    )
    def test_the_line_of_any_place_is_that_of_its_value(self, value: object, data: st.DataObject) -> None:
        tree = Tree(tree_lines(parse(json.dumps(value))))
        steps: list[str] = []
        while isinstance(value, list | dict) and value and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
            steps.append(str(key).replace("~", "~0").replace("/", "~1"))
            value = value[key]
        finding = self.FINDING._replace(pointer="".join(f"/{step}" for step in steps))
        branch = tree.lines[line_of(tree.lines, finding)]
        assert branch.depth == len(steps)
        shown = "".join(span.text for span in branch.spans).rstrip(",")
        if not isinstance(value, list | dict) or not value:
            assert shown.endswith(sanitise(json.dumps(value, ensure_ascii=False), None))
        else:
            assert shown.endswith("[" if isinstance(value, list) else "{")
        assert line_of(tree.lines, finding._replace(pointer=f"{finding.pointer}/missing")) == line_of(
            tree.lines, finding
        ) or isinstance(value, dict)


class TestArranging:
    """How findings are arranged in lines."""

    ONE = Finding("id/unknown-response", Level.ERROR, "server", 1, 3, "nobody asked for 5", method="ping")

    def test_words_and_patterns(self) -> None:
        for words, expected in (
            ("", True), ("ERROR server", True), ("id/*", True), ("id/?nknown-response", True), ("framing/*", False),
            ("ping nobody", True), ("pong", False), ("*" * 50 + "x", False),
        ):  # fmt: skip
            assert has_all_words(self.ONE, words.lower().split()) is expected, words

    def test_what_is_not_kept_is_counted(self) -> None:
        findings = Findings()
        findings.add_finding(self.ONE)
        for _ in range(9):
            findings.add_count(self.ONE.rule, self.ONE.level, 4)
        items = list(list_items(findings, set(), set(), ""))
        assert [(item.total, item.is_head) for item in items] == [(10, True), (-1, False), (9, False)]
        assert len(list(list_items(findings, {items[0].group}, set(), ""))) == 1
        assert [item.total for item in list_items(findings, set(), set(), "nobody")] == [1, -1]


class TestPlaces:
    """The rows at which findings are shown."""

    def test_those_that_come_before_their_rows_are_placed_once_the_rows_are_read(self, tmp_path: Path) -> None:
        reading = Reading(captured(tmp_path))
        early = Finding("id/x", Level.ERROR, "server", 1, 5, "x")
        reading.findings.add_finding(early)
        reading.findings.add_count("id/x", Level.WARNING, 9)
        assert reading.findings.findings_at(5) == []
        while not reading.has_ended:
            reading.step()
        assert reading.findings.findings_at(5) == [early]
        assert reading.findings.worst_level_and_count(9) == (Level.WARNING, 1)
        reading.close()
