"""Tally: the number of findings of a capture, cached next to its summary for lists that have no time to check.

Like a summary, it is derived from the capture alone, and may be lost, damaged or out of date at any time. It is valid
as long as the capture's files and all the modules that judge them are unchanged, so a changed rule means a new count.
"""

import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

from analysis import summary
from analysis.cached import JUDGING_MODULES, modules_hash, read_bytes, write_atomically
from analysis.rules.finding import Level

_SUFFIX: Final = ".tally"
_MAX_CACHE_FILE_BYTES: Final = 16 << 10


class Tally(NamedTuple):
    """The number of findings by level."""

    notes: int = 0
    warnings: int = 0
    errors: int = 0

    @property
    def violations(self) -> int:
        """The number of findings except notes, which report legal behaviour."""
        return self.warnings + self.errors

    def plus(self, level: Level, count: int = 1) -> "Tally":
        """Returns a tally with `count` more findings of a level."""
        counts = list(self)
        counts[level - 1] += count
        return Tally(*counts)


def file_of(path: Path) -> Path | None:
    """Returns the cache file for a capture, or None if there can be none."""
    return summary.file_of(path, _SUFFIX)


def cached(path: Path) -> Tally | None:
    """The cached tally of a capture, if it is still valid."""
    file, key = file_of(path), key_of(path)
    if file is None or key is None:
        return None
    try:
        content = json.loads(read_bytes(file, _MAX_CACHE_FILE_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    counts = content.get("tally") if isinstance(content, dict) and content.get("key") == key else None
    is_valid = isinstance(counts, list) and len(counts) == 3 and all(type(n) is int and n >= 0 for n in counts)
    return Tally(*counts) if is_valid and counts is not None else None


def save(path: Path, key: str, tally: Tally) -> bool:
    """Cache a tally, if possible and the capture still matches `key`; return whether it is cached now."""
    file = file_of(path)
    return (
        file is not None
        and key_of(path) == key
        and write_atomically(file, {"key": key, "tally": tally}, summary.MAX_CACHE_FILES)
    )


def key_of(path: Path) -> str | None:
    """Returns everything that a tally depends on, or None if the files cannot be examined or are being written."""
    key = summary.key_of(path)
    if key is None:
        return None
    with suppress(PackageNotFoundError):
        key = f"{version('mcp-types')}\n{key}"
    return f"{modules_hash(JUDGING_MODULES)}\n{key}"
