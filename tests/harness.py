"""What tests with real processes share: directories, sessions, conditions to wait for, and processes to count.

A `Place` is one test's capture directory and configuration. `place.start(...)` runs a server behind `mcpproxy run` (or
directly, to compare) and returns a `Session`: the client's end of it. Nothing here sleeps for a fixed time:
`wait_until` and every read return as soon as they can, with a deadline far above the usual time.

Every process that a place starts, and all its descendants, carry a mark in their environment. `place.leftovers()` finds
them in any session and under any parent, and a test that leaves one behind fails (`tests/conftest.py`).
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from captures.damage import Damage
from captures.errors import NotACapture
from captures.frame import Frame
from captures.listing import find_captures
from captures.reader import Capture, assembled_items
from captures.record import Record
from captures.verdict import Direction
from tests.warm import LOADED_LATE, forks

T = TypeVar("T")

DEADLINE_S = 120.0
"""How long to wait for what takes milliseconds on a quiet machine."""
PEERS = Path(__file__).parent / "peers"
_BECOME = """
import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
exec(sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])
"""
ROOT = Path(__file__).parents[1]
MARK = "MCPPROXY_TEST_MARK"


def wait_until(condition: Callable[[], T], what: str = "", deadline_s: float = DEADLINE_S) -> T:
    """Wait for a true value of `condition`, and return it; fails at the deadline."""
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        assert waited < deadline_s, f"waited {deadline_s} s in vain for {what or condition}"
        # Some conditions read a capture or look at every process; checked too often, they slow down the awaited work.
        time.sleep(min(0.003 + waited / 10, 0.02))
    return value


def peer(name: str, *arguments: str | bytes) -> list[str | bytes]:
    """The command of a scripted server in tests/peers."""
    return [sys.executable, "-I", "-S", str(PEERS / f"{name}.py"), *arguments]


def prepared(code: str, command: Sequence[str | bytes]) -> list[str | bytes]:
    """A command that runs Python `code` in its process first: `preexec_fn` without its problems with threads.

    Signals are as a shell would pass them on, except for what `code` changes; `os`, `signal` and `sys` are imported.
    """
    return [sys.executable, "-I", "-S", "-c", _BECOME, code, *command]


class Session:
    """A started command as its client sees it: its stdin, stdout and stderr, and its end."""

    def __init__(self, process: "subprocess.Popen[bytes]", place: "Place", capture: Path | None) -> None:
        self.process = process
        self.place = place
        self.capture = capture
        """The capture that it will write; None for a direct run."""
        self._heard = bytearray()

    @property
    def pid(self) -> int:
        """The pid of the recorder, or of the server in a direct run."""
        return self.process.pid

    def send(self, data: bytes) -> None:
        """Write to its stdin."""
        assert self.process.stdin is not None
        write_all(self.process.stdin.fileno(), data)

    def close_stdin(self) -> None:
        """Close its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def receive(self, size: int) -> bytes:
        """Read exactly `size` bytes of its stdout; returns fewer only if it ends before."""
        while len(self._heard) < size and self._more():
            pass
        heard, self._heard = bytes(self._heard[:size]), self._heard[size:]
        return heard

    def line(self) -> bytes:
        """Read the next line of its stdout; returns it with its LF, or empty at the end."""
        while b"\n" not in self._heard and self._more():
            pass
        line, newline, self._heard = self._heard.partition(b"\n")
        return bytes(line + newline)

    def next_report(self) -> dict[str, Any]:
        """Read the next notification of a scripted server; returns its `params.data`."""
        line = self.line()
        assert line, f"stdout ended; stderr: {self.errors()!r}"
        data = json.loads(line)["params"]["data"]
        assert isinstance(data, dict)
        return data

    def rest(self) -> bytes:
        """Read the rest of its stdout, to the end of file."""
        while self._more():
            pass
        heard, self._heard = bytes(self._heard), bytearray()
        return heard

    def _more(self) -> bool:
        assert self.process.stdout is not None
        chunk = read_some(self.process.stdout.fileno())
        self._heard += chunk
        return bool(chunk)

    def errors(self) -> bytes:
        """Read all of its stderr, to the end of file."""
        stream = self.process.stderr
        return b"" if stream is None else b"".join(iter(lambda: read_some(stream.fileno()), b""))

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end; returns its exit status, or minus the signal that ended it."""
        return self.process.wait(deadline_s)

    def finish(self) -> int:
        """Close its stdin, and wait for its end; returns its exit status as `end` does."""
        self.close_stdin()
        return self.end()

    def records(self) -> list[Record]:
        """The records of its capture; fails if it is damaged."""
        return records(self._recorded())

    def frames(self, direction: Direction | None = None) -> list[Frame]:
        """The frames of its capture, or those of one direction."""
        return frames(self._recorded(), direction)

    def recorded(self, direction: Direction) -> bytes:
        """The bytes of one direction, from its capture."""
        return b"".join(frame.raw + frame.delim for frame in self.frames(direction))

    def _recorded(self) -> Path:
        assert self.capture is not None
        return self.capture

    def close(self) -> None:
        """Close the streams."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Place:
    """One test's own capture directory, configuration and processes."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        """Use the mcpproxy of the interpreter `python`."""
        self.root = root
        self.python = python
        self.captures = root / "captures"
        self.mark = uuid.uuid4().hex
        self.sessions: list[Session] = []
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_", "MCPPROXY_"))
        }
        self.environment |= {
            "HOME": str(root / "home"),
            "MCPPROXY_CAPTURES": str(self.captures),
            "XDG_CONFIG_HOME": str(root / "config"),
            MARK: self.mark,
        }

    def command(
        self, server: Sequence[str | bytes], *options: str, capture: Path | None = None, python: Sequence[str] = ()
    ) -> list[str | bytes]:
        """The command line that records `server`, to `capture` if one is given; `python` goes to the interpreter."""
        to = ["--capture", str(capture)] if capture is not None else []
        return [self.python, *python, "-P", "-m", "mcpproxy", "run", *to, *options, "--", *server]

    def start(
        self,
        server: Sequence[str | bytes],
        *options: str,
        direct: bool = False,
        capture: Path | None = None,
        python: Sequence[str] = (),
        before: str = "",
        environment: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        **how: Any,
    ) -> Session:
        """Start a server behind the recorder, or directly.

        Args:
            server: its command line.
            options: of `run`.
            direct: no recorder.
            capture: where to record; a new file for each session by default.
            python: options of the recorder's interpreter.
            before: Python code that prepares the process, see `prepared`.
            environment: replaces that of the place.
            how: passed to `subprocess.Popen`; three pipes by default.
        """
        if not direct and capture is None:
            capture = self.root / f"session-{len(self.sessions)}.mcpcap"
        argv = list(server) if direct else self.command(server, *options, capture=capture, python=python)
        argv = prepared(before, argv) if before else argv
        streams = {name: how.pop(name, subprocess.PIPE) for name in ("stdin", "stdout", "stderr")}
        environment = self.environment if environment is None else environment
        process = subprocess.Popen(argv, bufsize=0, env=environment, **streams, **how)
        session = Session(process, self, None if direct else capture)
        self.sessions.append(session)
        return session

    def run(self, *arguments: str, stdin: bytes = b"", **how: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run any mcpproxy command to its end, in a process that has loaded it already if only its output matters."""
        if self.python == sys.executable and not how and arguments[0] not in LOADED_LATE:
            return forks().run(arguments, stdin, None, self.environment, DEADLINE_S)
        argv = [self.python, "-P", "-m", "mcpproxy", *arguments]
        how = {"env": self.environment, "timeout": DEADLINE_S, **how}
        return subprocess.run(argv, input=stdin, capture_output=True, check=False, **how)

    def newest(self) -> Path:
        """The newest capture of the capture directory."""
        return find_captures(self.captures)[0]

    def leftovers(self) -> list[int]:
        """Living descendants, except zombies, of the processes started here, in any session and under any parent."""
        mark = f"{MARK}={self.mark}".encode()
        return [
            pid for pid in all_pids() if pid != os.getpid() and mark in _read(f"/proc/{pid}/environ") and is_alive(pid)
        ]

    def clear(self) -> list[int]:
        """End the remaining processes; returns the pids of those that the test should not have left behind."""
        for session in self.sessions:
            session.close()
        left = [pid for pid in self.leftovers() if not _is_ending(pid)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for session in self.sessions:
            session.process.wait(DEADLINE_S)
        return left


def records(path: Path) -> list[Record]:
    """All records of a capture; fails if it is damaged, except for the torn tail that a kill may leave."""
    items = list(Capture(path))
    damage = [item for item in items if isinstance(item, Damage) and item.cause != "torn"]
    assert not damage, damage
    return [item for item in items if isinstance(item, Record)]


def frames(path: Path, direction: Direction | None = None) -> list[Frame]:
    """All frames of a capture, or those of one direction, giant ones assembled."""
    found = [item for item in assembled_items(records(path)) if isinstance(item, Frame)]
    return [frame for frame in found if direction in (None, frame.dir)]


def members_of(path: Path, rec: str) -> list[dict[str, Any]]:
    """The members of all records of one type in a capture that may still be growing; none before it has a header."""
    try:
        return [item.members for item in Capture(path) if isinstance(item, Record) and item.rec == rec]
    except NotACapture:
        return []


def write_all(fd: int, data: bytes, deadline_s: float = DEADLINE_S) -> None:
    """Write all of `data` to a descriptor, blocking or not, before the deadline."""
    until = time.monotonic() + deadline_s
    left = memoryview(data)
    while left:
        assert _ready(fd, select.POLLOUT, until), f"{len(left)} bytes were not taken in {deadline_s} s"
        # A writable pipe accepts at least this much without blocking; a larger blocking write would wait for all of it.
        with contextlib.suppress(BlockingIOError):
            left = left[os.write(fd, left[: select.PIPE_BUF]) :]


def read_some(fd: int, deadline_s: float = DEADLINE_S) -> bytes:
    """Read what is available, and wait for it until the deadline; returns empty bytes at the end of file."""
    assert _ready(fd, select.POLLIN, time.monotonic() + deadline_s), f"nothing to read in {deadline_s} s"
    try:
        return os.read(fd, 1 << 20)
    except ConnectionResetError:  # a socket whose other end died with bytes unread
        return b""


def _ready(fd: int, what: int, until: float) -> bool:
    poll = select.poll()
    poll.register(fd, what)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def all_pids() -> list[int]:
    """All pids of the system; empty if there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; empty if there is no such process."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    if os.path.exists("/proc/self/stat"):
        return _stat(pid)[:1] not in ([], [b"Z"], [b"X"])
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout.strip()
    return bool(shown) and not shown.startswith(b"Z")


def _is_ending(pid: int, grace_s: float = 30.0) -> bool:
    """Wait for a process to end by itself, as the guard does a moment after the recorder; returns whether it did."""
    until = time.monotonic() + grace_s
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.003)
    return not is_alive(pid)


def children(pid: int) -> list[int]:
    """The living children of a process, zombies included."""
    return [other for other in all_pids() if _stat(other)[1:2] == [b"%d" % pid]]


def zombies_of(pid: int) -> list[int]:
    """The ended children that a process has not waited for."""
    return [other for other in children(pid) if _stat(other)[:1] == [b"Z"]]


def server_of(session: Session) -> int:
    """The pid of the server that a recorder has spawned, from the capture."""

    def spawned() -> list[dict[str, Any]]:
        assert session.capture is not None
        return [members for members in members_of(session.capture, "process") if members["event"] == "spawned"]

    return int(wait_until(spawned, "the server to be spawned", 4 * DEADLINE_S)[0]["pid"])


@contextlib.contextmanager
def killed_at_the_end(*pids: int) -> Iterator[None]:
    """Kill processes that may outlive a session, even if the test fails."""
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
