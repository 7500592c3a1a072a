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

from captures.stale_files import lock_temporary, remove_stale
from mcpproxy.shipping.destination import (
    MAX_SMALL_FILE_BYTES,
    BrokenFile,
    CannotShip,
    StoredContent,
    StoredObject,
    unusable_file_error,
)

_PRIVATE_PREFIX: Final = ".mcpproxy-ship-"
_LOCK_NAME: Final = ".mcpproxy-lock"
_CHUNK_BYTES: Final = 1 << 20
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_LINK_PROBLEM: Final = "a symbolic link, which is not followed"
_ONE_FILE_ERRORS: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY})
"""The errors of the system if a name belongs to something other than a file, or a folder's name belongs to a file."""


class Folder:
    """A directory as a destination; it is created if it does not exist.

    It may be a link. Below it, no link is followed: others who may write there could point a link anywhere.
    """

    def __init__(self, root: Path) -> None:
        """Create the directory, and a private one in it for files that are being written.

        Raises:
            CannotShip: the directory cannot be created or written to.
        """
        self.root = root
        self.display_name = str(root)
        with self._translated_errors("write to", ""):
            _make_directory(root)
            remove_stale(root, _PRIVATE_PREFIX)
            self._private = root / f"{_PRIVATE_PREFIX}{os.urandom(8).hex()}"
            self._private.mkdir(mode=0o700)
            self._private_fd = lock_temporary(self._private)
            self._root_fd = os.open(root, _DIRECTORY_FLAGS)

    def close(self) -> None:
        """Remove the private directory."""
        shutil.rmtree(self._private, ignore_errors=True)
        os.close(self._private_fd)
        os.close(self._root_fd)

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in place of the file that has it."""
        with file.open("rb") as source:
            self._write_file(name, lambda target: shutil.copyfileobj(source, target, _CHUNK_BYTES))

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""
        self._write_file(name, lambda target: target.write(data))

    def replace(self, name: str, data: bytes, expected: StoredContent | None) -> bool:
        """Put a small file, under a lock, if the name still has this content; returns whether it was put."""
        with self._translated_errors("write", name), self._locked():
            current = self.read(name)
            if (current and current.data) != (expected and expected.data):
                return False
            self.write(name, data)
            return True

    def read(self, name: str) -> StoredContent | None:
        """Returns a small file, or None if there is no file of this name."""
        with self._translated_errors("read", name), self._opened_file(name) as file:
            if file is None:
                return None
            data = file.read(MAX_SMALL_FILE_BYTES + 1)
            if len(data) > MAX_SMALL_FILE_BYTES:
                raise unusable_file_error(self.root / name, "larger than any manifest")
            return StoredContent(data, None)

    def fetch(self, name: str, file: Path, size: int) -> bool:
        """Copy a file to a new local one; returns whether there is a file of this name and size."""
        with self._translated_errors("read", name), self._opened_file(name) as source:
            if source is None or os.fstat(source.fileno()).st_size != size:
                return False
            with file.open("wb") as target:
                bytes_left = size
                while chunk := source.read(min(bytes_left, _CHUNK_BYTES)):
                    bytes_left -= target.write(chunk)
            return True

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no file of this name."""
        folder, _, file_name = name.rpartition("/")
        with self._translated_errors("read", name):
            try:
                with self._opened_folder(folder) as fd:
                    status = os.stat(file_name, dir_fd=fd, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return status.st_size if stat.S_ISREG(status.st_mode) else None

    def entries(self, folder: str) -> Iterator[StoredObject]:
        """Yields the files in a folder and its subfolders."""
        with (
            self._translated_errors("list", folder),
            suppress(FileNotFoundError, NotADirectoryError),
            self._opened_folder(folder) as folder_fd,
        ):
            for subfolder, folders, names, fd in os.fwalk(".", dir_fd=folder_fd):
                folders[:] = [name for name in folders if not name.startswith(".") and subfolder == "."]
                for name in names:
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            path = PurePosixPath(folder, subfolder, name)
                            yield StoredObject(str(path), status.st_size, status.st_mtime)

    def delete(self, name: str) -> None:
        """Delete a file, and sync the deletion."""
        folder, _, file_name = name.rpartition("/")
        with (
            self._translated_errors("delete", name),
            suppress(FileNotFoundError, NotADirectoryError),
            self._opened_folder(folder) as fd,
        ):
            os.unlink(file_name, dir_fd=fd)
            _sync(fd)

    def _write_file(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        folder, _, file_name = name.rpartition("/")
        with self._translated_errors("write", name), self._opened_folder(folder, create=True) as folder_fd:
            temporary_name = os.urandom(8).hex()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                with open(os.open(temporary_name, flags, 0o600, dir_fd=self._private_fd), "wb") as file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                # The tests kill at this audit event.
                os.rename(temporary_name, file_name, src_dir_fd=self._private_fd, dst_dir_fd=folder_fd)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary_name, dir_fd=self._private_fd)
            _sync(folder_fd)

    @contextmanager
    def _opened_folder(self, folder: str, *, create: bool = False) -> Iterator[int]:
        """Yields the descriptor of a folder below the directory: no part of its path is a link, or can become one."""
        fd = os.dup(self._root_fd)
        try:
            path = self.root
            for part in folder.split("/"):
                path /= part
                inner_fd = _open_folder(part, fd, path, create=create)
                os.close(fd)
                fd = inner_fd
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _opened_file(self, name: str) -> Iterator[BinaryIO | None]:
        """Yields a regular file, or None if there is no file of this name."""
        folder, _, file_name = name.rpartition("/")
        try:
            with self._opened_folder(folder) as folder_fd:
                fd = os.open(file_name, _FILE_FLAGS, dir_fd=folder_fd)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise unusable_file_error(self.root / name, _LINK_PROBLEM) from error
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise unusable_file_error(self.root / name, "not a regular file")
        with open(fd, "rb") as file:
            yield file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(_LOCK_NAME, flags, 0o600, dir_fd=self._root_fd)
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
            error_class = BrokenFile if name and error.errno in _ONE_FILE_ERRORS and self.root.is_dir() else CannotShip
            raise error_class(f"cannot {what} {self.root / name}: {error.strerror or error}") from error


def _open_folder(part: str, parent: int, path: Path, *, create: bool) -> int:
    """Open a folder in another one; returns its descriptor.

    Raises:
        BrokenFile: the folder is a link.
        OSError: the folder cannot be opened or created.
    """
    if create:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=parent)
            _sync(parent)
    try:
        return os.open(part, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        # Systems differ in the error that they return for a link.
        if error.errno in _ONE_FILE_ERRORS and stat.S_ISLNK(
            os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode
        ):
            raise unusable_file_error(path, _LINK_PROBLEM) from error
        raise


def _make_directory(folder: Path) -> None:
    """Create a directory and its missing parents, all private, and sync each."""
    for ancestor in [*reversed(folder.parents), folder]:
        if not ancestor.is_dir():
            ancestor.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(ancestor.parent, _DIRECTORY_FLAGS)
            try:
                _sync(fd)
            finally:
                os.close(fd)


def _sync(fd: int) -> None:
    with suppress(OSError):  # some network file systems cannot sync directories
        os.fsync(fd)
