"""Replaces a configuration file: whole or not at all, and never over a change that another program has just made.

Promises:
- At every moment, the file has the old bytes or the new ones, even if the process is killed.
- Mode, owner, group, extended attributes and a symbolic link to the file stay.
- A file that changed since it was read is not written.
"""

from __future__ import annotations

import glob
import os
import stat
from contextlib import suppress
from pathlib import Path

from mcpproxy.clients.documents.document import read_file


class FileChanged(Exception):
    """The file has changed since it was read."""


class NotWritable(Exception):
    """The file cannot be replaced; the text says why."""


def replace(path: Path, old: bytes, new: bytes) -> None:
    """Replace a file's content with new bytes.

    Args:
        path: the file; a link is followed.
        old: the content that was read from it.
        new: its new content.

    Raises:
        Changed: its content has changed since.
        NotWritable: it is read-only, has several hard links, or the system refuses.
    """
    try:
        real = path.resolve(strict=True)
        status = real.stat()
    except OSError as error:
        raise NotWritable(error.strerror or str(error)) from None
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise NotWritable("it is read-only")
    if status.st_nlink > 1:
        raise NotWritable("it has several hard links, and a new file would break them")
    beside = real.parent / f".{real.name}.{os.urandom(4).hex()}.mcpproxy"
    try:
        remove_leftovers(real)
        _write(beside, new, real, status)
        if read_file(real) != old:
            raise FileChanged
        os.replace(beside, real)
        _sync_directory(real.parent)
    except OSError as error:
        raise NotWritable(error.strerror or str(error)) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that a killed process left next to a file. The caller has locked the records."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.mcpproxy"):
        left.unlink(missing_ok=True)


def create(path: Path, data: bytes) -> None:
    """Write one of mcpproxy's private files, whole or not at all, replacing an older one if there is one.

    Raises:
        OSError: the system refuses.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        _write(beside, data, None, None)
        os.replace(beside, path)
        _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _write(path: Path, data: bytes, like: Path | None, status: os.stat_result | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None and status is not None:
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, status.st_uid, status.st_gid)
            _copy_attributes(like, fd)
            os.fchmod(fd, stat.S_IMODE(status.st_mode))
        os.fsync(fd)


def _copy_attributes(like: Path, fd: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(like):
        # Only the system may set some attributes, such as those of SELinux.
        with suppress(OSError):
            os.setxattr(fd, name, os.getxattr(like, name))


def _sync_directory(folder: Path) -> None:
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
