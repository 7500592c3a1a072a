"""Output to a pipe is complete: nothing is cut to the width of a terminal that does not exist."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import DEADLINE_S, ROOT
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal, surroundings
from tests.mcpproxy.tui.stage import END, conversation, frame_record, record

LONG = "/home/ada/projects/library/catalogue/very/deep/below/everything/else/a.txt"
ASKED = (
    '{"jsonrpc":"2.0","id":77.0,"method":"tools/call","params":{"name":"read_the_whole_file_from_disk","arguments":%s}}'
)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    asked = frame_record("c2s", (ASKED % f'{{"encoding":"utf-8","path":"{LONG}"}}').encode())
    return record(tmp_path / "library" / "20261121T101502Z-4f2a.mcpcap", [*conversation(2), asked, END])


def test_show_can_be_searched(capture: Path) -> None:
    lines = mcpproxy("show", capture, COLUMNS="").stdout.decode().splitlines()
    (line,) = (line for line in lines if "a.txt" in line and "→" in line and "unanswered" not in line)
    assert "read_the_whole_file_from_disk" in line
    assert not any("…" in line for line in lines)


def test_query_has_all_columns(capture: Path) -> None:
    text = mcpproxy("query", "select * from latency", capture, COLUMNS="").stdout.decode()
    head = text.splitlines()[0].split()
    assert {"p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "abandoned", "interim"} <= set(head)
    assert "did not fit" not in text


def test_stats_and_check_stay_on_their_lines(capture: Path) -> None:
    stats = mcpproxy("stats", capture, COLUMNS="").stdout.decode()
    assert "tools/call read_the_whole_file_from_disk" in stats
    assert max(map(len, stats.splitlines())) < 400
    check = mcpproxy("check", "--notes", capture, COLUMNS="").stdout.decode()
    assert LONG in check
    assert "…" not in check


def test_a_width_that_is_given_is_kept_to(capture: Path) -> None:
    for shown in (
        mcpproxy("show", capture, COLUMNS="72").stdout,
        on_terminal("show", "--color", "never", str(capture), columns=72),
    ):
        assert max(map(len, shown.decode().splitlines())) <= 72


def _without_reader(*arguments: str | Path) -> tuple[int, bytes]:
    """Runs a command whose stdout has lost its reader; returns its exit code and stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mcpproxy", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=surroundings({}),
            timeout=DEADLINE_S,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.costly("starts each command whose exit code is a verdict")
@pytest.mark.parametrize("words", [("check", "--fail-on", "note"), ("compare", "--fail-on", "value"), ("verify",)])
def test_a_verdict_is_the_same_if_nobody_reads_it(words: tuple[str, ...], capture: Path) -> None:
    others = [capture]
    if words[0] == "compare":
        others.insert(0, ROOT / "tests/corpus/captures/demo.mcpcap")
    if words[0] == "verify":
        capture.write_bytes(capture.read_bytes()[:-200])
    expected = mcpproxy(*words, *others)
    assert expected.returncode not in (0, 73)
    assert _without_reader(*words, *others) == (expected.returncode, expected.stderr)


@pytest.mark.costly("starts a command")
def test_what_only_prints_ends_quietly_with_its_reader(capture: Path) -> None:
    assert _without_reader("show", capture) == (0, b"")
