"""The directories of captures, and their file names.

The default is `captures/<server name>/` in the user's data directory, with one file per start, named by the time and at
random. The data directory is computed here because a library would add 25 ms to each start. `MCPPROXY_CAPTURES`
overrides the directory. MCP hosts often start a server with a stripped environment, so readers search every directory
to which a recorder may have written (`listing.search_roots`).
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
STAMP_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_SAFE_CHARS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def user_home(variables: Mapping[str, str] = os.environ) -> str | None:
    """Returns the user's home directory from `HOME`, or else from the password database, or None if neither has it."""
    home_variable = variables.get("HOME")
    if home_variable:
        return home_variable
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return None


def _user_directory(variable: str, linux: str, mac: str, variables: Mapping[str, str] = os.environ) -> str | None:
    base = variables.get(variable)
    if base and os.path.isabs(base):
        return os.path.join(base, "mcpproxy")
    home_directory = user_home(variables)
    if home_directory is None:
        return None
    return os.path.join(home_directory, mac if sys.platform == "darwin" else linux, "mcpproxy")


def data_directory(variables: Mapping[str, str] = os.environ) -> str | None:
    """Returns mcpproxy's data directory, in `XDG_DATA_HOME` or the system's default below the home directory."""
    return _user_directory("XDG_DATA_HOME", ".local/share", "Library/Application Support", variables)


def config_directory() -> str | None:
    """Returns mcpproxy's configuration directory, which contains the redaction key."""
    return _user_directory("XDG_CONFIG_HOME", ".config", "Library/Preferences")


def cache_directory() -> str | None:
    """Returns the directory for files that can be rebuilt, or None if no home directory is known."""
    local_data = os.environ.get("LOCALAPPDATA") or "" if sys.platform == "win32" else ""
    if os.path.isabs(local_data) and not os.environ.get("XDG_CACHE_HOME"):
        return os.path.join(local_data, "mcpproxy")
    return _user_directory("XDG_CACHE_HOME", ".cache", "Library/Caches")


def state_directory() -> str | None:
    """Returns the directory for files that must outlive a restart but are useless on another machine."""
    return _user_directory("XDG_STATE_HOME", ".local/state", "Library/Application Support")


def captures_root(variables: Mapping[str, str] = os.environ) -> str:
    """Returns the directory below which recorders in an environment write; by default, the one of this process.

    Raises:
        CaptureError: neither an environment variable nor a password entry names a home directory.
    """
    directory = variables.get("MCPPROXY_CAPTURES")
    if directory:
        return directory
    data = data_directory(variables)
    if data is None:
        raise CaptureError(
            "no place for captures: neither HOME nor a password entry names one; set MCPPROXY_CAPTURES or use --capture"
        )
    return os.path.join(data, "captures")


def new_name(wall_ns: int) -> str:
    """Returns a file name for a new capture: UTC time and four random hexadecimal digits, but no untrusted text."""
    stamp = time.strftime(STAMP_FORMAT, time.gmtime(wall_ns // 1_000_000_000))
    return f"{stamp}-{os.urandom(2).hex()}{SUFFIX}"


NEW_STEM: Final = "[0-9]{8}T[0-9]{6}Z-([0-9a-f]{4})"
"""A regular expression for the names from `new_name`, without the suffix; its group is the random end."""


def slug(name: str) -> str:
    """Returns a name as a harmless path component: letters, digits, `.`, `_` and `-`, at most 64, not hidden.

    Returns an empty string if nothing is left.
    """
    cleaned = "".join([char if char in _SAFE_CHARS else " " for char in name])
    return "-".join(cleaned.split()).strip("-.")[:64]


def safe_name(name: str) -> str:
    """Returns the same as `slug`, or `server` if nothing is left."""
    return slug(name) or "server"


def file_name(name: str) -> str:
    """Returns a file name for a capture with this name, which never looks like a later segment of another capture."""
    stem = safe_name(name)
    if segment_of(stem + SUFFIX) != (stem, 1):
        stem = stem.replace(".", "-")
    return stem + SUFFIX


def segment_of(name: str) -> tuple[str, int] | None:
    """Returns the stem and number in a segment's name (1 for `NAME.mcpcap`, 2 for `NAME.2.mcpcap`), or None."""
    stem = name.removesuffix(SUFFIX)
    if not stem or stem == name:
        return None
    base, _, number = stem.rpartition(".")
    if base and number.isascii() and number.isdigit() and number[0] != "0" and len(number) < 10:
        return base, int(number)
    return stem, 1


def segment_path(first: PathLike, number: int) -> str:
    """Returns the path of segment `number` of the capture whose first segment is `first`."""
    path = os.fspath(first)
    return path if number == 1 else f"{path.removesuffix(SUFFIX)}.{number}{SUFFIX}"


def segment_numbers(folder: PathLike, stem: str) -> list[int]:
    """Returns the segment numbers of a capture in a directory, in order.

    Raises:
        OSError: the directory cannot be read.
    """
    with os.scandir(folder) as entries:
        segments = [segment_of(entry.name) for entry in entries if entry.name.startswith(stem)]
    return sorted({number for segment in segments if segment and segment[0] == stem for number in segment[1:]})
