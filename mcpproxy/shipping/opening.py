"""Opens the destination that a user has typed: a directory or a URL."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from captures.listing import real_path, search_roots
from mcpproxy.shipping.destination import CannotShip, Destination

SCHEMES: Final = ("s3", "gs", "az")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET_PATH: Final = re.compile(r"[A-Za-z0-9._-]+(/[^/?#@]+)*/?")


def problem_of(text: str) -> str | None:
    """Returns why a text cannot be a destination, or None; quotes the text only if it cannot contain a credential."""
    if not text:
        return "DEST is empty: name a directory, or s3://BUCKET/PREFIX, gs:// or az://"
    url = _URL.fullmatch(text)
    if url is None:
        root = real_path(Path(text))
        for captures in search_roots():
            if root.is_relative_to(real_path(captures)):
                return f"{text} is inside {captures}, where captures are recorded; choose another directory"
        return None
    if url[1] not in SCHEMES:
        return (
            f"DEST begins with {url[1]}://, which is unknown: name a directory, or s3://BUCKET/PREFIX, gs:// or az://"
        )
    if not _BUCKET_PATH.fullmatch(url[2]):
        return f"DEST is not {url[1]}://BUCKET/PREFIX; credentials and other settings come from the environment"
    return None


@contextmanager
def opened_destination(text: str) -> Iterator[Destination]:
    """Yields a destination, and closes it afterwards.

    Raises:
        CannotShip: the destination cannot be used.
    """
    if _URL.fullmatch(text):
        from mcpproxy.shipping.bucket import Bucket  # the extra is loaded for URLs only

        yield Bucket(text.rstrip("/"))
        return
    from mcpproxy.shipping.folder import Folder

    folder = Folder(Path(text))
    try:
        yield folder
    finally:
        folder.close()


@contextmanager
def exclusive_lock(text: str, state: Path) -> Iterator[None]:
    """Keep other processes of this user from shipping to the same destination.

    Args:
        text: the destination, as typed.
        state: the folder for the lock.

    Raises:
        CannotShip: another process is shipping there, or the lock cannot be created.
    """
    lock_name = text if _URL.fullmatch(text) else os.path.realpath(text)
    path = state / f"ship-{sha256(os.fsencode(lock_name)).hexdigest()[:16]}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotShip(f"cannot create {path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CannotShip(f"another mcpproxy ship to {text} is running; wait until it ends") from None
    finally:
        os.close(fd)
