"""Any first line: it crosses, it is recorded, it has its verdict, and so has what comes after it.

Each line is the first one of a fresh process, because the first frames of a session are judged before orjson is there
and by a part of the standard library of which nothing has been loaded yet: what a test process has imported long ago
hides such faults.
"""

import random
from pathlib import Path

import pytest

from captures.envelope import judge
from captures.integrity import inspect
from captures.reader import Capture
from tests.harness import DEADLINE_S, Place, frames
from tests.mcpproxy.odd_lines import odd_lines

SUITE = odd_lines(320)
GROUPS = 16
AFTER = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


def check_first_line(place: Place, line: bytes, path: Path) -> None:
    """Send a line, and a request behind it, through a server that gives back what it gets."""
    sent = line + b"\n" + AFTER + b"\n"
    done = place.run("run", "--capture", str(path), "--", "cat", stdin=sent, timeout=DEADLINE_S)
    shown = line[:80]
    assert done.stderr == b"", (shown, done.stderr)
    assert (done.returncode, done.stdout == sent) == (0, True), shown
    assert inspect(Capture(path)).state == "complete", shown
    for direction in ("c2s", "s2c"):
        found = frames(path, direction)
        assert b"".join(frame.raw + frame.delim for frame in found) == sent, (shown, direction)
        assert found[-1].verdict.kind == "request", (shown, direction)
    check_stored_verdicts(path, shown)
    path.unlink()


def check_stored_verdicts(path: Path, shown: bytes) -> None:
    """What was stored of each frame is what readers say of it, or nothing; and no frame cost a fault."""
    for record in Capture(path):
        members = getattr(record, "members", {})
        assert "fault" not in members, (shown, members)
        if members.get("rec") == "frame" and members["kind"] != "unjudged" and "raw" in members:
            verdict = judge(members["raw"].encode(), members["dir"])
            assert (members["kind"], members.get("problem")) == (verdict.kind, verdict.problem), (shown, members)


def test_a_log_banner_as_the_first_line_leaves_both_directions_recorded(place: Place, tmp_path: Path) -> None:
    check_first_line(place, b"[2026-11-22 12:00:00] ready", tmp_path / "banner.mcpcap")
    check_first_line(place, b'{"a":1,}', tmp_path / "comma.mcpcap")


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_first_line_is_recorded_in_a_fresh_process(place: Place, tmp_path: Path, group: int) -> None:
    for number, line in enumerate(SUITE[group::GROUPS]):
        check_first_line(place, line, tmp_path / f"{number}.mcpcap")


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_first_lines_are_recorded_in_fresh_processes(place: Place, tmp_path: Path, part: int) -> None:
    for number, line in enumerate(odd_lines(1000, random.Random(part).randrange(1, 1 << 30))):
        check_first_line(place, line, tmp_path / f"{number}.mcpcap")
