"""The aspect `findings`: what is new, gone or worse, and what only looks so."""

from pathlib import Path

from analysis.comparison.change import Place
from analysis.comparison.findings import FindingRow, FindingsAspect, FindingsRecord
from analysis.comparison.options import CompareOptions
from analysis.rules.finding import Level
from tests.analysis.comparison.sides import Fill, compared
from tests.analysis.store.capture_writer import CaptureWriter

RULES = ["id/unknown-response", "tool/list-order"]


def _stray(count: int) -> Fill:
    def fill(capture: CaptureWriter) -> None:
        capture.ask(100, 1, "ping")
        capture.answer(110, 1)
        for number in range(count):
            capture.answer(120 + number, 70 + number)

    return fill


def _record(level: Level | None, **more: object) -> FindingsRecord:
    row = FindingRow(RULES[0], int(level or 0), "no request has the id 7", "/id", Place("c", 1, 2), 3)
    findings = {} if level is None else {"aa": row}
    return FindingsRecord(**({"findings": findings, "rules": RULES, "faults": {}, "counted_rules": []} | more))  # type: ignore[arg-type]


def _compared_kinds(old: FindingsRecord, new: FindingsRecord) -> list[str]:
    return [change.kind.id for change in FindingsAspect().compare(old, new, CompareOptions()).changes]


def test_a_finding_is_one_change_however_often_it_is_found(tmp_path: Path) -> None:
    (change,) = compared(tmp_path, _stray(0), _stray(3), with_findings=True).changes
    assert (change.kind.id, change.subject, change.times, change.before, change.after) == (
        "finding/new",
        "id/unknown-response",
        3,
        0,
        3,
    )
    assert change.new == ("new.mcpcap", 1, 6)
    (change,) = compared(tmp_path, _stray(2), _stray(0), with_findings=True).changes
    assert (change.kind.id, change.times, change.new) == ("finding/gone", 2, None)
    assert compared(tmp_path, _stray(1), _stray(3), with_findings=True).changes == ()


def test_notes_of_how_a_call_ended_are_left_to_the_outcomes(tmp_path: Path) -> None:
    def answered(capture: CaptureWriter) -> None:
        capture.call(100, 1, "search")
        capture.answer(110, 1, content=[])
        capture.call(120, 2, "fetch")
        capture.answer(130, 2, content=[])

    def failed(capture: CaptureWriter) -> None:
        capture.call(100, 1, "search")
        capture.fail(110, 1, "no")
        capture.call(120, 2, "fetch")
        capture.refuse(130, 2, -32603, "no")

    changes = compared(tmp_path, answered, failed, with_findings=True).changes
    assert [change.kind.id for change in changes] == ["outcome/now-fails", "outcome/now-fails"]


def test_a_filter_selects_findings(tmp_path: Path) -> None:
    assert compared(tmp_path, _stray(0), _stray(3), "method:ping", with_findings=True).changes == ()
    changes = compared(tmp_path, _stray(0), _stray(3), "method:ping or dir:s2c", with_findings=True).changes
    assert [change.kind.id for change in changes] == ["finding/new"]


def test_the_kind_says_the_level(tmp_path: Path) -> None:
    for old, new, expected in (
        (None, Level.ERROR, ["finding/new"]),
        (None, Level.WARNING, ["finding/new-warning"]),
        (None, Level.NOTE, ["finding/new-note"]),
        (Level.NOTE, Level.ERROR, ["finding/raised"]),
        (Level.ERROR, Level.NOTE, []),
        (Level.ERROR, None, ["finding/gone"]),
    ):
        assert _compared_kinds(_record(old), _record(new)) == expected


def test_findings_with_the_same_sentence_are_one_change() -> None:
    """The fingerprint of a finding contains the method, which no output shows."""
    row = FindingRow(RULES[0], int(Level.WARNING), "no request has the id 7", "/id", Place("c", 1, 2), 3)
    record = _record(None, findings={"aa": row, "bb": row})
    for old, new, counts in ((_record(None), record, (0, 6)), (record, _record(None), (6, 0))):
        (change,) = FindingsAspect().compare(old, new, CompareOptions()).changes
        assert (change.times, change.before, change.after) == (6, *counts)


def test_a_rule_that_did_not_run_or_only_counts_on_the_other_side_reports_nothing_new() -> None:
    found, nothing = _record(Level.ERROR), _record(None)
    for side in (_record(None, rules=RULES[1:]), _record(None, counted_rules=RULES[:1])):
        assert _compared_kinds(side, found) == []
        assert _compared_kinds(found, side) == []
        assert FindingsAspect().compare(side, found, CompareOptions()).gaps
    assert _compared_kinds(nothing, found) == ["finding/new"]


def test_a_rule_that_failed_is_a_failed_comparison() -> None:
    (gap,) = FindingsAspect().compare(_record(None), _record(None, faults={RULES[0]: "oops"}), CompareOptions()).gaps
    assert gap.is_failure
    assert "oops" in gap.reason
