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
from pathlib import Path
from typing import BinaryIO, Final

from captures.leftovers import claim, sweep
from mcpproxy.shipping.destination import Broken, CannotShip, Entry, Stored

_PRIVATE: Final = ".mcpproxy-ship-"
_LOCK: Final = ".mcpproxy-lock"
_OF_ONE: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY})
"""The errors of the system if something that is not a file has a name, or a file is in the place of a folder."""


class Folder:
    """A directory as a destination; it is created if it does not exist."""

    def __init__(self, root: Path) -> None:
        """Create the directory, and a private one in it for files that are being written.

        Raises:
            CannotShip: it cannot be created or written to.
        """
        self.root = root
        self.shown = str(root)
        with self._told("write to", ""):
            _make(root)
            sweep(root, _PRIVATE)
            self._private = root / f"{_PRIVATE}{os.urandom(8).hex()}"
            self._private.mkdir(mode=0o700)
            self._claim = claim(self._private)

    def close(self) -> None:
        """Remove the private directory."""
        shutil.rmtree(self._private, ignore_errors=True)
        os.close(self._claim)

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in place of the file that has it."""
        with file.open("rb") as source:
            self._put(name, lambda target: shutil.copyfileobj(source, target, 1 << 20))

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""
        self._put(name, lambda target: target.write(data))

    def replace(self, name: str, data: bytes, before: Stored | None) -> bool:
        """Put a small file if the name still has what was read before; a lock keeps others out."""
        with self._told("write", name), self._locked():
            now = self.read(name)
            if (now and now.data) != (before and before.data):
                return False
            self.write(name, data)
            return True

    def read(self, name: str) -> Stored | None:
        """A small file; None if there is none of this name."""
        with self._told("read", name):
            try:
                return Stored((self.root / name).read_bytes(), None)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def fetch(self, name: str, file: Path) -> bool:
        """Copy a file to a new local one; returns whether there is one of this name."""
        with self._told("read", name):
            try:
                shutil.copyfile(self.root / name, file)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none of this name."""
        with self._told("read", name):
            try:
                status = (self.root / name).stat()
                return status.st_size if stat.S_ISREG(status.st_mode) else None
            except (FileNotFoundError, NotADirectoryError):
                return None

    def entries(self, folder: str) -> Iterator[Entry]:
        """The files below a folder."""
        for below, folders, names in os.walk(self.root / folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(below, name)
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield Entry(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime)

    def delete(self, name: str) -> None:
        """Delete a file, and sync the deletion."""
        with self._told("delete", name), suppress(FileNotFoundError, NotADirectoryError):
            (self.root / name).unlink()
            _sync((self.root / name).parent)

    def _put(self, name: str, fill: Callable[[BinaryIO], object]) -> None:
        target = self.root / name
        with self._told("write", name):
            _make(target.parent)
            beside = self._private / os.urandom(8).hex()
            try:
                fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb") as file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(beside, target)  # the tests kill at this audit event
            finally:
                beside.unlink(missing_ok=True)
            _sync(target.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _told(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = Broken if name and error.errno in _OF_ONE and self.root.is_dir() else CannotShip
            raise kind(f"cannot {what} {self.root / name}: {error.strerror or error}") from error


def _make(folder: Path) -> None:
    """Create a directory and its missing parents, all private, and sync each."""
    for ancestor in [*reversed(folder.parents), folder]:
        if not ancestor.is_dir():
            ancestor.mkdir(mode=0o700, exist_ok=True)
            _sync(ancestor.parent)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems sync no directories
            os.fsync(fd)
    finally:
        os.close(fd)
