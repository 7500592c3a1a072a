"""The SQL that this user has typed, at the prompt or on a screen: one file, which Python's readline reads as well.

A statement takes one line there. It is for our own eyes (0600), as it may hold what is only in a capture, and keeping
it is a comfort: who cannot read or write it goes on without.
"""

import os
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from captures.places import home

LENGTH: Final = 1000
"""Lines that are kept."""

_LARGEST: Final = 4 << 20
_EDITLINE: Final = "_HiStOrY_V2_"
"""The first line of the file where Python's readline is libedit, which writes blanks and backslashes in octal."""


def history_path() -> Path | None:
    """Where it lies: the user's directory for state. None where there is none."""
    named = os.environ.get("XDG_STATE_HOME")
    if named and os.path.isabs(named):
        return Path(named, "mcpproxy", "query_history")
    below = home()
    if below is None:
        return None
    folder = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
    return Path(below, folder, "mcpproxy", "query_history")


def remembered() -> list[str]:
    """What was typed, the newest last."""
    lines = _lines()
    if lines[:1] == [_EDITLINE]:
        return [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line) for line in lines[1:]]
    return lines


def remember(statement: str) -> None:
    """Add a statement; twice in a row counts once."""
    # A comment runs to the end of its line, and there is only one line.
    line = re.sub(r"('[^']*')|--[^\n]*", lambda found: found[1] or "", statement)
    line = re.sub(r"\s*[\r\n]+\s*", " ", line).strip()
    path, lines = history_path(), _lines()
    is_editline = lines[:1] == [_EDITLINE]
    if is_editline:
        line = re.sub(r"[\\ ]", lambda found: f"\\{ord(found[0]):03o}", line)
    if path is None or not line or lines[-1:] == [line]:
        return
    kept = [*lines[:is_editline], *[*lines[is_editline:], line][-LENGTH:]]
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".history-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(f"{one}\n" for one in kept)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)


def _lines() -> list[str]:
    path = history_path()
    if path is None:
        return []
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "surrogateescape").split("\n")[:-1]
    except OSError:
        return []
