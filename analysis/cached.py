"""Caches of data derived from captures: the modules that the data depends on, and how cache files are written.

Summaries, tallies, the output for screens, and the rows for SQL are made from a capture by the modules of `captures`
and `analysis`, and are valid as long as neither has changed. A cache may be lost at any time; missing data is computed
again.
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

from captures.file import is_live
from captures.listing import segments
from captures.ownership import refusal
from captures.paths import cache_directory

READING_MODULES: Final = ("captures/*.py", "analysis/*.py", "analysis/protocol/*.py", "analysis/conversation/*.py")
"""The modules that read and interpret a capture."""
JUDGING_MODULES: Final = tuple(
    f"analysis/{folder}/**/*.{kind}"
    for folder in ("checking", "json_schema", "rules", "shapes")
    for kind in ("py", "json")
)
"""The modules that find violations in a capture."""
TABLE_MODULES: Final = ("captures/**/*.py", "analysis/**/*.py", "analysis/**/*.sql", "analysis/**/*.json")
"""The modules that turn a capture into rows, including findings. Views do not count: each connection creates them."""

DEFAULT_CACHE_BYTES: Final = 2 << 30
"""The default size limit of the cache, in bytes; MCPPROXY_CACHE_SIZE overrides it."""

SCRIPT_SUFFIX: Final = ".script"
"""The suffix of the scripts of captures (`analysis.playback`). They share the place and the limit of what
`analysis.output_cache` keeps, which deletes them, too."""
UNFINISHED_PREFIX: Final = ".making-"
"""The prefix of the names of files that are being written."""
_SIZE_PATTERN: Final = re.compile(r"(\d{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)
_PACKAGES_ROOT: Final = Path(__file__).parents[1]
_VIEWS_FOLDER: Final = "views"


@cache
def modules_hash(patterns: tuple[str, ...]) -> str:
    """Returns a hash of the modules whose paths match these patterns; it changes when any of them changes."""
    digest = blake2b(digest_size=16)
    for source in sorted({path for pattern in patterns for path in _PACKAGES_ROOT.glob(pattern)}):
        if source.parent.name != _VIEWS_FOLDER:
            digest.update(str(source.relative_to(_PACKAGES_ROOT)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def derived_directory() -> Path | None:
    """Returns the directory of what is derived from single captures, next to the SQL cache; None without a home."""
    root = cache_directory()
    return None if root is None else Path(root, "summaries")


def derived_file(path: Path, suffix: str) -> Path | None:
    """Returns the cache file for a capture, or None if there can be none."""
    folder = derived_directory()
    try:
        name = blake2b(os.fsencode(path.resolve()), digest_size=16).hexdigest()
    except (OSError, RuntimeError):
        return None
    return None if folder is None else folder / f"{name}{suffix}"


def state_of(path: Path, modules: tuple[str, ...]) -> str | None:
    """Returns everything that data derived from a capture depends on, or None if that is unknown.

    That is so if its files cannot be examined or are being written.

    Args:
        path: the capture.
        modules: the patterns of the modules that derive the data.
    """
    files = []
    try:
        segment_paths = segments(path)
        for segment in segment_paths:
            status = segment.stat()
            files.append(f"{segment.name}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
    except OSError:
        return None
    return None if is_live(segment_paths[-1]) else "\n".join((modules_hash(modules), *files))


class ClearedCache(NamedTuple):
    """The result of clearing a cache."""

    deleted_files: int
    deleted_bytes: int
    undeleted_files: int
    """Files that could not be deleted."""


def size_limit() -> int:
    """The most bytes that all cached rows for SQL may take together; 0 if nothing may be cached."""
    match = _SIZE_PATTERN.fullmatch(os.environ.get("MCPPROXY_CACHE_SIZE", "").strip())
    return (
        DEFAULT_CACHE_BYTES
        if match is None
        else int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]
    )


def write_atomically(file: Path, value: object, max_files: int) -> bool:
    """Write a value as JSON, as `replace_file` does; return whether that succeeded.

    Args:
        file: the cache file.
        value: its content.
        max_files: the number of files of its kind to keep; once there are a tenth more, the oldest are deleted.
    """
    if not replace_file(file, [json.dumps(value).encode()]):
        return False
    with suppress(OSError):
        names = [entry for entry in os.scandir(file.parent) if entry.name.endswith(file.suffix)]
        if len(names) > max_files + max_files // 10:
            for entry in sorted(names, key=lambda entry: entry.stat().st_mtime_ns)[: len(names) - max_files]:
                os.unlink(entry.path)
    return True


def read_bytes(file: Path, max_bytes: int) -> bytes | None:
    """The content of a cache file, or None if it cannot be read, is not a regular file or must not be trusted.

    Args:
        file: the cache file.
        max_bytes: the maximum number of bytes to read.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            status = os.fstat(stream.fileno())
            return stream.read(max_bytes) if stat.S_ISREG(status.st_mode) and not refusal(status) else None
    except OSError:
        return None


def replace_file(file: Path, pieces: Iterable[bytes]) -> bool:
    """Write a file under a temporary name, readable only by the user, and rename it; return whether that succeeded."""
    temporary: str | None = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if refusal(file.parent.stat()):
            return False
        fd, temporary = tempfile.mkstemp(prefix=UNFINISHED_PREFIX, dir=file.parent)
        with open(fd, "wb") as stream:
            stream.writelines(pieces)
        os.replace(temporary, file)
    except (OSError, UnicodeError):
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        return False
    return True
