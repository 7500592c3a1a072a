"""A tool call that hangs until the SDK's client abandons it: every command reports which, for how long, and why."""

import json
import re
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from captures.file import CaptureFile
from captures.record import seal
from tests.captures.samples import header
from tests.mcpproxy.cli import typed
from tests.mcpproxy.test_sdk_integration import SERVER, recorded, text_of
from tests.mcpproxy.tui.stage import CALL, frame_record

LIMIT_S = 0.7
AT_LEAST_MS = LIMIT_S * 100
"""The call's least waiting time in the capture: a busy machine records it later than it was made."""


@pytest.fixture(scope="module", params=["legacy", pytest.param("auto", marks=pytest.mark.soak)])
def hung(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation in which `wait` never responds, in either era."""
    capture = tmp_path_factory.mktemp("sdk") / "hung.mcpcap"

    async def talk() -> None:
        async with recorded(SERVER, capture, request.param) as client:
            assert text_of(await client.call_tool("count", {"steps": 1})) == "counted to 1"
            with pytest.raises(MCPError):
                await client.call_tool("wait", read_timeout_seconds=LIMIT_S)
            assert text_of(await client.call_tool("count", {"steps": 1})) == "counted to 1"

    anyio.run(talk)
    return capture


def mcpproxy(*words: str | Path) -> str:
    done = typed.mcpproxy(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def rows(*words: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mcpproxy(*words).splitlines()]


@pytest.mark.costly("the SDK's two ends start for it")
def test_stats_names_it_first_of_all_that_is_wrong(hung: Path) -> None:
    totals, *figures = rows("stats", "--json", hung)
    assert (totals["abandoned"], totals["unanswered"], totals["errors"]) == (1, 0, 0)
    (one,) = (figure for figure in figures if figure["figure"] == "abandoned")
    assert (one["what"], one["times"], one["late_ms"]) == ("tools/call wait", 1, None)
    assert one["waited_ms"] >= AT_LEAST_MS
    assert "timed out" in one["reason"]
    assert re.search(r"^ABANDONED +1   tools/call wait after ", mcpproxy("stats", hung), re.MULTILINE)


def test_the_views_have_it(hung: Path) -> None:
    (row,) = rows("query", "--json", "select method, name, why, open_ms, reason from unanswered", hung)
    assert (row["method"], row["name"], row["why"]) == ("tools/call", "wait", "abandoned")
    assert row["open_ms"] >= AT_LEAST_MS
    (row,) = rows("query", "--json", "select calls, abandoned, unanswered from latency where name = 'wait'", hung)
    assert row == {"calls": 1, "abandoned": 1, "unanswered": 0}
    (row,) = rows("query", "--json", "select cancel_reason from exchanges where is_abandoned", hung)
    assert "timed out" in row["cancel_reason"]


def test_check_counts_it_without_being_asked_for_notes(hung: Path) -> None:
    told = " ".join(mcpproxy("check", hung).split())
    assert re.search(r"1 request was abandoned in frame \d+: tools/call wait \(id \S+\) was abandoned after", told)
    (row,) = (row for row in rows("check", "--json", hung) if row["rule"] == "timeout/abandoned-request")
    assert row["message"].startswith("tools/call wait (id ")


def test_show_says_after_how_long_and_why(hung: Path) -> None:
    text = mcpproxy("show", hung)
    assert "1 request abandoned" in text
    assert "tools/call" in text.splitlines()[-1]
    assert "abandoned after" in text.splitlines()[-1]


def test_ls_marks_the_capture(hung: Path) -> None:
    (row,) = rows("ls", "--json", hung)
    assert (row["abandoned"], row["waiting_ms"]) == (1, None)
    assert "▲ 1 request abandoned" in mcpproxy("ls", hung)


def test_a_call_that_hangs_now_has_an_age_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "live.mcpcap"
    live = CaptureFile(path)
    began_ns = time.time_ns() - 60_000_000_000
    middles = [("header", header(wall_ns=began_ns)), frame_record("c2s", CALL % (7, 7))]
    for number, (rec, middle) in enumerate(middles):
        live.append(seal(number, number * 1_000_000, rec, middle))
    (row,) = rows("query", "--json", "select why, open_ms from unanswered", path)
    assert row["why"] == "open"
    assert row["open_ms"] > 59_000
    (listed,) = rows("ls", "--json", path)
    assert listed["waiting_ms"] > row["open_ms"]
    assert re.search(r"▲ 1 request waiting for \d+ min \d\d s", mcpproxy("ls", path))
    assert re.search(r"waiting for \d+ min \d\d s", " ".join(mcpproxy("stats", path).split()))
    live.close()
