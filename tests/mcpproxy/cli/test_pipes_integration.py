"""Output to a pipe is complete: nothing is cut to the width of a terminal that does not exist."""

from pathlib import Path

import pytest

from tests.mcpproxy.cli.typed import mcpproxy, on_terminal
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
