"""A session through the recorder behaves and ends as it would without it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from captures.listing import find_captures
from tests.harness import (
    DEADLINE_S,
    Place,
    Session,
    frames,
    is_alive,
    killed_at_the_end,
    members_of,
    peer,
    server_of,
    wait_until,
)

LINES = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(100))


def inline(code: str) -> list[str | bytes]:
    """Returns a server of a few lines."""
    return [sys.executable, "-I", "-S", "-c", f"import os, signal, sys\n{code}"]


def close_record(session: Session) -> dict[str, object]:
    (close,) = members_of(session.capture or Path(), "close")
    return close


@pytest.mark.costly("a server that writes a mebibyte before it ends")
@pytest.mark.parametrize("status", [7, *(pytest.param(status, marks=pytest.mark.soak) for status in (0, 1, 255))])
def test_exit_status_and_all_that_was_written_before_it(place: Place, status: int) -> None:
    session = place.start(peer("exit_code", "--status", str(status), "--bytes", "1048576"))
    assert session.rest() == (b"x" * 99 + b"\n") * 10485 + b"x" * 76
    assert session.end() == status
    assert session.recorded("s2c") == (b"x" * 99 + b"\n") * 10485 + b"x" * 76
    assert (close_record(session)["status"], close_record(session)["ending"]) == (status, "server")


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "ABRT"])
def test_death_by_signal_becomes_ours(place: Place, name: str) -> None:
    session = place.start(peer("die_by_signal", "--signal", name))
    assert b"last words" in session.line()
    assert session.end() == -signal.Signals[f"SIG{name}"]
    assert close_record(session)["signal"] == f"SIG{name}"
    assert session.errors() == b""


def test_half_close_passes_on_and_every_answer_still_comes(place: Place) -> None:
    session = place.start(inline("data = sys.stdin.buffer.read(); os.write(1, data)"))
    session.send(LINES)
    session.close_stdin()
    assert session.rest() == LINES
    assert session.end() == 0
    assert session.recorded("c2s") == session.recorded("s2c") == LINES


def test_no_timer_runs_against_a_server_that_answers_long_after_the_half_close(place: Place) -> None:
    # Longer than the grace periods for servers whose client is gone and for ignored signals.
    code = "import time; sys.stdin.read(); time.sleep(6); os.write(1, b'late\\n'); sys.exit(4)"
    session = place.start(inline(code))
    session.close_stdin()
    assert session.rest() == b"late\n"
    assert session.end() == 4


def test_the_server_ends_while_our_stdin_is_open(place: Place) -> None:
    session = place.start(peer("exit_code", "--status", "3", "--after-line"))
    session.send(b"now\n")
    assert session.rest() == b""
    assert session.end() == 3
    with pytest.raises(BrokenPipeError):
        session.send(b"anybody?\n")


def test_a_server_that_closes_stdout_ends_that_side_only(place: Place) -> None:
    session = place.start(peer("closes_stdout_keeps_running", "--status", "6"))
    assert b"closing stdout" in session.line()
    assert session.rest() == b""
    assert session.process.poll() is None
    session.send(LINES)
    assert session.finish() == 6
    assert session.errors() == b"read %d bytes\n" % len(LINES)
    assert session.recorded("c2s") == LINES


def test_a_server_that_closes_stdin_breaks_the_pipe_of_the_client_and_goes_on_writing(place: Place) -> None:
    session = place.start(peer("closes_stdin_keeps_writing", "--frames", "300", "--gap-ms", "5", "--status", "8"))
    assert session.next_report() == {"closed": "stdin"}

    def broken() -> bool:
        try:
            session.send(b"hello?\n")
        except BrokenPipeError:
            return True
        return False

    wait_until(broken, "the client to see that nobody reads")
    assert [session.next_report()["n"] for _ in range(300)] == list(range(300))
    assert session.end() == 8


def test_a_client_that_only_stops_listening_can_still_be_heard(place: Place, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    session = place.start(["sh", "-c", 'echo ready; cat >"$0"; exit 5', str(kept)])
    assert session.line() == b"ready\n"
    assert session.process.stdout is not None
    session.process.stdout.close()
    # Longer than the grace period for a server whose client is gone.
    until = time.monotonic() + 6
    sent = 0
    while time.monotonic() < until:
        session.send(b"still here\n")
        sent += 1
        threading.Event().wait(0.1)
    assert session.finish() == 5
    assert kept.read_bytes() == b"still here\n" * sent


def test_a_later_write_of_the_server_gets_a_broken_pipe(place: Place) -> None:
    # Not at the first write after that one, which ends the read in which the recorder is blocked.
    code = """
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.write(1, b"ready\\n")
for line in sys.stdin:
    os.write(1, b"x")
"""
    session = place.start(inline(code))
    assert session.line() == b"ready\n"
    assert session.process.stdout is not None
    session.process.stdout.close()

    def noticed() -> bool:
        return any(row["by"] == "receiver" for row in members_of(session.capture or Path(), "eof"))

    wait_until(noticed, "the broken pipe to be noticed without a write")

    def ended() -> bool:
        with contextlib.suppress(BrokenPipeError):
            session.send(b"write\n")
        return session.process.poll() is not None

    wait_until(ended, "the server to die of its broken pipe")
    assert session.end() == -signal.SIGPIPE


def test_a_grandchild_that_holds_stdout_holds_us_up_for_half_a_second_at_most(place: Place) -> None:
    session = place.start(peer("grandchild", "--status", "5"))
    pids = session.next_report()
    wait_until(lambda: not is_alive(pids["parent"]))
    with killed_at_the_end(pids["child"]):
        assert session.end() == 5
        assert is_alive(pids["child"]), "its end was waited for"


# On a busy machine, a grandchild may be delayed for longer than the tenth of a second for which a pipe must be silent.
PATIENT = """
import runpy
import mcpproxy.relay.stdio as relay
relay.MIN_QUIET_S, relay.MIN_UNSURE_QUIET_S, relay.MAX_CHATTER_S = 5, 5, 300
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""


def test_what_a_grandchild_writes_at_once_is_delivered(place: Place) -> None:
    server = peer("grandchild", "--frames", "50", "--status", "5")
    command = [place.python, "-P", "-c", PATIENT, "run", "--capture", str(place.root / "x.mcpcap"), "--", *server]
    session = place.start(command, direct=True)
    pids = session.next_report()
    with killed_at_the_end(pids["child"]):
        assert [session.next_report()["n"] for _ in range(50)] == list(range(50))
        assert session.end() == 5
        assert is_alive(pids["child"])


def test_a_descendant_that_never_falls_silent_does_not_keep_us(place: Place) -> None:
    flood = " ".join(map(str, peer("flood", "--frames", "0")))
    session = place.start(["sh", "-c", f"{flood} & exit 5"])
    reader = threading.Thread(target=session.rest)
    reader.start()
    assert session.end() == 5
    reader.join(DEADLINE_S)
    wait_until(lambda: not place.leftovers(), "the flood to drown in its broken pipe")


# The reads of the server's pump return late, as happens if its thread gets neither the processor nor the GIL.
LATE_READS = """
import os, runpy, sys, threading, time
read = os.read
def late(fd, size):
    data = read(fd, size)
    if data and threading.current_thread().name == "server":
        time.sleep(1)
    return data
os.read = late
runpy.run_module("mcpproxy", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("holds", [False, True], ids=["alone", "a descendant holds the pipe"])
def test_what_a_late_thread_has_read_is_delivered(place: Place, *, holds: bool) -> None:
    """The pipe is empty and the server is gone, but a thread of the recorder still holds the last words."""
    server = ["sh", "-c", f"{'sleep 600 & ' if holds else ''}echo $! >&2; printf 'last words\\n'"]
    capture = place.root / "x.mcpcap"
    command = [place.python, "-P", "-c", LATE_READS, "run", "--capture", str(capture), "--", *server]
    session = place.start(command, direct=True)
    assert session.process.stderr is not None
    pid = session.process.stderr.readline().strip()
    with killed_at_the_end(*map(int, pid.split())):
        assert session.rest() == b"last words\n"
        assert session.end() == 0


def test_a_disk_that_refuses_while_the_rest_is_forwarded_ends_the_session(place: Place) -> None:
    """Under `--on-record-error stop` nothing more is forwarded, so nothing may wait for it."""
    words = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))"
    server = inline("left = b'x' * 120_000\nwhile left: left = left[os.write(1, left):]")
    session = place.start(server, "--on-record-error", "stop", before=words)
    pid = server_of(session)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the server to be noticed")
    session.rest()
    assert session.end() == 74
    assert b"ending the session" in session.errors()


def test_all_of_stderr_is_forwarded_though_nobody_reads_stdout(place: Place) -> None:
    server = inline("left = b'e' * 180_000\nwhile left: left = left[os.write(2, left):]\nsys.exit(9)")
    session = place.start(server, stderr=subprocess.PIPE)
    assert session.process.stdout is not None
    assert session.process.stderr is not None
    session.process.stdout.close()
    pid = server_of(session)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the server to be noticed")
    heard = b""
    while chunk := os.read(session.process.stderr.fileno(), 4096):
        heard += chunk
    assert len(heard) == 180_000
    assert session.end() == 9


def test_a_signal_ends_the_wait_for_a_client_that_does_not_read(place: Place) -> None:
    session = place.start(peer("exit_code", "--status", "5", "--bytes", str(100 << 10)))
    server = server_of(session)
    wait_until(lambda: not is_alive(server), "the server to end with its bytes unread")
    session.process.send_signal(signal.SIGTERM)
    assert session.end() == 5


def test_a_server_that_never_reads_blocks_the_client_and_nothing_else(place: Place) -> None:
    session = place.start(peer("never_reads", "--frames", "200"))
    session.next_report()
    assert session.process.stdin is not None
    os.set_blocking(session.process.stdin.fileno(), False)
    sent = _fill(session)
    assert [session.next_report()["n"] for _ in range(200)] == list(range(200))
    sent += _fill(session)
    # Two pipes and a chunk between them; a busy pump may have left room in them for the second fill.
    assert 65536 <= sent <= 3 * 65536
    session.process.terminate()
    assert session.end() == -signal.SIGTERM
    # What is still unread in the client's pipe has not passed through the recorder.
    assert b"z" * 65536 <= session.recorded("c2s") <= b"z" * sent


def _fill(session: Session) -> int:
    """Write until nothing more is accepted for a while; returns the number of bytes."""
    assert session.process.stdin is not None
    fd, sent = session.process.stdin.fileno(), 0
    while select.select([], [fd], [], 0.2)[1]:
        with contextlib.suppress(BlockingIOError):
            sent += os.write(fd, b"z" * 4096)
    return sent


def test_bytes_are_handed_on_before_their_line_ends(place: Place) -> None:
    session = place.start(peer("drip", "--gap-ms", "1"))
    frame = session.line()
    assert json.loads(frame)["params"]["data"] == "é € 𝄞"
    session2 = place.start(peer("echo", "--raw"))
    for byte in frame:
        session2.send(bytes([byte]))
        assert session2.receive(1) == bytes([byte])
    session2.send(b"unfinished")
    assert session2.receive(10) == b"unfinished"
    assert (session.finish(), session2.finish()) == (0, 0)
    assert session.recorded("s2c") == frame
    (whole, rest) = session2.frames("c2s")
    assert (whole.raw + whole.delim, rest.raw, rest.delim, rest.whole) == (frame, b"unfinished", b"", False)


def test_bytes_of_no_protocol_pass_unchanged(place: Place) -> None:
    rubbish = b"Starting...\r\n\n\r\n\x00\xff\xfe{}\x1b[2J \xe2\x80\xa8 \x0b\x0c\x85[1,\n" + os.urandom(4096) + b"\r"
    session = place.start(peer("exit_code", "--hex", rubbish.hex()))
    assert session.rest() == rubbish
    assert session.end() == 0
    assert session.recorded("s2c") == rubbish


def test_wrapped_twice_records_twice_the_same(place: Place) -> None:
    inner = place.root / "inner.mcpcap"
    session = place.start(place.command(peer("echo", "--raw", "--status", "7"), capture=inner))
    session.send(LINES)
    assert session.receive(len(LINES)) == LINES
    assert session.finish() == 7
    for direction in ("c2s", "s2c"):
        assert b"".join(f.raw + f.delim for f in frames(inner) if f.dir == direction) == LINES
        assert b"".join(f.raw + f.delim for f in session.frames() if f.dir == direction) == LINES


def test_sessions_that_overlap_keep_captures_of_their_own(place: Place) -> None:
    argv = place.command(peer("echo", "--raw"), "--name", "same")
    sessions = [place.start(argv, direct=True) for _ in range(4)]
    for number, session in enumerate(sessions):
        session.send(b"%d\n" % number)
        assert session.line() == b"%d\n" % number
    assert [session.finish() for session in sessions] == [0] * 4
    found = {b"".join(frame.raw for frame in frames(path, "c2s")) for path in find_captures(place.captures)}
    assert found == {b"0", b"1", b"2", b"3"}


def test_no_zombie_of_ours_is_left_to_the_parent(place: Place) -> None:
    session = place.start(["true"], stdout=subprocess.DEVNULL)
    assert session.end() == 0
    wait_until(lambda: not place.leftovers(), "the guard to be gone")
