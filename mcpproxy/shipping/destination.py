"""The interface of a destination, implemented by directories and object stores.

Names are relative, with `/` between their parts. A file appears under its name when it is complete, or not at all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from captures.errors import CannotCreate, CaptureError

MAX_SMALL_FILE_BYTES: Final = 16 << 20
"""Bytes of the largest small file that is read: a manifest of 100,000 captures has 11 MB."""


class CannotShip(CannotCreate):
    """The destination cannot be read or written; the text says what was tried, and never holds a credential."""


class BrokenFile(CaptureError):
    """A file at the destination is broken, or not mcpproxy's; only what depends on it fails. The text names it."""


def unusable(where: object, what: str) -> BrokenFile:
    """The error for something that ship would not put in this place."""
    return BrokenFile(f"cannot use {where}: it is {what}; move it away, and ship again")


class StoredObject(NamedTuple):
    """A file at the destination."""

    name: str
    size: int
    modified_s: float
    """When it was written, in seconds since 1970."""
    tag: str | None = None
    """Files with the same tag have the same content; None if the destination has no tags."""


class StoredContent(NamedTuple):
    """A small file as it was read."""

    data: bytes
    version: object
    """Distinguishes this content from a later one; only the destination that returned it knows its form."""


class Destination(Protocol):
    """A place for files.

    Every method raises `CannotShip` if the place cannot be reached, read or written, and `BrokenFile` if only the file
    of this name cannot be read or written.
    """

    shown: str
    """Its name in messages."""

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in place of the file that has it."""

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""

    def replace(self, name: str, data: bytes, before: StoredContent | None) -> bool:
        """Put a small file if the name still has what was read before (None: nothing); returns whether it was put."""

    def read(self, name: str) -> StoredContent | None:
        """A small file, or None if there is no file of this name. One larger than `MAX_SMALL_FILE_BYTES` is broken."""

    def fetch(self, name: str, file: Path, size: int) -> bool:
        """Copy a file to a new local one; returns whether there is one of this name and size."""

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no file of this name."""

    def entries(self, folder: str) -> Iterator[StoredObject]:
        """The files in a folder and in the folders there, in any order; none if the folder does not exist."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
