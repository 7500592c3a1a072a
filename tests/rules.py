"""Kingfisher's rules, compiled once in a run: that takes eight seconds of processor, and to read them half a second.

Every process that runs tests has a home of its own, and so an empty cache. The whole run shares one folder of compiled
rules, from which they are copied into such a cache: they are not read through a link. Whoever needs the rules first
compiles them; the others wait for that.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from captures.places import cache_directory

_FOLDER: Final = "secret-rules"
_SHARED: Final = "TESTS_SECRET_RULES"
"""The variable that names the folder; processes that run a share of the tests inherit it."""


def share() -> None:
    """Have this process, and those that it starts, use the rules of the run."""
    if _SHARED not in os.environ:
        made = tempfile.TemporaryDirectory(prefix="mcpproxy-rules-")
        atexit.register(made.cleanup)
        os.environ[_SHARED] = made.name


def load() -> None:
    """Load the rules into this process, and compile them if nobody has; one process at a time."""
    from mcpproxy.sharing.catalogue import catalogue

    below = cache_directory()
    assert below is not None
    shared = Path(os.environ[_SHARED])
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_to(Path(below))
        catalogue()
        for made in Path(below, _FOLDER).iterdir():
            if not (shared / made.name).exists():
                shutil.copy(made, shared)


def copy_to(cache: Path) -> None:
    """Put the rules into another cache directory, if they are compiled."""
    (cache / _FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in Path(os.environ[_SHARED]).iterdir():
        if made.name != "lock":
            shutil.copy(made, cache / _FOLDER)
