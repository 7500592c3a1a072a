"""A private folder for files that a command needs only while it runs; they may contain traffic in plain text."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from captures.stale_files import lock_temporary, remove_stale

_PREFIX: Final = "mcpproxy-private-"


@contextmanager
def private_folder(place: Path | None = None) -> Iterator[Path]:
    """Create a folder that is deleted at the end; after a kill, the next command that creates one there deletes it.

    Args:
        place: the folder in which it is created; by default, the system's folder for temporary files.
    """
    remove_stale(place or Path(tempfile.gettempdir()), _PREFIX)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place) as name:
        lock_fd = lock_temporary(name)
        try:
            yield Path(name)
        finally:
            os.close(lock_fd)
