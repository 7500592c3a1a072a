"""The directories of captures, and their file names.

The directory is the conventional one, computed here because a library for it adds 25 ms to the run path: the user's
data directory, `captures/<server name>/`, with one file per start, named by time and at random. `MCPPROXY_CAPTURES`
overrides the directory. MCP hosts often start a server with a stripped environment, so readers look in every place
where a recorder may have written (`listing.search_roots`).
"""

from __future__ import annotations

import os
import sys
import time

from captures.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    PathLike = str | os.PathLike[str]

SUFFIX: Final = ".mcpcap"
STAMP_FORM: Final = "%Y%m%dT%H%M%SZ"
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def home(variables: Mapping[str, str] = os.environ) -> str | None:
    """The user's home directory by `HOME`, else by the password database, or None if neither has it."""
    named = variables.get("HOME")
    if named:
        return named
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return None


def _user_directory(variable: str, linux: str, mac: str, variables: Mapping[str, str] = os.environ) -> str | None:
    named = variables.get(variable)
    if named and os.path.isabs(named):
        return os.path.join(named, "mcpproxy")
    below = home(variables)
    if below is None:
        return None
    return os.path.join(below, mac if sys.platform == "darwin" else linux, "mcpproxy")


def data_directory(variables: Mapping[str, str] = os.environ) -> str | None:
    """The user's data directory: `XDG_DATA_HOME`, or the system's default below the home directory."""
    return _user_directory("XDG_DATA_HOME", ".local/share", "Library/Application Support", variables)


def config_directory() -> str | None:
    """The user's configuration directory, which holds the redaction key."""
    return _user_directory("XDG_CONFIG_HOME", ".config", "Library/Preferences")


def cache_directory() -> str | None:
    """The directory for files that can be rebuilt, or None if no home directory is known."""
    named = os.environ.get("LOCALAPPDATA") or "" if sys.platform == "win32" else ""
    if os.path.isabs(named) and not os.environ.get("XDG_CACHE_HOME"):
        return os.path.join(named, "mcpproxy")
    return _user_directory("XDG_CACHE_HOME", ".cache", "Library/Caches")


def state_directory() -> str | None:
    """The directory for what must outlive a restart and is of no use on another machine."""
    return _user_directory("XDG_STATE_HOME", ".local/state", "Library/Application Support")


def captures_root(variables: Mapping[str, str] = os.environ) -> str:
    """The directory below which recorders in an environment write; by default in that of this process.

    Raises:
        CaptureError: no environment variable and no password entry names a home.
    """
    named = variables.get("MCPPROXY_CAPTURES")
    if named:
        return named
    data = data_directory(variables)
    if data is None:
        raise CaptureError(
            "no place for captures: neither HOME nor a password entry names one; set MCPPROXY_CAPTURES or use --capture"
        )
    return os.path.join(data, "captures")


def new_name(wall_ns: int) -> str:
    """A file name for a capture that opens now: UTC time and four random hexadecimal digits, no untrusted text."""
    stamp = time.strftime(STAMP_FORM, time.gmtime(wall_ns // 1_000_000_000))
    return f"{stamp}-{os.urandom(2).hex()}{SUFFIX}"


NEW_STEM: Final = "[0-9]{8}T[0-9]{6}Z-([0-9a-f]{4})"
"""A regular expression for the names from `new_name`, without the suffix; its group is the random end."""


def slug(name: str) -> str:
    """A name reduced to a harmless path component: letters, digits, `.`, `_` and `-`, at most 64, not hidden.

    Returns an empty string if nothing is left.
    """
    plain = "".join([char if char in _LETTERS else " " for char in name])
    return "-".join(plain.split()).strip("-.")[:64]


def safe_name(name: str) -> str:
    """The same, but never empty: `server` if nothing is left."""
    return slug(name) or "server"


def file_name(name: str) -> str:
    """A file name for a capture of that name; never one that looks like the second segment of another capture."""
    stem = safe_name(name)
    if segment_of(stem + SUFFIX) != (stem, 1):
        stem = stem.replace(".", "-")
    return stem + SUFFIX


def segment_of(name: str) -> tuple[str, int] | None:
    """A file name's stem and segment number: 1 for `NAME.mcpcap`, 2 for `NAME.2.mcpcap`; None for any other name."""
    stem = name.removesuffix(SUFFIX)
    if not stem or stem == name:
        return None
    front, _, number = stem.rpartition(".")
    if front and number.isascii() and number.isdigit() and number[0] != "0" and len(number) < 10:
        return front, int(number)
    return stem, 1


def segment_path(first: PathLike, number: int) -> str:
    """The path of segment `number` of the capture whose first segment is `first`."""
    path = os.fspath(first)
    return path if number == 1 else f"{path.removesuffix(SUFFIX)}.{number}{SUFFIX}"


def segment_numbers(folder: PathLike, stem: str) -> list[int]:
    """The segment numbers of a capture in a directory, in order.

    Raises:
        OSError: the directory cannot be read.
    """
    with os.scandir(folder) as entries:
        segments = [segment_of(entry.name) for entry in entries if entry.name.startswith(stem)]
    return sorted({number for own in segments if own and own[0] == stem for number in own[1:]})
