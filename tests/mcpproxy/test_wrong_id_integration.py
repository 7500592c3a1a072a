"""A server that responds with a wrong id: every command says which request the response was probably meant for."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.tui.details.detail import exchange_lines
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli import typed
from tests.mcpproxy.tui.in_process_reading import InProcessReading

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "off-by-one", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    elif "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": 99, "result": {"content": []}}), flush=True)
"""
ASKED, ANSWER = 5, 6
"""Frames: they follow the header, the start of the process and the handshake."""
MEANT = f"no request has the id 99; probably meant for tools/call reindex #4 (frame {ASKED}), the only request open"
ANSWERED = f"probably answered by frame {ANSWER} with id 99"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose client sends one call, and gets a response with another id."""
    folder = tmp_path_factory.mktemp("wrong")
    said: list[dict[str, Any]] = [
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 4, "method": "tools/call", "params": {"name": "reindex", "arguments": {}}},
    ]
    path = folder / "wrong.mcpcap"
    command = [sys.executable, "-m", "mcpproxy", "run", "--capture", str(path), "--", sys.executable, "-c", SERVER]
    env = {"HOME": str(folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        for message in said:
            run.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            run.stdin.flush()
            if "id" in message:
                assert run.stdout.readline()
        run.stdin.close()
        assert run.wait(DEADLINE_S) == 0
    return path


def mcpproxy(*words: str | Path) -> str:
    done = typed.mcpproxy(*words, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def rows(*words: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mcpproxy(*words).splitlines()]


def test_check_names_the_request(capture: Path) -> None:
    (found,) = (one for one in rows("check", "--json", "--fail-on", "never", capture) if one["rule"].startswith("id/"))
    assert found["message"] == f"{MEANT} then"
    assert found["frame"] == ANSWER


def test_show_says_it_at_the_answer_and_at_the_request(capture: Path) -> None:
    shown = mcpproxy("show", capture)
    assert f"ok; probably meant for tools/call reindex #4 (frame {ASKED}), the only request open then" in shown
    assert f"unanswered, {ANSWERED}" in shown


def test_the_views_say_it(capture: Path) -> None:
    (row,) = rows(
        "query", "--json", "select request, probable_answer, probable_answer_id, why from unanswered", capture
    )
    assert row == {"request": ASKED, "probable_answer": ANSWER, "probable_answer_id": "99", "why": "open"}
    (row,) = rows("query", "--json", "select text from id_mismatches", capture)
    assert row["text"] == f"{MEANT} then"


def test_stats_says_it(capture: Path) -> None:
    shown = " ".join(mcpproxy("stats", capture).split())
    assert f"tools/call reindex (frame {ASKED}, {ANSWERED})" in shown
    assert "id/unknown-response 1 (no request has the id 99)" in shown
    (one,) = (figure for figure in rows("stats", "--json", capture) if figure["figure"] == "unanswered")
    assert (one["times"], one["probable_answer"], one["probable_answer_id"]) == (1, ANSWER, "99")


def test_the_screens_say_it(capture: Path) -> None:
    with closing(InProcessReading(capture)) as reading:
        while reading.step():
            pass
        row = reading.index.entry_of_seq(ASKED)
        assert row is not None
        shown = ["".join(span.text for span in line) for line in exchange_lines(reading, row)]
    assert f"{'outcome':<10}unanswered, {ANSWERED}" in shown


def test_stats_describes_only_the_longest_wait(tmp_path: Path) -> None:
    """The reason and the late response of another call of the same tool are not attributed to this call."""
    one = CaptureWriter(tmp_path / "a.mcpcap", "s")
    one.handshake()
    one.call(100, 1, "slow")
    one.say(8_100, "c2s", method="notifications/cancelled", params={"requestId": 1, "reason": "timed out"})
    one.answer(8_200, 1)
    one.call(10_000, 2, "slow")
    wrong = one.answer(10_100, 77)
    one.say(30_000, "c2s", method="notifications/cancelled", params={"requestId": 2})
    (found,) = (figure for figure in rows("stats", "--json", one.close()) if figure["figure"] == "abandoned")
    assert (found["times"], found["reason"], found["late_ms"]) == (2, None, None)
    assert (found["probable_answer"], found["probable_answer_id"]) == (wrong, "77")
    assert f"(frame {wrong - 1}, probably answered by frame {wrong} with id 77)" in " ".join(
        mcpproxy("stats", one.path).split()
    )
