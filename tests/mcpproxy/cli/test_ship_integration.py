"""`mcpproxy ship`: every closed capture reaches the destination once, regardless of when the command is killed."""

import fcntl
import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from captures.file import CaptureFile
from tests.analysis.store.capture_writer import CaptureWriter
from tests.harness import ROOT
from tests.mcpproxy.cli import typed
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.shipping.data_set import DAY, OPENED, documents, is_tidy, large, named, present, rows, written
from tests.parquet import parquet_rows

SECRET = "ghp_" + "x7Kq2Lm9" * 4 + "Zt5B"
DAY_1 = "2026-11-18"
TABLES = {"captures", "sessions", "frames", "exchanges", "tools", "stderr"}

# The audit events come just before each rename and removal. Steps that no reader can notice are not counted.
KILLED = """
import fcntl, os, signal, sys
left = int(sys.argv.pop(1))
lake = sys.argv[2]
steps = {"os.rename": (1, 3), "os.remove": (0, 1)}
def path_of(name, folder):
    if folder < 0:
        return os.fspath(name)
    if hasattr(fcntl, "F_GETPATH"):
        return os.path.join(os.fsdecode(fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\\0")), name)
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
def watch(event, arguments):
    global left
    if event in steps:
        path = path_of(*(arguments[number] for number in steps[event]))
        if path.startswith(lake + "/") and "/.mcpproxy-" not in path:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
from mcpproxy.__main__ import main
sys.exit(main())
"""


IN_LITTLE_MEMORY = """
import sys
from analysis.store import parquet, table_export
parquet.MAX_MEMORY = table_export.MAX_MEMORY = "60MB"
from mcpproxy.__main__ import main
sys.exit(main())
"""
"""A command with less than a tenth of the memory that an export may use."""


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """Captures of two days."""
    for number in range(2):
        written(tmp_path / "captures", number, OPENED + number * DAY, SECRET)
    return tmp_path / "captures"


def ship(place: Path, *arguments: str | Path, home: Path | None = None) -> "subprocess.CompletedProcess[bytes]":
    return mcpproxy("ship", place, *arguments, XDG_STATE_HOME=str(home or place.parent))


def shipped(place: Path, *arguments: str | Path) -> bytes:
    done = ship(place, *arguments)
    assert (done.returncode, complaints(done)) == (0, b""), done.stderr
    return done.stdout


def killed_at(step: int, place: Path, *arguments: str | Path) -> bool:
    """Ship, and kill the command before its step-th rename or removal; returns whether it was killed."""
    words = (f"{step}", "ship", place, *arguments)
    done = typed.python(KILLED, *words, XDG_STATE_HOME=str(place.parent))
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def test_every_row_arrives_as_export_writes_it(captures: Path, tmp_path: Path) -> None:
    out = shipped(tmp_path / "lake", "--unredacted", captures)
    assert out.startswith(f"{tmp_path / 'lake'}: 2 captures shipped; 12 files, ".encode())
    assert mcpproxy("export", "--format", "parquet", tmp_path / "out", captures).returncode == 0
    exported = {}
    for table in TABLES:
        files = sorted((tmp_path / "out" / table).glob("*/*.parquet"))
        exported[table] = sorted(parquet_rows(files), key=repr)
    assert rows(tmp_path / "lake") == exported
    assert is_tidy(tmp_path / "lake")


def holds_secrets(lake: Path) -> tuple[bool, bool]:
    """Returns whether the rows hold the secret, and whether the raw captures do."""
    raw = b"".join(path.read_bytes() for path in lake.glob("raw/*/*.mcpcap"))
    return SECRET in repr(rows(lake)), SECRET.encode() in raw


@pytest.mark.costly("they are shipped with three sets of options")
def test_secrets_are_replaced_unless_asked_otherwise(captures: Path, tmp_path: Path) -> None:
    """This holds for rows and raw captures, which stay valid; other options ship again and leave nothing behind."""
    lake = tmp_path / "lake"
    shipped(lake, "--raw", "--findings", captures)
    assert {file["table"] for file in named(lake)} == {*TABLES, "raw", "findings"}
    assert holds_secrets(lake) == (False, False)
    assert str(captures) not in repr(rows(lake))
    raw = list(lake.glob("raw/*/*.mcpcap"))
    assert len(raw) == 2
    for path in raw:
        done = mcpproxy("verify", path)
        assert (done.returncode, b"complete, redacted" in done.stdout) == (0, True)
    shipped(lake, "--raw", "--unredacted", captures)
    assert {file["table"] for file in named(lake)} == {*TABLES, "raw"}
    assert holds_secrets(lake) == (True, True)
    shipped(lake, captures)
    assert {file["table"] for file in named(lake)} == TABLES
    assert holds_secrets(lake) == (False, False)
    assert is_tidy(lake)


def test_what_is_being_recorded_waits(captures: Path, tmp_path: Path) -> None:
    live = CaptureFile(tmp_path / "captures" / "live.mcpcap")
    try:
        live.append(b"".join(written(tmp_path / "other", 7).read_bytes().splitlines(True)[:4]))
        out = shipped(tmp_path / "lake", captures)
        assert b"2 captures shipped, 1 being recorded; " in out
    finally:
        live.close()
    assert b"1 capture shipped, 2 unchanged; " in shipped(tmp_path / "lake", captures)


def test_damage_is_told_once_and_never_deleted(captures: Path, tmp_path: Path) -> None:
    lines = (captures / "0.mcpcap").read_bytes().splitlines(True)
    (captures / "0.mcpcap").write_bytes(b"".join([*lines[:3], b"no record\n", *lines[3:]]))
    first = ship(tmp_path / "lake", "--keep", "0s", captures)
    assert (first.returncode, b"is damaged" in first.stderr) == (2, True)
    assert ship(tmp_path / "lake", "--keep", "0s", captures).returncode == 0
    assert [path.name for path in captures.iterdir()] == ["0.mcpcap"]


def test_what_cannot_be_shipped_does_not_stop_the_others(captures: Path, tmp_path: Path) -> None:
    """One file is not a capture, and one capture needs too much memory."""
    (captures / "bad.mcpcap").write_bytes(b"nothing\n")
    large(captures / "large.mcpcap", 24, number=7)
    words = ("ship", tmp_path / "lake", "--unredacted", captures)
    done = typed.python(IN_LITTLE_MEMORY, *words, XDG_STATE_HOME=str(tmp_path))
    assert (done.returncode, b": 2 captures shipped; " in done.stdout) == (2, True)
    bad, memory = sorted(complaints(done).decode().splitlines(), key=lambda line: "large.mcpcap" in line)
    assert str(captures / "bad.mcpcap") in bad
    assert memory.startswith(f"mcpproxy: cannot ship {captures / 'large.mcpcap'}: ")


@pytest.mark.soak  # it takes 400 MB of frames to need more than an export may take
def test_frames_need_no_more_memory_than_some_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "DEADLINE_S", 600)
    one = CaptureWriter(tmp_path / "c.mcpcap", "many")
    for number in range(8000):
        one.call(number, number, "search", text=os.urandom(25_000).hex())
    shipped(tmp_path / "lake", "--unredacted", one.close())
    files = list((tmp_path / "lake").glob("frames/*/*"))
    assert len(files) == 1
    numbers = [number for (number,) in parquet_rows(files, "seq")]
    assert numbers == sorted(numbers)


@pytest.mark.costly("it is killed at each of its steps, and run again")
def test_a_kill_at_any_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    source = written(tmp_path / "captures", 1, tables=3)
    shipped(tmp_path / "whole", "--unredacted", source)
    expected = rows(tmp_path / "whole")
    step = 1
    while killed_at(step, tmp_path / f"lake{step}", "--unredacted", source):
        lake = tmp_path / f"lake{step}"
        assert rows(lake) in ({}, expected)
        shipped(lake, "--unredacted", source)
        assert (rows(lake), is_tidy(lake)) == (expected, True)
        step += 1
    assert step == len(expected) + 2


@pytest.mark.costly("it is killed at several steps, and run again")
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_kill_while_it_ships_again_is_made_good(stride: int, tmp_path: Path) -> None:
    source, origin = written(tmp_path / "captures", 1, tables=3), tmp_path / "origin"
    shipped(origin, "--unredacted", "--raw", source)
    expected = rows(origin)
    step = 1
    while True:
        lake = copied(origin, tmp_path / f"lake{step}")
        if not killed_at(step, lake, "--unredacted", source):
            break
        assert rows(lake) == expected
        shipped(lake, "--unredacted", source)
        assert (rows(lake), is_tidy(lake)) == (expected, True)
        step += stride
    assert (rows(lake), is_tidy(lake)) == (expected, True)


def copied(lake: Path, place: Path) -> Path:
    """A copy of a data set that a test may change."""
    subprocess.run(["cp", "-a", lake, place], check=True)
    return place


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five captures of one day, and in `lake` everything that ship makes of them."""
    place = tmp_path_factory.mktemp("day")
    for number in range(5):
        written(place / "captures", number, OPENED, tables=4)
    shipped(place / "lake", "--unredacted", "--raw", place / "captures")
    return place


@pytest.fixture(scope="module")
def compacted(day: Path) -> Path:
    """The data set of that day, compacted."""
    lake = copied(day / "lake", day / "compacted")
    out = shipped(lake, "--unredacted", "--raw", "--compact", day / "captures")
    assert f"{lake}: 1 day compacted, 20 files into 4\n".encode() in out
    return lake


@pytest.mark.costly("what the tests of compaction share is shipped here")
def test_compaction_keeps_every_row_in_one_file_for_each_table(day: Path, compacted: Path, tmp_path: Path) -> None:
    assert (rows(compacted), is_tidy(compacted)) == (rows(day / "lake"), True)
    assert len([name for name in present(compacted) if not name.startswith("raw/")]) == 4
    lake = copied(compacted, tmp_path / "lake")
    assert b"0 days compacted" in shipped(lake, "--unredacted", "--raw", "--compact", day / "captures")


def test_a_capture_that_is_shipped_again_leaves_the_file_of_its_day(
    day: Path, compacted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement of the page about scale also reads every row once."""
    lake = copied(compacted, tmp_path / "lake")
    shipped(lake, "--unredacted", day / "captures/3.mcpcap")
    assert (rows(lake), is_tidy(lake)) == (rows(compacted), True)
    assert [len(one["captures"]) for one in documents(lake, "_days")] == [4]
    assert b"1 unchanged" in shipped(lake, "--unredacted", day / "captures/3.mcpcap")
    page = (ROOT / "docs/scale.md").read_text("utf-8")
    statements = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (statement,) = [statement for statement in statements if "_manifests" in statement]
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection:
        counts = connection.execute(statement).fetchall()
    assert sorted(counts) == [(f"{number:032x}", 2) for number in range(5)]


@pytest.mark.costly("it is killed at several steps, run again, and run again with compaction")
@pytest.mark.parametrize(
    ("again", "steps"),
    [
        (False, (2, 6, 16, 99)),
        (True, (9, 99)),
        *[pytest.param(again, range(1, 100), marks=pytest.mark.soak) for again in (False, True)],
    ],
)
def test_a_kill_of_a_compaction_loses_and_repeats_nothing(
    again: bool, steps: Sequence[int], day: Path, compacted: Path, tmp_path: Path
) -> None:
    """The suite kills before some renames and removals: while files are written, and while old ones are deleted."""
    origin, captures = (compacted, day / "captures/3.mcpcap") if again else (day / "lake", day / "captures")
    given: list[str | Path] = ["--unredacted", *([] if again else ["--raw"]), captures]
    before = rows(origin)
    for step in steps:
        lake = copied(origin, tmp_path / f"lake{step}")
        if not killed_at(step, lake, "--compact", *given):
            break
        assert rows(lake) == before
        shipped(lake, *given)
        assert rows(lake) == before
        for path in lake.rglob("*.parquet"):
            os.utime(path, (0, 0))
        shipped(lake, "--compact", *given)
        assert (rows(lake), is_tidy(lake)) == (before, True)
    assert steps.index(step) > 0


def test_keep_deletes_what_is_old_and_at_the_destination(captures: Path, tmp_path: Path) -> None:
    """A capture that is gone from the destination is deleted only once it has been shipped again."""
    lake = tmp_path / "lake"
    os.utime(captures / "0.mcpcap", (0, 0))
    assert b": 1 capture deleted here, " in shipped(lake, "--keep", "30d", captures)
    assert [path.name for path in captures.iterdir()] == ["1.mcpcap"]
    assert len(documents(lake, "_manifests")) == 2
    (file,) = (file["name"] for file in documents(lake, "_manifests")[1]["files"] if file["table"] == "frames")
    (lake / file).unlink()
    said = shipped(lake, "--keep", "0s", captures)
    assert b": 1 capture shipped; " in said
    assert b": 1 capture deleted here, " in said
    assert (list(captures.iterdir()), is_tidy(lake)) == ([], True)
    assert {row[0] for row in rows(lake)["frames"]} == {f"{number:032x}" for number in range(2)}


def test_a_manifest_that_names_a_file_elsewhere_is_refused(captures: Path, tmp_path: Path) -> None:
    lake, precious = tmp_path / "lake", tmp_path / "precious.parquet"
    precious.write_bytes(b"precious")
    shipped(lake, "--raw", captures)
    for path in (lake / "_manifests").iterdir():
        manifest = json.loads(path.read_bytes())
        manifest["files"][0]["name"] = "captures/../../precious.parquet"
        path.write_text(json.dumps(manifest))
    done = ship(lake, captures)
    assert (done.returncode, done.stderr.count(b"it is not a manifest of mcpproxy")) == (2, 2)
    assert precious.read_bytes() == b"precious"


def test_a_destination_that_cannot_be_written(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = ship(tmp_path / "file" / "lake", captures, home=tmp_path)
    assert (done.returncode, done.stdout) == (73, b"")
    assert done.stderr.splitlines()[-1].startswith(b"mcpproxy: cannot write to ")
    assert b"file" in done.stderr


@pytest.mark.parametrize("dest", ["", "ftp://x/y", "s3://key:secret@bucket/x", "s3://bucket/x?sig=secret", "s3://"])
def test_what_cannot_be_a_destination_is_refused_without_repeating_credentials(dest: str, tmp_path: Path) -> None:
    done = mcpproxy("ship", dest, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, b"secret" in done.stderr) == (2, b"", False)
    assert done.stderr.startswith(b"mcpproxy: DEST ")


def test_the_captures_themselves_are_no_destination(tmp_path: Path) -> None:
    done = mcpproxy("ship", tmp_path / "c" / "lake", MCPPROXY_CAPTURES=str(tmp_path / "c"), HOME=str(tmp_path))
    assert (done.returncode, b"choose another directory" in done.stderr) == (2, True)


def test_two_runs_to_the_same_destination_do_not_mix(captures: Path, tmp_path: Path) -> None:
    """A second run after the first changes nothing."""
    lake = tmp_path / "lake"
    shipped(lake, captures)
    before = {name: (lake / name).stat().st_mtime_ns for name in present(lake)}
    (lock,) = (tmp_path / "mcpproxy").glob("ship-*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = ship(lake, captures)
    assert (done.returncode, done.stdout) == (73, b"")
    assert b"another mcpproxy ship to" in done.stderr
    assert shipped(lake, captures) == f"{lake}: 0 captures shipped, 2 unchanged; 0 files, 0 B\n".encode()
    assert {name: (lake / name).stat().st_mtime_ns for name in present(lake)} == before


def test_nothing_to_ship_is_no_error(tmp_path: Path) -> None:
    done = mcpproxy("ship", tmp_path / "lake", HOME=str(tmp_path))
    assert done.stdout == f"{tmp_path / 'lake'}: 0 captures shipped; 0 files, 0 B\n".encode()


def test_the_timer_runs_this_command(tmp_path: Path) -> None:
    done = mcpproxy("ship", "la ke%", "--service", "--raw", "--keep", "30d", HOME=str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stdout.count(b"Wrote ~/.config/systemd/user/mcpproxy-ship.")) == (0, 2)
    service = (tmp_path / ".config/systemd/user/mcpproxy-ship.service").read_text()
    assert f'"ship" "--raw" "--keep" "2592000s" "{tmp_path}/la ke%%"\n' in service
    assert "Environment" not in service
    assert "OnCalendar=hourly" in (tmp_path / ".config/systemd/user/mcpproxy-ship.timer").read_text()


def test_the_timer_ships_what_the_command_ships(captures: Path, tmp_path: Path) -> None:
    variables: dict[str, Any] = {"HOME": str(tmp_path), "MCPPROXY_CAPTURES": str(captures)}
    name = next(captures.iterdir()).name
    for words in ([], [name]):
        done = mcpproxy("ship", "lake", *words, "--service", cwd=tmp_path, **variables)
        assert (done.returncode, done.stderr) == (0, b"")
        service = (tmp_path / ".config/systemd/user/mcpproxy-ship.service").read_text()
        assert f'\nEnvironment="MCPPROXY_CAPTURES={captures}"\n' in service
        operands = " ".join(f'"{word}"' for word in (tmp_path / "lake", *words))
        assert f'"ship" {operands}\n' in service
    done = mcpproxy("ship", "lake", "nobody", "--service", cwd=tmp_path, **variables)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
