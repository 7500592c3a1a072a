"""Servers that run without a capture, as `run --if-unrecordable pass` lets them: their relay, and the note about them.

Other commands look for the note, as the user would otherwise believe that the server is recorded. It is in the runtime
directory, which is rarely on the disk that is full; if it cannot be written either, only the process shows it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from stat import S_ISREG

from captures.paths import user_home
from captures.tuples import NamedTuple
from mcpproxy.relay.processes import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from mcpproxy.relay.pump import Cause, Ender

_PREFIX: Final = "unrecorded-"
_MAX_REASON_CHARS: Final = 4096


class Note(NamedTuple):
    """A server that runs without a capture. All texts are untrusted."""

    pid: int
    """The pid of its `run`."""
    name: str
    """The server's name, as its captures would have it."""
    since_ns: int
    """When it began, in nanoseconds since 1970."""
    why: str
    """What kept its recorder from creating a capture; empty if that is unknown."""


class NullTap:
    """A tap that sees nothing."""

    waiting_since_ns = 0

    @property
    def missed(self) -> NullTap:
        """It never fails, so this counts nothing."""
        return self

    def add(self, data: bytes) -> None:
        """Nothing is counted."""

    def portion(self, data: bytes) -> int:
        """All of it at once."""
        return len(data)

    def chunk(self, data: bytes) -> None:
        """Nothing is recorded."""

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        """Nothing is recorded."""

    def ended(self, by: Ender, error: int | None) -> None:
        """Nothing is recorded."""

    def failed(self, error: Exception) -> None:
        """It does nothing that could fail."""


class NullObserver:
    """An observer that records nothing."""

    def spawned(self, pid: int, start: str | None) -> None:
        """Nothing is recorded."""

    def running(self) -> None:
        """Nothing is prepared."""

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """Nothing is recorded."""

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """Nothing is recorded."""

    def stuck(self) -> None:
        """No tap can hang."""


_numbers = count()
"""Numbers of this process's notes: `up` has one for each of its servers that is not recorded."""


@contextmanager
def noted(name: str, why: str) -> Iterator[None]:
    """Keep a note about this process, if it can be written."""
    path = None
    with suppress(Exception):  # whatever fails here must not keep the server from its client
        path = _write(Note(os.getpid(), name, time.time_ns(), why))
    try:
        yield
    finally:
        if path is not None:
            with suppress(OSError):
                os.unlink(path)


def notes() -> Iterator[Note]:
    """The notes for this home directory about processes that still run; those about ended processes are removed."""
    for folder in _folders():
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.startswith(_PREFIX) and _is_own(folder):
                path = os.path.join(folder, name)
                note, of = _read(path)
                if note is None:
                    with suppress(OSError):
                        os.unlink(path)
                elif of in (None, user_home()):
                    yield note


def own_folders() -> list[str]:
    """The folders that notes were written to, which outlast the notes."""
    return [folder for folder in _folders() if _is_own(folder)]


def _folders() -> Iterator[str]:
    """Where notes may be: clients strip the environment, so a recorder may know fewer of these folders than we do."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    known = [named] if os.path.isabs(named) else []
    for folder in dict.fromkeys((*known, f"/run/user/{os.getuid()}")):
        yield os.path.join(folder, "mcpproxy")
    # Not `tempfile`, which writes a file to find out whether it can, and fails if it cannot.
    temporary = os.environ.get("TMPDIR", "")
    yield os.path.join(temporary if os.path.isabs(temporary) else "/tmp", f"mcpproxy-{os.getuid()}")  # noqa: S108


def _is_own(folder: str) -> bool:
    """Whether a folder belongs to this user alone: anyone can create one in /tmp."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170077 == 0o040000


def _write(note: Note) -> str | None:
    """Write a note where that is possible; returns its path."""
    told = {
        **note._replace(why=note.why[:_MAX_REASON_CHARS])._asdict(),
        "start": start_time(note.pid),
        "home": user_home(),
    }
    content, number = json.dumps(told).encode(), next(_numbers)
    for folder in _folders():
        path = os.path.join(folder, f"{_PREFIX}{note.pid}-{number}")
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            if not _is_own(folder):
                continue
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, content)
            finally:
                os.close(fd)
            return path
    return None


def _read(path: str) -> tuple[Note | None, str | None]:
    """Returns a note, or None if it is malformed or its process has ended, and the home directory that it is for."""
    try:
        # If something else is in its place, opening it must not wait.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            told: Any = json.loads(
                file.read(16 * _MAX_REASON_CHARS) if S_ISREG(os.fstat(file.fileno()).st_mode) else b""
            )
        note = Note(int(told["pid"]), str(told["name"]), int(told["since_ns"]), str(told["why"]))
        if not 0 <= note.since_ns < 1 << 62:
            return None, None
        start = start_time(note.pid)
        return (note if start is not None and start == told["start"] else None), told["home"]
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return None, None
