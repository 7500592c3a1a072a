"""Finds captures below a directory, and the files that are segments of one capture.

For readers only. The recorder does not need it, and `pathlib` would add 5 ms to each of its starts.
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
    STAMP_FORM,
    SUFFIX,
    captures_root,
    data_directory,
    home,
    safe_name,
    segment_numbers,
    segment_of,
    segment_path,
)

_STAMP = re.compile(r"[0-9]{4}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-5][0-9]Z")
UNPUBLISHED: Final = ".mcpproxy-"
"""The prefix of the name of a folder whose files are not complete yet."""
_MAX_CACHED_FOLDERS: Final = 1000
"""Captures are sorted by time, so those of all servers take turns."""
_listed: Final[dict[Path, tuple[int, dict[str, list[int]]]]] = {}
"""The segments in directories, each with the stamp of its directory."""
_listing: Final = Lock()
_SETTLED_NS: Final = 3_000_000_000
"""The age at which a directory's stamp shows every later change; on some file systems, stamps have a resolution of two
seconds."""


def place_variables() -> dict[str, str]:
    """The variables of this environment that decide where captures are, other than HOME, with absolute paths."""
    named = os.environ.get("MCPPROXY_CAPTURES")
    data = os.environ.get("XDG_DATA_HOME", "")
    variables = {"MCPPROXY_CAPTURES": os.path.abspath(named)} if named else {}
    return variables | ({"XDG_DATA_HOME": data} if os.path.isabs(data) else {})


def search_roots(variables: Mapping[str, str] = os.environ) -> list[Path]:
    """Every directory in which this user's recorders may have written, the likeliest first, without duplicates."""
    candidates = []
    if variables.get("MCPPROXY_CAPTURES"):
        candidates.append(Path(captures_root(variables)))
    below = home(variables)
    if data := data_directory(variables):
        candidates.append(Path(data, "captures"))
    if below is not None:
        candidates.append(
            Path(
                below,
                "Library/Application Support" if sys.platform == "darwin" else ".local/share",
                "mcpproxy/captures",
            )
        )
    return list(dict.fromkeys(candidates))


def segment_number(path: Path) -> int:
    """The segment number in a file's name: 1 for `NAME.mcpcap`, 2 for `NAME.2.mcpcap`."""
    segment = segment_of(path.name)
    return segment[1] if segment else 1


def first_segment(path: Path) -> Path:
    """The name of segment 1 of the capture to which `path` belongs; the file itself may be gone."""
    segment = segment_of(path.name)
    return path.with_name(segment[0] + SUFFIX) if segment else path


def random_end(path: Path) -> str | None:
    """The random end of a name that a recorder gives to a segment, or None if the file has another name."""
    segment = segment_of(path.name)
    named = re.fullmatch(NEW_STEM, segment[0]) if segment else None
    # No recorder writes the number 1.
    return named[1] if segment and named and segment_path(segment[0] + SUFFIX, segment[1]) == path.name else None


def is_where_recorders_write(path: Path, root: Path) -> bool:
    """Whether a segment has the name and the place that recorders choose below a directory: `SERVER/STAMP-RANDOM`."""
    server = path.parent.name
    return path.parent.parent == root and server == safe_name(server) and random_end(path) is not None


def total_size(files: Iterable[Path]) -> int:
    """The total bytes of files. A file that is gone counts as nothing, because a ring may delete it at any time."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


def segments(path: Path) -> list[Path]:
    """The existing segments of the capture to which `path` belongs, in order.

    `path` alone if its name is not that of a capture.
    """
    segment = segment_of(path.name)
    if not segment:
        return [path]
    try:
        numbers = _numbers(path.parent, segment[0])
    except OSError:
        return [path]
    first = path.with_name(segment[0] + SUFFIX)
    return [Path(segment_path(first, number)) for number in numbers] or [path]


def _numbers(folder: Path, stem: str) -> list[int]:
    """The segment numbers of a capture in a directory, in order."""
    # A directory may hold a thousand captures, and listing it for each of them takes a million steps. Its stamp shows
    # every change of its content, except within the same tick of the clock.
    stamp = folder.stat().st_mtime_ns
    if time.time_ns() - stamp < _SETTLED_NS:
        return segment_numbers(folder, stem)
    with _listing:
        known = _listed.pop(folder, None)
        if known is None or known[0] != stamp:
            known = stamp, _by_stem(folder)
        _listed[folder] = known  # the latest last
        if len(_listed) > _MAX_CACHED_FOLDERS:
            del _listed[next(iter(_listed))]
    return known[1].get(stem, [])


def _by_stem(folder: Path) -> dict[str, list[int]]:
    """The segment numbers in a directory, by the stem of their capture."""
    numbers: dict[str, set[int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            own = segment_of(entry.name)
            if own:
                numbers.setdefault(own[0], set()).add(own[1])
    return {stem: sorted(numbers) for stem, numbers in numbers.items()}


def find_captures(root: Path) -> list[Path]:
    """The captures in `root` and below it, by the path of their first existing segment, latest start first."""
    seen: dict[Path, Path] = {}
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith(UNPUBLISHED)]
        for name in sorted(names, key=lambda n: segment_number(Path(n))):
            if name.endswith(SUFFIX):
                path = Path(folder, name)
                seen.setdefault(first_segment(path), path)
    return newest_first(seen.values())


def real_path(path: Path) -> Path:
    """The absolute path without symbolic links; for a circular link, its own: `Path.resolve` raises there."""
    return Path(os.path.realpath(path))


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Paths sorted by start: the time in the name, to the second, then the last write.

    Names without a time are sorted by their last write alone.
    """

    def started(path: Path) -> tuple[str, float]:
        try:
            written = path.stat().st_mtime
        except OSError:
            written = 0.0
        named = _STAMP.match(path.name)
        return (named[0] if named else time.strftime(STAMP_FORM, time.gmtime(written)), written)

    return sorted(paths, key=started, reverse=True)
