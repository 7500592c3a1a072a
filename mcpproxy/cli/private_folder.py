"""A private folder for files that a command needs only while it runs; it may hold traffic in plain text."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from captures.leftovers import claim, sweep

_PREFIX: Final = "mcpproxy-private-"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder that is deleted at the end; after a kill, the next command that makes one deletes it."""
    sweep(Path(tempfile.gettempdir()), _PREFIX)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        lock = claim(name)
        try:
            yield Path(name)
        finally:
            os.close(lock)
