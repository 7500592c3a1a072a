"""Names of new files that the user types: what is wrong with one, and the folders that complete it. Reads the disk."""

import errno
import os
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Final

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.completion import Completion, completion_of

MAX_SCANNED_ENTRIES: Final = 10_000
"""How many entries of a folder are searched for folders that complete a name."""


class FileNameError(Exception):
    """A name cannot be used for a new file; the message says why."""


def new_file_path(name: str, suffixes: Collection[str] = ()) -> Path:
    """Returns the path for a typed name, in which `~` is the home directory.

    Args:
        name: the name.
        suffixes: the extensions that it may have, in lower case; empty if it may have any.

    Raises:
        FileNameError: no new file can have this name.
    """
    name = name.strip()
    try:
        # RuntimeError: the user in ~user does not exist.
        path = Path(name).expanduser()
        if not name or path.is_dir():
            raise FileNameError(f"{name or '.'} is a folder; name a file in it" if name else "type a name")
        if suffixes and path.suffix.lower() not in suffixes:
            raise FileNameError(f"the name must end in {', '.join(list(suffixes)[:-1])} or {list(suffixes)[-1]}")
        if os.path.lexists(path):
            raise FileNameError(f"{path.name} exists; choose another name")
        if not path.parent.is_dir():
            raise FileNameError(f"cannot write {name}: {os.strerror(errno.ENOENT)}")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise FileNameError(f"cannot write {name}: {os.strerror(errno.EACCES)}")
    except (OSError, ValueError, RuntimeError) as error:
        raise FileNameError(f"cannot write {name}: {getattr(error, 'strerror', None) or error}") from error
    return path


def folder_completion(text: str) -> tuple[str, Completion | None]:
    """Returns the last part of a typed path, and how the names of folders complete it; None if none does."""
    folder_text, slash, word = text.rpartition("/")
    try:
        folder = Path(folder_text + slash).expanduser()
        with os.scandir(folder) as entries:
            names = [
                f"{entry.name}/"
                for entry in islice(entries, MAX_SCANNED_ENTRIES)
                if entry.is_dir() and (word.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError, RuntimeError):
        return word, None
    # A name that is shown with escapes could not be typed like that.
    return word, completion_of(word, sorted(name for name in names if sanitise(name, None) == name))
