"""Replaces a configuration file atomically, and never overwrites a change that another program has just made.

Promises:
- At every moment, the file has the old bytes or the new ones, even if the process is killed.
- The mode, owner, group and extended attributes of the file stay, and so does a symbolic link to it.
- A file that has changed since it was read is not replaced.
"""

from __future__ import annotations

import glob
import os
import stat
from contextlib import suppress
from pathlib import Path

from mcpproxy.clients.documents.document import read_file


class FileChanged(Exception):
    """The file has changed since its content was read."""


class NotWritable(Exception):
    """The file cannot be replaced; the text says why."""


def replace_content(path: Path, old: bytes, new: bytes) -> None:
    """Replace the content of a file.

    Args:
        path: the file; a link is followed.
        old: the content that was read from the file.
        new: the new content.

    Raises:
        FileChanged: the content has changed since it was read.
        NotWritable: the file is read-only or has several hard links, or the system refuses.
    """
    try:
        real_path = path.resolve(strict=True)
        status = real_path.stat()
    except OSError as error:
        raise NotWritable(error.strerror or str(error)) from None
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise NotWritable("it is read-only")
    if status.st_nlink > 1:
        raise NotWritable("it has several hard links, and a new file would break them")
    temporary_path = real_path.parent / f".{real_path.name}.{os.urandom(4).hex()}.mcpproxy"
    try:
        remove_leftovers(real_path)
        _write(temporary_path, new, real_path, status)
        if read_file(real_path) != old:
            raise FileChanged
        os.replace(temporary_path, real_path)
        _sync_directory(real_path.parent)
    except OSError as error:
        raise NotWritable(error.strerror or str(error)) from None
    finally:
        with suppress(OSError):
            temporary_path.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that a killed process left next to a file; the caller must have locked the records."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.mcpproxy"):
        leftover.unlink(missing_ok=True)


def write_private(path: Path, data: bytes) -> None:
    """Write one of mcpproxy's private files atomically; an existing file is replaced.

    Raises:
        OSError: the system refuses.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary_path = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        _write(temporary_path, data, None, None)
        os.replace(temporary_path, path)
        _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            temporary_path.unlink(missing_ok=True)


def _write(path: Path, data: bytes, original: Path | None, status: os.stat_result | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        if original is not None and status is not None:
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, status.st_uid, status.st_gid)
            _copy_attributes(original, fd)
            os.fchmod(fd, stat.S_IMODE(status.st_mode))
        os.fsync(fd)


def _copy_attributes(original: Path, fd: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(original):
        # Only the system may set some attributes, such as those of SELinux.
        with suppress(OSError):
            os.setxattr(fd, name, os.getxattr(original, name))


def _sync_directory(folder: Path) -> None:
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
