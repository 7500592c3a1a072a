"""New captures that commands write: each gets its name once it is complete, and never replaces a file.

A recorder writes under the final name, so that readers can follow it. Half an import or half a copy, however, would
look like a session that was killed. So the files are written in a private folder beside the target; readers pass over
such folders, and the next capture that is written there removes what a killed process has left.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from captures.errors import CannotCreate
from captures.file import CaptureFile, is_live, sync
from captures.listing import UNPUBLISHED, segment_number

LEFT_S: Final = 3600
"""The age at which a folder may be what a killed process has left."""
_NEVER: Final = 1 << 62
"""Bytes."""
_BEGUN: Final = f"{UNPUBLISHED}capture-"


@contextmanager
def new_capture(target: Path) -> Iterator[CaptureFile]:
    """A capture that is published under its name if the block ends without an error, and deleted otherwise.

    No segment is deleted, and the next begins only if the block begins it.

    Args:
        target: the path of its first segment.

    Raises:
        CannotCreate: the capture cannot be created or written, or something of that name exists.
    """
    if os.path.lexists(target):
        raise _taken(target)
    _sweep(target.parent)
    # The name is chosen before the folder is made, as a signal may come right after that.
    folder = target.parent / f"{_BEGUN}{os.urandom(8).hex()}"
    try:
        try:
            folder.mkdir(mode=0o700)
            file = CaptureFile(folder / target.name, segment_bytes=_NEVER, ring_bytes=_NEVER)
        except OSError as error:
            raise CannotCreate(f"cannot create {target}: {error.strerror}; name another place") from error
        except CannotCreate as error:
            raise CannotCreate(str(error).replace(str(folder / target.name), str(target))) from error
        try:
            yield file
            sync(file.fd)
        except OSError as error:
            raise CannotCreate(f"cannot write {target}: {error.strerror}") from error
        finally:
            file.close()
        _publish(folder, target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(folder: Path, to: Path) -> None:
    """Give every file its name, the first segment last; if a name is taken, or a signal comes, none keeps its name."""
    path = folder
    try:
        for path in sorted(folder.iterdir(), key=segment_number, reverse=True):
            # Unlike a rename, a link never replaces a file that was created meanwhile.
            os.link(path, to / path.name)
    except BaseException as error:
        # Looks for the links themselves: a signal right after a link would leave a list of them one short.
        for made in folder.iterdir():
            with suppress(OSError):
                if made.samefile(to / made.name):
                    (to / made.name).unlink()
        if isinstance(error, FileExistsError):
            raise _taken(to / path.name) from error
        if isinstance(error, OSError):
            raise CannotCreate(f"cannot create {to / path.name}: {error.strerror}") from error
        raise


def _taken(path: Path) -> CannotCreate:
    return CannotCreate(f"cannot create {path}: it exists, and nothing is ever overwritten; name another file")


def _sweep(place: Path) -> None:
    for left in place.glob(f"{_BEGUN}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime >= LEFT_S and not any(map(is_live, left.iterdir())):
                shutil.rmtree(left, ignore_errors=True)
