"""Determines the id of a capture: the id in its header, or a substitute.

The id is the same everywhere: in the SQL column `capture`, in exports, and on a command line.
"""

from collections.abc import Container
from hashlib import blake2b
from pathlib import Path
from typing import Final

from captures.reader import Capture

ID_DIGITS: Final = 32
"""The number of hexadecimal digits of an id."""

_HEX: Final = frozenset("0123456789abcdef")


def capture_id(capture: Capture) -> str:
    """Returns the id in the capture's header, or a hash of its path if that is missing or invalid."""
    id_ = capture.header.members.get("capture")
    if isinstance(id_, str) and len(id_) == ID_DIGITS and _HEX.issuperset(id_):
        return id_
    return path_id(capture.path)


def path_id(path: Path, taken_ids: Container[str] = ()) -> str:
    """Returns an id for a capture that has none, or whose id belongs to another capture.

    Args:
        path: the capture's path.
        taken_ids: ids of other captures; a header can claim any id.
    """
    return id_of_location(str(path.resolve()), taken_ids)


def id_of_location(location: str, taken_ids: Container[str] = ()) -> str:
    """Returns an id for a capture at any location, as `path_id` does for a path.

    Args:
        location: the absolute path or URL of the capture.
        taken_ids: ids of other captures.
    """
    data = location.encode("utf-8", "surrogateescape")
    while (id_ := blake2b(data, digest_size=ID_DIGITS // 2).hexdigest()) in taken_ids:
        data += b"\0"
    return id_
