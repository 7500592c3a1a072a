"""The screen of a comparison in parts: messages between the processes, rows, and the values next to each other."""

from pathlib import Path

import pytest

from analysis.child_process import from_json
from analysis.comparison.change import ABSENT, Change, Comparison, LatencyRow, SizeRow
from analysis.comparison.kinds.schemas import ARGUMENT_REQUIRED
from analysis.comparison.observe import observe
from analysis.comparison.options import ObserveOptions
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.capture_list import ListedCapture, short_name
from mcpproxy.tui.data.changed_definitions import changed_definitions
from mcpproxy.tui.data.comparing import MAX_MESSAGE_BYTES, change_of
from mcpproxy.tui.data.comparison_messages import (
    MAX_CHANGES,
    MAX_DETAIL_CHARS,
    MAX_OTHER_ROWS,
    Totals,
    comparison_messages,
    detail_message,
    read_change,
    read_detail,
    read_head,
)
from mcpproxy.tui.details.change_view import change_text
from mcpproxy.tui.rows.comparison_rows import VIEWS, ChangeItem, ComparisonRows, count_of, item_lines, items_of
from mcpproxy.tui.screens.comparison_choice import previous_capture
from mcpproxy.wording.aligned_json import aligned_lines
from mcpproxy.wording.cells import cells
from tests.mcpproxy.report.comparisons import DEEP, FAILED, HARD, NOTHING, NOW_FAILS, ORDINARY, VALUE_CHANGED
from tests.mcpproxy.tui.scenes import STRICT_SCHEMA, versions
from tests.mcpproxy.tui.stage import captured


def received(comparison: Comparison) -> tuple[Comparison, Totals]:
    """What the screen gets of a comparison."""
    head, *changes, end = comparison_messages(comparison)
    assert all(len(message) < MAX_MESSAGE_BYTES for message in (head, *changes))
    assert from_json(end) == {"done": True}
    shown, totals = read_head(from_json(head))
    return shown._replace(changes=tuple(change_of(read_change(from_json(message))) for message in changes)), totals


def test_a_comparison_arrives_as_it_was_but_for_its_values() -> None:
    for comparison in (ORDINARY, NOTHING, FAILED):
        shown, totals = received(comparison)
        assert shown._replace(changes=()) == comparison._replace(changes=(), accepted_changes=())
        assert [change.fingerprint for change in shown.changes] == [change.fingerprint for change in comparison.changes]
        assert [change.severity for change in shown.changes] == [change.severity for change in comparison.changes]
        assert totals.changes == len(comparison.changes)


def test_failures_come_first_and_all_lists_are_bounded_and_counted() -> None:
    many = ORDINARY._replace(
        changes=ORDINARY.changes[:1] * 100_000,
        gaps=(*ORDINARY.gaps * 3_000, *FAILED.gaps),
        latencies=ORDINARY.latencies * 1_000,
    )
    shown, totals = received(many)
    assert (len(shown.changes), len(shown.gaps), len(shown.latencies)) == (MAX_CHANGES, MAX_OTHER_ROWS, MAX_OTHER_ROWS)
    assert shown.gaps[0].is_failure
    assert count_of(shown, totals, "changes") == "10,000 of 100,000"
    assert count_of(shown, totals, "sizes") == "2"


@pytest.mark.parametrize("comparison", [ORDINARY, HARD], ids=["ordinary", "hard"])
def test_every_row_and_detail_can_be_drawn_whatever_the_sides_contain(comparison: Comparison) -> None:
    shown, _ = received(comparison)
    for view in VIEWS:
        rows = ComparisonRows(items_of(shown, view, ""))
        for number, item in enumerate(rows.items):
            for width in (20, 79, 199):
                columns = rows.fit_columns(view, width)
                for column in columns:
                    text = "".join(span.text for span in rows.line(number).cells.get(column.name, ()))
                    assert sanitise(text, None) == text
                    assert column.name not in ("subject", "text") or view != "changes" or cells(text) <= column.width
            if not isinstance(item, ChangeItem):
                assert all(sanitise(line, None) == line for line in item_lines(item))
    for number, (change, original) in enumerate(zip(shown.changes, comparison.changes, strict=True)):
        message = detail_message(number, original)
        assert len(message) < MAX_MESSAGE_BYTES
        detail = read_detail(from_json(message))
        assert sum(len(line.old or "") + len(line.new or "") for line in detail.lines) <= MAX_DETAIL_CHARS
        for width in (20, 77):
            for line in change_text(change, shown, detail, width).lines:
                text = "".join(span.text for span in line)
                assert sanitise(text, None) == text
                assert cells(text) <= width, text
        assert change_text(change, shown, None, 77).first_difference is None


def test_rows_that_differ_only_in_their_place_can_be_told_apart_on_a_narrow_screen() -> None:
    changes = [
        Change(VALUE_CHANGED, "tools/call health", "a value in a result changed", f"/structuredContent/{name}", times=2)
        for name in ("a", "load", "mood", "worker")
    ]
    sentence = "the same request got a result before and now ends with "
    changes += [Change(NOW_FAILS, "tools/call book", sentence + ending) for ending in ("tool_error", "error -32602")]
    rows = ComparisonRows([ChangeItem(number, change) for number, change in enumerate(changes)])
    widths = {column.name: column.width for column in rows.fit_columns("changes", 79)}
    texts = ["".join(span.text for span in rows.line(number).cells["text"]) for number in range(len(changes))]
    assert len(set(texts)) == len(changes)
    assert all(cells(text) <= widths["text"] for text in texts)
    for text, end in zip(texts, ("/a ", "/load ", "/mood ", "/worker ", "tool_error", "-32602"), strict=True):
        assert end in f"{text} "


def test_columns_are_as_wide_as_their_texts_and_cut_nothing_while_there_is_room() -> None:
    rows = ComparisonRows(items_of(ORDINARY, "changes", ""))
    columns = {column.name: column.width for column in rows.fit_columns("changes", 199)}
    for number in range(len(rows)):
        for name, spans in rows.line(number).cells.items():
            text = "".join(span.text for span in spans)
            assert cells(text) <= columns[name], text
            assert "…" not in text
    assert columns["subject"] == max(len(change.subject) for change in ORDINARY.changes)
    assert rows.fit_columns("changes", 199) is rows.fit_columns("changes", 199), "each key press fits them"


def test_figures_say_what_they_are_of_and_no_change_is_rounded_to_nothing() -> None:
    row = LatencyRow("tools/call a", 29, 31, 10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6, (1.5, 2.5), (1.5, 2.5), "slower")
    figures = dict(line.split("  ", 1) for line in item_lines(row)[1:])
    assert [title.strip() for title in figures] == ["verdict", "calls", "p50", "p50 ratio", "p95", "p95 ratio"]
    assert figures["p50 ratio"].startswith("×1.5")
    for old_bytes, new_bytes, growth in (
        (2_845, 2_837, "-0.3 %"),
        (2_482, 2_845, "+15 %"),
        (100_000_000, 100_000_001, "+<0.1 %"),
        (46, 46, "same"),
        (0, 5, "–"),
        (1, 100_000, "+9,999,900 %"),
    ):
        lines = item_lines(SizeRow("tools", 5, 5, old_bytes, new_bytes, 711, 709))
        assert lines[3:] == [f"change         {growth}", "tokens (est.)  711 → 709"]


def test_values_are_next_to_each_other_and_what_differs_is_marked() -> None:
    required = next(change for change in ORDINARY.changes if change.witness is not None)
    detail = read_detail(from_json(detail_message(1, required)))
    lines = ["".join(span.text for span in line).rstrip() for line in change_text(required, ORDINARY, detail, 43).lines]
    assert lines[lines.index("was  frame 4         │ now  frame 6") :][:5] == [
        "was  frame 4         │ now  frame 6",
        "[                    │ [",
        '  "query"            │   "query",',
        '                     +   "limit"',
        "]                    │ ]",
    ]
    witness_line = next(
        number for number, line in enumerate(lines) if line.startswith("witness  valid before, not now")
    )
    assert lines[witness_line + 1] == '  {"query":"a"}'
    assert witness_line < lines.index("was  frame 4         │ now  frame 6"), "a long value would hide it"
    outcome = next(change for change in ORDINARY.changes if isinstance(change.after, dict))
    detail = read_detail(from_json(detail_message(2, outcome)))
    spans = [span for line in change_text(outcome, ORDINARY, detail, 77).lines for span in line]
    assert [span.text for span in spans if span.role == "accent" and span.text == "error"] == ["error"]
    assert [span.text for span in spans if span.role == "bad" and span.text == "result"] == ["result"]
    assert [span for span in spans if span.text in (" ≠ ", " + ")] == [(" ≠ ", "warm"), (" + ", "accent")]


def test_a_change_without_values_shows_the_definitions_that_it_is_about(tmp_path: Path) -> None:
    new, old = (
        observe(path.name, [(path.name, path)], ObserveOptions(with_findings=False)) for path in versions(tmp_path)
    )
    old_place, new_place = (
        next(iter(side.records["definitions"].servers.values()))["tools"].definitions[0].place for side in (old, new)
    )
    required = Change(ARGUMENT_REQUIRED, "tool search", "", old=old_place, new=new_place)
    before, after = changed_definitions(required, old, new)
    assert before["name"] == after["name"] == "search"
    assert after["inputSchema"] == STRICT_SCHEMA
    lines, _ = aligned_lines(before, after, 100)
    assert next(line.new for line in lines if line.old is None and line.new is not None) == '"limit": {'
    assert changed_definitions(required._replace(subject="tool sea"), old, new) == (ABSENT, ABSENT)
    assert changed_definitions(required._replace(old=None, new=None), old, new) == (ABSENT, ABSENT)


def test_words_select_rows_by_all_that_they_show() -> None:
    shown, _ = received(ORDINARY)
    for words, count in (("breaking", 2), ("outcome/ result", 1), ("FETCH breaking", 1), ("nothing of this", 0)):
        assert len(items_of(shown, "changes", words)) == count, words
    assert len(items_of(shown, "latency", "cannot tell")) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"comparison": [], "totals": [0, 0, 0, 0]},
        {"comparison": None},
        {},
        {"change": ["no/such-kind", "", "", "", None, None, None, 1, "", None]},
        {"change": {"kind_id": 5}},
        {"detail": [1, [[0, 5, None, True, 0]], True, ""]},
        {"detail": DEEP[:0]},
    ],
)
def test_an_invalid_message_is_refused(message: dict[str, object]) -> None:
    read = read_change if "change" in message else read_detail if "detail" in message else read_head
    with pytest.raises((LookupError, TypeError, ValueError)):
        read(message)


@pytest.mark.parametrize(
    ("path", "name"),
    [("r1.mcpcap", "r1.mcpcap"), ("library/20261121T101501Z-0000.mcpcap", "library/20261121T101501Z-0000")],
)
def test_a_side_has_the_name_that_the_user_knows(path: str, name: str) -> None:
    assert short_name(Path(path)) == name


def test_the_capture_before_is_of_the_same_server(tmp_path: Path) -> None:
    stamps = ("20261121T101501Z-0000", "20261121T101502Z-0000", "20261121T101503Z-0000")
    captures = [ListedCapture(captured(tmp_path, calls=1, stamp=stamp)) for stamp in stamps]
    captures += [ListedCapture(captured(tmp_path, "other", calls=1, stamp="20261121T101500Z-0000"))]
    assert previous_capture(captures[2], captures) is captures[1]
    assert previous_capture(captures[1], captures) is captures[0]
    assert previous_capture(captures[0], captures) is None
    captures[1].is_readable = False
    assert previous_capture(captures[2], captures) is captures[0]
