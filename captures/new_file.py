"""A new file for a result, which gets its name once it is complete, and never replaces another file by accident."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from captures.errors import CannotCreate
from captures.stale_files import lock_temporary, remove_stale

_PREFIX: Final = ".mcpproxy-file-"


@contextmanager
def new_file(target: Path, *, replace: bool = False, advice: str = "") -> Iterator[Path]:
    """Yields a temporary file, which is renamed to the target once it is complete, and deleted otherwise.

    After a kill, the next command that writes a file into the same folder deletes the temporary file.

    Args:
        target: the file, which only its owner can read.
        replace: whether an existing file of that name is replaced.
        advice: a text to append to the message that the file exists.

    Raises:
        CannotCreate: the file cannot be created or written, or the target exists and may not be replaced.
    """
    try:
        if replace and os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
            raise CannotCreate(f"cannot write {target}: it is not a regular file")
        remove_stale(target.parent, _PREFIX)
        fd, name = tempfile.mkstemp(prefix=_PREFIX, dir=target.parent)
    except OSError as error:
        raise CannotCreate(f"cannot write {target}: {error.strerror}") from error
    os.close(fd)
    path = Path(name)
    lock_fd = lock_temporary(path)
    try:
        yield path
        with path.open("rb") as file:
            os.fsync(file.fileno())
        if replace:
            path.replace(target)
        else:
            # Unlike a rename, a link never replaces a file that was created in the meantime.
            os.link(path, target)
    except FileExistsError as error:
        raise CannotCreate(f"{target} exists{advice}") from error
    except OSError as error:
        raise CannotCreate(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(lock_fd)
