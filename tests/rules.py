"""Kingfisher's rules, compiled once: compiling takes eight seconds of processor time, and reading half a second.

Every process that runs tests has its own home, and so an empty cache. All runs share one folder of compiled rules, next
to what `make setup` has fetched. The rules are copied from it into each cache, as they are not read through a link. The
file is named after a hash of the rules, so changed rules are compiled again. The first process that needs the rules
compiles them; the others wait for it.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from captures.paths import cache_directory

_FOLDER: Final = "secret-rules"
_SHARED: Final = Path(__file__).parents[1] / ".venv" / _FOLDER


def load() -> None:
    """Load the rules into this process, and compile them if no process has; one process at a time."""
    from mcpproxy.sharing.kingfisher import catalogue

    below = cache_directory()
    assert below is not None
    _SHARED.mkdir(exist_ok=True)
    with open(_SHARED.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_to(Path(below))
        catalogue()
        for made in Path(below, _FOLDER).iterdir():
            if not (_SHARED / made.name).exists():
                # A run may be killed at any moment, and half a file must not be mistaken for a whole one.
                part = shutil.copy(made, _SHARED.with_suffix(".part"))
                os.replace(part, _SHARED / made.name)


def copy_to(cache: Path) -> None:
    """Copy the rules into another cache directory, if they are compiled."""
    (cache / _FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in _SHARED.iterdir():
        shutil.copy(made, cache / _FOLDER)
