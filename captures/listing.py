"""Finds captures below a directory, and the segment files of a capture.

Only readers use this module. The recorder does not need it, and `pathlib` would add 5 ms to each of its starts.
"""

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from captures.paths import (
    NEW_STEM,
    STAMP_FORMAT,
    SUFFIX,
    captures_root,
    data_directory,
    safe_name,
    segment_numbers,
    segment_of,
    segment_path,
    user_home,
)

_STAMP = re.compile(r"[0-9]{4}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-5][0-9]Z")
UNPUBLISHED_PREFIX: Final = ".mcpproxy-"
"""The name prefix of folders whose files are not complete yet."""
_MAX_CACHED_FOLDERS: Final = 1000
"""The most folders whose listings are cached: captures are sorted by time, so readers alternate between folders."""
_listing_cache: Final[dict[Path, tuple[int, dict[str, list[int]]]]] = {}
"""The segment numbers in each directory, by stem, with the directory's stamp."""
_listing_lock: Final = Lock()
_MIN_STAMP_AGE_NS: Final = 3_000_000_000
"""The age from which a directory's stamp shows every later change: on some file systems, the resolution is two
seconds."""


def location_variables() -> dict[str, str]:
    """Returns the environment variables, except HOME, that decide where captures are, with absolute paths."""
    captures_variable = os.environ.get("MCPPROXY_CAPTURES")
    data_home = os.environ.get("XDG_DATA_HOME", "")
    variables = {"MCPPROXY_CAPTURES": os.path.abspath(captures_variable)} if captures_variable else {}
    return variables | ({"XDG_DATA_HOME": data_home} if os.path.isabs(data_home) else {})


def search_roots(variables: Mapping[str, str] = os.environ) -> list[Path]:
    """Returns the directories to which this user's recorders may have written, each once, the likeliest first."""
    candidates = []
    if variables.get("MCPPROXY_CAPTURES"):
        candidates.append(Path(captures_root(variables)))
    home_directory = user_home(variables)
    if data := data_directory(variables):
        candidates.append(Path(data, "captures"))
    if home_directory is not None:
        candidates.append(
            Path(
                home_directory,
                "Library/Application Support" if sys.platform == "darwin" else ".local/share",
                "mcpproxy/captures",
            )
        )
    return list(dict.fromkeys(candidates))


def segment_number(path: Path) -> int:
    """Returns the segment number in a file's name: 1 for `NAME.mcpcap`, 2 for `NAME.2.mcpcap`."""
    segment = segment_of(path.name)
    return segment[1] if segment else 1


def first_segment(path: Path) -> Path:
    """Returns the path of segment 1 of the capture to which `path` belongs; that file may no longer exist."""
    segment = segment_of(path.name)
    return path.with_name(segment[0] + SUFFIX) if segment else path


def random_suffix(path: Path) -> str | None:
    """Returns the random end of the name that a recorder gave to a segment, or None for any other name."""
    segment = segment_of(path.name)
    match = re.fullmatch(NEW_STEM, segment[0]) if segment else None
    # Recorders do not write the segment number 1.
    return match[1] if segment and match and segment_path(segment[0] + SUFFIX, segment[1]) == path.name else None


def has_recorder_path(path: Path, root: Path) -> bool:
    """Whether a segment has the name and the place that recorders choose below a directory: `SERVER/STAMP-RANDOM`."""
    server = path.parent.name
    return path.parent.parent == root and server == safe_name(server) and random_suffix(path) is not None


def total_size(files: Iterable[Path]) -> int:
    """Returns the total size of files; missing files count as 0, because a ring may delete them at any time."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


def segments(path: Path) -> list[Path]:
    """Returns the existing segments of the capture to which `path` belongs, in order.

    Returns only `path` if its name is not that of a capture.
    """
    segment = segment_of(path.name)
    if not segment:
        return [path]
    try:
        numbers = _segment_numbers(path.parent, segment[0])
    except OSError:
        return [path]
    first = path.with_name(segment[0] + SUFFIX)
    return [Path(segment_path(first, number)) for number in numbers] or [path]


def _segment_numbers(folder: Path, stem: str) -> list[int]:
    """Returns the segment numbers of a capture in a directory, in order."""
    # A directory may contain a thousand captures, and listing it for each of them takes a million steps. Its stamp
    # shows every change of its contents, except within the same tick of the clock.
    stamp = folder.stat().st_mtime_ns
    if time.time_ns() - stamp < _MIN_STAMP_AGE_NS:
        return segment_numbers(folder, stem)
    with _listing_lock:
        cached = _listing_cache.pop(folder, None)
        if cached is None or cached[0] != stamp:
            cached = stamp, _segment_numbers_by_stem(folder)
        _listing_cache[folder] = cached  # the last entry is the latest
        if len(_listing_cache) > _MAX_CACHED_FOLDERS:
            del _listing_cache[next(iter(_listing_cache))]
    return cached[1].get(stem, [])


def _segment_numbers_by_stem(folder: Path) -> dict[str, list[int]]:
    """Returns the segment numbers in a directory, by the stem of their capture."""
    numbers: dict[str, set[int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            segment = segment_of(entry.name)
            if segment:
                numbers.setdefault(segment[0], set()).add(segment[1])
    return {stem: sorted(numbers) for stem, numbers in numbers.items()}


def find_captures(root: Path) -> list[Path]:
    """Returns the captures in and below `root`, as the paths of their first existing segments, latest start first."""
    seen: dict[Path, Path] = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not name.startswith(UNPUBLISHED_PREFIX)]
        for name in sorted(names, key=lambda n: segment_number(Path(n))):
            if name.endswith(SUFFIX):
                path = Path(folder, name)
                seen.setdefault(first_segment(path), path)
    return newest_first(seen.values())


def real_path(path: Path) -> Path:
    """Returns the absolute path without symbolic links; unlike `Path.resolve`, does not raise for circular links."""
    return Path(os.path.realpath(path))


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Returns paths sorted by start: by the time in the name, to the second, then by the last write.

    Names without a time are sorted by the last write alone.
    """

    def start_key(path: Path) -> tuple[str, float]:
        try:
            modified = path.stat().st_mtime
        except OSError:
            modified = 0.0
        stamp = _STAMP.match(path.name)
        return (stamp[0] if stamp else time.strftime(STAMP_FORMAT, time.gmtime(modified)), modified)

    return sorted(paths, key=start_key, reverse=True)
