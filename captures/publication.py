"""Publishes new captures that commands write: each gets its name once it is complete, and replaces no other file.

On request, a capture replaces an earlier redacted copy, but never a recording, which could not be repeated.

A recorder writes under the final name, so readers can follow it. A partial import or copy, however, would look like a
session that was killed. So a command writes the files in a private folder next to the target. Readers skip such
folders, and the next capture that is written there removes the folders of killed processes. A copy that is being
replaced is kept in another such folder until the new copy has its name: after a kill in between, it is restored.
"""

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from captures.cutting import LineCutter
from captures.errors import CannotCreate, CaptureError
from captures.file import CaptureFile, is_live, sync
from captures.listing import UNPUBLISHED_PREFIX, first_segment, segment_number, segments
from captures.reader import open_capture
from captures.record import Record

MIN_ABANDONED_AGE_S: Final = 3600
"""The age from which a folder may have been left by a killed process."""
_MAX_HEADER_BYTES: Final = 1 << 20
"""How many bytes are searched for a header."""
_UNLIMITED_BYTES: Final = 1 << 62
"""A size that no capture reaches: no segment ends, and none is deleted."""
_UNFINISHED_PREFIX: Final = f"{UNPUBLISHED_PREFIX}capture-"
"""The name prefix of folders in which captures are written."""
_ASIDE_PREFIX: Final = f"{UNPUBLISHED_PREFIX}aside-"
"""The name prefix of folders that contain copies while they are being replaced."""


@contextmanager
def new_capture(target: Path, *, replace: bool = False, sweeps: bool = True) -> Iterator[CaptureFile]:
    """Create a capture that is published under its name if the block ends without an error, and deleted otherwise.

    No segment is deleted, and a new segment begins only if the block begins it.

    Args:
        target: the path of the first segment.
        replace: whether to replace a redacted copy with that name, and all its segments.
        sweeps: whether to remove the files of killed processes from the folder first, which takes time in a large one.

    Raises:
        CannotCreate: the capture cannot be created or written, or a file with that name exists.
    """
    if sweeps:
        _remove_abandoned(target.parent)  # first, as it can restore names
    if replace:
        check_replaceable(target)
    elif os.path.lexists(target):
        raise _name_taken_error(target)
    # The name is chosen before the folder is created, as a signal may come right after its creation.
    folder = target.parent / f"{_UNFINISHED_PREFIX}{os.urandom(8).hex()}"
    try:
        try:
            folder.mkdir(mode=0o700)
            file = CaptureFile(folder / target.name, segment_bytes=_UNLIMITED_BYTES, ring_bytes=_UNLIMITED_BYTES)
        except OSError as error:
            raise CannotCreate(f"cannot create {target}: {error.strerror}; choose another place") from error
        except CannotCreate as error:
            raise CannotCreate(str(error).replace(str(folder / target.name), str(target))) from error
        try:
            yield file
            sync(file.fd)
        except OSError as error:
            raise CannotCreate(f"cannot write {target}: {error.strerror}") from error
        finally:
            file.close()
        if replace:
            _replace_files(folder, target)
        else:
            _publish(folder, target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_replaceable(target: Path) -> None:
    """Refuse a name unless it is free, or is a redacted copy or an empty file that no process has open.

    Raises:
        CannotCreate: the existing file must not be replaced.
    """
    reason = next(
        (refusal for path in _existing_segments(target) if (refusal := _refusal_to_replace(path)) is not None), None
    )
    if reason is not None:
        raise CannotCreate(f"cannot replace {target}: {reason}; choose another file")


def _existing_segments(target: Path) -> list[Path]:
    return [path for path in segments(target) if os.path.lexists(path)]


def _refusal_to_replace(path: Path) -> str | None:
    """Returns why a file must not be replaced, or None if it may be replaced."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if is_live(path):
            return "it is being recorded"
        if not status.st_size:
            return None
        first = _first_record(path)
    except (CaptureError, OSError):
        return "it cannot be read"
    if first is None:
        return "it is not a copy that share has written"
    return None if "redacted_by" in first.members else "it is a recording"


def _first_record(path: Path) -> Record | None:
    """Returns the first whole record of one file, or None: each segment has its own header."""
    with open_capture(path) as file:
        cutter = LineCutter(path)
        items = [*cutter.feed(file.read(_MAX_HEADER_BYTES)), *cutter.finish()]
    return next((item for item in items if isinstance(item, Record)), None)


def _replace_files(folder: Path, target: Path) -> None:
    """Replace the existing files, if this is still allowed; if it fails, they stay."""
    check_replaceable(target)
    existing_files, new_files = _existing_segments(target), list(folder.iterdir())
    try:
        if len(new_files) == len(existing_files) == 1 and new_files[0].name == existing_files[0].name:
            new_files[0].replace(existing_files[0])
            return
        # This takes several steps. A reader must not find a mixture of both captures; it may find neither for a moment.
        aside_folder = folder.with_name(f"{_ASIDE_PREFIX}{os.urandom(8).hex()}")
        aside_folder.mkdir(mode=0o700)
        try:
            for path in existing_files:  # the first segment goes first: `_remove_abandoned` checks for it
                path.rename(aside_folder / path.name)
            _publish(folder, target.parent)
        except BaseException:
            _put_back(aside_folder, target.parent)
            with suppress(OSError):
                aside_folder.rmdir()
            raise
        shutil.rmtree(aside_folder, ignore_errors=True)
    except OSError as error:
        raise CannotCreate(f"cannot replace {target}: {error.strerror}") from error


def _publish(folder: Path, target_folder: Path) -> None:
    """Give each file its name, the first segment last; if a name is taken or a signal comes, no file keeps its name."""
    path = folder
    try:
        for path in sorted(folder.iterdir(), key=segment_number, reverse=True):
            # Unlike a rename, a link never replaces a file that another process has just created.
            os.link(path, target_folder / path.name)
    except BaseException as error:
        _withdraw(folder, target_folder)
        if isinstance(error, FileExistsError):
            raise _name_taken_error(target_folder / path.name) from error
        if isinstance(error, OSError):
            raise CannotCreate(f"cannot create {target_folder / path.name}: {error.strerror}") from error
        raise


def _withdraw(folder: Path, target_folder: Path) -> None:
    """Unlink the published names of a folder's files."""
    # This checks the links themselves: a list would lack a link that was created right before a signal.
    for path in folder.iterdir():
        if _is_published(path, target_folder):
            with suppress(OSError):
                (target_folder / path.name).unlink()


def _is_published(path: Path, target_folder: Path) -> bool:
    """Whether a file has been published under its name."""
    try:
        return path.samefile(target_folder / path.name)
    except OSError:
        return False


def _put_back(aside_folder: Path, target_folder: Path) -> None:
    """Restore the names of files that were moved aside, the first segment last, unless a name has been taken."""
    for path in sorted(aside_folder.iterdir(), key=segment_number, reverse=True):
        if not os.path.lexists(target_folder / path.name):
            path.rename(target_folder / path.name)


def _name_taken_error(path: Path) -> CannotCreate:
    return CannotCreate(f"cannot create {path}: it already exists; choose another name")


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of killed processes, after undoing their incomplete work.

    The first segment gets its name last and loses it first. If it has its name, the new capture is published, and the
    files moved aside for it have been replaced. If it does not, some of the other files may still have their names.
    """
    for folder in _abandoned_folders(parent, _UNFINISHED_PREFIX):
        with suppress(OSError):
            first = min(folder.iterdir(), key=segment_number, default=None)
            if first is not None and not _is_published(first, parent):
                _withdraw(folder, parent)
            shutil.rmtree(folder, ignore_errors=True)
    for folder in _abandoned_folders(parent, _ASIDE_PREFIX):
        with suppress(OSError):
            if not any(os.path.lexists(first_segment(parent / path.name)) for path in folder.iterdir()):
                _put_back(folder, parent)
            shutil.rmtree(folder, ignore_errors=True)


def _abandoned_folders(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield the folders with this prefix in which no process is still writing."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_old = stat.S_ISDIR(status.st_mode) and time.time() - status.st_mtime >= MIN_ABANDONED_AGE_S
            if is_old and not any(map(is_live, folder.iterdir())):
                yield folder
