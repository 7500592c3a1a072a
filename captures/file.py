"""Creates, locks and appends to a capture file, and splits it into segments.

Promises: no existing file is overwritten and no link is followed; only whole lines stay in the file when an append
fails; a full disk still has room for the last records; the oldest closed segments are deleted when the ring is full.
The code is synchronous and single-threaded: the writer calls one method at a time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable

from captures.errors import CannotCreate
from captures.ownership import directory_movable_by_others, is_readable_by_others, refusal
from captures.paths import SUFFIX, new_name, segment_numbers, segment_of, segment_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from captures.paths import PathLike

SEGMENT_BYTES: Final = 256 << 20
RING_BYTES: Final = 1 << 30
RESERVE_BYTES: Final = 64 << 10
FLOOR_BYTES: Final = 16 << 20
FLOOR_CHECK_BYTES: Final = 4 << 20
"""How many bytes are appended between two checks of the free space."""

MAX_LOCK_ATTEMPTS: Final = 100
IGNORE_FILE: Final = ".gitignore"
"""The file that keeps a folder of captures out of git."""
IGNORE_FILE_CONTENT: Final = b"*\n"
"""The content of that file."""
_OPEN_FLAGS: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

WriteCall = Callable[[int, bytes], int]
"""`os.write`, or a test double that misbehaves on purpose."""


def create_directory(path: str) -> None:
    """Create a directory (0700) and its missing parents; a new directory for captures is kept out of git.

    Raises:
        CannotCreate: the directory cannot be created.
    """
    missing_folders = [os.path.join(path, "").rstrip(os.sep) or os.sep]
    while (parent := os.path.dirname(missing_folders[-1])) and not os.path.isdir(parent):
        missing_folders.append(parent)
    try:
        if os.path.isdir(path):
            _complete_ignore_file(missing_folders[0], alone=False)
            if parent := os.path.dirname(missing_folders[0]):
                _complete_ignore_file(parent, alone=True)
            return
        for folder in reversed(missing_folders):
            if not os.path.isdir(folder):
                make_directory(folder)
        _keep_out_of_git(_captures_directory(missing_folders))
    except OSError as error:
        raise CannotCreate(
            f"cannot make the directory {path} for captures: {error.strerror}; choose another"
        ) from error


def make_directory(path: str) -> None:
    """Create a private directory, or accept one that another process has just created.

    Raises:
        OSError: the directory cannot be created.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def _keep_out_of_git(folder: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(os.path.join(folder, IGNORE_FILE), flags, 0o600)
    except FileExistsError:
        return
    # If the disk is full, the file stays empty, which marks the folder for `_complete_ignore_file`.
    with os.fdopen(fd, "wb") as file:
        file.write(IGNORE_FILE_CONTENT)


def _complete_ignore_file(folder: str, *, alone: bool) -> None:
    """Fill the ignore file of a folder if a full disk left it empty and it is private to this user.

    Args:
        folder: the folder with captures, or its parent.
        alone: whether the folder must contain only folders; otherwise the user could have created the empty file.
    """
    try:
        fd = os.open(os.path.join(folder, IGNORE_FILE), _OPEN_FLAGS)
    except OSError:
        return
    try:
        status = os.fstat(fd)
        is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if stat.S_ISREG(status.st_mode) and not status.st_size and is_private:
            others = [entry for entry in os.scandir(folder) if entry.name != IGNORE_FILE]
            if not any(entry.name == ".git" or (alone and not entry.is_dir()) for entry in others):
                os.write(fd, IGNORE_FILE_CONTENT)
    except OSError:
        pass  # the disk may still be full
    finally:
        os.close(fd)


def _captures_directory(folders: list[str]) -> str:
    """Returns which of the new directories (innermost first) is only for captures: the innermost, or its parent."""
    return folders[min(1, len(folders) - 1)]


def choose_path(
    requested: str | None,
    default: PathLike,
    wall_ns: int,
    warn: Callable[[str], None] = lambda _: None,
    *,
    replaces: bool = False,
) -> str:
    """Returns the path of the new capture: `requested` if it is a new file, else a new name in a directory.

    Args:
        requested: a file or a directory; None for `default`.
        default: the default directory.
        wall_ns: the time now.
        warn: called with a warning if others can list the directory; the files are protected by their own modes.
        replaces: whether segments of an earlier capture may have the same name.

    Raises:
        CannotCreate: the name is not that of a capture, segments of an earlier capture have the same name, or other
            users own the directory or can write to it.
    """
    folder = os.fspath(default) if requested is None else requested
    if requested is None or requested.endswith(os.sep) or os.path.isdir(folder):
        create_directory(folder)
        _check_owner(folder, warn)
        path = os.path.join(folder, new_name(wall_ns))
        while os.path.lexists(path):
            path = os.path.join(folder, new_name(wall_ns))
        return path
    path = folder
    folder, name = os.path.split(path)
    segment = segment_of(name)
    if segment is None or segment[0] + SUFFIX != name:
        raise CannotCreate(
            f"cannot create the capture {path}: a capture's name must end in {SUFFIX} without a segment number; "
            "to name a folder, end it with /"
        )
    if not replaces and _has_other_segments(folder, segment[0]):
        raise CannotCreate(
            f"cannot create the capture {path}: an earlier capture of that name has segments there; choose another file"
        )
    _check_owner(folder or ".", lambda _: None)
    return path


def _check_owner(folder: str, warn: Callable[[str], None]) -> None:
    """Refuse a directory in which another user could remove captures or replace them.

    Raises:
        CannotCreate: the directory belongs to another user, or others can write to it.
    """
    try:
        status = os.stat(folder)
        reason = refusal(status)
        parent = directory_movable_by_others(folder)
    except OSError:  # creating the file will report the error
        return
    if reason is not None:
        raise CannotCreate(f"cannot record into {folder}: it {reason}; name a directory that only you can write to")
    if parent is not None:
        raise CannotCreate(
            f"cannot record into {folder}: {parent} is writable by everyone, who could replace what is below it; "
            "name a directory elsewhere"
        )
    if is_readable_by_others(status) and not status.st_mode & stat.S_ISVTX:
        warn(f"others can list the captures in {folder}, but not read them; to prevent that: chmod 700 {folder}")


def _has_other_segments(folder: str, stem: str) -> bool:
    try:
        return any(number > 1 for number in segment_numbers(folder or ".", stem))
    except OSError:  # creating the file will report what is wrong with the directory
        return False


class CaptureFile:
    """One capture being written, over all its segments."""

    def __init__(
        self,
        path: PathLike,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        ring_bytes: int = RING_BYTES,
        write: WriteCall = os.write,
    ) -> None:
        """Create and lock the first segment.

        Raises:
            CannotCreate: `path` exists already, or the file cannot be created.
        """
        self.path = os.fspath(path)
        self.segment = 1
        self.segment_bytes = segment_bytes
        self._ring_bytes = ring_bytes
        self._write = write
        self._sizes: dict[int, int] = {}
        self._reserve: int | None = None
        try:
            self.fd = create(self.path)
            try:
                self._make_reserve()
            except OSError:
                _discard(self.path, self.fd)
                raise
        except OSError as error:
            raise CannotCreate(f"cannot create the capture {path}: {_reason(error)}; choose another place") from error
        self.size = 0
        self.check_size = segment_bytes
        """The size at which the writer checks whether the segment or the ring is full."""
        self._next_floor_check = FLOOR_CHECK_BYTES

    def append(self, data: bytes, *, last: bool = False) -> None:
        """Append whole lines; with `last`, they may use the space that is otherwise kept free.

        Raises:
            AppendError: the append failed; a torn line has been cut away, and `written` counts the bytes of whole
                lines.
        """
        if self.size >= self._next_floor_check and not last:
            self._respect_floor()
        try:
            written = self._write(self.fd, data)
        except OSError as error:
            raise AppendError(error.errno or errno.EIO, error.strerror, 0) from error
        if written != len(data):
            self._append_rest(data, written)
        self.size += len(data)

    def _append_rest(self, data: bytes, written: int) -> None:
        """Continue after a short write."""
        try:
            while written < len(data):
                count = self._write(self.fd, data[written:])
                if not count:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += count
        except OSError as error:
            whole_bytes = data.rfind(b"\n", 0, written) + 1
            self.size += whole_bytes
            self._truncate(whole_bytes != written)
            raise AppendError(error.errno or errno.EIO, error.strerror, whole_bytes) from error

    def _truncate(self, torn: bool) -> None:
        """Truncate the file to whole lines; if even that fails, readers resynchronise after the torn line."""
        if torn:
            try:
                if os.fstat(self.fd).st_size > self.size:
                    os.ftruncate(self.fd, self.size)
            except OSError:
                return

    def _respect_floor(self) -> None:
        """Stop before the disk is full: 16 MiB or 1 % of the disk stays free, whichever is less."""
        try:
            disk = os.fstatvfs(self.fd)
        except OSError:
            self._next_floor_check = self.size + FLOOR_CHECK_BYTES
            return
        if disk.f_bavail * disk.f_frsize < min(FLOOR_BYTES, disk.f_blocks * disk.f_frsize // 100):
            raise AppendError(errno.ENOSPC, "the disk is almost full", 0)
        self._next_floor_check = self.size + FLOOR_CHECK_BYTES

    def begin_next_segment(self, ending: bytes) -> int:
        """Write the `ending` line and continue in a new file, or do neither; then delete old segments beyond the ring.

        Returns the old descriptor, to be synced and closed.

        Raises:
            OSError: the old file stays in use.
        """
        path = segment_path(self.path, self.segment + 1)
        new_fd = create(path)
        try:
            self.append(ending)
        except OSError:
            _discard(path, new_fd)
            raise
        old_fd, self.fd = self.fd, new_fd
        self._sizes[self.segment] = self.size
        self.size, self._next_floor_check = 0, FLOOR_CHECK_BYTES
        self.segment += 1
        self.trim_ring()
        return old_fd

    def trim_ring(self) -> None:
        """Delete the oldest segments beyond the ring size.

        If one cannot be deleted, later ones stay too: the capture must not have a hole.
        """
        self.check_size = self.segment_bytes
        while self._sizes and sum(self._sizes.values()) + self.size >= self._ring_bytes:
            oldest = min(self._sizes)
            try:
                os.unlink(segment_path(self.path, oldest))
            except FileNotFoundError:
                pass
            except OSError:
                return
            del self._sizes[oldest]
        self.check_size = min(self.segment_bytes, self._ring_bytes - sum(self._sizes.values()))

    def _make_reserve(self) -> None:
        """Reserve 64 KiB of the disk in an unnamed file: closing it makes room for the last records on a full disk.

        The file has no name, so a kill leaves nothing behind. It is written, not allocated, because some file systems
        only promise the space.
        """
        folder, name = os.path.split(self.path)
        path = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
        fd = create(path)
        try:
            os.unlink(path)
            if self._write(fd, bytes(RESERVE_BYTES)) != RESERVE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.close(fd)
            raise
        self._reserve = fd

    def release_reserve(self) -> bool:
        """Free the reserved space; return False if it was already free."""
        if self._reserve is None:
            return False
        os.close(self._reserve)
        self._reserve = None
        return True

    def renew_reserve(self) -> None:
        """Reserve the space again if the disk has room."""
        if self._reserve is None:
            try:
                self._make_reserve()
            except OSError:
                return

    def external_change(self) -> str | None:
        """Returns how another process has changed the file: `removed`, `replaced`, `truncated`, or None.

        This may be called while `append` runs: sizes are read before the file is checked, and a change of segment in
        between is not reported.
        """
        segment, size = self.segment, self.size
        open_status = os.fstat(self.fd)
        try:
            path_status = os.lstat(segment_path(self.path, segment))
            change = None if os.path.samestat(open_status, path_status) else "replaced"
        except FileNotFoundError:
            change = "removed"
        if open_status.st_size < size:
            change = "truncated"
        return change if self.segment == segment else None

    def close(self) -> None:
        """Release the file, the lock and the reserve."""
        self.release_reserve()
        unlock_and_close(self.fd)


class AppendError(OSError):
    """An append failed; `written` is the number of bytes of whole lines that did reach the file."""

    def __init__(self, code: int, text: str | None, written: int) -> None:
        super().__init__(code, text or os.strerror(code))
        self.written = written


def create(path: str) -> int:
    """Create and lock a new file for a segment; return its descriptor.

    Raises:
        OSError: the path exists already, or the file cannot be created.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
        _lock(fd)
    except OSError:
        _discard(path, fd)
        raise
    return fd


def _lock(fd: int) -> None:
    """Lock a new file. Another process can hold the lock only during `is_live`, and releases it soon."""
    for _ in range(MAX_LOCK_ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError as error:
            # Some network file systems have no locks. On these, a capture only seems to have ended while it is being
            # written.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            return
        else:
            return
    raise OSError(errno.EWOULDBLOCK, "another process has locked it")


def _discard(path: str, fd: int) -> None:
    """Close and remove a file that this process created, unless another file has replaced it."""
    try:
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            os.unlink(path)
    except OSError:
        return
    finally:
        os.close(fd)


def unlock_and_close(fd: int) -> None:
    """Unlock and close a segment. Closing alone would not unlock it while the guard also has it open."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError:  # the file system has no locks
        os.close(fd)
    else:
        os.close(fd)


def sync(fd: int) -> None:
    """Flush the kernel's pages of a file to the disk.

    Raises:
        OSError: the disk reported an error; pages may have been marked clean anyway, so a later success proves nothing.
    """
    getattr(os, "fdatasync", os.fsync)(fd)


def is_live(path: PathLike) -> bool:
    """Whether a recorder is still writing to this file and so holds its lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(fd)
    return False


def _reason(error: OSError) -> str:
    if error.errno == errno.EEXIST:
        return "it already exists"
    return error.strerror or str(error)
