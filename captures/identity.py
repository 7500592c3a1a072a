"""The id of a capture: the one in its header, or a substitute if there is none.

The id is the same everywhere: in the SQL column `capture`, in exports, and on a command line.
"""

from collections.abc import Container
from hashlib import blake2b
from pathlib import Path
from typing import Final

from captures.reader import Capture

DIGITS: Final = 32
"""The hexadecimal digits of an id."""

_HEX: Final = frozenset("0123456789abcdef")


def capture_id(capture: Capture) -> str:
    """The id in the capture's header, else a hash of its path."""
    id_ = capture.header.members.get("capture")
    if isinstance(id_, str) and len(id_) == DIGITS and _HEX.issuperset(id_):
        return id_
    return path_id(capture.path)


def path_id(path: Path, taken: Container[str] = ()) -> str:
    """An id for a capture that has none, or whose id belongs to another.

    Args:
        path: the capture's path.
        taken: ids of other captures; a header can claim any id.
    """
    return place_id(str(path.resolve()), taken)


def place_id(place: str, taken: Container[str] = ()) -> str:
    """The same for a capture at any place.

    Args:
        place: its absolute path or URL.
        taken: ids of other captures.
    """
    hashed = place.encode("utf-8", "surrogateescape")
    while (id_ := blake2b(hashed, digest_size=DIGITS // 2).hexdigest()) in taken:
        hashed += b"\0"
    return id_
