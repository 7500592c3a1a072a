"""What a name selects: a server's newest capture, the options that widen this, and what stderr reports."""

import calendar
import os
import time
from pathlib import Path

import pytest

from captures.file import CaptureFile
from captures.record import members
from tests.captures.samples import header, lines
from tests.mcpproxy.cli.typed import mcpproxy

HOUR_S = 3600
SESSIONS = (
    ("files", "20261101T100000Z-0001"),
    ("files", "20261110T100000Z-0002"),
    ("git", "20261115T100000Z-0003"),
    ("files", "20261120T100000Z-0004"),
)
"""Each session lasts an hour."""
READING = ("show", "stats", "check", "verify", "info", "query", "export")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for server, stem in SESSIONS:
        captured(tmp_path / "captures" / server / f"{stem}.mcpcap", server)
    return tmp_path


def captured(path: Path, name: str) -> None:
    """Write a capture whose file name says when it began."""
    began_s = calendar.timegm(time.strptime(path.name[:16], "%Y%m%dT%H%M%SZ"))
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = header(name=name, wall_ns=began_s * 10**9, capture=f"{path.stem[-4:]:0<32}")
    path.write_bytes(b"".join(lines([("header", opened), ("close", members(ending="server", status=0, totals={}))])))
    os.utime(path, (began_s + HOUR_S, began_s + HOUR_S))


def read(home: Path, *arguments: str) -> tuple[str, str]:
    """Returns the captures that are read, by the last digit of their names, and what stderr reports."""
    done = mcpproxy("verify", *arguments, cwd=home, MCPPROXY_CAPTURES=str(home / "captures"), HOME=str(home))
    found = "".join(line.split(".mcpcap")[0][-1] for line in done.stdout.decode().splitlines() if ".mcpcap" in line)
    return found, done.stderr.decode().replace(f"{home}/captures", "ROOT")


@pytest.mark.parametrize(
    ("arguments", "meant", "said"),
    [
        ("", "4", "reading ROOT/files/20261120T100000Z-0004.mcpcap, the newest of 4 captures"),
        ("files", "4", "reading ROOT/files/20261120T100000Z-0004.mcpcap, the newest of 3 captures of files"),
        ("git", "3", "reading ROOT/git/20261115T100000Z-0003.mcpcap, the only capture of git"),
        ("0002", "2", "reading ROOT/files/20261110T100000Z-0002.mcpcap"),
        ("captures/files/20261101T100000Z-0001.mcpcap", "1", ""),
        ("captures/files", "421", "reading 3 captures in captures/files"),
        ("files --all", "421", "reading 3 captures of files in ROOT/files"),
        ("--all", "4321", "reading 4 captures in ROOT/files, ROOT/git"),
        ("--last 2", "43", "reading 2 of 4 captures: ROOT/files/20261120T100000Z-0004.mcpcap, ROOT/git/"),
        (
            "files --last 2",
            "42",
            "reading 2 of 3 captures of files: ROOT/files/20261120T100000Z-0004.mcpcap, ROOT/files/",
        ),
        (
            "captures --last 1",
            "4",
            "reading captures/files/20261120T100000Z-0004.mcpcap, the newest of 4 captures below",
        ),
        ("--since 2026-11-10T10:30Z", "432", "reading 3 of 4 captures"),
        ("--since 2026-11-10T11:30Z", "43", "reading 2 of 4 captures"),
        ("--until 2026-11-10T10:30Z", "21", "reading 2 of 4 captures: ROOT/files"),
        ("files --since 2026-11-05 --until 2026-11-17", "2", ", one of 3 captures of files"),
        ("files git", "43", "reading ROOT/git"),
    ],
)
def test_what_a_name_means(home: Path, arguments: str, meant: str, said: str) -> None:
    found, stderr = read(home, *arguments.split())
    assert found == meant
    assert said in stderr
    assert bool(stderr) == bool(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--live", "none of the 4 captures is being recorded now; the newest capture is ROOT/files"),
        ("files --since 1h", "none of the 3 captures of files was recorded at that time"),
        (
            "--since yesterdayish",
            "argument --since: 'yesterdayish' is neither an age such as 2h or 3d nor a date such as",
        ),
        ("--last many", "argument --last: 'many' is not a whole number of up to nine digits"),
        ("*", "there is no capture, folder or server called *"),
        ("fils", "there is no capture, folder or server called fils (did you mean files?); looked in"),
        ("...", "there is no capture, folder or server called ..."),
    ],
)
def test_what_means_nothing_is_one_line(home: Path, arguments: str, said: str) -> None:
    found, stderr = read(home, *arguments.split())
    assert not found
    assert f"mcpproxy: {said}" in stderr
    assert stderr.count("\n") == 1


def test_a_date_is_local_and_its_day_counts_whole(home: Path) -> None:
    for option, day, is_listed in (
        ("--until", "2026-11-20", True),
        ("--since", "2026-11-20", True),
        ("--since", "2026-11-21", False),
        ("--until", "2026-11-19", False),
    ):
        listed = mcpproxy("ls", option, day, MCPPROXY_CAPTURES=str(home / "captures"), TZ="UTC+9").stdout
        assert (b"0004" in listed) is is_listed, (option, day)


def test_what_is_being_recorded(home: Path) -> None:
    file = CaptureFile(home / "captures" / "files" / "20261109T100000Z-0009.mcpcap")
    try:
        for line in lines([("header", header())]):
            file.append(line)
        assert read(home, "--live")[0] == "9"
        assert b"0009" in mcpproxy("ls", "--live", MCPPROXY_CAPTURES=str(home / "captures")).stdout
        # A session being recorded covers any time from its beginning until now.
        assert "9" in read(home, "files", "--since", "1m")[0]
    finally:
        file.close()


@pytest.mark.parametrize("command", READING)
def test_every_command_says_what_it_reads(home: Path, command: str) -> None:
    first = {"query": ["select 1"], "export": ["out"]}.get(command, [])
    done = mcpproxy(command, *first, "files", cwd=home, MCPPROXY_CAPTURES=str(home / "captures"), HOME=str(home))
    assert b"/files/20261120T100000Z-0004.mcpcap, the newest of 3 captures of files\n" in done.stderr
    wide = mcpproxy(
        command, *first, "files", "--all", cwd=home, MCPPROXY_CAPTURES=str(home / "captures"), HOME=str(home)
    )
    assert b"mcpproxy: reading 3 captures of files in " in wide.stderr


def test_a_server_has_the_name_that_its_header_says(home: Path) -> None:
    captured(home / "captures" / "elsewhere" / "20261121T100000Z-0005.mcpcap", "@scope/server")
    assert read(home, "@scope/server")[0] == "5"
    assert read(home, "elsewhere")[0] == "5"


def test_a_file_that_is_no_capture_hides_no_server(home: Path) -> None:
    (home / "git").write_text("notes on git")
    (home / "other").write_text("notes")
    assert read(home, "git") == (
        "3",
        "mcpproxy: reading ROOT/git/20261115T100000Z-0003.mcpcap, the only capture of git\n",
    )
    assert read(home, "./git")[1] == "mcpproxy: cannot read git: it contains no capture records\n"
    assert read(home, "other")[1] == "mcpproxy: cannot read other: it contains no capture records\n"
    done = mcpproxy("export", "git", "--format", "otlp", cwd=home, MCPPROXY_CAPTURES=str(home / "captures"))
    assert (done.returncode, done.stderr.startswith(b"mcpproxy: git is recorded traffic")) == (2, True)
    assert (home / "git").read_text() == "notes on git"


def test_a_file_that_is_a_capture_comes_first(home: Path) -> None:
    (home / "captures/files/20261101T100000Z-0001.mcpcap").rename(home / "git")
    assert read(home, "git")[1] == ""


def test_a_list_of_nothing_is_a_list(home: Path) -> None:
    done = mcpproxy("ls", "--until", "2020-01-01", MCPPROXY_CAPTURES=str(home / "captures"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"0 captures, 0 B, 0 live" in done.stdout
