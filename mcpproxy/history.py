"""The user's input history: SQL typed at the prompt or on a screen, filters, and filters saved under a name.

Each statement is a line of one file; each filter is a line of another, after the name of its screen; each saved filter
is a line of a third, after its own name. Only the user can read them (0600), because they may quote a capture. They are
a convenience: if they cannot be read or written, the program continues without them.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from captures.ownership import is_of_user
from captures.paths import user_home
from mcpproxy.sql.statements import in_one_line

MAX_LINES: Final = 1000
"""The maximum number of lines that are kept."""

_MAX_HISTORY_BYTES: Final = 4 << 20
_SQL: Final = "query_history"
_FILTERS: Final = "filter_history"
_SAVED_FILTERS: Final = "saved_filters"


def history_path(name: str = _SQL) -> Path | None:
    """The path of a history file in the user's state directory, or None if there is no such directory."""
    state_home = os.environ.get("XDG_STATE_HOME")
    if state_home and os.path.isabs(state_home):
        return Path(state_home, "mcpproxy", name)
    home_directory = user_home()
    if home_directory is None:
        return None
    folder = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
    return Path(home_directory, folder, "mcpproxy", name)


def past_statements() -> list[str]:
    """The statements in the history, the newest last."""
    # A damaged file may contain NUL, and readline fails on it.
    return [line for line in read_lines(history_path()) if "\0" not in line]


def remember_statement(statement: str) -> str | None:
    """Add a statement, unless it repeats the last one.

    Returns:
        The line that was added; None if the statement does not fit on a line, because a string or a quoted name in it
        contains a line break, or if it contains a NUL.
    """
    line = in_one_line(statement)
    if line is None or "\0" in line:
        return None
    lines = past_statements()
    if line and lines[-1:] != [line]:
        write_lines(history_path(), [*lines, line][-MAX_LINES:])
    return line


def filters_of(screen: str) -> list[str]:
    """The filters in the history of a screen, the newest last."""
    return [
        line.removeprefix(f"{screen} ") for line in read_lines(history_path(_FILTERS)) if line.startswith(f"{screen} ")
    ]


def remember_filter(screen: str, text: str) -> None:
    """Add a filter, or move it to the end if it is already there.

    Args:
        screen: the name of the screen, without spaces.
        text: the filter, in one line.
    """
    line, path = f"{screen} {text}", history_path(_FILTERS)
    if text.splitlines() == [text]:
        write_lines(
            path, [*(earlier_line for earlier_line in read_lines(path) if earlier_line != line), line][-MAX_LINES:]
        )


def saved_filters() -> dict[str, str]:
    """The saved filters by their names, the newest last."""
    pairs = (line.partition(" ") for line in read_lines(history_path(_SAVED_FILTERS)))
    return {name: text for name, _, text in pairs if name and text}


def save_filter(name: str, text: str) -> None:
    """Save a filter under a name, in place of any other with this name, or delete it if the text is empty.

    Args:
        name: the name, without spaces.
        text: the filter, in one line.
    """
    others = [f"{other} {saved}" for other, saved in saved_filters().items() if other != name]
    if len(text.splitlines()) < 2:
        write_lines(history_path(_SAVED_FILTERS), [*others, *([f"{name} {text}"] if text else [])][-MAX_LINES:])


def write_lines(path: Path | None, lines: Sequence[str]) -> None:
    """Replace a file in the state directory as a whole, if possible."""
    if path is None:
        return
    path = Path(os.path.realpath(path))  # users keep such files elsewhere, and link to them
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_of_user((path if path.exists() else path.parent).stat()):
            return
        handle, name = tempfile.mkstemp(prefix=".history-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(f"{text}\n" for text in lines)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except (OSError, UnicodeEncodeError):
            Path(name).unlink(missing_ok=True)


def read_lines(path: Path | None) -> list[str]:
    """The lines of a file in the state directory; none if it is missing, belongs to another user, or cannot be read."""
    if path is None:
        return []
    try:
        # A pipe would keep the screen waiting for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not is_of_user(status):
            return []
        start = max(0, status.st_size - _MAX_HISTORY_BYTES)
        lines = os.pread(handle, _MAX_HISTORY_BYTES, start).decode("utf-8", "surrogateescape").split("\n")[:-1]
        return lines[1:] if start else lines  # the first line may be the rest of a longer one
    except OSError:
        return []
    finally:
        os.close(handle)
