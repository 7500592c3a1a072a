"""Locks a file as Cline does: a folder next to the file exists while a process reads, changes and writes it.

The folder is created under another name with the owner's file in it, and then renamed. Renaming onto a folder that is
not empty fails, so only one process can own the lock (cline/cline,
sdk/packages/core/src/extensions/mcp/config-loader.ts).
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

POLL_INTERVAL_S: Final = 0.025
STALE_AGE_S: Final = 10.0
"""The age in seconds from which a lock is considered left by a killed process."""
MAX_WAIT_S: Final = 15.0
ABANDONED_AGE_S: Final = 60.0
"""The age in seconds from which a temporary folder of mcpproxy is considered left by a killed process.

No process waits that long for the lock.
"""
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")


class Held(Exception):
    """Another process has held the lock for too long."""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file.

    Raises:
        Held: another process has held the lock for too long.
        OSError: the folder cannot be created.
    """
    token = os.urandom(8).hex()
    lock, own_folder = path.with_name(f"{path.name}.lock"), path.with_name(f"{path.name}.lock.tmp.{token}")
    _remove_abandoned(path)
    own_folder.mkdir()
    try:
        (own_folder / f"owner.{token}").touch()
        deadline = time.monotonic() + MAX_WAIT_S
        while not _try_lock(own_folder, lock):
            if time.monotonic() > deadline:
                raise Held
            time.sleep(POLL_INTERVAL_S)
        try:
            yield
        finally:
            if (lock / f"owner.{token}").exists():  # another process may have broken the lock and acquired it since
                shutil.rmtree(lock, ignore_errors=True)
    finally:
        shutil.rmtree(own_folder, ignore_errors=True)


def _try_lock(own_folder: Path, lock: Path) -> bool:
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime > STALE_AGE_S:
            shutil.rmtree(lock, ignore_errors=True)
    try:
        os.utime(own_folder)  # the age of the lock counts from now, not from the start of the wait
        own_folder.rename(lock)
    except OSError:
        return False
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove old folders that killed mcpproxy processes left next to a file, unless they contain other files."""
    prefix = f"{path.name}.lock.tmp."
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            token = entry.name.removeprefix(prefix)
            if token == entry.name or not _TOKEN.fullmatch(token):
                continue
            with suppress(OSError):
                is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED_AGE_S
                if is_old and entry.is_dir(follow_symlinks=False) and os.listdir(entry) in ([], [f"owner.{token}"]):
                    shutil.rmtree(entry.path, ignore_errors=True)
