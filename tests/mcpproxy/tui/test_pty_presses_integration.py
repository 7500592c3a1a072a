"""On a real terminal: how few keys lead from the list of sessions to what a user looks for."""

import base64
import re
from pathlib import Path

import pytest

from tests.mcpproxy.tui.http_talk import http_talk
from tests.mcpproxy.tui.stage import captured, conversation, timed, wrong
from tests.mcpproxy.tui.terminals import Terminal, terminal


def chosen(shown: Terminal, name: str) -> None:
    """Go back to the list of sessions, and move the cursor to a server."""
    while "4 recorded" not in shown.text():
        shown.press("\x1b")
    rows = [line.split()[1] for line in shown.text().split("\n")[2:6]]
    shown.press("g" + "j" * rows.index(name))


@pytest.mark.costly("a terminal shows what each key leads to, on four captures")
def test_how_few_keys_lead_to_what_is_looked_for(tmp_path: Path) -> None:
    made = conversation(6, "timed")
    stamps_ms = [number if number < 13 else number + 700 for number in range(len(made))]
    timed(tmp_path / "timed" / "20261121T101502Z-4f2a.mcpcap", made, stamps_ms)
    wrong(tmp_path)
    http_talk(tmp_path)
    captured(tmp_path, "calls")
    with terminal(tmp_path, str(tmp_path), size=(140, 24)) as shown:
        shown.until(lambda: "4 recorded" in shown.text() and "timed" in shown.text(), "the list")
        # One key shows the evidence for a finding.
        chosen(shown, "wrong")
        shown.press("F")
        shown.until(lambda: "  Loaded 3 plugins" in shown.text() and "  ^^^^^^^^^^^^^^^^" in shown.text(), "the proof")
        shown.press("r")
        shown.until(lambda: "Why it matters" in shown.text(), "the page of the rule")
        # One key leads from a row of SQL to its frame.
        chosen(shown, "calls")
        shown.press("\rQ")
        shown.until(lambda: "each row is" in shown.text(), "the views")
        shown.press("select request, outcome from calls order by request desc limit 3\r")
        shown.until(lambda: "3 rows" in shown.text(), "the rows")
        shown.press("\r")
        # The last call has no response.
        shown.until(lambda: "16 frames" in shown.text() and "unanswered" in shown.text(), "the frame")
        shown.press("\r")
        shown.until(lambda: "frame 17" in shown.text(), "its detail")
        # Two keys lead to the response of the slowest call, and three to its request.
        chosen(shown, "timed")
        shown.press("L")
        shown.until(lambda: "701ms" in shown.text(), "the latencies")
        shown.press("w")
        shown.until(lambda: "frame 13" in shown.text() and "\n found 5 " in shown.text(), "its response, as text")
        shown.press("p")
        shown.until(lambda: "frame 12" in shown.text() and "n: 5" in shown.text(), "the slowest call")
        # One key shows what went wrong in a session, three the errors of its tool, and two offer to export them.
        chosen(shown, "calls")
        shown.press("!")
        shown.until(lambda: "has:failure" in shown.text() and "3 of 16 frames" in shown.text(), "what went wrong")
        shown.press("e")
        shown.until(lambda: "export" in shown.text() and ".jsonl" in shown.text(), "the prompt for a file")
        shown.press("\x1b")
        shown.until(lambda: ".jsonl" not in shown.text(), "the prompt is closed")
        shown.press("+\r")
        shown.until(lambda: "name:search" in shown.text(), "the errors of the tool")
        # Two keys copy a row as a curl command.
        chosen(shown, "library")
        shown.press("\r")
        shown.until(lambda: "initialize" in shown.text() and "findings" in shown.text(), "the traffic")
        shown.press("c")
        shown.until(lambda: "a curl command" in shown.text(), "the ways to copy")
        shown.press("c")
        shown.until(lambda: "copied a curl command" in shown.text(), "the notice")
        clipped = [base64.b64decode(found) for found in re.findall(rb"\x1b\]52;c;([^\x07]+)\x07", shown.heard)]
        assert len(clipped) == 1
        assert clipped[0].startswith(b"curl ")
        assert b"initialize" in clipped[0]
