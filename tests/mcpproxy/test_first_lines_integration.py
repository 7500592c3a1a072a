"""Any first line: it is forwarded, recorded and judged, and so is what follows it.

The first frames of a session are judged before orjson is loaded and by a part of the standard library of which nothing
has been loaded yet: what a test process has imported long ago hides such faults. So a few lines are each the first one
of a fresh process, and all of them are judged in forks of a process that has loaded no more than `run` has by then.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from captures.envelope import judge, lines_members
from captures.integrity import inspect
from captures.limits import MAX_EXACTLY_JUDGED_BYTES
from captures.reader import Capture
from tests.harness import DEADLINE_S, ROOT, Place, frames
from tests.mcpproxy.odd_lines import BANNERS, JSON, odd_lines

SUITE = odd_lines(320)
AFTER = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
FRESH = """
import os, sys
import mcpproxy.relay.stdio, mcpproxy.cli.run
from captures.stdlib_judge import _judge_flawless
from mcpproxy.recorder.stdio import middles_without_orjson
read = sys.stdin.buffer.read
assert not {"orjson", "json", "captures.exact_judge", "captures.envelope"} & set(sys.modules), "it has loaded too much"
number = 0
while size := read(10):
    line = read(int(size))
    asks, tells = os.pipe()
    if not os.fork():
        with open(tells, "wb") as to:
            if _judge_flawless(line) is not None or number % 16 == 0:
                to.write(middles_without_orjson("s2c", [line])[0])
        os._exit(0)
    number += 1
    os.close(tells)
    with open(asks, "rb") as answer:
        told = answer.read()
    os.wait()
    sys.stdout.buffer.write(b"%010d" % len(told) + told)
"""
"""Prints the record of each line that it reads, judged in a fork of its own; nothing for most odd lines.

An odd line is left to code that each fork would have to load again.
"""


def check_first_line(place: Place, line: bytes, path: Path) -> None:
    """Send a line, followed by a request, through a server that echoes its input."""
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
    """Check that each stored verdict is what readers find, if there is one, and that no frame caused a fault."""
    for record in Capture(path):
        members = getattr(record, "members", {})
        assert "fault" not in members, (shown, members)
        if members.get("rec") == "frame" and members["kind"] != "unjudged" and "raw" in members:
            verdict = judge(members["raw"].encode(), members["dir"])
            assert (members["kind"], members.get("problem")) == (verdict.kind, verdict.problem), (shown, members)


@pytest.mark.costly("a process for each line")
def test_every_first_line_is_recorded_in_a_fresh_process(place: Place, tmp_path: Path) -> None:
    for number, line in enumerate((BANNERS[0], JSON[0], *SUITE[3::40])):
        check_first_line(place, line, tmp_path / f"{number}.mcpcap")


@pytest.mark.costly("a fork for each line")
def test_every_first_line_gets_the_record_that_it_would_get_later() -> None:
    sent = b"".join(b"%010d" % len(line) + line for line in SUITE)
    done = subprocess.run([sys.executable, "-c", FRESH], input=sent, cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b"", "a fork has failed"
    left = done.stdout
    for line in SUITE:
        size = int(left[:10])
        told, left = left[10 : 10 + size], left[10 + size :]
        if told and len(line) <= MAX_EXACTLY_JUDGED_BYTES:
            assert [told] == lines_members("s2c", [line]), line
    assert not left


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_first_lines_are_recorded_in_fresh_processes(place: Place, tmp_path: Path, part: int) -> None:
    for number, line in enumerate(odd_lines(1000, random.Random(part).randrange(1, 1 << 30))):
        check_first_line(place, line, tmp_path / f"{number}.mcpcap")
