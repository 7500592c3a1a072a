"""The findings of a capture for assertions; some rules ask a child process."""

from pathlib import Path

import pytest

from mcpproxy.testing import Capture, Findings
from mcpproxy.testing.pytest_plugin import pytest_assertrepr_compare

CAPTURES = Path(__file__).parents[2] / "corpus/captures"


def test_findings_are_those_of_check_by_level_with_a_readable_text() -> None:
    demo = Capture(CAPTURES / "demo.mcpcap")
    errors = demo.findings("error")
    assert {str(finding.level) for finding in errors} == {"error"}
    assert len(errors) <= len(demo.findings("warning")) < len(demo.findings())
    assert "error id/type-changed, frame" in repr(errors)
    assert repr(Findings()) == "[]"
    with pytest.raises(ValueError, match="'fatal' is not a level"):
        demo.findings("fatal")  # type: ignore[arg-type]


def test_assertion_that_there_are_no_findings_lists_them() -> None:
    errors = Capture(CAPTURES / "demo.mcpcap").findings("error")
    lines = pytest_assertrepr_compare("==", errors, [])
    assert lines is not None
    assert lines[0] == f"{len(errors)} findings == []"
    assert lines[1].startswith("  error framing/stdout-not-json, frame 6: ")
    assert pytest_assertrepr_compare("==", [1], []) is None
