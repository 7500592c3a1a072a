"""Temporary files and folders that a later command removes if their creator was killed.

The process that creates one locks it as long as it runs; a kill releases the lock.
"""

import fcntl
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MIN_STALE_AGE_S: Final = 60
"""The age up to which the creator of a file may not have locked it yet."""


def lock_temporary(path: str | Path) -> int:
    """Lock a new file or folder; return a descriptor, which keeps the lock until it is closed.

    Raises:
        OSError: the file or folder cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with suppress(OSError):  # the file system has no locks, so nothing is swept there either
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def remove_stale(folder: Path, prefix: str) -> None:
    """Remove the files and folders whose names begin with `prefix` that killed processes of this user have left."""
    for path in folder.glob(f"{prefix}*"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _is_stale(fd):
                    _remove(path, is_folder=stat.S_ISDIR(os.fstat(fd).st_mode))
            finally:
                os.close(fd)


def _is_stale(fd: int) -> bool:
    status = os.fstat(fd)
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < MIN_STALE_AGE_S:
        return False
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if the creator is still running
    return True


def _remove(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
