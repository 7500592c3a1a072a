"""Kingfisher's rules, compiled once in a run: that takes eight seconds of processor, and to read them half a second.

Every process that runs tests has a home of its own, and so an empty cache. The folder of the rules in it is a link to
one that the whole run shares. Whoever needs the rules first compiles them; the others wait for that.
"""

import atexit
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from captures.places import cache_directory

_SHARED: Final = "TESTS_SECRET_RULES"
"""The variable that names the folder; processes that run a share of the tests inherit it."""


def share() -> None:
    """Have the home of this process read the rules of the run."""
    if _SHARED not in os.environ:
        made = tempfile.TemporaryDirectory(prefix="mcpproxy-rules-")
        atexit.register(made.cleanup)
        os.environ[_SHARED] = made.name
    below = cache_directory()
    assert below is not None
    os.makedirs(below, mode=0o700)
    os.symlink(os.environ[_SHARED], Path(below, "secret-rules"))


def load() -> None:
    """Load the rules into this process, and compile them if nobody has; one process at a time."""
    from mcpproxy.sharing.catalogue import catalogue

    with open(Path(os.environ[_SHARED], "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        catalogue()
