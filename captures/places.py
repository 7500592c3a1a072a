"""Where captures live and what they are called.

By convention and by hand, because a library for it costs the run path 25 ms: the user's data directory,
`captures/<server name>/`, one file for each start, named by time and chance. `MCPPROXY_CAPTURES` overrides the
directory. MCP hosts often start a server with a stripped environment, so readers look in every place where a recorder
may have written (`search_roots`).
"""

import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from captures.errors import CaptureError

SUFFIX: Final = ".mcpcap"
_STAMP_FORM: Final = "%Y%m%dT%H%M%SZ"
_STAMP = re.compile(r"[0-9]{4}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-5][0-9]Z")
_SEGMENT = re.compile(r"^(?P<stem>.+?)(?:\.(?P<number>[1-9][0-9]{0,8}))?\.mcpcap$", re.DOTALL)


def home() -> Path | None:
    """The user's home directory by `HOME`, else by the password database; None where neither tells."""
    named = os.environ.get("HOME")
    if named:
        return Path(named)
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return None


def _user_directory(variable: str, linux: str, mac: str) -> Path | None:
    named = os.environ.get(variable)
    if named and Path(named).is_absolute():
        return Path(named) / "mcpproxy"
    below = home()
    if below is None:
        return None
    return below / (mac if sys.platform == "darwin" else linux) / "mcpproxy"


def data_directory() -> Path | None:
    """The user's directory for data: `XDG_DATA_HOME`, or the system's default below the home directory."""
    return _user_directory("XDG_DATA_HOME", ".local/share", "Library/Application Support")


def config_directory() -> Path | None:
    """The user's directory for configuration, where the redaction key lies."""
    return _user_directory("XDG_CONFIG_HOME", ".config", "Library/Preferences")


def captures_root() -> Path:
    """The directory below which this environment's recorders write.

    Raises:
        CaptureError: no environment variable and no password entry names a home.
    """
    named = os.environ.get("MCPPROXY_CAPTURES")
    if named:
        return Path(named)
    data = data_directory()
    if data is None:
        raise CaptureError(
            "no place for captures: neither HOME nor a password entry names one; set MCPPROXY_CAPTURES or use --capture"
        )
    return data / "captures"


def search_roots() -> list[Path]:
    """Every directory in which a recorder of this user may have written, the likeliest first, without repeats."""
    candidates = []
    if os.environ.get("MCPPROXY_CAPTURES"):
        candidates.append(captures_root())
    below = home()
    if data := data_directory():
        candidates.append(data / "captures")
    if below is not None:
        candidates.append(
            below
            / ("Library/Application Support" if sys.platform == "darwin" else ".local/share")
            / "mcpproxy/captures"
        )
    return list(dict.fromkeys(candidates))


def new_name(wall_ns: int) -> str:
    """A file name for a capture that opens now: UTC time and four random hexadecimal digits, nothing foreign in it."""
    stamp = time.strftime(_STAMP_FORM, time.gmtime(wall_ns // 1_000_000_000))
    return f"{stamp}-{os.urandom(2).hex()}{SUFFIX}"


def safe_name(name: str) -> str:
    """A server's name as one harmless path component: letters, digits, `.`, `_` and `-`, at most 64, never hidden."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return plain[:64] or "server"


def segment_number(path: Path) -> int:
    """Which segment a file is by its name: 1 for `NAME.mcpcap`, 2 for `NAME.2.mcpcap`."""
    found = _SEGMENT.match(path.name)
    return int(found["number"] or 1) if found else 1


def first_segment(path: Path) -> Path:
    """The name of segment 1 of the capture to which `path` belongs; the file itself may be gone."""
    found = _SEGMENT.match(path.name)
    return path.with_name(found["stem"] + SUFFIX) if found else path


def segment_path(first: Path, number: int) -> Path:
    """The name of segment `number` of the capture whose first segment is `first`."""
    if number == 1:
        return first
    return first.with_name(f"{first.name.removesuffix(SUFFIX)}.{number}{SUFFIX}")


def segments(path: Path) -> list[Path]:
    """The existing segments of the capture to which `path` belongs, in order.

    `path` alone where its name is foreign.
    """
    first = first_segment(path)
    if not first.name.endswith(SUFFIX):
        return [path]
    stem = first.name.removesuffix(SUFFIX)
    try:
        names = [entry.name for entry in os.scandir(path.parent) if entry.name.startswith(stem)]
    except OSError:
        return [path]
    own = [path.with_name(name) for name in names if (m := _SEGMENT.match(name)) and m["stem"] == stem]
    return sorted(own, key=segment_number) or [path]


def find_captures(root: Path) -> list[Path]:
    """The captures in `root` and below it, by the path of their first present segment, the newest start first."""
    seen: dict[Path, Path] = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names, key=lambda n: segment_number(Path(n))):
            if name.endswith(SUFFIX):
                path = Path(folder, name)
                seen.setdefault(first_segment(path), path)
    return newest_first(seen.values())


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Sorted by start: the time in the name, to the second, then the last write.

    Names without a time go by their last write alone.
    """

    def started(path: Path) -> tuple[str, float]:
        try:
            written = path.stat().st_mtime
        except OSError:
            written = 0.0
        named = _STAMP.match(path.name)
        return (named[0] if named else time.strftime(_STAMP_FORM, time.gmtime(written)), written)

    return sorted(paths, key=started, reverse=True)
