"""Temporary files and folders that a later command removes if the one that made them was killed.

The process that makes one holds a lock on it for as long as it runs; a kill releases the lock.
"""

import fcntl
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

YOUNG_S: Final = 60
"""The age up to which a file's maker may not have locked it yet."""


def lock_temporary(path: str | Path) -> int:
    """Lock a file or a folder that was just made; returns a descriptor, which keeps the lock until it is closed.

    Raises:
        OSError: it cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with suppress(OSError):  # a file system without locks: nothing is swept there either
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def sweep(folder: Path, prefix: str) -> None:
    """Remove what killed processes of this user have left in a folder, under names that begin with `prefix`."""
    for left in folder.glob(f"{prefix}*"):
        with suppress(OSError):
            fd = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _is_left(fd):
                    _remove(left, is_folder=stat.S_ISDIR(os.fstat(fd).st_mode))
            finally:
                os.close(fd)


def _is_left(fd: int) -> bool:
    status = os.fstat(fd)
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < YOUNG_S:
        return False
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its maker is alive
    return True


def _remove(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
