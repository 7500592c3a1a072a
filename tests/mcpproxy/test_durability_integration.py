"""Real sessions on real disks that misbehave: traffic stays the same, and records that are lost are counted.

Disks are made to misbehave by limits on the size of files, by small file systems in a separate mount namespace, and by
strace, which lets chosen calls on the capture fail, wait, or end in a kill. Each test is skipped if the system lacks
what it needs.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.damage import Damage
from captures.file import is_live
from captures.frame import Frame
from captures.integrity import inspect
from captures.reader import Capture, assembled_items
from captures.record import Record
from tests.captures.samples import give_to_strangers
from tests.harness import (
    DEADLINE_S,
    Place,
    Session,
    children,
    is_alive,
    killed_at_the_end,
    members_of,
    peer,
    read_some,
    server_of,
    wait_until,
)
from tests.mcpproxy.cli.typed import mcpproxy

STRACE = shutil.which("strace")
HANGS_S = 10
"""How long the disk hangs, a hundred times what the traffic needs in that time; `bench/` measures delays."""


def _can_unshare() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of running processes are set by Linux only")
needs_namespaces = pytest.mark.skipif(not _can_unshare(), reason="no mount namespaces of our own here")


def flood(frames: int, size: int, batch: int = 8, *more: str) -> list[str | bytes]:
    return peer("flood", "--frames", f"{frames}", "--size", f"{size}", "--batch", f"{batch}", *more)


@functools.cache
def flooded(frames: int, size: int) -> str:
    """Returns the hash of what the flood server writes."""
    argv = [os.fsdecode(word) for word in flood(frames, size)]
    return hashlib.sha256(subprocess.run(argv, capture_output=True, check=True).stdout).hexdigest()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def whole_records(path: Path) -> list[Record]:
    """Returns the records of a capture, which must have no damage."""
    items = list(Capture(path))
    assert not [item for item in items if isinstance(item, Damage)]
    return [item for item in items if isinstance(item, Record)]


def recorded_and_lost(path: Path, direction: str) -> tuple[int, int]:
    """Returns how many frames of a direction a capture holds, and how many it reports as lost."""
    records = whole_records(path)
    recorded = sum(record.rec == "frame" and record.members["dir"] == direction for record in records)
    lost = sum(record.members["lost"][direction]["frames"] for record in records if record.rec == "gap")
    return recorded, lost


def verify(path: Path) -> tuple[int, dict[str, Any]]:
    done = mcpproxy("verify", "--json", path)
    return done.returncode, json.loads(done.stdout)


class TestStart:
    """A capture that cannot be created: exit code 73, nothing is started, and no existing file is touched."""

    OBSTACLES = ("file", "symlink", "dangling", "fifo", "device", "long", "number", "suffix", "segments")

    def obstacle(self, folder: Path, name: str) -> Path:
        path, victim = folder / "x.mcpcap", folder / "victim"
        victim.write_bytes(b"precious")
        if name == "file":
            path.write_bytes(b"precious")
        elif name in ("symlink", "dangling", "device"):
            path.symlink_to({"symlink": "victim", "dangling": "nowhere", "device": "/dev/null"}[name])
        elif name == "fifo":
            os.mkfifo(path)
        elif name == "segments":
            (folder / "x.3.mcpcap").write_bytes(b"precious")
        return folder / {"long": "x" * 250 + ".mcpcap", "number": "x.2.mcpcap", "suffix": "x.json"}.get(name, path.name)

    @pytest.mark.parametrize("name", OBSTACLES)
    def test_an_existing_file_is_left_unchanged(self, place: Place, tmp_path: Path, name: str) -> None:
        path = self.obstacle(tmp_path, name)
        before = {entry.name: (entry.lstat().st_mode, entry.lstat().st_size) for entry in tmp_path.iterdir()}
        session = place.start(["touch", str(tmp_path / "started")], capture=path)
        assert session.finish() == 73
        assert session.rest() == b""
        assert re.fullmatch(rb"mcpproxy: cannot [^\n]*\n", session.errors())
        after = {entry.name: (entry.lstat().st_mode, entry.lstat().st_size) for entry in tmp_path.iterdir()}
        after.pop("config", None)
        assert after == before

    def test_nothing_is_recorded_where_others_can_write(self, place: Place, tmp_path: Path) -> None:
        folder = tmp_path / "shared"
        folder.mkdir()
        give_to_strangers(folder, 0o777)
        session = place.start(["touch", str(folder / "started")], capture=folder / "x.mcpcap")
        assert session.finish() == 73
        why = f"cannot record into {folder}: it is writable by others (mode 777)"
        assert session.errors().decode() == f"mcpproxy: {why}; choose a directory that only you can write to\n"
        assert list(folder.iterdir()) == []

    def test_what_others_can_read_is_told_and_recorded(self, place: Place, tmp_path: Path) -> None:
        place.environment.update(MCPPROXY_CAPTURES=str(tmp_path / "captures"), XDG_CONFIG_HOME=str(tmp_path / "config"))
        first = place.run("run", "--name", "echo", "--", "true")
        assert (first.returncode, first.stderr) == (0, b"")
        give_to_strangers(tmp_path / "captures/echo", 0o755)
        (tmp_path / "config/mcpproxy/key").chmod(0o644)
        done = place.run("run", "--name", "echo", "--", "true")
        assert done.returncode == 0
        told = [line.partition(";")[0] for line in done.stderr.decode().splitlines()]
        assert told == [
            f"mcpproxy: others can list the captures in {tmp_path}/captures/echo, but not read them",
            f"mcpproxy: others can read the redaction key {tmp_path}/config/mcpproxy/key and guess what it hides",
        ]
        assert len(list((tmp_path / "captures/echo").glob("*.mcpcap"))) == 2

    def test_one_of_many_that_want_the_same_path_gets_it(self, place: Place, tmp_path: Path) -> None:
        path = tmp_path / "x.mcpcap"
        sessions = [place.start(peer("echo"), capture=path) for _ in range(4)]
        for number, session in enumerate(sessions):
            with contextlib.suppress(BrokenPipeError):
                session.send(b'{"jsonrpc":"2.0","id":%d,"method":"who"}\n' % number)
        codes = [session.finish() for session in sessions]
        assert sorted(codes) == [0] + [73] * 3
        winner = codes.index(0)
        assert [frame.verdict.id for frame in sessions[winner].frames("c2s")] == [b"%d" % winner]

    @pytest.mark.costly("a process for each start")
    @pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.soak)])
    def test_overlapping_starts_never_mix(self, place: Place, count: int) -> None:
        place.environment["MCPPROXY_CAPTURES"] = str(place.captures)
        command = [os.fsdecode(word) for word in place.command(peer("echo"))]
        started = []
        for _ in range(count):
            process = subprocess.Popen(
                command, env=place.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            started.append(process)
        for number, process in enumerate(started):
            out, _ = process.communicate(b'{"jsonrpc":"2.0","id":%d,"method":"who"}\n' % number, timeout=DEADLINE_S)
            assert json.loads(out)["id"] == number
            assert process.returncode == 0
        found = sorted(place.captures.rglob("*.mcpcap"))
        assert len(found) == count
        ids = []
        for path in found:
            assert inspect(Capture(path)).state == "complete"
            own = {frame.verdict.id for frame in assembled_items(Capture(path)) if isinstance(frame, Frame)}
            assert len(own) == 1
            ids.append(int(own.pop() or b""))
        assert sorted(ids) == list(range(count))

    @needs_strace
    def test_every_file_of_ours_is_private_from_its_creation(self, place: Place, tmp_path: Path) -> None:
        log = tmp_path / "log"
        argv = [
            STRACE or "",
            "-f",
            "-qq",
            "-o",
            str(log),
            "-e",
            "trace=openat,open,mkdir,mkdirat",
            *place.command(["true"]),
        ]
        script = 'umask 000; exec "$@"'
        session = place.start(["sh", "-c", script, "sh", *argv], direct=True)
        assert session.finish() == 0
        lines = [
            line for line in log.read_text("latin-1").splitlines() if str(tmp_path) in line and " = -1 " not in line
        ]
        created = [line for line in lines if "O_CREAT" in line]
        assert len(created) >= 3
        for line in created:
            assert "O_EXCL" in line
            assert "O_NOFOLLOW" in line
            assert "O_CLOEXEC" in line
            assert ", 0600)" in line
        directories = [line for line in lines if "mkdir" in line]
        assert directories
        assert all(", 0700)" in line for line in directories)

    @needs_namespaces
    @pytest.mark.parametrize("options", ["ro", "size=16k"])
    def test_a_disk_that_takes_no_file_is_told(self, place: Place, tmp_path: Path, options: str) -> None:
        marker = tmp_path / "started"
        session, _ = on_small_disk(place, tmp_path, options, ["touch", str(marker)])
        assert session.finish() == 73
        assert session.rest() == b""
        assert session.errors().startswith(b"mcpproxy: cannot create the capture")
        assert not marker.exists()
        assert list((tmp_path / "after").iterdir()) == []


def on_small_disk(
    place: Place, folder: Path, options: str, server: list[str | bytes], *more: str
) -> tuple[Session, Callable[[str], Path]]:
    """Start a session that records to a file system of its own.

    Its files are copied to `folder/after` at the end. Returns the session, and how to reach the files while it runs.
    """
    disk, after = folder / "disk", folder / "after"
    disk.mkdir()
    after.mkdir()
    script = (
        'mount -t tmpfs -o "$1" none "$2" || exit 99; disk=$2; after=$3; shift 3; "$@"; code=$?; '
        'cp -p "$disk"/* "$after" 2>/dev/null; exit $code'
    )
    command = place.command(server, *more, capture=disk / "x.mcpcap")
    argv = ["unshare", "-rm", "sh", "-c", script, "sh", options, str(disk), str(after), *command]
    session = place.start(argv, direct=True)
    session.capture = after / "x.mcpcap"
    return session, lambda name: Path(f"/proc/{session.pid}/root{disk}", name)


@needs_namespaces
class TestFullDisk:
    """A disk without space."""

    @pytest.mark.costly("the disk is tried again and again to the end")
    def test_to_the_end_the_reserve_takes_gap_and_close(self, place: Place, tmp_path: Path) -> None:
        session, _ = on_small_disk(place, tmp_path, "size=1m", flood(3000, 1000))
        assert sha(session.rest()) == flooded(3000, 1000)
        assert session.finish() == 0
        path = tmp_path / "after/x.mcpcap"
        recorded, lost = recorded_and_lost(path, "s2c")
        assert recorded + lost == 3000
        assert lost > 1500
        records = whole_records(path)
        assert [record.rec for record in records[-2:]] == ["gap", "close"]
        assert records[-2].members["reason"] == "ENOSPC"
        assert records[-1].members["totals"]["s2c"]["frames"] == 3000
        errors = session.errors().decode()
        assert "No space left on device" in errors
        assert re.search(r"\d+ records were lost \(ENOSPC\)", errors)
        code, told = verify(path)
        assert (code, told["state"]) == (3, "incomplete")

    def test_in_the_middle_nothing_is_lost_that_can_wait(self, place: Place, tmp_path: Path) -> None:
        session, inside = on_small_disk(place, tmp_path, "size=1m", peer("echo", "--raw"))
        line = b'{"jsonrpc":"2.0","method":"x","params":{"pad":"%b"}}\n' % (b"p" * 900)

        def talk(lines: int) -> bytes:
            for _ in range(lines):
                session.send(line)
                assert session.receive(len(line)) == line
            return line * lines

        sent = talk(10)
        free = os.statvfs(inside(".")).f_bavail * 4096
        inside("ballast").write_bytes(b"b" * (free - 40_000))
        sent += talk(100)
        size = inside("x.mcpcap").stat().st_size
        assert size < 80_000, "the disk was never full"
        inside("ballast").unlink()
        wait_until(lambda: inside("x.mcpcap").stat().st_size > size, "recording to resume")
        sent += talk(10)
        session.close_stdin()
        assert session.end() == 0
        assert session.recorded("c2s") == session.recorded("s2c") == sent

    @pytest.mark.costly("more frames than can wait in memory")
    def test_recording_resumes_when_space_returns_and_the_loss_is_exact(self, place: Place, tmp_path: Path) -> None:
        """The loss is more than can wait, which is 32 MiB."""
        session, inside = on_small_disk(place, tmp_path, "size=96m", flood(4_000, 15_000, 8, "--wait"))
        server = wait_until(lambda: [pid for pid in children(session.pid) if inside("x.mcpcap").exists()])
        assert server
        inside("ballast").write_bytes(b"b" * (80 << 20))
        assert sha(session.receive(4_000 * 15_000)) == flooded(4_000, 15_000)
        size = inside("x.mcpcap").stat().st_size
        inside("ballast").unlink()
        wait_until(lambda: inside("x.mcpcap").stat().st_size > size, "recording to resume")
        session.close_stdin()
        assert session.end() == 0
        path = tmp_path / "after/x.mcpcap"
        recorded, lost = recorded_and_lost(path, "s2c")
        assert recorded + lost == 4_000
        assert lost
        totals = whole_records(path)[-1].members["totals"]
        assert totals["s2c"]["frames"] == 4_000
        assert totals["lost"]["bytes"] == lost * 14_999
        assert verify(path)[0] == 3


def limit_files(size: int) -> Callable[[], None]:
    """Returns a function for the child: its files cannot grow beyond `size` until the limit is lifted."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return limit


def lift_limit(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@needs_linux
class TestShortWrites:
    """A write that crosses the limit is short, and the next one is refused."""

    LINE = b'{"jsonrpc":"2.0","method":"x","params":{"pad":"%b"}}\n' % (b"p" * 700)

    def talk(self, session: Session, count: int) -> bytes:
        for _ in range(count):
            session.send(self.LINE)
            assert session.receive(len(self.LINE)) == self.LINE
        return self.LINE * count

    @pytest.mark.parametrize("size", [100_377, *(pytest.param(n, marks=pytest.mark.soak) for n in (100_000, 100_001))])
    def test_whole_lines_stay_and_the_rest_follows_when_it_may(self, place: Place, size: int) -> None:
        session = place.start(peer("echo", "--raw"), preexec_fn=limit_files(size))
        sent = self.talk(session, 100)
        path = session.capture
        assert path is not None
        assert path.stat().st_size <= size
        # Not at the first look: each new attempt to write leaves half a line, which is truncated at once.
        wait_until(lambda: not [item for item in Capture(path) if isinstance(item, Damage)], "whole lines only")
        lift_limit(session.pid)
        wait_until(lambda: path.stat().st_size > size, "recording to resume")
        sent += self.talk(session, 10)
        assert session.finish() == 0
        assert session.recorded("c2s") == session.recorded("s2c") == sent
        assert session.errors().count(b"File too large") == 1
        assert verify(path)[0] == 0

    def test_to_the_end_the_loss_is_told(self, place: Place) -> None:
        session = place.start(flood(2000, 400), preexec_fn=limit_files(200_000))
        assert sha(session.rest()) == flooded(2000, 400)
        assert session.finish() == 0
        assert session.capture is not None
        recorded, _ = recorded_and_lost(session.capture, "s2c")
        # The gap and close records may just fit into the space that the last whole line has left.
        told = re.search(rb"(\d+) records (?:of this session are not yet in|were lost)", session.errors())
        assert told is not None
        missing = 2000 - recorded
        # In addition to the frames, a stall record per chunk of up to eight frames, and the records of the end.
        assert missing <= int(told[1]) <= missing + missing // 8 + 10
        assert verify(session.capture)[0] == 3

    def test_stop_ends_the_session_and_delivers_nothing_unrecorded(self, place: Place) -> None:
        session = place.start(flood(0, 400), "--on-record-error", "stop", preexec_fn=limit_files(200_000))
        received = session.rest()
        assert session.finish() == 74
        delivered = received.split(b"\n")[:-1]
        assert delivered
        recorded = [frame.raw for frame in session.frames("s2c")]
        assert recorded[: len(delivered)] == delivered
        assert b"ending the session" in session.errors()

    def test_block_holds_traffic_back_until_the_disk_takes_it(self, place: Place) -> None:
        session = place.start(flood(2000, 400), "--on-record-error", "block", preexec_fn=limit_files(200_000))
        path = session.capture
        assert path is not None
        received: list[bytes] = []
        hearing = threading.Thread(target=lambda: received.append(session.rest()))
        hearing.start()
        wait_until(lambda: path.exists() and path.stat().st_size >= 199_000)
        server = server_of(session)
        wait_until(lambda: _unread_in(server) >= 40_000, "the server to wait for the recorder to read")
        assert session.process.stderr is not None
        # Before that, it may not have tried to write what does not fit.
        assert b"traffic waits" in read_some(session.process.stderr.fileno())
        assert hearing.is_alive()
        lift_limit(session.pid)
        hearing.join(DEADLINE_S)
        assert sha(received[0]) == flooded(2000, 400)
        assert session.finish() == 0
        assert len(session.frames("s2c")) == 2000
        assert verify(path)[0] == 0


def _unread_in(pid: int) -> int:
    """Returns how many bytes are in the pipe on the stdout of a process; a full one holds 50 to 64 KiB."""
    fd = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])
    finally:
        os.close(fd)


def traced(
    place: Place,
    capture: Path,
    *injections: str,
    server: list[str | bytes],
    paths: tuple[Path, ...] = (),
    more: tuple[str, ...] = (),
) -> Session:
    """Start a session with faults injected into its calls on the capture; calls are counted per thread."""
    options = [word for path in (capture, *paths) for word in ("-P", str(path))]
    options += [word for injection in injections for word in ("-e", f"inject={injection}")]
    log = place.root / "strace"
    log.touch()
    argv = [STRACE or "", "-f", "-qq", "-o", str(log), *options]
    session = place.start([*argv, *place.command(server, *more, capture=capture)], direct=True)
    session.capture = capture
    return session


def recorder_of(session: Session) -> int:
    """Returns the pid of the recorder below strace."""
    server = server_of(session)
    return wait_until(lambda: [pid for pid in children(session.pid) if server in children(pid)])[0]


def trips(session: Session, count: int, first: int = 0) -> None:
    """Send some messages and read them back."""
    for number in range(first, first + count):
        line = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number
        session.send(line)
        assert session.receive(len(line)) == line


@needs_strace
class TestFaultyCalls:
    """Single calls fail, are interrupted, or take seconds."""

    @pytest.mark.parametrize(
        "code",
        [
            "ENOSPC",
            "EINTR",
            *(pytest.param(n, marks=pytest.mark.soak) for n in ["EIO", "EROFS", "EDQUOT", "EFBIG", "EAGAIN"]),
        ],
    )
    def test_a_refused_write_changes_no_traffic_and_loses_nothing(
        self, place: Place, tmp_path: Path, code: str
    ) -> None:
        capture = tmp_path / "x.mcpcap"
        session = traced(place, capture, f"write:error={code}:when=5..6", server=peer("echo", "--raw"))
        count, until = 0, time.monotonic() + DEADLINE_S
        # Calls are counted per thread, and on a busy machine another thread may write now and then.
        while count < 50 or "(INJECTED)" not in (place.root / "strace").read_text("latin-1"):
            trips(session, 10, count)
            count += 10
            assert time.monotonic() < until
        assert session.finish() == 0
        assert len(session.frames()) == 2 * count
        assert inspect(Capture(capture)).state == "complete"
        told = session.errors()
        assert (told == b"") == (code == "EINTR")
        assert told.count(b"\n") <= 1
        assert code == "EINTR" or os.strerror(getattr(errno, code)).encode() in told

    @pytest.mark.costly("it is looked again and again whether the disk is back")
    def test_a_write_that_hangs_holds_one_frame_up_for_a_moment(self, place: Place, tmp_path: Path) -> None:
        for hangs_s in (HANGS_S, 10 * HANGS_S):
            hang = f"write:delay_enter={hangs_s}s:when=20"
            session = traced(place, tmp_path / f"{hangs_s}.mcpcap", hang, server=peer("echo", "--raw"))
            trips(session, 24)
            if len(session.frames()) < 48:
                break
            # On a busy machine, the trips may take as long as the disk hangs.
            session.finish()
        else:
            pytest.fail("traffic waited for the disk")
        wait_until(lambda: len(session.frames()) == 48, "the disk to come back")
        # The other pump has yet to make its 20th write, which must not be one of the end.
        trips(session, 60, 24)
        wait_until(lambda: len(session.frames()) == 168, "the disk to come back once more")
        assert session.finish() == 0
        assert inspect(Capture(tmp_path / f"{hangs_s}.mcpcap")).state == "complete"

    @pytest.mark.costly("a dozen writes of half a second each")
    def test_the_end_waits_for_a_slow_disk_as_long_as_it_takes_something(self, place: Place, tmp_path: Path) -> None:
        slow = "write:delay_enter=500ms:when=2+"
        session = traced(place, tmp_path / "x.mcpcap", slow, server=flood(800, 15_000, 8, "--wait"))
        assert sha(session.receive(800 * 15_000)) == flooded(800, 15_000)
        assert session.finish() == 0
        assert session.errors() == b""
        assert recorded_and_lost(tmp_path / "x.mcpcap", "s2c") == (800, 0)
        assert inspect(Capture(tmp_path / "x.mcpcap")).state == "complete"

    def test_a_sync_that_hangs_holds_nothing_up(self, place: Place, tmp_path: Path) -> None:
        log = place.root / "strace"
        session = traced(place, tmp_path / "x.mcpcap", "fdatasync:delay_enter=60s", server=peer("echo", "--raw"))
        count = 0

        def ended() -> int:
            return len(re.findall(r"\bfdatasync(?:\(| resumed>).* = 0", log.read_text("latin-1")))

        def hangs() -> bool:
            nonlocal count
            trips(session, 1, count)
            count += 1
            return log.read_text("latin-1").count("fdatasync(") > ended()

        wait_until(hangs, "a sync to begin")
        before = ended()
        trips(session, 10, count)
        assert ended() == before, "traffic waited for the disk"
        recorder = recorder_of(session)
        with killed_at_the_end(session.pid):
            session.close_stdin()
            wait_until(lambda: not is_alive(recorder), "the recorder to end, before strace lets go of it", 50)
        assert len(session.frames()) == 2 * (count + 10)

    def test_a_failed_sync_is_told_once_and_never_called_durable(self, place: Place, tmp_path: Path) -> None:
        session = traced(place, tmp_path / "x.mcpcap", "fdatasync:error=EIO:when=1", server=peer("echo", "--raw"))
        trips(session, 20)
        log = place.root / "strace"
        wait_until(lambda: "fdatasync" in log.read_text("latin-1"), "a sync to fail")
        trips(session, 20, 100)
        assert session.finish() == 0
        assert session.errors().count(b"refused to sync") == 1
        (close,) = members_of(tmp_path / "x.mcpcap", "close")
        assert close.get("durable_seq") is None
        assert len(session.frames()) == 80

    def test_the_end_does_not_wait_for_a_disk_that_hangs(self, place: Place, tmp_path: Path) -> None:
        """From each thread's tenth write on, the disk hangs for a minute."""
        session = traced(place, tmp_path / "x.mcpcap", "write:delay_enter=60s:when=10+", server=peer("echo", "--raw"))
        trips(session, 30)
        recorder = recorder_of(session)
        # strace waits out its minute, even if the thread is gone.
        with killed_at_the_end(session.pid):
            session.close_stdin()
            wait_until(lambda: not is_alive(recorder), "the recorder to end, before strace lets go of it", 50)
            assert session.process.stderr is not None
            errors = session.process.stderr.fileno()
            told = re.search(rb"(\d+) records of this session are not yet in the capture", read_some(errors))
        assert told is not None
        assert len(session.frames()) + int(told[1]) >= 60

    @pytest.mark.costly("a disk that hangs for longer than the end waits for it")
    def test_a_disk_that_comes_back_after_the_end_gets_the_closing_record(self, place: Place, tmp_path: Path) -> None:
        session = traced(place, tmp_path / "x.mcpcap", "write:delay_enter=6s:when=10", server=peer("echo", "--raw"))
        trips(session, 30)
        session.close_stdin()
        assert session.end() == 0
        assert b"are not yet in the capture" in session.errors()
        capture = tmp_path / "x.mcpcap"
        wait_until(lambda: inspect(Capture(capture)).state == "complete", "the guard to complete the capture")
        assert len(session.frames()) == 60
        (close,) = members_of(capture, "close")
        assert (close["ending"], close["status"], close["totals"]["lost"]["records"]) == ("server", 0, 0)
        assert [members["event"] for members in members_of(capture, "process")] == ["spawned", "ended"]

    def test_syncs_come_once_a_second_while_something_is_written(self, place: Place, tmp_path: Path) -> None:
        session = traced(place, tmp_path / "x.mcpcap", "fstat:delay_enter=0", server=peer("echo", "--raw"))
        log = place.root / "strace"

        def talked_and_synced() -> bool:
            trips(session, 1)
            return log.read_text("latin-1").count("fdatasync(") >= 3

        wait_until(talked_and_synced, "the third sync")
        assert session.finish() == 0


@needs_strace
class TestKills:
    """A kill at a chosen call: the capture has all frames that were delivered."""

    def kill_at(self, place: Place, folder: Path, call: str) -> tuple[int, int]:
        """Kill the recorder at a call; returns how many frames were delivered, and how many of them are missing."""
        capture = folder / "x.mcpcap"
        # The delays of strace look like a disk that hangs, so chunks are rescued all the time.
        session = traced(place, capture, f"{call}:signal=SIGKILL", server=flood(400, 400, 1))
        received = session.rest()
        session.end()
        wait_until(lambda: not is_live(capture), "the guard to let go of the capture")
        delivered = received.split(b"\n")[:-1]
        if not capture.exists() or not capture.stat().st_size:
            assert not delivered
            return 0, 0
        found = inspect(Capture(capture))
        assert found.state in ("incomplete", "complete")
        recorded = [
            frame.raw for frame in assembled_items(Capture(capture)) if isinstance(frame, Frame) and frame.dir == "s2c"
        ]
        missing = len(delivered) - len(recorded[: len(delivered)])
        assert recorded[: len(delivered)] == delivered[: len(recorded)]
        return len(delivered), missing

    def kill_often(self, root: Path, calls: list[str]) -> tuple[int, int]:
        delivered = missing = 0
        for number, call in enumerate(calls):
            folder = root / f"{number}"
            folder.mkdir()
            place = Place(folder)
            one, two = self.kill_at(place, folder, call)
            delivered, missing = delivered + one, missing + two
            assert not place.clear()
        return delivered, missing

    @pytest.mark.costly("a session below strace for each write")
    def test_at_chosen_writes(self, tmp_path: Path) -> None:
        calls = [f"write:when={number}" for number in (1, 2, 3, 20, 111)] + ["flock:when=1"]
        delivered, missing = self.kill_often(tmp_path, calls)
        assert missing == 0
        assert delivered > 100

    @pytest.mark.parametrize("hangs", ["enter", "exit"])
    def test_while_a_write_hangs_what_was_handed_on_is_not_lost(self, place: Place, tmp_path: Path, hangs: str) -> None:
        """One chunk is rescued, others follow it, and then the recorder is killed.

        The thread of that chunk waits for the disk; or its write is done, and it waits for a processor.
        """
        capture = tmp_path / "x.mcpcap"
        session = traced(place, capture, f"write:delay_{hangs}=3s:when=20", server=peer("echo", "--raw"))
        recorder = recorder_of(session)
        trips(session, 60)
        before = len(session.frames())
        os.kill(recorder, signal.SIGKILL)
        session.end()
        wait_until(lambda: not is_live(capture), "the guard to complete the capture")
        assert before < 120, "the disk did not hang when it should have"
        assert [frame.raw for frame in session.frames("s2c")] == [
            b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number for number in range(60)
        ]
        assert inspect(Capture(capture)).state == "incomplete"

    @pytest.mark.soak
    @pytest.mark.timeout(3600)
    def test_at_every_write(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        delivered, missing = self.kill_often(tmp_path, [f"write:when={number}" for number in range(1, 201)])
        with capsys.disabled():
            print(f"\nkills at write 1 to 200: {delivered:,} frames delivered, {missing} missing")
        assert missing == 0

    @pytest.mark.parametrize(
        "call",
        [
            "openat",
            "flock",
            "write:when=1",
            *(pytest.param(n, marks=pytest.mark.soak) for n in ("fchmod", "write:when=2")),
        ],
    )
    def test_during_the_change_of_a_segment_both_are_readable(self, place: Place, tmp_path: Path, call: str) -> None:
        second = tmp_path / "x.2.mcpcap"
        capture = tmp_path / "x.mcpcap"
        log = place.root / "strace"
        log.touch()
        # The test kills, not strace, which would also kill the guard when it makes the same call.
        argv = [STRACE or "", "-f", "-qq", "-o", str(log), "-P", str(second), "-e", f"inject={call}:delay_enter=1s"]
        command = place.command(flood(0, 800, 1), "--ring-size", "1M", capture=capture)
        session = place.start([*argv, *command], direct=True)
        received: list[bytes] = []
        reading = threading.Thread(target=lambda: received.append(session.rest()))
        reading.start()
        name, _, when = call.partition(":when=")
        wait_until(lambda: log.read_text("latin-1").count(f"{name}(") >= int(when or 1), "the call")
        # Not earlier: as it starts, strace briefly has children of its own.
        (recorder,) = children(session.pid)
        os.kill(recorder, signal.SIGKILL)
        session.end()
        reading.join()
        delivered = received[0].split(b"\n")[:-1]
        wait_until(lambda: not is_live(capture) and not is_live(second), "the guard to let go of the capture")
        assert delivered
        found = inspect(Capture(capture))
        assert (found.state, found.missing) == ("incomplete", 0)

        def recorded() -> list[bytes]:
            frames = assembled_items(Capture(capture))
            return [frame.raw for frame in frames if isinstance(frame, Frame) and frame.dir == "s2c"]

        # Between the end of the recorder and the guard's first write to the new segment, no process holds a lock.
        wait_until(lambda: len(recorded()) >= len(delivered), "the guard to write what the recorder could not", 300)
        assert recorded()[: len(delivered)] == delivered


@needs_strace
class TestPowerLoss:
    """The machine stops: synced data is there, and of the rest any sectors, in any order."""

    SECTOR = 512

    def synced_sizes(self, log: Path) -> list[int]:
        """Returns how long the capture was at the start of each sync that succeeded.

        A call that another thread interrupts takes two lines of the log, each with the number of its thread.
        """
        size, sizes, begun = 0, list[int](), dict[str, int]()
        for line in log.read_text("latin-1").splitlines():
            thread = line.split(" ", 1)[0]
            if wrote := re.search(r"\bwrite(?:\(| resumed>).* = (\d+)$", line):
                size += int(wrote[1])
            elif re.search(r"\bfdatasync\(.*<unfinished", line):
                begun[thread] = size
            elif re.search(r"\bfdatasync(?:\(| resumed>).* = 0$", line):
                sizes.append(begun.pop(thread, size))
        return sizes

    def after(self, rng: random.Random, data: bytes, synced: int) -> bytes:
        """Returns what a disk may hold: the synced start, then sectors that were written and sectors of NULs."""
        kept = bytearray(data[: rng.randint(synced, len(data))])
        for start in range(synced - synced % self.SECTOR + self.SECTOR, len(kept), self.SECTOR):
            if rng.random() < 0.5:
                end = min(start + self.SECTOR, len(kept))
                kept[start:end] = bytes(end - start)
        return bytes(kept)

    @pytest.mark.costly("sixty syncs below strace, and a look at what each could leave")
    def test_what_was_synced_is_read_and_nothing_is_misread(self, place: Place, tmp_path: Path) -> None:
        capture = tmp_path / "x.mcpcap"
        log = place.root / "strace"
        session = traced(
            place, capture, "fstat:delay_enter=0", server=peer("echo", "--raw"), more=("--fsync", "always")
        )
        # A sync covers all that arrived while the previous one ran, so a slow machine makes few of them.
        count, until = 0, time.monotonic() + DEADLINE_S
        while len(self.synced_sizes(log)) < 60:
            trips(session, 25, count)
            count += 25
            assert time.monotonic() < until
        assert session.finish() == 0
        data = capture.read_bytes()
        sizes = [size for size in self.synced_sizes(log) if size <= len(data)]
        assert len(sizes) >= 50
        offsets = {record.seq: record.line for record in whole_records(capture)}
        rng = random.Random(7)
        for number in range(100):
            synced = rng.choice(sizes)
            lost = tmp_path / f"lost-{number}.mcpcap"
            lost.write_bytes(self.after(rng, data, synced))
            found = [item for item in Capture(lost) if isinstance(item, Record)]
            assert all(record.line == offsets[record.seq] for record in found)
            assert len(found) >= data.count(b"\n", 0, synced)
            lost.unlink()


class TestRing:
    """The segments of real sessions."""

    @pytest.mark.costly("several segments of frames, twice")
    def test_no_frame_is_lost_or_doubled_at_the_borders(self, place: Place) -> None:
        session = place.start(flood(5_000, 2_000), "--ring-size", "1G")
        assert len(session.rest()) == 10_000_000
        assert session.finish() == 0
        small = place.start(flood(5_000, 2_000), "--ring-size", "4M")
        assert len(small.rest()) == 10_000_000
        assert small.finish() == 0
        assert small.capture is not None
        found = inspect(Capture(small.capture))
        assert (found.state, found.missing, found.repeated) == ("complete", 0, 0)
        assert found.first_seq
        assert Capture(small.capture).size <= (4 << 20) + (64 << 10)
        assert len(Capture(small.capture).segments) > 2
        ours, theirs = [frame.raw for frame in session.frames("s2c")], [frame.raw for frame in small.frames("s2c")]
        assert ours[-len(theirs) :] == theirs
        # Three of four segments are closed, and only what exceeds the ring is deleted. On a busy machine, records that
        # had to wait are written in one go: then a segment, and what is deleted with it, is larger.
        assert Capture(small.capture).size > 2 << 20


class TestBehindItsBack:
    """The file is removed, renamed or truncated while it is written."""

    @pytest.mark.parametrize("how", ["removed", "replaced", "truncated"])
    def test_it_is_told_and_traffic_goes_on(self, place: Place, how: str) -> None:
        session = place.start(peer("echo", "--raw"))
        path = session.capture
        assert path is not None
        trips(session, 5)
        if how == "truncated":
            os.truncate(path, 100)
        else:
            path.unlink()
        if how == "replaced":
            path.touch()
        assert session.process.stderr is not None
        told: list[bytes] = []
        reading = threading.Thread(target=lambda: told.append(os.read(session.process.stderr.fileno(), 4096)))  # type: ignore[union-attr]
        reading.start()

        def is_told() -> bool:
            trips(session, 1)
            return not reading.is_alive()

        wait_until(is_told, "the recorder to tell")
        assert b"was %b while being written" % how.encode() in told[0]
        trips(session, 5)
        assert session.finish() == 0


class TestClock:
    """The wall clock is set while a session runs."""

    def test_order_and_durations_do_not_notice(self, place: Place, tmp_path: Path) -> None:
        bent = """
import itertools, time
steps, real = itertools.cycle((-3600, 3600, 86400)), time.time_ns
time.time_ns = lambda: real() + next(steps) * 10**9
time.time = lambda: time.time_ns() / 1e9
"""
        (tmp_path / "sitecustomize.py").write_text(bent)
        environment = {**place.environment, "PYTHONPATH": str(tmp_path)}
        session = place.start(peer("echo", "--raw"), "--ring-size", "1M", environment=environment)
        trips(session, 50)
        assert session.finish() == 0
        assert session.capture is not None
        (opened,) = members_of(session.capture, "header")
        assert abs(opened["wall_ns"] - time.time_ns()) > 1000 * 10**9, "the clock was not bent"
        stamps = [record.t_ns for record in whole_records(session.capture)]
        assert stamps == sorted(stamps)
        assert 0 < stamps[-1] < 3600 * 10**9
        assert verify(session.capture)[0] == 0
        shown = mcpproxy("show", session.capture, "--time", "delta")
        assert shown.returncode == 0
        assert b"+-" not in shown.stdout


class TestKey:
    """The key used for hashes."""

    def test_many_first_starts_agree_on_one_that_is_private_and_in_no_capture(self, place: Place) -> None:
        environment = {**place.environment, "TOKEN": "canary"}
        sessions = [place.start(["true"], environment=environment) for _ in range(5)]
        assert [session.finish() for session in sessions] == [0] * 5
        key = (place.root / "config/mcpproxy/key").read_bytes()
        assert len(key) == 32
        assert [path.name for path in (place.root / "config/mcpproxy").iterdir()] == ["key"]
        assert (place.root / "config/mcpproxy/key").stat().st_mode & 0o777 == 0o600
        hashes = set()
        for session in [*sessions, _finished(place.start(["true"], environment=environment))]:
            assert session.capture is not None
            data = session.capture.read_bytes()
            assert key not in data
            assert key.hex().encode() not in data
            (header,) = members_of(session.capture, "header")
            hashes.add(header["env"]["TOKEN"])
            assert header["redactions"] == ["argv", "env"]
        assert len(hashes) == 1

    def test_without_a_place_for_it_recording_goes_on_and_says_so(self, place: Place) -> None:
        (place.root / "config").write_bytes(b"a file, no directory")
        session = place.start(["true"])
        assert session.finish() == 0
        assert session.capture is not None
        (header,) = members_of(session.capture, "header")
        assert header["redactions"] == ["argv", "env", "key-not-kept"]


def _finished(session: Session) -> Session:
    assert session.finish() == 0
    return session


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_weather_over_real_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Limits come and go at random while a server floods: delivered = recorded + counted as lost."""
    rng = random.Random(1)
    delivered = recorded = lost = 0
    for number in range(60):
        place = Place(tmp_path / f"{number}")
        place.root.mkdir()
        session = place.start(
            flood(20_000, rng.choice([100, 900, 3000]), 16), preexec_fn=limit_files(rng.randrange(70_000, 4 << 20))
        )
        hearing: list[bytes] = []
        thread = threading.Thread(target=lambda: hearing.append(session.rest()))  # noqa: B023 - joined below
        thread.start()
        while thread.is_alive():
            thread.join(rng.random() / 5)
            size = rng.choice([resource.RLIM_INFINITY, rng.randrange(70_000, 30 << 20)])
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(session.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        with contextlib.suppress(ProcessLookupError):
            lift_limit(session.pid)
        assert session.finish() == 0
        assert session.capture is not None
        one, two = recorded_and_lost(session.capture, "s2c")
        assert hearing[0].count(b"\n") == 20_000
        if members_of(session.capture, "close"):
            assert one + two == 20_000
        delivered, recorded, lost = delivered + 20_000, recorded + one, lost + two
        assert not place.clear()
    with capsys.disabled():
        print(f"\nsessions 60: frames delivered {delivered:,}, recorded {recorded:,}, counted lost {lost:,}")
