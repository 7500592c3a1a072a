"""Finds the descendants of a process, and ends a process tree without ever signalling an unrelated process.

A process is a pid together with its start time, so that a reused pid is never taken for the old one. A tree is found by
following parent pids, never by process group: the client may share ours.
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

LOOK_S: Final = 0.02
PROC = "/proc"
"""The folder in which Linux shows its processes."""


class Process(NamedTuple):
    """One process for as long as it is alive."""

    pid: int
    start: str
    """Start time as the system counts it; compared, never computed with."""


def sleeps_at(thread: int, fd: int) -> bool | None:
    """Whether one of our threads sleeps in a call on a descriptor, as in a read; None if the system does not say.

    A thread that sleeps in a read holds nothing it has read before. This is certain, however busy the machine is.

    Args:
        thread: the system's id of the thread.
        fd: the descriptor.
    """
    try:
        with open(f"{PROC}/self/task/{thread}/syscall", "rb") as file:
            words = file.read().split()
    except OSError:
        return None
    # The number of the call and its arguments; `running`, or -1 and two addresses, if it sleeps in no call.
    return len(words) > 3 and words[1] == b"0x%x" % fd


def process_table() -> dict[int, tuple[int, str]]:
    """Pid → (parent's pid, start time) of every visible process; zombies are left out.

    Empty if the system shows the processes of another pid namespace, whose numbers mean nothing here.
    """
    if not os.path.exists(f"{PROC}/self/stat"):
        return _table_from_ps()
    return _table_from_proc() if _is_proc_ours() else {}


def _is_proc_ours() -> bool:
    try:
        return os.readlink(f"{PROC}/self") == str(os.getpid())
    except OSError:
        return False


def _table_from_proc() -> dict[int, tuple[int, str]]:
    known = ((int(name), _stat(int(name))) for name in os.listdir(PROC) if name.isdigit())
    return {pid: entry for pid, entry in known if entry is not None}


def _stat(pid: int) -> tuple[int, str] | None:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The second field is a name in parentheses that may itself contain parentheses: count from the last one.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in (b"Z", b"X") else (int(fields[1]), fields[19].decode())


def _table_from_ps() -> dict[int, tuple[int, str]]:
    """The same from POSIX `ps`, for systems without /proc; start times have a resolution of one second.

    Empty if no `ps` supports this; error messages from it or from the shell are kept out of the client's stderr.
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
    """When a live process started, as the system counts it, or None if it is not alive."""
    known = _stat(pid) if _is_proc_ours() else process_table().get(pid)
    return None if known is None else known[1]


def tree(*roots: Process) -> list[Process]:
    """The processes and their descendants at this moment, parents first; without the roots that are gone."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    pids = dict.fromkeys(root.pid for root in roots if _is_in(table, root))
    waiting = list(pids)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(0), ()) if pid not in pids and pid not in (1, os.getpid())]
        pids.update(dict.fromkeys(new))
        waiting += new
    return [Process(pid, table[pid][1]) for pid in pids]


def alive(processes: list[Process]) -> list[Process]:
    """Returns the processes that are still alive."""
    if _is_proc_ours():
        return [process for process in processes if start_time(process.pid) == process.start]
    table = process_table()
    return [process for process in processes if _is_in(table, process)]


def _is_in(table: dict[int, tuple[int, str]], process: Process) -> bool:
    """Whether a table has this very process, not another one with its pid."""
    known = table.get(process.pid)
    return known is not None and known[1] == process.start


def send(processes: list[Process], signum: int) -> list[int]:
    """Signal those still alive; returns the pids that received it."""
    taken = []
    for process in alive(processes):
        try:
            os.kill(process.pid, signum)
            taken.append(process.pid)
        except OSError:
            continue
    return taken


def terminate(processes: list[Process], grace_s: float) -> None:
    """Send TERM to all, and KILL to those still alive `grace_s` seconds later."""
    send(processes, signal.SIGTERM)
    wait_or_kill(processes, grace_s)


def wait_or_kill(processes: list[Process], grace_s: float) -> None:
    """Wait until all are gone, and KILL those still alive after `grace_s` seconds."""
    until = time.monotonic() + grace_s
    while alive(processes):
        if time.monotonic() >= until:
            send([*processes, *tree(*processes)], signal.SIGKILL)
            return
        time.sleep(LOOK_S)
