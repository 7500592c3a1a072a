"""The lock of Cline: a folder next to the file, which its processes hold while they read, change and write it.

The folder is created under another name with the owner's file in it, and then renamed: a rename onto a folder that is
not empty fails, so only one process can have it (cline/cline, sdk/packages/core/src/extensions/mcp/config-loader.ts).
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

POLL_S: Final = 0.025
STALE_S: Final = 10.0
"""The age, in seconds, from which a lock counts as left by a killed process."""
WAIT_S: Final = 15.0
ABANDONED_S: Final = 60.0
"""The age, in seconds, from which a folder that mcpproxy made and that has not become the lock counts as left by a
kill: no process waits that long.
"""
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")


class Held(Exception):
    """Another process has held the lock for too long."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file.

    Raises:
        Held: another process keeps it.
        OSError: the folder cannot be created.
    """
    token = os.urandom(8).hex()
    lock, own = path.with_name(f"{path.name}.lock"), path.with_name(f"{path.name}.lock.tmp.{token}")
    _remove_abandoned(path)
    own.mkdir()
    try:
        (own / f"owner.{token}").touch()
        until = time.monotonic() + WAIT_S
        while not _taken(own, lock):
            if time.monotonic() > until:
                raise Held
            time.sleep(POLL_S)
        try:
            yield
        finally:
            if (lock / f"owner.{token}").exists():  # another process may have broken the lock, and hold its own by now
                shutil.rmtree(lock, ignore_errors=True)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _taken(own: Path, lock: Path) -> bool:
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime > STALE_S:
            shutil.rmtree(lock, ignore_errors=True)
    try:
        os.utime(own)  # its age counts from now, not from when the wait began
        own.rename(lock)
    except OSError:
        return False
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove the old folders that killed processes of mcpproxy left next to a file, and that hold nothing else."""
    front = f"{path.name}.lock.tmp."
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            token = entry.name.removeprefix(front)
            if token == entry.name or not _TOKEN.fullmatch(token):
                continue
            with suppress(OSError):
                is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED_S
                if is_old and entry.is_dir(follow_symlinks=False) and os.listdir(entry) in ([], [f"owner.{token}"]):
                    shutil.rmtree(entry.path, ignore_errors=True)
