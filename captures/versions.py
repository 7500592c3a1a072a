"""The version of the format, and the upgrades from older versions.

`FORMAT_VERSION` is independent of the release number: it rises only when a reader of the old version could misread the
new file. For each older version, `UPGRADES` contains a function that converts the members of a record to the next
version; there is none yet, because this is the first version.
"""

from __future__ import annotations

from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FORMAT_VERSION: Final = 1

UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}


def upgrade(members: dict[str, Any], version: int) -> dict[str, Any]:
    """Returns the members of a record, converted from `version` to `FORMAT_VERSION`."""
    for step in range(version, FORMAT_VERSION):
        members = UPGRADES[step](members)
    return members
