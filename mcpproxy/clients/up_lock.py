"""Locks a file while `mcpproxy up` is running, and publishes in it the ports on which `up` listens.

A port that accepts connections does not show that `up` is running, because another program may have taken it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_FILE_NAME: Final = "up.lock"
_MAX_LOCK_FILE_BYTES: Final = 1 << 20
_POLL_INTERVAL_S: Final = 0.05
"""The interval at which to check the lock while waiting."""
_MAX_TRIES: Final = 5
"""The maximum number of attempts to read the file, which may be in the middle of a rewrite."""


class AlreadyRunning(Exception):
    """Another `mcpproxy up` is running; the text gives its process id."""


class UpLock:
    """The lock of this process."""

    def __init__(self, folder: Path) -> None:
        """Acquire the lock.

        Raises:
            AlreadyRunning: another process holds it.
            OSError: the file cannot be created.
        """
        import fcntl  # missing on Windows, where `up` cannot run yet

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Read and write, so that opening never blocks, even if the file is a pipe.
        self._fd = os.open(folder / _FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read_lock(self._fd)
            os.close(self._fd)
            raise AlreadyRunning(
                f"mcpproxy up is already running{f', as process {other.pid}' if other else ''}"
            ) from None
        self.publish_ports(())

    def publish_ports(self, ports: Iterable[int]) -> None:
        """Write the ports on which this process listens into the file."""
        data = json.dumps({"pid": os.getpid(), "ports": sorted(ports)}).encode()
        with suppress(OSError):  # on a full disk, for example, other commands do not see the ports; nothing else fails
            os.pwrite(self._fd, data, 0)
            os.ftruncate(self._fd, len(data))


class RunningUp(NamedTuple):
    """The `mcpproxy up` that is running."""

    pid: int
    ports: frozenset[int]
    """The ports on which it listens."""


def running_up(folder: Path) -> RunningUp | None:
    """Returns the `mcpproxy up` that is running, or None."""
    try:
        import fcntl

        # A check must not create the file.
        fd = os.open(folder / _FILE_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_lock(fd) or RunningUp(0, frozenset())
    except OSError:
        return None
    else:
        return None
    finally:
        os.close(fd)


def wait_until_listening(folder: Path, ports: Collection[int], within_s: float) -> RunningUp | None:
    """Wait until the running `mcpproxy up` listens on these ports, or until time is up; returns it, or None."""
    deadline_s = time.monotonic() + within_s
    while True:
        up = running_up(folder)
        if up is None or up.ports.issuperset(ports) or time.monotonic() >= deadline_s:
            return up
        time.sleep(_POLL_INTERVAL_S)


def _read_lock(fd: int) -> RunningUp | None:
    for _ in range(_MAX_TRIES):
        try:
            stored_data = json.loads(os.pread(fd, _MAX_LOCK_FILE_BYTES, 0))
            ports = frozenset(port for port in stored_data["ports"] if type(port) is int)
            return RunningUp(int(stored_data["pid"]), ports)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return None
