"""`check --join` as it is typed: which captures, which options, and what it prints."""

import json
from pathlib import Path

import pytest

from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.analysis.store.test_two_captures_integration import TwoSides
from tests.mcpproxy.cli.typed import mcpproxy

HOSTILE = "\x1b[2J\u202ename"


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    sides = TwoSides(tmp_path)
    sides.call(100, 1, x=1)
    sides.at_client(200, "c2s", id=2, method="tools/call", params={"name": HOSTILE, "arguments": {HOSTILE: 1}})
    sides.at_server(202, "c2s", id=2, method="tools/call", params={"name": HOSTILE, "arguments": {HOSTILE: 2}})
    sides.at_server(300, "c2s", id="other", method="ping")
    return sides.paths()


def test_a_difference_is_told_with_the_frames_of_both(captures: list[Path]) -> None:
    done = mcpproxy("check", "--join", *captures, COLUMNS="200")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "  error    request changed              client's side frame 6, server's side frame 6  +0.200\n" in text
    assert "the params of tools/call \\x1b[2J\\u202ename #2 changed on the way, at /params/arguments/\\x1b" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "1 request changed, 1 request added. In both captures: 3 of 4 requests, 1 of 1 notification." in text
    assert "the server's side saw ping" not in text
    assert b"the server's side saw ping" in mcpproxy("check", "--join", "--notes", *captures, COLUMNS="200").stdout


def test_json_has_an_object_for_each_difference(captures: list[Path]) -> None:
    done = mcpproxy("check", "--join", "--json", *captures)
    changed, added = [json.loads(line) for line in done.stdout.splitlines()]
    assert changed["pointer"] == f"/params/arguments/{HOSTILE}"
    assert (changed["what"], changed["level"], changed["is_certain"]) == ("request_changed", "error", True)
    assert (added["what"], added["level"], added["client_frame"]) == ("request_added", "note", None)
    assert changed["at"].endswith("Z")


@pytest.mark.parametrize(("fail_on", "code"), [("never", 0), ("error", 1), ("note", 1)])
def test_the_exit_code_depends_on_fail_on(captures: list[Path], fail_on: str, code: int) -> None:
    assert mcpproxy("check", "--join", "--fail-on", fail_on, *captures).returncode == code


def test_folders_and_last_name_captures_too(captures: list[Path]) -> None:
    for words in ([captures[0].parent], ["--last", "2", captures[0].parent]):
        assert mcpproxy("check", "--join", *words).returncode == 1


def test_wrong_use_is_one_line(captures: list[Path], tmp_path: Path) -> None:
    wrong: list[list[str | Path]] = [
        [captures[0]],
        [*captures, CaptureWriter(tmp_path / "third.mcpcap", "x", 9).close()],
        [captures[0], captures[0]],
        [*captures, "--trace", "-"],
        [*captures, "--follow"],
        [*captures, "--baseline", "accepted.jsonl"],
        [*captures, "--rule", "id/*"],
        [*captures, "--filter", "has:error"],
        [*captures, "--format", "sarif"],
        [*captures, "--profile"],
        [captures[0], tmp_path / "absent.mcpcap"],
    ]
    for words in wrong:
        done = mcpproxy("check", "--join", *words)
        lines = [line for line in done.stderr.splitlines() if not line.startswith(b"mcpproxy: reading ")]
        assert (done.returncode, done.stdout, len(lines)) == (2, b"", 1), (words, done.stderr)


def test_captures_without_anything_in_common_are_told_so(captures: list[Path], tmp_path: Path) -> None:
    later = CaptureWriter(tmp_path / "later.mcpcap", "weather", 5, OPENED + DAY)
    later.handshake(5)
    done = mcpproxy("check", "--join", captures[0], later.close(10_000))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"mcpproxy: these captures have nothing in common")
