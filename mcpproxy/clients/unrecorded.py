"""The routed servers that run unrecorded now, found by the notes of their `run`, or else by the processes."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator

from captures.paths import user_home
from mcpproxy.clients.wrapper import is_recorder, routed
from mcpproxy.recorder.unrecorded import Note, notes
from mcpproxy.relay.processes import process_table
from mcpproxy.wording.units import local_time

_PROC = "/proc"
_NS = 1_000_000_000
_STARTING_NS = 5 * _NS
"""How long a recorder may take to create its capture on a busy machine."""


def unrecorded() -> list[Note]:
    """Returns every server of this user that runs without a capture, oldest first."""
    known = list(notes())
    pids = {note.pid for note in known}
    found = [note for note in _without_note() if note.pid not in pids]
    return sorted(known + found, key=lambda note: note.since_ns)


def note_text(note: Note) -> str:
    """Returns a note as a sentence; it holds untrusted text."""
    why = note.why or "the reason is not known"
    return f"{note.name} has been running unrecorded since {local_time(note.since_ns)} (process {note.pid}): {why}"


def _without_note() -> Iterator[Note]:
    """Yields the processes of mcpproxy that may run a server unrecorded, and have no capture open.

    If the runtime directory cannot be written to either, nothing else shows them.
    """
    table = process_table()
    passing = {pid: name for pid in table if (name := _passing(pid)) is not None}
    recording = {_recorder(pid, table, passing) for pid in passing if _records(pid)}
    for pid, name in passing.items():
        if pid == _recorder(pid, table, passing) and pid not in recording:
            since_ns = _started_ns(table[pid][1])
            if since_ns is not None and time.time_ns() - since_ns > _STARTING_NS:
                yield Note(pid, name, since_ns, "")


def _recorder(pid: int, table: dict[int, tuple[int, str]], passing: Container[int]) -> int:
    """The first of a chain of such processes: the guard, a child of `run`, has the same command line."""
    seen = {pid}
    while (parent := table[pid][0]) in passing and parent not in seen:
        seen.add(pid := parent)
    return pid


def _passing(pid: int) -> str | None:
    """The name of the server, if a process is a `mcpproxy run` that passes traffic on when it cannot record.

    A launcher that has such a command among its arguments does not count.
    """
    try:
        if os.stat(f"{_PROC}/{pid}").st_uid != os.getuid():
            return None
        with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).split(b"\0")
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            variables = [os.fsdecode(word).partition("=") for word in file.read().split(b"\0")]
        if user_home({name: value for name, _, value in variables}) != user_home():
            return None  # this is not about the clients of this home directory
    except OSError:
        return None
    arguments = [os.fsdecode(word) for word in words]
    found = routed(arguments) if is_recorder(arguments) else None
    return found.name or "a server" if found is not None and found.passes else None


def _records(pid: int) -> bool:
    """Whether a process has a capture open; also True if the system does not show it."""
    try:
        for fd in os.listdir(f"{_PROC}/{pid}/fd"):
            try:
                if ".mcpcap" in os.readlink(f"{_PROC}/{pid}/fd/{fd}"):
                    return True
            except OSError:
                continue
    except OSError:
        return True
    return False


def _started_ns(start: str) -> int | None:
    """When a process started, in nanoseconds since 1970, from the system's count of ticks since the boot."""
    try:
        with open(f"{_PROC}/stat", "rb") as file:
            boot_s = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
        return boot_s * _NS + int(start) * _NS // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration):
        return None
