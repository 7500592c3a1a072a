"""The core: which observers see what, in which order changes come, and when a comparison has failed."""

from pathlib import Path

import pytest

from analysis.comparison.change import Comparison
from analysis.comparison.compare import compare
from analysis.comparison.observe import observe
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError
from tests.analysis.comparison.sides import Fill, compared, kinds, observed, written
from tests.analysis.store.capture_writer import OPENED, CaptureWriter
from tests.rows import row


def _call(tool: str, text: str = "") -> Fill:
    def fill(capture: CaptureWriter) -> None:
        capture.call(100, 1, tool, q="x")
        if text:
            capture.fail(110, 1, text)
        else:
            capture.answer(110, 1, content=[])

    return fill


def _nothing(_capture: CaptureWriter) -> None:
    return


def _list(capture: CaptureWriter) -> None:
    capture.ask(100, 1, "tools/list")
    capture.answer(110, 1, tools=[])


def failures(comparison: Comparison) -> list[str]:
    """Returns why a comparison has failed."""
    return [gap.reason for gap in comparison.gaps if gap.is_failure]


def test_sides_with_nothing_in_common_are_a_failed_comparison(tmp_path: Path) -> None:
    nothing = ["the sides have no call and no item of a list in common"]
    for old, new, only, expected in (
        (_call("search"), _call("fetch"), "", nothing),
        (_call("search"), _nothing, "", nothing),
        (_call("search"), _call("search", "no"), "", []),
        (_nothing, _nothing, "", []),
        (
            _call("search"),
            _call("search"),
            "method:prompts/get",
            ["neither side has anything to compare, or the filter selects nothing"],
        ),
    ):
        with row(only, expected):
            assert failures(compared(tmp_path, old, new, only)) == expected


def test_a_side_without_messages_is_a_failed_comparison(tmp_path: Path) -> None:
    empty = observed(CaptureWriter(tmp_path / "empty.mcpcap", "weather").close())
    full = observed(written(tmp_path, "full", _call("search")))
    for old, new, expected in (
        (empty, full, "the old side has no message"),
        (full, empty, "the new side has no message"),
        (empty, empty, "neither side has a message"),
    ):
        assert failures(compare(old, new, CompareOptions())) == [expected]


def test_how_the_server_ended_is_the_reason_why_a_side_has_no_message(tmp_path: Path) -> None:
    full = observed(written(tmp_path, "full", _call("search")))
    for members, expected in (
        ({"event": "ended", "status": 1}, "the new side has no message (the server exited with 1)"),
        ({"event": "ended", "signal": "SIGSEGV"}, "the new side has no message (SIGSEGV ended the server)"),
        ({"event": "ended", "signal": "\x1b[2J", "status": 1 << 70}, "the new side has no message (the server ended)"),
        ({"event": "failed", "errno": "ENOENT"}, "the new side has no message (the server could not be run)"),
    ):
        with row(expected):
            writer = CaptureWriter(tmp_path / "crash.mcpcap", "weather")
            writer.record(5, "process", **members)
            comparison = compare(full, observed(writer.close()), CompareOptions())
            assert (failures(comparison), comparison.changes, comparison.compared) == ([expected], (), ())


def test_a_filter_leaves_out_lists_and_handshakes_with_one_reason(tmp_path: Path) -> None:
    comparison = compared(tmp_path, _call("search"), _call("search"), "name:search")
    (gap,) = (gap for gap in comparison.gaps if "breaking" in gap.needed_by)
    assert (gap.what, gap.is_failure) == ("definitions and session", False)
    assert not any("neither side" in gap.reason for gap in comparison.gaps if gap.what != "findings")
    assert not {"tools", "capabilities"} & {what for what, _, _ in comparison.compared}


def test_what_a_side_lacks_is_not_compared(tmp_path: Path) -> None:
    side = observed(written(tmp_path, "a", _call("search")))
    unchecked = observed(written(tmp_path, "b", _call("search")), with_findings=False)
    (gap,) = (gap for gap in compare(side, unchecked, CompareOptions()).gaps if gap.what == "findings")
    assert (gap.what, gap.is_failure, gap.needed_by) == ("findings", False, frozenset({"finding"}))
    lacking = Side(side.summary, {"findings": side.records["findings"]})
    assert set(failures(compare(lacking, side, CompareOptions()))) == {
        "another version of mcpproxy saved the old side, without it"
    }


def test_the_worst_changes_come_first(tmp_path: Path) -> None:
    def old(capture: CaptureWriter) -> None:
        capture.call(100, 1, "b", q="x")
        capture.answer(110, 1, content=[])
        capture.call(120, 2, "a", q="x")
        capture.answer(130, 2, content=[])
        capture.call(140, 3, "c", q="x")
        capture.fail(150, 3, "no")

    def new(capture: CaptureWriter) -> None:
        capture.call(100, 1, "b", q="x")
        capture.fail(110, 1, "no")
        capture.call(120, 2, "a", q="x")
        capture.fail(130, 2, "no")
        capture.call(140, 3, "c", q="x")
        capture.answer(150, 3, content=[])
        capture.answer(160, 9, content=[])

    comparison = compared(tmp_path, old, new, with_findings=True)
    assert [(change.kind.id, change.subject) for change in comparison.changes] == [
        ("finding/new", "id/unknown-response"),
        ("outcome/now-fails", "tools/call a"),
        ("outcome/now-fails", "tools/call b"),
        ("outcome/now-works", "tools/call c"),
    ]


def test_several_captures_are_one_side(tmp_path: Path) -> None:
    paths = [written(tmp_path, name, _call("search", text)) for name, text in (("a", ""), ("b", "no"))]
    side = observe("both", [(path.name, path) for path in paths], ObserveOptions())
    assert (side.summary.captures, side.summary.sessions, side.summary.frames) == (2, 2, 10)
    assert (side.summary.server, side.summary.client) == ("weather 1.0", "c 1")
    assert side.summary.revisions == ("2025-06-18",)
    assert side.summary.begun_ns == OPENED
    assert kinds(compare(observed(paths[0]), side, CompareOptions()))[0] == "outcome/sometimes-fails"


def test_a_summary_says_what_a_capture_lacks(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "a.mcpcap", "weather")
    writer.handshake()
    writer.record(100, "gap", first=4, last=9, from_ns=1, to_ns=2, lost={}, reason="ENOSPC")
    warnings = observed(writer.close()).summary.warnings
    assert [text for text in warnings if text.startswith("Records are lost (")]


def test_a_capture_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.mcpcap"
    with pytest.raises(CaptureError):
        observed(missing)
