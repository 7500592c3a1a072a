"""A recorder that cannot record: with `--if-unrecordable pass`, the server starts nevertheless, with a message."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.wrapper import KEEP_SERVING_OPTION
from mcpproxy.relay.processes import process_table
from tests.harness import Place, Session, is_alive, members_of, peer, wait_until

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{"echo":{}}}\n'


def obstructed(place: Place) -> Path:
    """Put a file in place of the captures directory; returns its path."""
    place.captures.write_text("in the way")
    return place.captures


def start(place: Place, server: list[str | bytes], *options: str, **how: Any) -> Session:
    """Start a server through a recorder, without naming a capture."""
    command = [place.python, "-P", "-m", "mcpproxy", "run", *options, "--", *server]
    return place.start(command, direct=True, **how)


def said_once(session: Session) -> str:
    (line,) = session.errors().decode().splitlines()
    return line


def test_the_server_runs_and_one_line_says_that_it_is_unrecorded(place: Place) -> None:
    obstructed(place)
    session = start(place, peer("echo", "--status", "7"), KEEP_SERVING_OPTION)
    session.send(PING)
    assert session.line() == PONG
    session.close_stdin()
    assert session.rest() == b""
    assert session.end() == 7
    line = said_once(session)
    assert "cannot make the directory" in line
    assert line.endswith("the server runs unrecorded until it is restarted")


def test_by_hand_it_refuses(place: Place) -> None:
    obstructed(place)
    session = start(place, peer("echo"))
    assert (session.rest(), session.end()) == (b"", 73)


@pytest.mark.parametrize(
    ("options", "server", "status"),
    [
        ([KEEP_SERVING_OPTION, "--fsync", "now"], ["cat"], 2),
        ([KEEP_SERVING_OPTION], ["/no/such/program"], 127),
        (["--if-unrecordable=no"], ["cat"], 2),
    ],
    ids=["wrong usage", "no such command", "no such choice"],
)
def test_it_passes_on_nothing_else(place: Place, options: list[str], server: list[str | bytes], status: int) -> None:
    obstructed(place)
    session = start(place, server, *options)
    assert (session.rest(), session.end()) == (b"", status)


def test_a_full_disk_and_a_place_that_comes_back(place: Place) -> None:
    """No part of a capture is left behind, and the next start records again."""
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); signal.signal(signal.SIGXFSZ, 1)"
    session = start(place, peer("echo"), KEEP_SERVING_OPTION, before=full)
    session.send(PING)
    assert session.line() == PONG
    session.close_stdin()
    assert session.end() == 0
    assert "File too large" in said_once(session)
    assert not [path for path in place.captures.rglob("*.mcpcap") if path.stat().st_size]
    again = start(place, peer("echo"), KEEP_SERVING_OPTION)
    again.send(PING)
    assert again.line() == PONG
    again.close_stdin()
    assert (again.end(), again.errors()) == (0, b"")
    assert len(members_of(place.newest(), "frame")) == 2


@pytest.mark.parametrize("name", ["TERM", "KILL"])
def test_it_ends_as_the_server_ends(place: Place, name: str) -> None:
    obstructed(place)
    session = start(place, peer("die_by_signal", "--signal", name), KEEP_SERVING_OPTION)
    assert b"last words" in session.line()
    assert session.end() == -signal.Signals[f"SIG{name}"]


def test_a_server_whose_client_is_killed_is_no_orphan(place: Place) -> None:
    obstructed(place)
    session = start(place, peer("stubborn"), KEEP_SERVING_OPTION)
    pid = session.next_report()["ready"]
    session.process.kill()
    wait_until(lambda: not is_alive(pid), "the guard to end the server")


# How these commands report a server that runs unrecorded.
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "without a note"])
def test_status_ls_and_doctor_say_since_when_and_why(place: Place, is_noted: bool) -> None:
    obstructed(place)
    home = Path(place.environment["HOME"])
    home.mkdir()
    runtime = place.root / "runtime"
    runtime.mkdir(mode=0o700)
    if not is_noted:
        if os.path.isdir(f"/run/user/{os.getuid()}"):
            pytest.skip("this machine has another place for the note")
        for name in ("mcpproxy", f"mcpproxy-{os.getuid()}"):
            (runtime / name).write_text("in the way")
    entry = {
        "command": sys.executable,
        "args": ["-P", "-m", "mcpproxy", "run", "--name", "files", KEEP_SERVING_OPTION, "--", *map(str, peer("echo"))],
    }
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"files": entry}}))
    place.environment |= {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime), "PATH": os.environ["PATH"]}
    session = start(place, peer("echo"), "--name", "files", KEEP_SERVING_OPTION)
    session.send(PING)
    assert session.line() == PONG

    def told(*command: str) -> str:
        done = place.run(*command)
        return (done.stdout + done.stderr).decode()

    why = "cannot make the directory" if is_noted else "the reason is not known"
    sentence = f"(process {session.pid}): {why}"
    wait_until(lambda: sentence in told("ls"), "the process to be old enough to be sure")
    assert "files has been running unrecorded since 20" in told("ls")
    assert sentence in told("status")
    assert "yes, but it runs unrecorded" in told("status")
    (row,) = map(json.loads, place.run("status", "--json").stdout.splitlines())
    assert row["unrecorded_since"].endswith("Z")
    assert (row["unrecorded_why"] or why).startswith(why)
    examined = told("doctor", "claude-code", "files")
    assert "route/unrecorded" in examined
    assert "cannot make the directory" in examined
    session.close_stdin()
    assert session.end() == 0
    assert "unrecorded" not in told("ls")
    assert not (is_noted and list(runtime.rglob("unrecorded-*")))


@pytest.mark.costly("a process must be five seconds old, and mcpproxy ls is asked until then")
def test_a_launcher_with_the_command_in_its_own_argv_is_no_recorder(place: Place) -> None:
    """A launcher whose recorder records is not reported; if its recorder does not, the recorder is reported."""
    if os.path.isdir(f"/run/user/{os.getuid()}"):
        pytest.skip("this machine has another place for the note")
    obstructed(place)
    runtime = place.root / "runtime"
    runtime.mkdir(mode=0o700)
    for name in ("mcpproxy", f"mcpproxy-{os.getuid()}"):
        (runtime / name).write_text("in the way")
    place.environment |= {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime), "PATH": os.environ["PATH"]}
    recorder = [place.python, "-P", "-m", "mcpproxy", "run", KEEP_SERVING_OPTION]
    elsewhere = ["--capture", f"{place.root}/elsewhere/"]
    sessions = []
    for name, launcher, options in (
        ("one", ["timeout", "600"], elsewhere),
        ("two", ["sh", "-c", '"$@"; exit $?', "sh"], elsewhere),
        ("three", ["timeout", "600"], []),
    ):
        command = [*launcher, *recorder, "--name", name, *options, "--", *peer("echo")]
        session = place.start(command, direct=True)
        session.send(PING)
        assert session.line() == PONG
        sessions.append(session)

    def told() -> list[str]:
        lines = place.run("ls").stderr.decode().splitlines()
        return [line for line in lines if "running unrecorded" in line]

    (line,) = wait_until(told, "the process to be old enough to be sure")
    named = re.search(r" three has been running unrecorded since .* \(process (\d+)\): ", line)
    assert named is not None
    assert process_table()[int(named[1])][0] == sessions[2].pid
    for session in sessions:
        session.close_stdin()
        assert session.end() == 0


def test_a_note_that_a_kill_has_left_is_removed(place: Place) -> None:
    obstructed(place)
    runtime = place.root / "runtime"
    runtime.mkdir(mode=0o700)
    place.environment["XDG_RUNTIME_DIR"] = str(runtime)
    session = start(place, peer("echo"), KEEP_SERVING_OPTION)
    session.send(PING)
    assert session.line() == PONG
    (note,) = runtime.rglob("unrecorded-*")
    session.process.kill()
    session.process.wait()
    assert b"unrecorded" not in place.run("ls").stderr
    assert not note.exists()


@pytest.mark.parametrize("content", ['{"pid":1e999}', "[" * 60_000, "", None], ids=["number", "depth", "empty", "fifo"])
def test_a_damaged_note_is_removed(place: Place, content: str | None) -> None:
    folder = place.root / "runtime/mcpproxy"
    folder.mkdir(mode=0o700, parents=True)
    place.environment["XDG_RUNTIME_DIR"] = str(folder.parent)
    note = folder / "unrecorded-77"
    if content is None:
        os.mkfifo(note)
    else:
        note.write_text(content)
    done = place.run("ls")
    assert b"Traceback" not in done.stderr
    assert not note.exists()
