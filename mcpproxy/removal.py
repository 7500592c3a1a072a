"""Removal of captures: which files belong to a capture, and how to delete it, for `prune` and for the screens."""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from analysis import output_cache, tally
from analysis.store import cache_files
from analysis.summary import file_of
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import segments
from captures.reader import Capture
from mcpproxy.marks import marks_path


class RemovableCapture(NamedTuple):
    """A capture that may be deleted."""

    path: Path
    files: list[Path]
    """Its segments."""
    size: int
    """The size of the segments, in bytes."""
    age_s: float
    """How long ago the capture was last written, in seconds."""
    has_marks: bool


def is_recorded(files: Iterable[Path]) -> bool:
    """Whether a capture with these segments is being recorded."""
    return any(map(is_live, files))


def removable_capture(path: Path) -> RemovableCapture | None:
    """A capture with all its segments, or None if it is being recorded or its files cannot be read."""
    files = segments(path)
    try:
        if is_recorded(files):
            return None
        stats = [file.stat() for file in files]
    except OSError:
        return None
    age_s = time.time() - max(stat.st_mtime for stat in stats)
    return RemovableCapture(path, files, sum(stat.st_size for stat in stats), age_s, marks_path(path).exists())


def remove_capture(capture: RemovableCapture) -> None:
    """Delete a capture: all segments, its marks, and its cached data.

    Raises:
        OSError: a segment or the marks could not be deleted, or the capture is being recorded after all.
    """
    if is_recorded(capture.files):
        raise OSError(0, "it is being recorded")
    cached_files = _cached_files(capture.path)
    for file in capture.files:
        file.unlink()
    marks_path(capture.path).unlink(missing_ok=True)
    # The cache may be lost at any time, and is trimmed in any case.
    for file in cached_files:
        with suppress(OSError):
            file.unlink()


def _cached_files(path: Path) -> list[Path]:
    """The cached files of a capture: its summary, its tally, the worker's output for the screens, its rows for SQL."""
    files = [file for file in (file_of(path), tally.file_of(path), *output_cache.files_of(path)) if file is not None]
    folder = cache_files.directory()
    try:
        id_ = Capture(path).header.members.get("capture")
        if folder is not None and isinstance(id_, str):
            files += cache_files.files_of(path, id_, folder)
    except (CaptureError, OSError):
        pass
    return files
