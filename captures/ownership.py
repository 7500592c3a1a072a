"""Checks who owns a directory or file, and who else can read or write it, before traffic or a key is stored there.

Promises: anything that another user owns or can write to is refused, and so is a link to it: links are judged by their
target. Root is trusted, as it can access everything anyway. A sticky directory such as /tmp is accepted: users cannot
remove each other's files there. The recorder loads this module at every start, so modules that most starts do not need
are imported where they are used.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_READABLE_BITS: Final = 0o044
_WRITABLE_BITS: Final = 0o022
_WORLD_WRITABLE_BIT: Final = 0o002
_GROUP_BITS: Final = 0o070
_STICKY_BIT: Final = 0o1000


def is_of_user(status: os.stat_result) -> bool:
    """Whether a file belongs to this user or to root; always true on systems without user ids."""
    return not hasattr(os, "getuid") or status.st_uid in (os.getuid(), 0)


def refusal(status: os.stat_result) -> str | None:
    """Returns why a file must not be trusted, as the end of a sentence about it, or None if it may be trusted."""
    if not is_of_user(status):
        return f"belongs to {_user_name(status.st_uid)}"
    if _mode_for_others(status) & _WRITABLE_BITS and not status.st_mode & _STICKY_BIT:
        return f"is writable by others (mode {status.st_mode & 0o777:o})"
    return None


def directory_movable_by_others(folder: str) -> str | None:
    """Returns the nearest directory above `folder`, links resolved, in which everyone can rename entries, or None.

    Only directories that everyone can write to count; groups and other owners further up are left to the system.

    Raises:
        OSError: one of the directories cannot be examined.
    """
    parent = os.path.realpath(folder)
    while (parent := os.path.dirname(parent)) != os.sep:
        mode = os.stat(parent).st_mode
        if mode & _WORLD_WRITABLE_BIT and not mode & _STICKY_BIT:
            return parent
    return None


def is_readable_by_others(status: os.stat_result) -> bool:
    """Whether the mode lets other users read the file."""
    return bool(_mode_for_others(status) & _READABLE_BITS)


def _mode_for_others(status: os.stat_result) -> int:
    """Returns the mode bits that apply to other users, including the group's unless only this user is in the group."""
    if not hasattr(os, "getuid"):
        return 0
    mode = status.st_mode
    return (
        mode
        & 0o077
        & ~(_GROUP_BITS if mode & _GROUP_BITS & (_READABLE_BITS | _WRITABLE_BITS) and _is_private(status.st_gid) else 0)
    )


def _is_private(gid: int) -> bool:
    """Whether a group is the private group that many systems create for a user: same name, no other members."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def _user_name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
