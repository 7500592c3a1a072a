"""The names of the files in the cache of rows, in a module that does not load DuckDB."""

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from captures.paths import cache_directory

SUFFIX: Final = ".duckdb"


def directory() -> Path | None:
    """Returns the cache directory, or None if it is unknown or its name is not UTF-8: DuckDB opens no file there."""
    root = cache_directory()
    if root is None or not is_utf8(root):
        return None
    return Path(root, "sql")


def is_utf8(path: str | Path) -> bool:
    """Whether a path is UTF-8, so that DuckDB can open files there."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def owner_of(path: Path, id_: str) -> str:
    """The part of a file's name that identifies the capture, regardless of its state."""
    return digest_of(id_.encode() + os.fsencode(path.resolve()))[:16]


def digest_of(data: bytes) -> str:
    """A short hash, in hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def files_of(path: Path, id_: str, folder: Path) -> Iterable[Path]:
    """All files in the cache directory that contain rows of a capture."""
    return folder.glob(f"{owner_of(path, id_)}-*{SUFFIX}")
