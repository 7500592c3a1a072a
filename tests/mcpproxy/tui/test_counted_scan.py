"""The counts in the title of a filtered traffic: errors and findings among the selected rows."""

from pathlib import Path

from analysis.filter import parse
from mcpproxy.tui.data.counted_scan import CountedScan
from mcpproxy.tui.data.findings import SelectedFindings
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured, wrong


def counted(path: Path, *expressions: str) -> list[CountedScan]:
    """Scans of a capture, which run while it is read and checked."""
    reading = Reading(path, with_rules=True)
    scans = [CountedScan(reading, parse(expression), {}) for expression in expressions]
    while any([reading.step(), *map(CountedScan.step, scans)]) or not reading.findings.has_ended:
        for scan in scans:
            scan._next_count_s = 0.0
    for scan in scans:
        scan.close()
    reading.close()
    return scans


def test_errors_are_counted_among_the_selected_rows(tmp_path: Path) -> None:
    path = captured(tmp_path, calls=9)
    scans = counted(path, "method:tools/call", "frame<10", "has:error", "method:initialize", "not has:error")
    assert [scan.error_count for scan in scans] == [3, 1, 3, 0, 0]


def test_findings_are_counted_by_row_with_the_worst_level(tmp_path: Path) -> None:
    scans = counted(wrong(tmp_path, noise=3), "kind:invalid", "method:ping", "has:finding", "method:initialize")
    assert scans[0].findings == SelectedFindings(3, has_errors=True)
    assert scans[1].findings == SelectedFindings(0, has_errors=False)
    assert scans[2].findings.row_count >= 4
    assert scans[3].findings == SelectedFindings()
