"""What `mcpproxy info` reports about a capture that is being recorded."""

import json
import time
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import seal
from tests.captures.samples import header
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.tui.http_talk import two_revisions
from tests.mcpproxy.tui.stage import CALL, frame_record


@pytest.mark.costly("the program is loaded, from which the commands are forked")
def test_a_capture_that_is_being_recorded_lasts_until_now(tmp_path: Path) -> None:
    path = tmp_path / "live.mcpcap"
    live = CaptureFile(path)
    began_ns = time.time_ns() - 60_000_000_000
    for number, (rec, middle) in enumerate([("header", header(wall_ns=began_ns)), frame_record("c2s", CALL % (7, 7))]):
        live.append(seal(number, number * 1_000_000, rec, middle))
    (listed,) = map(json.loads, mcpproxy("ls", "--json", path).stdout.splitlines())
    (said_now,) = map(json.loads, mcpproxy("info", "--json", path).stdout.splitlines())
    assert listed["duration_ms"] >= 60_000
    assert listed["duration_ms"] <= said_now["duration_ms"] < listed["duration_ms"] + 60_000
    assert "duration    1 min" in mcpproxy("info", path).stdout.decode()
    live.close()
    (said_after,) = map(json.loads, mcpproxy("info", "--json", path).stdout.splitlines())
    assert said_after["duration_ms"] == 1


def test_the_clients_and_the_revisions_are_named(tmp_path: Path) -> None:
    path = two_revisions(tmp_path)
    text, said = mcpproxy("info", path).stdout.decode(), json.loads(mcpproxy("info", "--json", path).stdout)
    assert said["revisions"] == ["2025-06-18", "2025-11-25"]
    assert "\nrevisions   2025-06-18, 2025-11-25\n" in text
    assert said["clients"]
    assert f"  {said['clients'][0]}" in text
