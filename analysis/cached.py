"""Caches of what is derived from a capture: which modules they depend on, and how they are written.

Summaries, tallies, the output for screens, and the rows for SQL are made from a capture by the modules of `captures`
and `analysis`, and are valid as long as neither has changed. A cache may be lost at any time: what is missing is
computed again.
"""

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from captures.ownership import refusal

READING: Final = ("captures/*.py", "analysis/*.py", "analysis/protocol/*.py", "analysis/conversation/*.py")
"""The modules that read and interpret a capture."""
JUDGING: Final = tuple(
    f"analysis/{folder}/**/*.{kind}"
    for folder in ("checking", "json_schema", "rules", "shapes")
    for kind in ("py", "json")
)
"""The modules that find violations in it."""
TABLES: Final = ("captures/**/*.py", "analysis/**/*.py", "analysis/**/*.sql", "analysis/**/*.json")
"""The modules that make rows of it, findings included. Each connection makes the views itself."""

CAP: Final = 2 << 30
"""Bytes, unless MCPPROXY_CACHE_SIZE says otherwise."""

UNFINISHED: Final = ".making-"
"""How the names of files begin that are being written."""
_SIZE: Final = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)
_ROOT: Final = Path(__file__).parents[1]
_VIEWS: Final = "views"


@cache
def version_of(patterns: tuple[str, ...]) -> str:
    """Returns a hash of the modules whose paths match these patterns; it changes if any of them does."""
    digest = blake2b(digest_size=16)
    for source in sorted({path for pattern in patterns for path in _ROOT.glob(pattern)}):
        if source.parent.name != _VIEWS:
            digest.update(str(source.relative_to(_ROOT)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


class ClearedCache(NamedTuple):
    """The result of clearing a cache."""

    files: int
    bytes: int
    undeleted: int
    """Files that could not be deleted."""


def size_limit() -> int:
    """The most bytes that the rows for SQL may take together; 0 for no cache."""
    match = _SIZE.fullmatch(os.environ.get("MCPPROXY_CACHE_SIZE", "").strip())
    return CAP if match is None else int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def write_atomically(file: Path, value: object, most: int) -> bool:
    """Write a value as JSON, as `put_bytes` does; return whether that succeeded.

    Args:
        file: the cache file.
        value: its content.
        most: how many files of its kind are kept; beyond a tenth more, the oldest go.
    """
    if not put_bytes(file, [json.dumps(value).encode()]):
        return False
    with suppress(OSError):
        names = [entry for entry in os.scandir(file.parent) if entry.name.endswith(file.suffix)]
        if len(names) > most + most // 10:
            for entry in sorted(names, key=lambda entry: entry.stat().st_mtime_ns)[: len(names) - most]:
                os.unlink(entry.path)
    return True


def read_bytes(file: Path, most: int) -> bytes | None:
    """The content of a cache file, or None if it cannot be read, is not a regular file or must not be trusted.

    Args:
        file: the cache file.
        most: the maximum number of bytes that are read.
    """
    try:
        # Opening a FIFO would wait until someone opens it to write.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
            status = os.fstat(opened.fileno())
            return opened.read(most) if stat.S_ISREG(status.st_mode) and not refusal(status) else None
    except OSError:
        return None


def put_bytes(file: Path, pieces: Iterable[bytes]) -> bool:
    """Write a file under a temporary name, only for the user, and rename it; return whether that succeeded."""
    temporary: str | None = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if refusal(file.parent.stat()):
            return False
        fd, temporary = tempfile.mkstemp(prefix=UNFINISHED, dir=file.parent)
        with open(fd, "wb") as opened:
            opened.writelines(pieces)
        os.replace(temporary, file)
    except (OSError, UnicodeError):
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        return False
    return True
