"""On a real terminal: how few keys lead from the list of sessions to what a user looks for."""

import base64
import re
from pathlib import Path

from tests.mcpproxy.tui.http_talk import http_talk
from tests.mcpproxy.tui.stage import captured, conversation, timed, wrong
from tests.mcpproxy.tui.terminals import Terminal, terminal


def listed(shown: Terminal) -> None:
    """Wait for the list of sessions."""
    shown.until(lambda: "2 recorded" in shown.text(), "the list")


def test_one_key_shows_the_proof_of_a_finding(tmp_path: Path) -> None:
    wrong(tmp_path)
    captured(tmp_path, "older", stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path)) as shown:
        listed(shown)
        shown.press("F")
        shown.until(lambda: "  Loaded 3 plugins" in shown.text() and "  ^^^^^^^^^^^^^^^^" in shown.text(), "the proof")
        shown.press("r")
        shown.until(lambda: "Why it matters" in shown.text(), "the page of the rule")


def test_one_key_leads_from_a_row_of_sql_to_its_frame(tmp_path: Path) -> None:
    captured(tmp_path)
    captured(tmp_path, "older", stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path), size=(140, 24)) as shown:
        listed(shown)
        shown.press("\rQ")
        shown.until(lambda: "each row is" in shown.text(), "the views")
        shown.press("select request, outcome from calls order by request desc limit 3\r")
        shown.until(lambda: "3 rows" in shown.text(), "the rows")
        shown.press("\t")
        shown.press("\r")
        # The last call has no response.
        shown.until(lambda: "16 frames" in shown.text() and "unanswered" in shown.text(), "the frame")
        shown.press("\r")
        shown.until(lambda: "frame 17" in shown.text(), "its detail")


def test_two_keys_lead_to_the_slowest_call_and_three_to_its_answer(tmp_path: Path) -> None:
    made = conversation(6)
    stamps_ms = [number if number < 13 else number + 700 for number in range(len(made))]
    timed(tmp_path / "x" / "20261121T101502Z-4f2a.mcpcap", made, stamps_ms)
    captured(tmp_path, "older", stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path)) as shown:
        listed(shown)
        shown.press("L")
        shown.until(lambda: "701ms" in shown.text(), "the latencies")
        shown.press("w")
        shown.until(lambda: "frame 12" in shown.text() and "n: 5" in shown.text(), "the slowest call")
        # One more shows its answer, as text.
        shown.press("p")
        shown.until(lambda: "frame 13" in shown.text() and "\n found 5 " in shown.text(), "its answer")


def test_two_keys_copy_a_row_as_a_curl_command(tmp_path: Path) -> None:
    http_talk(tmp_path)
    captured(tmp_path, "older", stamp="20251121T101502Z-4f2a")
    with terminal(tmp_path, str(tmp_path)) as shown:
        listed(shown)
        shown.press("\r")
        shown.until(lambda: "initialize" in shown.text(), "the traffic")
        shown.press("c")
        shown.until(lambda: "a curl command" in shown.text(), "the ways to copy")
        shown.press("c")
        shown.until(lambda: "copied a curl command" in shown.text(), "the notice")
        clipped = [base64.b64decode(found) for found in re.findall(rb"\x1b\]52;c;([^\x07]+)\x07", shown.heard)]
        assert len(clipped) == 1
        assert clipped[0].startswith(b"curl ")
        assert b"initialize" in clipped[0]
