"""Findings, rules and losses as lines of text, as the screens show them, but tested without a screen."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.filter import parse
from analysis.rules.finding import Finding, Level
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.details.proof import proof_lines
from mcpproxy.tui.rows.finding_lines import (
    finding_lines,
    losses_text,
    page_lines,
    progress_text,
    row_lines,
    short_lines,
)
from mcpproxy.tui.rows.finding_rows import FindingGroup, FindingRows, list_items
from mcpproxy.tui.screens.findings import tally_text
from mcpproxy.wording.spans import Span
from tests.captures.samples import lines
from tests.mcpproxy.tui.stage import END, conversation, frame_record, lossy, record, wrong
from tests.mcpproxy.tui.test_rows import understood

STRAY = Finding("framing/stdout-not-json", Level.ERROR, "server", 1, 6, "a line on stdout is not JSON")
UNASKED = Finding("id/unknown-response", Level.ERROR, "server", 1, 7, "nobody asked for 4711", pointer="/id")
FLOAT = Finding(
    "id/float-integer",
    Level.NOTE,
    "client",
    1,
    8,
    "the id 7.0 is written with a decimal point or an exponent",
    pointer="/id",
)


def text(spans: list[list[Span]]) -> list[str]:
    """The lines without colours."""
    return ["".join(span.text for span in line) for line in spans]


@contextmanager
def found(path: Path, *findings: Finding) -> Iterator[Reading]:
    """A capture that was read to its end, with some findings."""
    with understood(path) as reading:
        for finding in findings:
            reading.findings.add_finding(finding)
        yield reading


def test_the_worst_comes_first_and_identical_ones_share_a_line() -> None:
    findings, rows = Findings(), FindingRows()
    for finding in (FLOAT, UNASKED, *(STRAY._replace(frame=frame) for frame in (6, 8, 9))):
        findings.add_finding(finding)
    rows.folded_groups.add(FindingGroup(UNASKED.level, UNASKED.rule))
    rows.items = list(list_items(findings, rows.folded_groups, set(), ""))
    cells = [rows.line(row).cells for row in range(len(rows))]
    shown = [" | ".join("".join(span.text for span in spans) for spans in line.values()) for line in cells]
    assert shown == [
        "▾ | ✗ error    framing/stdout-not-json  3",
        "6 | +0.000 | server | ×3  a line on stdout is not JSON",
        "▸ | ✗ error    id/unknown-response  1",
        "▾ | · note     id/float-integer  1",
        "8 | +0.000 | client | the id 7.0 is written with a decimal point or an exponent",
    ]


def test_a_finding_whose_sender_is_unknown_says_so() -> None:
    findings, rows = Findings(), FindingRows()
    findings.add_finding(STRAY._replace(blames="unknown"))
    rows.items = list(list_items(findings, set(), set(), ""))
    assert "".join(span.text for span in rows.line(1).cells["who"]) == "unknown"


def test_a_finding_is_shown_with_its_place_its_proof_and_its_rule(tmp_path: Path) -> None:
    with found(wrong(tmp_path), STRAY, UNASKED, FLOAT) as reading:
        shown = {finding.rule: text(proof_lines(reading, finding, 90)) for finding in (STRAY, FLOAT)}
        assert shown["framing/stdout-not-json"] == ["  Loaded 3 plugins", "  ^^^^^^^^^^^^^^^^"]
        line, carets = shown["id/float-integer"]
        assert line == '  {"jsonrpc":"2.0","id":7.0,"method":"ping"}'
        assert (carets.index("^"), carets.count("^")) == (line.index("7.0"), 3)
        of_row = text(row_lines(reading, 6, 200))
        assert of_row[:3] == ["✗ error  framing/stdout-not-json", "frame 6", "a line on stdout is not JSON"]
        assert of_row[3:5] == shown["framing/stdout-not-json"]
        assert "writes a line to its standard" in " ".join(of_row[5:])
        assert text(short_lines(reading, 6, 80)) == ["", "✗ framing/stdout-not-json", "a line on stdout is not JSON"]
        reading.findings.has_ended = True
        assert text(row_lines(reading, 1, 80)) == ["nothing found"]
    assert text(finding_lines(FLOAT, 80))[:2] == ["· note  id/float-integer", "frame 8  at /id"]


def test_a_proof_is_bounded_and_nothing_in_it_acts(tmp_path: Path) -> None:
    made = [frame_record("s2c", b"\x1b]0;EVIL\x07" + b"x" * 300), frame_record("s2c", b"y" * (2 << 20))]
    path = record(tmp_path / "x.mcpcap", [*conversation(0, "wrong"), *made, END])
    with found(path) as reading:
        evil, *_ = text(proof_lines(reading, STRAY._replace(frame=6), 100))
        assert evil.startswith("  \\x1b]0;EVIL\\x07xxx")
        assert len(evil) <= 100
        assert text(proof_lines(reading, STRAY._replace(frame=7), 100)) == [
            "  a frame of 2.1 MB: open it in the traffic",
        ]


def test_filters_ask_for_rules_and_levels(tmp_path: Path) -> None:
    with found(wrong(tmp_path), STRAY, UNASKED, FLOAT) as reading:
        findings = reading.findings
        findings.checked_count, findings.has_caught_up, findings.has_ended = len(reading.index), True, True
        for text, rows in (
            ("rule:id/*", [7, 8]),
            ("level:error", [6, 7]),
            ("level>=note", [6, 7, 8]),
            ("has:finding rule:framing/*", [6]),
            ("not has:finding", [1, 2, 3, 5]),
        ):
            scan = Scan(reading, parse(text))
            while scan.step():
                pass
            assert scan.has_ended, text
            assert list(scan.rows) == rows, text


def test_the_page_of_a_rule() -> None:
    page = text(page_lines("framing/stdout-not-json", 200))
    assert page[0].startswith("The server writes a line to its standard output")
    assert not any("`" in line for line in page)
    for words in ("Why it matters", "Instead", "Write logs to standard error", "broken by   server"):
        assert any(words in line for line in page), words
    assert text(page_lines("no/rule", 80)) == ["there is no rule no/rule"]


def test_how_far_a_check_is_and_what_it_found() -> None:
    findings = Findings()
    findings.checked_count = 512
    assert progress_text(findings, 1009) == "checked 512 of 1,009 records"
    findings.checked_count, findings.has_caught_up = 1009, True
    assert progress_text(findings, 1009) == "all 1,009 records checked"
    assert tally_text(2, 0, 1) == "2 errors · 1 note"
    assert tally_text(0, 0, 0) == ""


def test_lost_records_are_told_with_their_places(tmp_path: Path) -> None:
    made = conversation(1)
    with understood(lossy(tmp_path / "lossy.mcpcap", made, 7)) as reading:
        assert losses_text(reading.conversation.missing_ranges) == f"7 records lost: {len(made)} to {len(made) + 6}"
    holes = tmp_path / "holes.mcpcap"
    holes.write_bytes(b"".join(line for n, line in enumerate(lines([*conversation(5), END])) if n not in (5, 6, 9)))
    with understood(holes) as reading:
        assert losses_text(reading.conversation.missing_ranges) == "3 records lost in 2 places, the first 5 to 6"
    with understood(wrong(tmp_path)) as reading:
        assert not reading.conversation.missing_ranges
