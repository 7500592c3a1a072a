"""No orphan, and no unrelated process harmed, whichever is killed: the client, its group, or the recorder itself."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    Place,
    Session,
    children,
    is_alive,
    killed_at_the_end,
    members_of,
    peer,
    server_of,
    wait_until,
)

CLIENT = """
import os, socket, subprocess, sys
kind, argv = sys.argv[1], sys.argv[2:]
if kind == "socketpair":
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs)
    theirs.close()
    heard = ours.makefile("rb").readline()
else:
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    heard = child.stdout.readline()
os.write(1, b"%d %b" % (child.pid, heard))
child.wait()
"""
"""A client that starts a command over pipes or one socket, prints its pid and its first line, and waits."""


def client(place: Place, kind: str, command: list[str | bytes], **how: Any) -> tuple[Session, int]:
    """Start a client with a command, and wait for its first line; returns the client and the pid of the command."""
    argv: list[str | bytes] = [sys.executable, "-I", "-S", "-c", CLIENT, kind, *command]
    session = place.start(argv, direct=True, stdin=subprocess.DEVNULL, **how)
    return session, int(session.line().split()[0])


def nothing_left(place: Place) -> None:
    wait_until(lambda: not place.leftovers(), "every process to be gone")


def test_a_client_that_is_killed_leaves_nothing_behind(place: Place) -> None:
    """Over pipes and a socket, with a tree that ignores EOF and TERM; in parallel, because each takes five seconds."""
    kinds = ("pipe", "socketpair")
    started = [
        client(place, kind, place.command(peer("three_deep"), capture=place.root / f"{kind}.mcpcap")) for kind in kinds
    ]
    for session, _ in started:
        session.process.kill()
    nothing_left(place)
    for kind in kinds:
        capture = place.root / f"{kind}.mcpcap"
        sent = [(row["name"], row["reason"]) for row in members_of(capture, "signal")]
        assert sent == [("SIGTERM", "client_gone"), ("SIGKILL", "client_gone")]
        (close,) = members_of(capture, "close")
        assert (close["ending"], close["signal"]) == ("client", "SIGKILL")


def test_a_server_that_obeys_the_end_of_stdin_goes_quietly_when_the_client_is_killed(place: Place) -> None:
    capture = place.root / "c.mcpcap"
    session, _ = client(place, "pipe", place.command(["sh", "-c", "echo ready; cat; exit 3"], capture=capture))
    session.process.kill()
    nothing_left(place)
    assert members_of(capture, "signal") == []
    assert members_of(capture, "close")[0]["status"] == 3


def test_a_client_that_kills_its_group_leaves_nothing_behind(place: Place) -> None:
    session, _ = client(place, "pipe", place.command(peer("three_deep")), start_new_session=True)
    os.killpg(session.pid, signal.SIGKILL)
    nothing_left(place)


def test_a_new_parent_that_is_not_pid_1_is_noticed(place: Place) -> None:
    """The client dies; its pipes live on in a process that adopts orphans, so only the new parent reveals the death."""
    code = """
import ctypes, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
subprocess.run(["sh", "-c", '"$@" </dev/null & read x', "sh", *sys.argv[1:]])
import os
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""
    argv = [sys.executable, "-I", "-S", "-c", code, *place.command(peer("stubborn"), capture=place.root / "c.mcpcap")]
    session = place.start(argv, direct=True)
    session.next_report()
    session.send(b"end of the client\n")
    assert session.end() == 0
    nothing_left(place)
    assert members_of(place.root / "c.mcpcap", "close")[0]["ending"] == "client"


@pytest.mark.parametrize("system", ["linux", "no /proc"])
def test_a_stubborn_tree_is_gone_after_our_own_kill(place: Place, system: str) -> None:
    command = place.command(peer("three_deep"))
    if system == "no /proc":
        code = (
            "import mcpproxy.relay.processes as p; p.PROC = '/nonexistent'; from mcpproxy.__main__ import main; main()"
        )
        command = [sys.executable, "-P", "-c", code, "run", "--", *peer("three_deep")]
    session = place.start(command, direct=True)
    pids = session.next_report()["pids"]
    session.process.kill()
    wait_until(lambda: not any(map(is_alive, pids)), "the tree to be gone")
    nothing_left(place)


DAEMON = """
import os, sys
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write_end, b"%d" % os.getpid())
        for fd in (0, 1, 2, read_end, write_end):
            os.close(fd)
        import time
        time.sleep(600)
    os._exit(0)
os.wait()
print('{"params": {"data": {"daemon": %d}}}' % int(os.read(read_end, 20)), flush=True)
sys.stdin.read()
"""


def test_a_server_that_obeys_ends_and_its_daemon_lives_on_after_our_own_kill(place: Place) -> None:
    session = place.start([sys.executable, "-I", "-S", "-c", DAEMON])
    daemon = session.next_report()["daemon"]
    with killed_at_the_end(daemon):
        server = server_of(session)
        session.process.kill()
        wait_until(lambda: not is_alive(server), "the server to be gone")
        wait_until(lambda: place.leftovers() == [daemon], "the guard to be gone")


def test_a_server_that_has_ended_takes_nothing_with_it(place: Place) -> None:
    session = place.start(peer("grandchild", "--status", "2"))
    child = session.next_report()["child"]
    with killed_at_the_end(child):
        assert session.end() == 2
        wait_until(lambda: place.leftovers() == [child], "the guard to be gone")


def test_a_kill_by_the_recorder_at_the_end_hits_no_survivor(place: Place) -> None:
    """The server is gone, and the recorder waits for a client that does not read; its death leaves nothing to end."""
    command = " ".join(map(str, peer("exit_code", "--bytes", str(100 << 10))))
    session = place.start(["sh", "-c", f"sleep 600 </dev/null >/dev/null 2>&1 & {command}"])
    server = server_of(session)
    wait_until(lambda: not is_alive(server), "the server to be gone")
    session.process.kill()
    wait_until(lambda: len(place.leftovers()) == 1, "the guard to be gone")
    (sleeper,) = place.leftovers()
    os.kill(sleeper, signal.SIGKILL)


def test_the_guard_holds_its_pipe_the_capture_and_nothing_else(place: Place) -> None:
    session = place.start(peer("echo"))
    server = server_of(session)
    (guard,) = wait_until(lambda: [pid for pid in children(session.pid) if pid != server])
    held = Path(f"/proc/{guard}/fd")
    wait_until(lambda: len(os.listdir(held)) == 2, "the guard to let go of all but its pipe and the capture")
    capture, pipe = sorted(os.readlink(fd) for fd in held.iterdir())
    assert (capture, pipe.partition(":")[0]) == (str(session.capture), "pipe")
    assert session.finish() == 0


def test_a_session_outlives_its_guard(place: Place) -> None:
    session = place.start(peer("echo", "--raw", "--status", "4"))
    server = server_of(session)
    (guard,) = wait_until(lambda: [pid for pid in children(session.pid) if pid != server])
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: guard not in children(session.pid), "the guard to be reaped")
    session.send(b"alone\n")
    assert session.line() == b"alone\n"
    assert session.finish() == 4


def test_polite_signals_do_not_end_the_guard(place: Place) -> None:
    session = place.start(peer("stubborn", "--ignore", "TERM,INT,HUP,QUIT,USR1,USR2"), start_new_session=True)
    stubborn = session.next_report()["ready"]
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
        os.killpg(session.pid, signum)
    session.process.kill()
    wait_until(lambda: not is_alive(stubborn), "the guard to end what is left")
    nothing_left(place)


SERVERS = ["echo", "stubborn", "grandchild", "exit_code", "flood"]
AT_ONCE = 20


def _signal_at_random(place: Place, rounds: int, seed: int) -> None:
    """Signal recorders at moments from their first instruction to their last: nothing hangs, nothing is left behind."""
    chance = random.Random(seed)
    # Servers that ignore every signal are ended after five seconds; by then the next sessions are under way.
    everyone: list[Session] = []
    for _ in range(rounds // AT_ONCE):
        due = sorted(chance.uniform(0, 2) for _ in range(AT_ONCE))
        began = time.monotonic()
        sessions = [place.start(peer(chance.choice(SERVERS)), stderr=subprocess.DEVNULL) for _ in due]
        chance.shuffle(sessions)
        for session, at_s in zip(sessions, due, strict=True):
            with contextlib.suppress(subprocess.TimeoutExpired):
                session.process.wait(max(0.0, began + at_s - time.monotonic()))
            session.process.send_signal(chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
        for session in sessions:
            session.close()
        everyone += sessions
    for session in everyone:
        session.end()
    wait_until(lambda: not _end_grandchildren(place), "every process to be gone")
    for session in everyone:
        if session.capture is not None and session.capture.exists() and session.capture.stat().st_size:
            assert session.records()[0].rec == "header"


def _end_grandchildren(place: Place) -> list[int]:
    """End the grandchildren that rightly outlive their session; returns the pids of all other processes left."""
    left = place.leftovers()
    for pid in left:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"peers/grandchild.py" in command and b"mcpproxy" not in command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return left


@pytest.mark.costly("a session for each moment")
def test_a_signal_at_any_moment_leaves_no_orphan_and_no_hang(place: Place) -> None:
    _signal_at_random(place, AT_ONCE, seed=1)


@pytest.mark.soak
def test_a_signal_at_any_of_five_hundred_moments_leaves_no_orphan_and_no_hang(place: Place) -> None:
    _signal_at_random(place, 500, seed=2)
