"""`mcpproxy ls` as a process: what it reports about how a session ended."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from analysis.summary import summarise
from captures.file import CaptureFile
from tests.captures.samples import header, lines
from tests.harness import Place
from tests.mcpproxy.cli.typed import mcpproxy


def server(code: str) -> list[str | bytes]:
    return [sys.executable, "-I", "-c", code]


@pytest.mark.parametrize(
    ("code", "sign", "ending"),
    [
        ("import sys; sys.stdin.read()", "○", None),
        ("raise SystemExit(3)", "✝", "exit 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "✝", "SIGKILL"),
    ],
)
def test_it_says_of_an_end_what_the_screens_say(place: Place, code: str, sign: str, ending: str | None) -> None:
    session = place.start(server(code))
    if ending is None:
        session.finish()
    session.end()
    assert session.capture is not None
    row = json.loads(mcpproxy("ls", "--json", session.capture).stdout)
    assert (row["state"], row["ending"]) == ("closed", ending)
    assert summarise(session.capture).ending == ending
    line = mcpproxy("ls", session.capture, COLUMNS="300").stdout.decode().splitlines()[1]
    assert line.startswith(f"{sign} ")
    assert line.endswith(f"  ▲ {ending}") == (ending is not None)


def test_what_goes_on_has_not_ended_and_what_was_not_closed_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpcap"
    file = CaptureFile(path)
    for line in lines([("header", header())]):
        file.append(line)
    live = json.loads(mcpproxy("ls", "--json", path).stdout)
    assert (live["state"], live["ending"]) == ("live", None)
    file.close()
    killed = json.loads(mcpproxy("ls", "--json", path).stdout)
    assert (killed["state"], killed["ending"]) == ("killed", "killed")
    assert mcpproxy("ls", path).stdout.decode().splitlines()[1].startswith("✝ ")


def test_a_live_session_lasts_up_to_now_and_another_up_to_its_last_record(tmp_path: Path) -> None:
    path = tmp_path / "a.mcpcap"
    file = CaptureFile(path)
    for line in lines([("header", header(wall_ns=time.time_ns() - 3600 * 10**9))]):
        file.append(line)
    assert json.loads(mcpproxy("ls", "--json", path).stdout)["duration_ms"] >= 3_600_000
    assert " 1 h 00 min " in mcpproxy("ls", path).stdout.decode()
    file.close()
    assert json.loads(mcpproxy("ls", "--json", path).stdout)["duration_ms"] < 1000
    assert " 0 ms " in mcpproxy("ls", path).stdout.decode()


def test_a_remark_that_does_not_fit_has_a_line_of_its_own(place: Place) -> None:
    session = place.start(server("raise SystemExit(3)"))
    session.end()
    assert session.capture is not None
    line, remark = mcpproxy("ls", session.capture, COLUMNS="80").stdout.decode().splitlines()[1:3]
    assert (line.endswith(".mcpcap"), remark) == (True, "    ▲ exit 3")


def test_what_is_being_recorded_comes_first(tmp_path: Path) -> None:
    """A session that began days ago and is still recorded is listed above those of today that have ended."""
    names = ("20260101T000000Z-aaaa", "20260102T000000Z-bbbb", "20260103T000000Z-cccc", "20260104T000000Z-dddd")
    files = {name[-4:]: CaptureFile(tmp_path / f"{name}.mcpcap") for name in names}
    for name, file in files.items():
        file.append(lines([("header", header())])[0])
        if name not in ("aaaa", "cccc"):
            file.close()
    listed = [json.loads(row)["capture"][-11:-7] for row in mcpproxy("ls", "--json", tmp_path).stdout.splitlines()]
    assert listed == ["cccc", "aaaa", "dddd", "bbbb"]
    rows = mcpproxy("ls", tmp_path, COLUMNS="300").stdout.decode().splitlines()[1:5]
    assert [row[0] for row in rows] == ["●", "●", "✝", "✝"]
    for name in ("aaaa", "cccc"):
        files[name].close()


def test_it_names_prune_where_captures_have_become_many(tmp_path: Path) -> None:
    for name, size in (("a", 9 << 30), ("b", 1 << 30)):
        path = tmp_path / f"{name}.mcpcap"
        path.write_bytes(b"".join(lines([("header", header())])))
        os.truncate(path, size)
    advice = b"Captures stay until you delete them: mcpproxy prune --older-than 30d"
    assert advice not in mcpproxy("ls", tmp_path / "a.mcpcap").stdout
    last = mcpproxy("ls", tmp_path).stdout.splitlines()[-2:]
    assert last == [b"2 captures, 10.7 GB, 0 live", advice]
    assert b"mcpproxy prune" not in mcpproxy("ls", "--json", tmp_path).stdout


def test_a_server_whose_folder_has_another_name_is_listed_by_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "127.0.0.1-8080"
    folder.mkdir()
    named = "20260101T000000Z-bc98.mcpcap"
    (folder / named).write_bytes(b"".join(lines([("header", header(name="127.0.0.1:8080"))])))
    listed = mcpproxy("ls", MCPPROXY_CAPTURES=str(tmp_path)).stdout.decode()
    assert ("  bc98" in listed, str(tmp_path) in listed) == (True, False)
