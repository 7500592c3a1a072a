"""A directory as a destination.

A file is written in a hidden folder, synced to the disk and renamed, and the rename is synced, too. The next shipment
removes the hidden folder of a killed process. All files are private to their owner.
"""

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from captures.stale_files import lock_temporary, sweep
from mcpproxy.shipping.destination import (
    MAX_SMALL_FILE_BYTES,
    BrokenFile,
    CannotShip,
    StoredContent,
    StoredObject,
    unusable,
)

_PRIVATE: Final = ".mcpproxy-ship-"
_LOCK: Final = ".mcpproxy-lock"
_CHUNK: Final = 1 << 20
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINK: Final = "a symbolic link, which is not followed"
_OF_ONE: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY})
"""The system's errors if a name belongs to something that is not a file, or a file is in the place of a folder."""


class Folder:
    """A directory as a destination; it is created if it does not exist.

    It may be a link. Below it, no link is followed: anyone else who may write there could lead us anywhere.
    """

    def __init__(self, root: Path) -> None:
        """Create the directory, and a private one in it for files that are being written.

        Raises:
            CannotShip: it cannot be created or written to.
        """
        self.root = root
        self.shown = str(root)
        with self._translated_errors("write to", ""):
            _make(root)
            sweep(root, _PRIVATE)
            self._private = root / f"{_PRIVATE}{os.urandom(8).hex()}"
            self._private.mkdir(mode=0o700)
            self._claim = lock_temporary(self._private)
            self._root = os.open(root, _DIRECTORY)

    def close(self) -> None:
        """Remove the private directory."""
        shutil.rmtree(self._private, ignore_errors=True)
        os.close(self._claim)
        os.close(self._root)

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in place of the file that has it."""
        with file.open("rb") as source:
            self._put(name, lambda target: shutil.copyfileobj(source, target, _CHUNK))

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""
        self._put(name, lambda target: target.write(data))

    def replace(self, name: str, data: bytes, before: StoredContent | None) -> bool:
        """Put a small file if the name still has what was read before; a lock keeps others out."""
        with self._translated_errors("write", name), self._locked():
            now = self.read(name)
            if (now and now.data) != (before and before.data):
                return False
            self.write(name, data)
            return True

    def read(self, name: str) -> StoredContent | None:
        """A small file, or None if there is no file of this name."""
        with self._translated_errors("read", name), self._opened(name) as file:
            if file is None:
                return None
            data = file.read(MAX_SMALL_FILE_BYTES + 1)
            if len(data) > MAX_SMALL_FILE_BYTES:
                raise unusable(self.root / name, "larger than any manifest")
            return StoredContent(data, None)

    def fetch(self, name: str, file: Path, size: int) -> bool:
        """Copy a file to a new local one; returns whether there is one of this name and size."""
        with self._translated_errors("read", name), self._opened(name) as source:
            if source is None or os.fstat(source.fileno()).st_size != size:
                return False
            with file.open("wb") as target:
                left = size
                while some := source.read(min(left, _CHUNK)):
                    left -= target.write(some)
            return True

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no file of this name."""
        folder, _, last = name.rpartition("/")
        with self._translated_errors("read", name):
            try:
                with self._folder(folder) as fd:
                    status = os.stat(last, dir_fd=fd, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return status.st_size if stat.S_ISREG(status.st_mode) else None

    def entries(self, folder: str) -> Iterator[StoredObject]:
        """The files in a folder and in the folders there."""
        with (
            self._translated_errors("list", folder),
            suppress(FileNotFoundError, NotADirectoryError),
            self._folder(folder) as top,
        ):
            for below, folders, names, fd in os.fwalk(".", dir_fd=top):
                folders[:] = [name for name in folders if not name.startswith(".") and below == "."]
                for name in names:
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            path = PurePosixPath(folder, below, name)
                            yield StoredObject(str(path), status.st_size, status.st_mtime)

    def delete(self, name: str) -> None:
        """Delete a file, and sync the deletion."""
        folder, _, last = name.rpartition("/")
        with (
            self._translated_errors("delete", name),
            suppress(FileNotFoundError, NotADirectoryError),
            self._folder(folder) as fd,
        ):
            os.unlink(last, dir_fd=fd)
            _sync(fd)

    def _put(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        folder, _, last = name.rpartition("/")
        with self._translated_errors("write", name), self._folder(folder, create=True) as target:
            private = os.urandom(8).hex()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                with open(os.open(private, flags, 0o600, dir_fd=self._claim), "wb") as file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                # The tests kill at this audit event.
                os.rename(private, last, src_dir_fd=self._claim, dst_dir_fd=target)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(private, dir_fd=self._claim)
            _sync(target)

    @contextmanager
    def _folder(self, folder: str, *, create: bool = False) -> Iterator[int]:
        """A folder below the directory, as a descriptor: none of its parts is a link, and none can become one."""
        fd = os.dup(self._root)
        try:
            path = self.root
            for part in folder.split("/"):
                path /= part
                inner = _entered(part, fd, path, create=create)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO | None]:
        """A regular file, or None if there is no file of this name."""
        folder, _, last = name.rpartition("/")
        try:
            with self._folder(folder) as parent:
                fd = os.open(last, _FILE, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise unusable(self.root / name, _LINK) from error
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise unusable(self.root / name, "not a regular file")
        with open(fd, "rb") as file:
            yield file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(_LOCK, flags, 0o600, dir_fd=self._root)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _translated_errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = BrokenFile if name and error.errno in _OF_ONE and self.root.is_dir() else CannotShip
            raise kind(f"cannot {what} {self.root / name}: {error.strerror or error}") from error


def _entered(part: str, parent: int, path: Path, *, create: bool) -> int:
    """Open one folder in another.

    Raises:
        Broken: it is a link.
        OSError: it cannot be opened or created.
    """
    if create:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=parent)
            _sync(parent)
    try:
        return os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        # Systems differ in the error that they give for a link.
        if error.errno in _OF_ONE and stat.S_ISLNK(os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode):
            raise unusable(path, _LINK) from error
        raise


def _make(folder: Path) -> None:
    """Create a directory and its missing parents, all private, and sync each."""
    for ancestor in [*reversed(folder.parents), folder]:
        if not ancestor.is_dir():
            ancestor.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(ancestor.parent, _DIRECTORY)
            try:
                _sync(fd)
            finally:
                os.close(fd)


def _sync(fd: int) -> None:
    with suppress(OSError):  # some network file systems sync no directories
        os.fsync(fd)
