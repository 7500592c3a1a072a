"""Server process: what the process of a server is doing, from /proc or, on systems without it, from `ps`.

The pid comes from a capture, which may contain anything. So it only selects what is read: nothing is ever signalled,
and a process with another start time than the recorded one is another process. Reading can take a moment, so it belongs
in a thread.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

State: TypeAlias = Literal["running", "sleeping", "blocked", "stopped", "traced", "zombie", "gone"]

MAX_DESCENDANTS: Final = 100
"""The maximum number of descendants of a process that are looked at."""
MAX_FILE_BYTES: Final = 4096
"""How many bytes of a file in /proc are read."""
PS_LIMIT_S: Final = 2.0
"""How long `ps` may take."""
_MAX_PID: Final = 1 << 31
_NS_PER_S: Final = 1_000_000_000
_STATES: Final[dict[str, State]] = {
    "R": "running",
    "S": "sleeping",
    "I": "sleeping",
    "D": "blocked",
    "U": "blocked",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "X": "gone",
}
"""The states by the letters of Linux; `U` is the one of macOS for a process that is blocked."""
_NO_CHANNELS: Final = frozenset({"", "0", "-"})


class RecordedProcess(NamedTuple):
    """A process as a capture names it; its start time tells it from a later process with the same pid."""

    pid: int
    start: str


class ProcessState(NamedTuple):
    """What a process is doing."""

    pid: int
    name: str
    """Untrusted."""
    state: State
    wait_channel: str = ""
    """The function of the kernel in which it sleeps; empty if unknown."""
    processor_ns: int = 0
    """How much processor time it has used, to a hundredth of a second; 0 if unknown."""


class UnknownState(NamedTuple):
    """The state of a process that cannot be determined."""

    reason: str


def recorded_process(members: Mapping[str, Any]) -> RecordedProcess | None:
    """Returns the process that a `process` record names, or None if it has none, or says that the process has ended."""
    pid, start = members.get("pid"), members.get("start")
    is_valid = type(pid) is int and 0 < pid < _MAX_PID and isinstance(start, int | str)
    return RecordedProcess(pid, str(start)) if is_valid and members.get("event") == "spawned" else None  # type: ignore[arg-type] # valid


def server_states(
    process: RecordedProcess, header: Mapping[str, Any], proc: Path = Path("/proc")
) -> list[ProcessState] | UnknownState:
    """Returns what a server's process is doing and, if it has started others, the youngest of these as well.

    A launcher such as `npx` only waits for the program that it has started.

    Args:
        process: the process.
        header: the header of the capture, which names the boot and the ancestors of the recorder.
        proc: the folder in which Linux shows its processes.
    """
    if not (proc / "self/stat").exists():
        return _states_from_ps(process)
    boot, own_boot = header.get("boot_id"), _text(proc / "sys/kernel/random/boot_id")
    if isinstance(boot, str) and own_boot and boot != own_boot:
        return UnknownState("it runs on another machine")
    stat = _stat(proc, process.pid)
    if stat is None or stat.start != process.start:
        if not _sees_recorder(proc, header):
            return UnknownState("it runs where its processes cannot be seen from here, as in a container")
        return [ProcessState(process.pid, "", "gone")]
    states = [_state(proc, stat)]
    youngest = max(_descendants(proc, process.pid), key=lambda child: (int(child.start), child.pid), default=None)
    return states if youngest is None else [*states, _state(proc, youngest)]


class _Stat(NamedTuple):
    """What `/proc/PID/stat` says."""

    pid: int
    name: str
    letter: str
    start: str
    processor_ns: int


def _stat(proc: Path, pid: int) -> _Stat | None:
    """Returns a process, or None if there is none with this pid."""
    # The second field is a name in parentheses, which may itself contain parentheses, so the last one counts.
    head, _, rest = _text(proc / str(pid) / "stat").rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or not all(field.isdigit() for field in (*fields[11:13], fields[19])):
        return None
    ticks = int(fields[11]) + int(fields[12])
    return _Stat(pid, head.partition("(")[2], fields[0], fields[19], ticks * _NS_PER_S // os.sysconf("SC_CLK_TCK"))


def _state(proc: Path, stat: _Stat) -> ProcessState:
    state = _STATES.get(stat.letter, "running")
    channel = _text(proc / str(stat.pid) / "wchan")
    return ProcessState(stat.pid, stat.name, state, "" if channel in _NO_CHANNELS else channel, stat.processor_ns)


def _descendants(proc: Path, pid: int) -> Iterator[_Stat]:
    """Yields processes that a process has started, directly or not; none if the kernel does not list them."""
    pending, seen = [pid], {pid}
    while pending and len(seen) <= MAX_DESCENDANTS:
        parent = pending.pop()
        for child in _text(proc / str(parent) / "task" / str(parent) / "children").split()[:MAX_DESCENDANTS]:
            if child.isdigit() and int(child) not in seen:
                seen.add(int(child))
                pending.append(int(child))
                stat = _stat(proc, int(child))
                if stat is not None:
                    yield stat


def _sees_recorder(proc: Path, header: Mapping[str, Any]) -> bool:
    """Whether one of the processes that started the recorder is visible: then the server's would be, too."""
    parents = header.get("parents")
    for parent in parents[:16] if isinstance(parents, list) else ():
        pid, start = (parent.get("pid"), parent.get("start")) if isinstance(parent, dict) else (None, None)
        if type(pid) is int and 0 < pid < _MAX_PID:
            stat = _stat(proc, pid)
            if stat is not None and stat.start == str(start):
                return True
    return False


def _text(path: Path) -> str:
    """Returns the beginning of a file in /proc, or an empty text if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _states_from_ps(process: RecordedProcess) -> list[ProcessState] | UnknownState:
    """Returns the state of a process from POSIX `ps`, without its descendants."""
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-o", "comm=", "-p", str(process.pid)]
    try:
        output = subprocess.run(
            command,
            capture_output=True,
            timeout=PS_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return UnknownState("`ps` cannot be run")
    letters, _, rest = output.decode("utf-8", "replace").strip().partition(" ")
    words = rest.split()
    if not letters or " ".join(words[:5]) != " ".join(process.start.split()):
        return [ProcessState(process.pid, "", "gone")]
    name = " ".join(words[5:]).rpartition("/")[2]
    return [ProcessState(process.pid, name, _STATES.get(letters[0], "running"))]
