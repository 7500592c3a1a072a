"""`mcpproxy prune`: what it deletes, what it keeps, and that it deletes nothing without asking."""

import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from captures.file import CaptureFile
from captures.record import members
from tests.captures.samples import header, lines
from tests.mcpproxy.cli.typed import mcpproxy, on_terminal

DAY_S = 86400


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """Five captures of two servers, one a day, the newest from today; the second newest is the largest."""
    root = tmp_path / "captures"
    for days, server, size in ((0, "a", 0), (1, "b", 5000), (2, "a", 0), (3, "b", 0), (4, "a", 0)):
        made = time.time() - days * DAY_S
        path = root / server / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(made))}-{days}{days}{days}{days}.mcpcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        close = members(ending="server", status=0, totals={}, x_filler="." * size)
        path.write_bytes(b"".join(lines([("header", header()), ("close", close)])))
        os.utime(path, (made, made))
    return root


def test_the_timer_prunes_with_these_options_every_day(captures: Path, tmp_path: Path) -> None:
    words = ("--older-than", "30d", "--keep", "5", "--max-size", "10G", "--service")
    done = mcpproxy("prune", *words, HOME=str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout.count(b"Wrote ~/.config/systemd/user/mcpproxy-prune.")) == (
        0,
        b"",
        2,
    )
    assert b"systemctl --user enable --now mcpproxy-prune.timer" in done.stdout
    units = tmp_path / ".config/systemd/user"
    service = (units / "mcpproxy-prune.service").read_text()
    assert '"prune" "--older-than" "2592000s" "--keep" "5" "--max-size" "10737418240" "--yes"\n' in service
    assert "OnCalendar=daily" in (units / "mcpproxy-prune.timer").read_text()
    assert left(captures) == "01234", "it is the timer that deletes"
    # A systemd unit runs in another directory and environment.
    done = mcpproxy("prune", "--keep", "1", "--service", "captures/a", HOME=str(tmp_path), cwd=tmp_path)
    assert f'"--yes" "{captures}/a"\n' in (units / "mcpproxy-prune.service").read_text()


@pytest.mark.parametrize("words", [[], ["a"], ["captures/a"]], ids=" ".join)
def test_the_timer_acts_on_what_the_command_acts_on(captures: Path, tmp_path: Path, words: list[str]) -> None:
    """This holds even if shell variables name the captures directory, or a local folder is named like a server."""
    captures = captures.rename(tmp_path / "100% captures")
    (tmp_path / "captures").symlink_to(captures)
    (tmp_path / "a").mkdir()
    there: dict[str, Any] = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "MCPPROXY_CAPTURES": captures.name,
    }
    done = mcpproxy("prune", "--keep", "0", "--service", *words, cwd=tmp_path, **there)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    command, variables = unit(tmp_path / ".config/systemd/user/mcpproxy-prune.service")
    done = mcpproxy(*command[command.index("prune") :], cwd=Path("/"), HOME=str(tmp_path), **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert left(captures) == ("13" if words else "")


def unit(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Returns the command of a unit, and the variables that it sets, as systemd reads them."""
    lines = [line.partition("=") for line in path.read_text().replace("%%", "%").splitlines()]
    (command,) = [value.replace("$$", "$") for name, _, value in lines if name == "ExecStart"]
    assignments = [shlex.split(value)[0].partition("=") for name, _, value in lines if name == "Environment"]
    return shlex.split(command), {name: value for name, _, value in assignments}


def test_a_timer_that_would_do_nothing_or_fail_is_not_written(captures: Path, tmp_path: Path) -> None:
    for words in (["--service"], ["--keep", "1", "--dry-run", "--service"], ["--keep", "1", "--service", "nobody"]):
        done = mcpproxy("prune", *words, HOME=str(tmp_path))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
    assert not (tmp_path / ".config/systemd").exists()


def left(root: Path) -> str:
    """Returns the days of the remaining captures, the newest first."""
    return "".join(sorted(path.stem[-1] for path in root.rglob("*.mcpcap")))


@pytest.mark.parametrize(
    ("criteria", "stays"),
    [
        (["--older-than", "36h"], "01"),
        (["--older-than", "1w"], "01234"),
        (["--keep", "1"], "01"),
        (["--keep", "2"], "0123"),
        (["--keep", "0"], ""),
        (["--max-size", "3K"], "0"),
        (["--max-size", "1G"], "01234"),
        (["--max-size", "0"], ""),
        (["--keep", "2", "--older-than", "60h"], "012"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_goes_is_what_the_criteria_name(captures: Path, criteria: list[str], stays: str) -> None:
    dry = mcpproxy("prune", *criteria, "--dry-run", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert left(captures) == "01234"
    done = mcpproxy("prune", *criteria, "--yes", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert (done.returncode, done.stderr, left(captures)) == (0, b"", stays)
    assert dry.stdout.replace(b"would be deleted", b"deleted") == done.stdout
    assert len(re.findall(rb"\.mcpcap  ", done.stdout)) == 5 - len(stays)


def test_nothing_goes_unasked(captures: Path) -> None:
    done = mcpproxy("prune", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert (done.returncode, done.stdout, left(captures)) == (2, b"", "01234")


def test_a_script_has_to_say_yes(captures: Path) -> None:
    done = mcpproxy("prune", "--keep", "1", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert (done.returncode, done.stdout, left(captures)) == (2, b"", "01234")
    assert done.stderr.startswith(b"mcpproxy: prune would delete 3 captures, ")
    assert b"add --yes" in done.stderr


@pytest.mark.parametrize(("answer", "stays"), [("y", "01"), ("n", "01234"), ("", "01234")])
def test_on_a_terminal_it_asks(captures: Path, answer: str, stays: str) -> None:
    shown = on_terminal("prune", "--keep", "1", str(captures), typed=f"{answer}\n".encode())
    assert b"Delete 3 captures, " in shown
    assert left(captures) == stays


def test_a_name_of_punctuation_means_no_server(captures: Path) -> None:
    """A server whose name has no letter is recorded as `server`; such a name must not delete all of those."""
    (captures / "a").rename(captures / "server")
    for name in ("*", "!!", "¿"):
        done = mcpproxy("prune", "--keep", "0", "--yes", name, MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
        assert (done.returncode, done.stdout, left(captures)) == (2, b"", "01234")


def test_what_is_being_recorded_stays(captures: Path) -> None:
    live = CaptureFile(captures / "a/20200101T000000Z-5555.mcpcap")
    live.append(lines([("header", header())])[0])
    mcpproxy("prune", "--keep", "0", "--yes", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert left(captures) == "5"
    live.close()


def test_all_segments_of_a_capture_go_together(captures: Path) -> None:
    segment = next(captures.glob("b/*-3333.mcpcap"))
    segment.with_name(segment.name.replace(".mcpcap", ".2.mcpcap")).write_bytes(segment.read_bytes())
    os.utime(segment.with_name(segment.name.replace(".mcpcap", ".2.mcpcap")), (0, 0))
    mcpproxy("prune", "--keep", "1", "--yes", MCPPROXY_CAPTURES=str(captures), HOME=str(captures))
    assert left(captures) == "01"
    assert not list(captures.rglob("*.2.mcpcap"))


def test_marks_go_with_their_capture_and_stand_in_nobodys_way(captures: Path) -> None:
    found = sorted(captures.rglob("*.mcpcap"), key=lambda path: path.stem[-1])
    for path in found:
        path.with_name(f"{path.stem}.marks.json").write_text("{}")
    assert mcpproxy("ls", str(captures)).stdout.count(b"\n") >= 5
    for command in ("ls", "verify", "info", "show"):
        assert mcpproxy(command, str(captures)).returncode == 0, command
    mcpproxy("prune", "--keep", "0", "--dry-run", str(captures))
    assert len(list(captures.rglob("*.marks.json"))) == 5
    mcpproxy("prune", "--keep", "1", "--yes", str(captures))
    assert sorted(path.name.partition(".")[0][-1] for path in captures.rglob("*.marks.json")) == ["0", "1"]
