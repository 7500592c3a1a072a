"""Finds the routed servers that are running unrecorded, by the notes of their `run` or by their processes."""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator

from captures.paths import user_home
from mcpproxy.clients.wrapper import is_recorder, wrapped_command_of
from mcpproxy.recorder.unrecorded import UnrecordedNote, read_notes
from mcpproxy.relay.processes import process_table
from mcpproxy.wording.units import local_time

_PROC = "/proc"
_NS = 1_000_000_000
_MAX_START_NS = 5 * _NS
"""How long a recorder may take to create its capture on a busy machine."""


def unrecorded_servers() -> list[UnrecordedNote]:
    """Returns every server of this user that is running without a capture, oldest first."""
    known_notes = list(read_notes())
    pids = {note.pid for note in known_notes}
    new_notes = [note for note in _notes_from_processes() if note.pid not in pids]
    return sorted(known_notes + new_notes, key=lambda note: note.since_ns)


def note_text(note: UnrecordedNote) -> str:
    """Returns a note as a sentence, which contains untrusted text."""
    reason = note.why or "the reason is not known"
    return f"{note.name} has been running unrecorded since {local_time(note.since_ns)} (process {note.pid}): {reason}"


def _notes_from_processes() -> Iterator[UnrecordedNote]:
    """Yields a note for each mcpproxy process that may run a server unrecorded and has no capture open.

    Processes are the only evidence if the runtime directory is not writable.
    """
    processes = process_table()
    passing_names = {pid: name for pid in processes if (name := _passing_server_name(pid)) is not None}
    recording_pids = {_first_recorder(pid, processes, passing_names) for pid in passing_names if _has_open_capture(pid)}
    for pid, name in passing_names.items():
        if pid == _first_recorder(pid, processes, passing_names) and pid not in recording_pids:
            since_ns = _start_time_ns(processes[pid][1])
            if since_ns is not None and time.time_ns() - since_ns > _MAX_START_NS:
                yield UnrecordedNote(pid, name, since_ns, "")


def _first_recorder(pid: int, processes: dict[int, tuple[int, str]], passing_pids: Container[int]) -> int:
    """Returns the first of a chain of such processes: the guard, a child of `run`, has the same command line."""
    seen_pids = {pid}
    while (parent := processes[pid][0]) in passing_pids and parent not in seen_pids:
        seen_pids.add(pid := parent)
    return pid


def _passing_server_name(pid: int) -> str | None:
    """Returns the name of the server if a process is a `mcpproxy run` that forwards traffic when it cannot record.

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
            return None  # the process belongs to another home directory, with other clients
    except OSError:
        return None
    arguments = [os.fsdecode(word) for word in words]
    wrapped_command = wrapped_command_of(arguments) if is_recorder(arguments) else None
    return wrapped_command.name or "a server" if wrapped_command is not None and wrapped_command.is_passing else None


def _has_open_capture(pid: int) -> bool:
    """Returns whether a process has a capture open; returns True if the system does not show its files."""
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


def _start_time_ns(start_ticks: str) -> int | None:
    """Returns the start time of a process, given in clock ticks since boot, in nanoseconds since 1970."""
    try:
        with open(f"{_PROC}/stat", "rb") as file:
            boot_s = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
        return boot_s * _NS + int(start_ticks) * _NS // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration):
        return None
