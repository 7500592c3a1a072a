"""What `tui` says if it has no session to list."""

from pathlib import Path

import pytest

from mcpproxy.cli.arguments import moment
from mcpproxy.cli.selection import ALL_CAPTURES, CaptureScope
from mcpproxy.cli.tui import _empty_text
from tests.mcpproxy.tui.stage import captured


def test_an_empty_list_says_what_a_wider_choice_would_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPPROXY_CAPTURES", str(tmp_path))
    live = CaptureScope(reads_all=True, is_live_only=True)
    assert _empty_text([], ALL_CAPTURES).startswith("Nothing recorded yet.")
    assert _empty_text([], live).startswith("Nothing recorded yet.")
    captured(tmp_path, "files")
    captured(tmp_path, "git")
    cases: tuple[tuple[list[str], CaptureScope, str], ...] = (
        ([], live, "No session is being recorded now; 2 recorded: mcpproxy tui"),
        (["git"], live, "No session of git is being recorded now; 1 recorded: mcpproxy tui git"),
        (
            [],
            CaptureScope(since_ns=moment("2100-01-01")),
            "No session was recorded at that time; 2 recorded: mcpproxy tui",
        ),
        ([], CaptureScope(last=0), "No session is selected by --last 0; 2 recorded: mcpproxy tui"),
        (["shop"], ALL_CAPTURES, "There is no capture of shop yet; 2 of others recorded: mcpproxy tui"),
        (["shop"], live, "There is no capture of shop yet; 2 of others recorded: mcpproxy tui"),
    )
    for arguments, scope, text in cases:
        assert _empty_text(arguments, scope).splitlines()[0] == text
