"""The interface of a destination, implemented by directories and object stores.

Names are relative, with `/` between their parts. A file appears under its name when it is complete, or not at all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from captures.errors import CannotCreate, CaptureError

MAX_SMALL_FILE_BYTES: Final = 16 << 20
"""The maximum size of a small file, in bytes; a manifest of 100,000 captures has 11 MB."""


class CannotShip(CannotCreate):
    """The destination cannot be read or written; the text says what was tried, and never contains a credential."""


class BrokenFile(CaptureError):
    """A file at the destination is broken, or not mcpproxy's; only work that needs it fails. The text names it."""


def unusable_file_error(location: object, problem: str) -> BrokenFile:
    """Returns the error for a file that `ship` would not have put there."""
    return BrokenFile(f"cannot use {location}: it is {problem}; move it away, and ship again")


class StoredObject(NamedTuple):
    """A file at the destination."""

    name: str
    size: int
    modified_s: float
    """When the file was written, in seconds since 1970."""
    tag: str | None = None
    """Files with the same tag have the same content; None if the destination has no tags."""


class StoredContent(NamedTuple):
    """A small file as it was read."""

    data: bytes
    version: object
    """A value that distinguishes this content from a later one; only the destination that returned it interprets it."""


class Destination(Protocol):
    """A place for files.

    Every method raises `CannotShip` if the place cannot be reached, read or written, and `BrokenFile` if only the file
    of this name cannot be read or written.
    """

    display_name: str
    """The name of the destination in messages."""

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in place of the file that has it."""

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""

    def replace(self, name: str, data: bytes, expected: StoredContent | None) -> bool:
        """Put a small file if the name still has this content (None: no file); returns whether it was put."""

    def read(self, name: str) -> StoredContent | None:
        """Returns a small file, or None if there is no file of this name.

        A file above `MAX_SMALL_FILE_BYTES` counts as broken.
        """

    def fetch(self, name: str, file: Path, size: int) -> bool:
        """Copy a file to a new local one; returns whether there is a file of this name and size."""

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no file of this name."""

    def entries(self, folder: str) -> Iterator[StoredObject]:
        """Yields the files in a folder and its subfolders, in any order; none if the folder does not exist."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
