"""New captures that commands write: each gets its name once it is complete, and never replaces a file by accident.

On request, a capture replaces an earlier redacted copy, but never a recording, which could not be made again.

A recorder writes under the final name, so that readers can follow it. Half an import or half a copy, however, would
look like a session that was killed. So the files are written in a private folder next to the target; readers pass over
such folders, and the next capture that is written there removes what a killed process has left behind. A copy that is
being replaced waits in another such folder until the new one is there: after a kill in between, it is restored.
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
from captures.listing import UNPUBLISHED, first_segment, segment_number, segments
from captures.reader import open_capture
from captures.record import Record

LEFT_S: Final = 3600
"""The age from which a folder may have been left by a killed process."""
_HEADER: Final = 1 << 20
"""Bytes in which to look for a header."""
_UNLIMITED_BYTES: Final = 1 << 62
"""A size in bytes that no capture reaches, so that no segment ends and none is deleted."""
_BEGUN: Final = f"{UNPUBLISHED}capture-"
"""The prefix of the name of a folder in which a capture is written."""
_ASIDE: Final = f"{UNPUBLISHED}aside-"
"""The prefix of the name of a folder that holds a copy while it is being replaced."""


@contextmanager
def new_capture(target: Path, *, replace: bool = False, sweeps: bool = True) -> Iterator[CaptureFile]:
    """A capture that is published under its name if the block ends without an error, and deleted otherwise.

    No segment is deleted, and the next begins only if the block begins it.

    Args:
        target: the path of its first segment.
        replace: whether a redacted copy of that name is replaced, with all its segments.
        sweeps: whether what killed processes have left in the folder is removed before, which takes time in large ones.

    Raises:
        CannotCreate: the capture cannot be created or written, or something of that name exists.
    """
    if sweeps:
        _sweep(target.parent)  # first, as it can give names back
    if replace:
        check_replaceable(target)
    elif os.path.lexists(target):
        raise _taken(target)
    # The name is chosen before the folder is made, as a signal may come right after that.
    folder = target.parent / f"{_BEGUN}{os.urandom(8).hex()}"
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
            _replace(folder, target)
        else:
            _publish(folder, target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_replaceable(target: Path) -> None:
    """Refuse a name unless it is free, or is a redacted copy or an empty file that no process has open.

    Raises:
        CannotCreate: what is there must not be replaced.
    """
    reason = next((why for path in _there(target) if (why := _refusal_to_replace(path)) is not None), None)
    if reason is not None:
        raise CannotCreate(f"cannot replace {target}: {reason}; choose another file")


def _there(target: Path) -> list[Path]:
    return [path for path in segments(target) if os.path.lexists(path)]


def _refusal_to_replace(path: Path) -> str | None:
    """Returns why this file must not be replaced, or None if it may be replaced."""
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
    """The first whole record of this one file: each segment has a header of its own."""
    with open_capture(path) as file:
        cutter = LineCutter(path)
        items = [*cutter.feed(file.read(_HEADER)), *cutter.finish()]
    return next((item for item in items if isinstance(item, Record)), None)


def _replace(folder: Path, target: Path) -> None:
    """Publish in place of the existing files, if they may still be replaced; if that fails, they stay."""
    check_replaceable(target)
    there, made = _there(target), list(folder.iterdir())
    try:
        if len(made) == len(there) == 1 and made[0].name == there[0].name:
            made[0].replace(there[0])
            return
        # This takes several steps, and a reader must not find a mixture of both: better none for a moment.
        aside = folder.with_name(f"{_ASIDE}{os.urandom(8).hex()}")
        aside.mkdir(mode=0o700)
        try:
            for path in there:  # the first segment first: `_sweep` looks for it
                path.rename(aside / path.name)
            _publish(folder, target.parent)
        except BaseException:
            _put_back(aside, target.parent)
            with suppress(OSError):
                aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise CannotCreate(f"cannot replace {target}: {error.strerror}") from error


def _publish(folder: Path, to: Path) -> None:
    """Give every file its name, the first segment last; if a name is taken, or a signal comes, none keeps its name."""
    path = folder
    try:
        for path in sorted(folder.iterdir(), key=segment_number, reverse=True):
            # Unlike a rename, a link never replaces a file that was created in the meantime.
            os.link(path, to / path.name)
    except BaseException as error:
        _withdraw(folder, to)
        if isinstance(error, FileExistsError):
            raise _taken(to / path.name) from error
        if isinstance(error, OSError):
            raise CannotCreate(f"cannot create {to / path.name}: {error.strerror}") from error
        raise


def _withdraw(folder: Path, to: Path) -> None:
    """Unlink the published names of a folder's files."""
    # This looks for the links themselves: a list would lack a link that was made right before a signal.
    for made in folder.iterdir():
        if _is_linked(made, to):
            with suppress(OSError):
                (to / made.name).unlink()


def _is_linked(made: Path, to: Path) -> bool:
    """Whether a file has been published under its name."""
    try:
        return made.samefile(to / made.name)
    except OSError:
        return False


def _put_back(aside: Path, to: Path) -> None:
    """Restore the names of files that were put aside, the first segment last, unless a name has been taken."""
    for path in sorted(aside.iterdir(), key=segment_number, reverse=True):
        if not os.path.lexists(to / path.name):
            path.rename(to / path.name)


def _taken(path: Path) -> CannotCreate:
    return CannotCreate(f"cannot create {path}: it already exists; choose another name")


def _sweep(place: Path) -> None:
    """Remove what killed processes have left behind, after undoing what they had half done.

    The first segment gets its name last and loses it first. If it has its name, the new capture is published, and what
    was put aside for it has been replaced. If it does not, some of the others may still have theirs.
    """
    for left in _abandoned_folders(place, _BEGUN):
        with suppress(OSError):
            first = min(left.iterdir(), key=segment_number, default=None)
            if first is not None and not _is_linked(first, place):
                _withdraw(left, place)
            shutil.rmtree(left, ignore_errors=True)
    for left in _abandoned_folders(place, _ASIDE):
        with suppress(OSError):
            if not any(os.path.lexists(first_segment(place / path.name)) for path in left.iterdir()):
                _put_back(left, place)
            shutil.rmtree(left, ignore_errors=True)


def _abandoned_folders(place: Path, prefix: str) -> Iterator[Path]:
    """The folders of that kind in which no process is writing any longer."""
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_old = stat.S_ISDIR(status.st_mode) and time.time() - status.st_mtime >= LEFT_S
            if is_old and not any(map(is_live, folder.iterdir())):
                yield folder
