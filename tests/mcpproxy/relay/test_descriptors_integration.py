"""Whatever 0, 1 and 2 are (pipe, socket, file, terminal, null, closed), they work, and are left as they were."""

import fcntl
import json
import os
import pty
import random
import signal
import socket
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mcpproxy.recorder.stderr_tap import STDERR_QUOTA_BYTES, STDERR_REFILL_BYTES_PER_S
from tests.harness import (
    DEADLINE_S,
    Place,
    frames,
    members_of,
    peer,
    read_some,
    wait_until,
    write_all,
)

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xc3\xa9"}}\n'
RAW = peer("echo", "--raw", "--status", "3")


def bytes_of(path: Path, direction: str) -> bytes:
    return b"".join(frame.raw + frame.delim for frame in frames(path) if frame.dir == direction)


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
@pytest.mark.parametrize("kill", [False, True], ids=["ended", "killed"])
def test_one_socket_for_all_three_keeps_its_flags(place: Place, *, blocking: bool, kill: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(blocking)
        flags = fcntl.fcntl(theirs, fcntl.F_GETFL)
        session = place.start(RAW, stdin=theirs, stdout=theirs, stderr=theirs)
        ours.sendall(REQUEST)
        assert read_some(ours.fileno()) == REQUEST
        assert fcntl.fcntl(theirs, fcntl.F_GETFL) == flags
        if kill:
            session.process.kill()
        else:
            ours.shutdown(socket.SHUT_WR)
        assert session.end() == (-signal.SIGKILL if kill else 3)
        assert fcntl.fcntl(theirs, fcntl.F_GETFL) == flags


@contextmanager
def sockets(count: int, *, blocking: bool) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(count)]
        for ours, theirs in pairs:
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.setblocking(blocking)
        yield pairs


@pytest.mark.costly("much more than sockets hold, in both directions")
def test_a_socket_for_each_stream_as_node_gives_them(place: Place) -> None:
    """Non-blocking sockets, with far more data in both directions at once than they hold."""
    load = random.Random(1).randbytes(2 << 20)
    with sockets(2, blocking=False) as ((to_us, stdin), (from_us, stdout)):
        session = place.start(RAW, stdin=stdin, stdout=stdout)
        stdin.close()
        stdout.close()
        heard = bytearray()

        def listen() -> None:
            while chunk := read_some(from_us.fileno()):
                heard.extend(chunk)

        listener = threading.Thread(target=listen)
        listener.start()
        write_all(to_us.fileno(), load)
        to_us.shutdown(socket.SHUT_WR)
        assert session.end() == 3
        listener.join(DEADLINE_S)
        assert heard == load
        assert session.recorded("c2s") == session.recorded("s2c") == load


def test_non_blocking_pipes_are_waited_for_and_not_changed(place: Place) -> None:
    load = random.Random(2).randbytes(1 << 20)
    stdin, to_us = os.pipe()
    from_us, stdout = os.pipe()
    for fd in (stdin, stdout):
        os.set_blocking(fd, False)
    session = place.start(RAW, stdin=stdin, stdout=stdout)
    writer = threading.Thread(target=write_all, args=(to_us, load))
    writer.start()
    heard = b""
    while len(heard) < len(load):
        heard += read_some(from_us)
    writer.join(DEADLINE_S)
    assert heard == load
    assert not os.get_blocking(stdin)
    assert not os.get_blocking(stdout)
    os.close(to_us)
    assert session.end() == 3
    for fd in (stdin, stdout, from_us):
        os.close(fd)


def test_a_file_for_stdin_and_a_file_for_stdout(place: Place, tmp_path: Path) -> None:
    load = random.Random(3).randbytes(300_000)
    (tmp_path / "in").write_bytes(load)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        session = place.start(RAW, stdin=stdin, stdout=stdout)
        assert session.end() == 3
    assert (tmp_path / "out").read_bytes() == load
    assert session.recorded("c2s") == load


def test_null_for_all_three(place: Place) -> None:
    null = subprocess.DEVNULL
    session = place.start(["sh", "-c", "cat; echo out; echo err >&2; exit 6"], stdin=null, stdout=null, stderr=null)
    assert session.end() == 6
    assert session.recorded("s2c") == b"out\n"
    assert [row["raw"] for row in members_of(session.capture or Path(), "stderr")] == ["err"]


def test_a_session_with_null_for_stdout_goes_on_after_the_end_of_stdin(place: Place) -> None:
    session = place.start(["sh", "-c", "cat >/dev/null; exec sleep 600"], stdout=subprocess.DEVNULL)
    session.close_stdin()
    wait_until(lambda: members_of(session.capture or Path(), "eof"), "the end of stdin to be passed on")
    assert session.process.poll() is None
    session.process.terminate()
    assert session.end() == -signal.SIGTERM


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_terminal_keeps_its_modes(place: Place, how: str) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    before = termios.tcgetattr(theirs)
    flags = fcntl.fcntl(theirs, fcntl.F_GETFL)
    capture = place.root / "tty.mcpcap"
    session = place.start(
        place.command(["cat"], capture=capture), direct=True, stdin=theirs, stdout=theirs, stderr=theirs
    )
    write_all(ours, REQUEST)
    heard = b""
    while REQUEST not in heard:
        heard += read_some(ours)
    if how == "killed":
        session.process.kill()
    else:
        session.process.terminate()
    assert session.end() == (-signal.SIGKILL if how == "killed" else -signal.SIGTERM)
    assert termios.tcgetattr(theirs) == before
    assert fcntl.fcntl(theirs, fcntl.F_GETFL) == flags
    os.close(ours)
    os.close(theirs)


def test_on_a_terminal_the_end_is_told_in_one_line_on_stderr(place: Place) -> None:
    ours, theirs = pty.openpty()
    session = place.start(["echo", "hello"], stderr=theirs)
    assert session.rest() == b"hello\n"
    assert session.end() == 0
    told = read_some(ours)
    assert told.startswith(b"mcpproxy: echo")
    assert told.count(b"\n") == 1
    os.close(ours)
    os.close(theirs)


CLOSED = ["0", "1", "2", "01", "02", "12", "012"]


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_descriptors_stay_closed_for_the_server(place: Place, tmp_path: Path, closed: str) -> None:
    server = tmp_path / "server.sh"
    # A shell, because a Python interpreter would open something in place of a closed descriptor.
    server.write_text(
        'for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && open="$open $fd"; done; echo "open:$open" >"$1"\n'
    )
    capture = place.root / "closed.mcpcap"
    command = place.command(["sh", str(server), str(tmp_path / "found")], capture=capture)
    shell = '"$@" ' + " ".join(f"{fd}>&-" for fd in closed)
    session = place.start(["sh", "-c", shell, "sh", *command], direct=True)
    session.close_stdin()
    assert session.end() == 0
    assert session.rest() == session.errors() == b""
    kept = "".join(f" {fd}" for fd in "012" if fd not in closed)
    assert (tmp_path / "found").read_text() == f"open:{kept}\n"
    assert members_of(capture, "close")[0]["status"] == 0


@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_a_session_without_one_of_the_three_uses_the_other_two(place: Place, closed: str) -> None:
    capture = place.root / "closed.mcpcap"
    # The server reads a line first: without a stdout, `cat` would end before anything could be sent.
    server: list[str | bytes] = ["sh", "-c", "read line; cat; echo out; echo err >&2; exit 6"]
    shell = f'"$@" {closed}>&-; exit $?'
    session = place.start(["sh", "-c", shell, "sh", *place.command(server, capture=capture)], direct=True)
    direct = place.start(["sh", "-c", shell, "sh", *server], direct=True)
    for one in (session, direct):
        if closed != "0":  # nothing reads it there, and if the session has already ended, the pipe is broken
            one.send(b"in\n")
        one.close_stdin()
    assert session.end() == direct.end()
    assert session.rest() == direct.rest()
    assert session.errors() == direct.errors()
    assert bytes_of(capture, "c2s") == (b"" if closed == "0" else b"in\n")


def test_a_stderr_that_nobody_reads_slows_no_answer_and_no_end(place: Place) -> None:
    """Once the pipe holds 64 KiB, the server waits, as without the recorder; until then, the client is served."""
    code = """
import os, sys, threading
threading.Thread(target=lambda: os.write(2, b"e" * 4_000_000), daemon=True).start()
for line in sys.stdin.buffer:
    os.write(1, line)
os._exit(5)
"""
    session = place.start([sys.executable, "-I", "-S", "-c", code])
    for number in range(200):
        line = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number
        session.send(line)
        assert session.line() == line
    assert session.finish() == 5


def test_a_stderr_that_nobody_will_ever_read_ends_the_server_as_without_us(place: Place) -> None:
    server = peer("stderr_flood", "--bytes", "300000", "--status", "2")
    statuses = []
    for direct in (True, False):
        session = place.start(server, direct=direct)
        assert session.process.stderr is not None
        session.process.stderr.close()
        session.process.stderr = None
        statuses.append(session.finish())
    assert statuses[0] == statuses[1]


@pytest.mark.costly("more than the quota of stderr")
def test_a_flood_on_stderr_is_passed_on_whole_and_recorded_up_to_the_quota(place: Place) -> None:
    size = 9 << 20
    session = place.start(peer("stderr_flood", "--bytes", str(size), "--status", "2"))
    heard: list[bytes] = []
    listener = threading.Thread(target=lambda: heard.append(session.errors()))
    listener.start()
    assert session.next_report() == {"stderr": size}
    assert session.finish() == 2
    listener.join(DEADLINE_S)
    line = b"e" * 79 + b"\n"
    assert heard == [(line * (size // 80 + 1))[:size]]
    rows = members_of(session.capture or Path(), "stderr")
    (close,) = members_of(session.capture or Path(), "close")
    recorded = sum(row["size"] + len(row.get("delim", "\n")) for row in rows)
    assert close["totals"]["stderr"] == {"bytes": size, "recorded": recorded}
    # The quota refills, so if a busy machine takes long over the flood, more of it is recorded.
    quota = STDERR_QUOTA_BYTES + STDERR_REFILL_BYTES_PER_S * close["t_ns"] / 1e9
    assert recorded >= STDERR_QUOTA_BYTES
    assert sum(row["size"] for row in rows) <= quota


@pytest.mark.costly("a frame larger than all memory that the recorder may take")
def test_a_gigantic_frame_is_streamed(place: Place) -> None:
    """The recorder never holds all of a frame of 120 MiB, not even if a busy machine makes it queue records.

    Up to 32 MiB may then be in the queue and as many in the journal, in addition to the 30 MiB of a recorder that has
    seen a large frame.
    """
    size = 120 << 20
    session = place.start(peer("giant_frame", "--bytes", str(size), "--fill", "euro", "--end"))
    heard = 0
    peak = 0
    assert session.process.stdout is not None
    while chunk := read_some(session.process.stdout.fileno()):
        heard += len(chunk)
        peak = max(peak, _peak_kib(session.pid))
    assert heard == size + 1
    assert session.end() == 0
    assert 0 < peak < 110 << 10
    (frame,) = session.frames("s2c")
    assert len(frame.raw) == size
    assert frame.raw.decode().count("€") > 40_000_000
    assert frame.whole


def _peak_kib(pid: int) -> int:
    """Returns VmHWM, or 0 if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) if found else 0


def test_a_client_that_pauses_holds_the_server_up_and_no_memory(place: Place) -> None:
    session = place.start(peer("flood", "--frames", "5000", "--size", "8000"))
    session.line()
    wait_until(Standstill(session.pid), "back-pressure to reach the server")
    assert _peak_kib(session.pid) < 60 << 10
    numbers = [json.loads(line)["params"]["data"]["n"] for line in session.rest().splitlines()]
    assert numbers == list(range(1, 5000))
    assert session.end() == 0


class Standstill:
    """Reports whether a process has forwarded nothing for a while."""

    def __init__(self, pid: int) -> None:
        self.path = Path(f"/proc/{pid}/io")
        self.seen = ""
        self.looks = 0

    def __call__(self) -> bool:
        seen = self.path.read_text()
        self.looks = self.looks + 1 if seen == self.seen else 0
        self.seen = seen
        return self.looks > 30


def test_random_chunks_arrive_as_they_were_sent_in_both_directions(place: Place) -> None:
    """1-byte writes, split characters, many frames in one write: 20 rounds, each cut in a different way."""
    session = place.start(RAW)
    text = ("".join(chr(point) for point in (0x7A, 0xE9, 0x20AC, 0x1D11E)) * 40).encode()
    sent = b""
    for seed in range(20):
        chance = random.Random(seed)
        load = b"".join(
            chance.choice([text, b"\n", b"\r\n", b"\xff\x00", REQUEST]) for _ in range(chance.randrange(1, 40))
        )
        most = chance.choice([1, 2, 7, 1000, 1 << 20])
        at = 0
        load = load if most > 2 else load[:600]
        while at < len(load):
            step = chance.randrange(1, most + 1)
            session.send(load[at : at + step])
            at += step
        assert session.receive(len(load)) == load
        sent += load
    assert session.finish() == 3
    assert session.recorded("c2s") == session.recorded("s2c") == sent
