"""Finds the descendants of a process, and ends a process tree without ever signalling an unrelated process.

A pid together with a start time identifies a process, so a reused pid is never taken for the old process. A tree is
found by parent pids, never by process group, because the client may be in the same group.
"""

from __future__ import annotations

import os
import time

from captures.tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final
else:
    # `signal` builds enums of all signal numbers, which takes 3 ms; this module does not.
    import _signal as signal

POLL_INTERVAL_S: Final = 0.02
PROC = "/proc"
"""The folder in which Linux shows its processes."""


class Process(NamedTuple):
    """A process, identified even if its pid is reused."""

    pid: int
    start: str
    """The start time in the system's own unit, which is only compared."""


def is_sleeping_on(thread: int, fd: int) -> bool | None:
    """Returns whether a thread of this process sleeps in a system call on a descriptor, or None if that is unknown.

    A thread that sleeps in a read has finished with everything that it read before. This is certain even on a busy
    machine.

    Args:
        thread: the system's id of the thread.
        fd: the descriptor.
    """
    try:
        with open(f"{PROC}/self/task/{thread}/syscall", "rb") as file:
            words = file.read().split()
    except OSError:
        return None
    # The file contains the number of the call and its arguments; without a call, `running`, or -1 and two addresses.
    return len(words) > 3 and words[1] == b"0x%x" % fd


def process_table() -> dict[int, tuple[int, str]]:
    """Returns the parent's pid and the start time of every visible process by its pid, without zombies.

    The table is empty if the system shows the processes of another pid namespace, whose pids mean nothing here.
    """
    if not os.path.exists(f"{PROC}/self/stat"):
        return _table_from_ps()
    return _table_from_proc() if _is_own_namespace() else {}


def _is_own_namespace() -> bool:
    try:
        return os.readlink(f"{PROC}/self") == str(os.getpid())
    except OSError:
        return False


def _table_from_proc() -> dict[int, tuple[int, str]]:
    entries = ((int(name), _parent_and_start(int(name))) for name in os.listdir(PROC) if name.isdigit())
    return {pid: entry for pid, entry in entries if entry is not None}


def _parent_and_start(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The second field is a name in parentheses, which may itself contain parentheses, so the last one counts.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else (int(fields[1]), fields[19].decode())


def _table_from_ps() -> dict[int, tuple[int, str]]:
    """Returns the same table from POSIX `ps`, for systems without /proc; start times have a resolution of one second.

    The table is empty if `ps` is missing or does not support these options. Error messages of `ps` and of the shell do
    not reach the client's stderr.
    """
    command = "{ LC_ALL=C ps -A -o pid= -o ppid= -o stat= -o lstart=; } 2>/dev/null"
    with os.popen(command) as output:  # noqa: S605 - a fixed command
        rows = [line.split(None, 3) for line in output]
    return {
        int(pid): (int(parent), start.strip())
        for pid, parent, state, start in (row for row in rows if len(row) == 4)
        if pid.isdecimal() and parent.isdecimal() and not state.startswith("Z")
    }


def start_time(pid: int) -> str | None:
    """Returns the start time of a process in the system's own unit, or None if it is not alive."""
    entry = _parent_and_start(pid) if _is_own_namespace() else process_table().get(pid)
    return None if entry is None else entry[1]


def process_tree(*roots: Process) -> list[Process]:
    """Returns the roots that are alive, with all their descendants, parents first."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    pids = dict.fromkeys(root.pid for root in roots if _contains_process(table, root))
    pending_pids = list(pids)
    while pending_pids:
        new_pids = [
            pid for pid in children.get(pending_pids.pop(0), ()) if pid not in pids and pid not in (1, os.getpid())
        ]
        pids.update(dict.fromkeys(new_pids))
        pending_pids += new_pids
    return [Process(pid, table[pid][1]) for pid in pids]


def live_processes(processes: list[Process]) -> list[Process]:
    """Returns the processes that are still alive."""
    if _is_own_namespace():
        return [process for process in processes if start_time(process.pid) == process.start]
    table = process_table()
    return [process for process in processes if _contains_process(table, process)]


def _contains_process(table: dict[int, tuple[int, str]], process: Process) -> bool:
    """Returns whether a table contains this process, and not another one with its pid."""
    entry = table.get(process.pid)
    return entry is not None and entry[1] == process.start


def send_signal(processes: list[Process], signum: int) -> list[int]:
    """Send a signal to the processes that are still alive; returns the pids of those that received it."""
    signalled_pids = []
    for process in live_processes(processes):
        try:
            os.kill(process.pid, signum)
            signalled_pids.append(process.pid)
        except OSError:
            continue
    return signalled_pids


def terminate(processes: list[Process], grace_s: float) -> None:
    """Send TERM to all processes, and KILL to those that are still alive `grace_s` seconds later."""
    send_signal(processes, signal.SIGTERM)
    wait_or_kill(processes, grace_s)


def wait_or_kill(processes: list[Process], grace_s: float) -> None:
    """Wait until all processes have ended, and send KILL to those that are still alive after `grace_s` seconds."""
    deadline = time.monotonic() + grace_s
    while live_processes(processes):
        if time.monotonic() >= deadline:
            send_signal([*processes, *process_tree(*processes)], signal.SIGKILL)
            return
        time.sleep(POLL_INTERVAL_S)
