"""The findings of a capture for assertions; some rules ask a child process."""

from pathlib import Path

import pytest

from mcpproxy.testing import Capture, Findings

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
