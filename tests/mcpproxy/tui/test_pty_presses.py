"""On a real terminal: how few keys lead from the list of sessions to what a user looks for."""

from pathlib import Path

from tests.mcpproxy.tui.stage import captured, conversation
from tests.mcpproxy.tui.test_findings import wrong
from tests.mcpproxy.tui.test_latency import timed
from tests.mcpproxy.tui.test_pty import Terminal, terminal


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


def test_two_keys_lead_to_the_slowest_call(tmp_path: Path) -> None:
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
