"""The place in a list of tools that says what a call must match, and its display with the findings."""

from pathlib import Path

from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.tui.details.proof import proof_lines
from mcpproxy.tui.rows.finding_lines import finding_lines
from tests.mcpproxy.tui.stage import END, conversation, frame_record, record
from tests.mcpproxy.tui.test_definition_place import CALLED, LISTED
from tests.mcpproxy.tui.test_rows import understood


def test_a_finding_about_arguments_shows_the_schema_of_the_tool(tmp_path: Path) -> None:
    asked = frame_record("c2s", b'{"jsonrpc":"2.0","id":50,"method":"tools/list"}')
    made = [*conversation(0), asked, frame_record("s2c", LISTED), frame_record("c2s", CALLED), END]
    path = record(tmp_path / "library.mcpcap", made)
    examined = [
        located.finding for _, found in CaptureCheck(path, CheckOptions()).examine_to_end() for located in found
    ]
    (finding,) = (finding for finding in examined if finding.rule == "tool/arguments-invalid")
    assert "do not fit the inputSchema of 'add'" in finding.message
    with understood(path) as reading:
        lines = finding_lines(finding, 130, proof_lines(reading, finding, 130))
    shown = "\n".join("".join(span.text for span in line) for line in lines)
    for text in ("tool/arguments-invalid", "frame 7", "the first number", "^^^^"):
        assert text in shown
    assert "long long" not in shown
