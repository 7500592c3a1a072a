"""Ends processes that servers leave behind and that their recorder cannot reach.

A server may fork, call `setsid` and exit, which leaves an orphaned child. On Linux, this process adopts such children,
so it can find and end them. Other systems cannot do this; there, a daemon keeps running.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36
_END_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.01


def adopt_orphans() -> None:
    """Make this process adopt orphaned descendants from now on; does nothing where the system cannot do this."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all children of this process, and those that it adopts as a result."""
    deadline_s = time.monotonic() + _END_TIMEOUT_S
    while children := list(_children()):
        for pid in children:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline_s:
            return
        time.sleep(_POLL_S)


def _children() -> Iterator[int]:
    own_pid = os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The program's name, in parentheses, may contain any character; state and parent follow it.
            if int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1]) == own_pid:
                yield int(folder.name)
