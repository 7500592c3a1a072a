"""Taps for servers that run without a capture because of `run --if-unrecordable pass`, and notes about them.

Other commands look for the note, because the user would otherwise believe that the server is recorded. It is in the
runtime directory, which is rarely on a disk that is full. If the note cannot be written, either, only the process
itself shows that the server is running unrecorded.
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


class UnrecordedNote(NamedTuple):
    """A note about a server that is running without a capture. All texts are untrusted."""

    pid: int
    """The process id of its `run`."""
    name: str
    """The name that the server would have in its captures."""
    since_ns: int
    """When it began, in nanoseconds since 1970."""
    why: str
    """The reason why its recorder could not create a capture; empty if it is unknown."""


class NullTap:
    """A tap that records nothing."""

    waiting_since_ns = 0

    @property
    def missed(self) -> NullTap:
        """The counter of unrecorded traffic: the tap itself, which counts nothing."""
        return self

    def add(self, data: bytes) -> None:
        """Count nothing."""

    def portion(self, data: bytes) -> int:
        """Returns the size of the whole chunk."""
        return len(data)

    def chunk(self, data: bytes) -> None:
        """Records nothing."""

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        """Records nothing."""

    def ended(self, by: Ender, error: int | None) -> None:
        """Records nothing."""

    def failed(self, error: Exception) -> None:
        """Report nothing, because this tap cannot fail."""


class NullObserver:
    """An observer that records nothing."""

    def spawned(self, pid: int, start: str | None) -> None:
        """Records nothing."""

    def running(self) -> None:
        """Prepare nothing."""

    def received(self, signum: int, *, from_terminal: bool) -> None:
        """Records nothing."""

    def sent(self, signum: int, reason: str, pids: list[int]) -> None:
        """Records nothing."""

    def stuck(self) -> None:
        """Does nothing, because no tap can hang."""


_note_numbers = count()
"""Numbers the notes of this process: `up` writes one for each of its servers that is not recorded."""


@contextmanager
def keep_note(name: str, why: str) -> Iterator[None]:
    """Keep a note about this process, if it can be written."""
    path = None
    with suppress(Exception):  # a failure here must not keep the server from its client
        path = _write_note(UnrecordedNote(os.getpid(), name, time.time_ns(), why))
    try:
        yield
    finally:
        if path is not None:
            with suppress(OSError):
                os.unlink(path)


def read_notes() -> Iterator[UnrecordedNote]:
    """Yields the notes of this home directory about running processes; removes notes about ended processes."""
    for folder in _folders():
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.startswith(_PREFIX) and _is_own(folder):
                path = os.path.join(folder, name)
                note, note_home = _read_note(path)
                if note is None:
                    with suppress(OSError):
                        os.unlink(path)
                elif note_home in (None, user_home()):
                    yield note


def note_folders() -> list[str]:
    """Returns the folders in which notes were written; they remain when the notes are removed."""
    return [folder for folder in _folders() if _is_own(folder)]


def _folders() -> Iterator[str]:
    """Yields the folders that may contain notes.

    Clients strip the environment, so a recorder may know fewer of these folders than this process.
    """
    runtime_folder = os.environ.get("XDG_RUNTIME_DIR", "")
    runtime_folders = [runtime_folder] if os.path.isabs(runtime_folder) else []
    for folder in dict.fromkeys((*runtime_folders, f"/run/user/{os.getuid()}")):
        yield os.path.join(folder, "mcpproxy")
    # Without `tempfile`, which writes a test file to find a writable folder, and fails if there is none.
    temporary_folder = os.environ.get("TMPDIR", "")
    yield os.path.join(temporary_folder if os.path.isabs(temporary_folder) else "/tmp", f"mcpproxy-{os.getuid()}")  # noqa: S108


def _is_own(folder: str) -> bool:
    """Returns whether only this user has access to a folder, because anyone can create one in /tmp."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o170077 == 0o040000


def _write_note(note: UnrecordedNote) -> str | None:
    """Write a note to the first folder that allows it; returns its path, or None if none does."""
    members = {
        **note._replace(why=note.why[:_MAX_REASON_CHARS])._asdict(),
        "start": start_time(note.pid),
        "home": user_home(),
    }
    content, number = json.dumps(members).encode(), next(_note_numbers)
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


def _read_note(path: str) -> tuple[UnrecordedNote | None, str | None]:
    """Returns a note, or None if it is malformed or its process has ended, and the home directory that it is for."""
    try:
        # The path may lead to something else, such as a FIFO, on which the open must not block.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            members: Any = json.loads(
                file.read(16 * _MAX_REASON_CHARS) if S_ISREG(os.fstat(file.fileno()).st_mode) else b""
            )
        note = UnrecordedNote(int(members["pid"]), str(members["name"]), int(members["since_ns"]), str(members["why"]))
        if not 0 <= note.since_ns < 1 << 62:
            return None, None
        start = start_time(note.pid)
        return (note if start is not None and start == members["start"] else None), members["home"]
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return None, None
