"""What `install` remembers: a backup of every file that it changed, and what it wrote into it.

It is in the user's state directory (0700, files 0600), because files of clients can hold secrets. The records are kept
twice, the second time in the configuration directory. If both are lost, they are recovered as far as possible
(`mcpproxy.clients.recovery`), because mcpproxy's words in a client's file can be recognised.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from captures.places import config_directory, state_directory
from mcpproxy.clients.documents.document import read_file
from mcpproxy.clients.listeners import Listener, free_port, read_listener
from mcpproxy.clients.replace import create, remove_left

_LATEST_S: Final = 1e12
"""No time in our records is later, in seconds since 1970."""


def digest(data: bytes) -> str:
    """Returns a digest of the content of a file."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class Written:
    """What is known of one file."""

    base: str
    """The digest of the file before mcpproxy wrote to it."""
    backup: str
    """The name of its copy in `backups`."""
    after: list[str] = field(default_factory=list)
    """The digests of what mcpproxy wrote; as long as the file has one of them, its backup holds all of the original."""
    at_s: float = 0.0
    """When we last wrote it: seconds since 1970."""
    added: list[str] = field(default_factory=list)
    """The places of members that we added, as JSON."""
    bridged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The places of the entries whose URL became a command, and what they were."""
    routed: list[str] | None = None
    """The places of the commands that `install` wrapped; None if a version did that does not record them."""


def _read_written(fields: Any) -> Written | None:
    """Returns the record of a file, or None if it is malformed."""
    try:
        written = Written(**fields)
    except TypeError:
        return None
    is_sound = (
        all(isinstance(text, str) for text in (written.base, written.backup))
        and written.backup == os.path.basename(written.backup)
        and all(_is_texts(texts) for texts in (written.after, written.added))
        and _is_number(written.at_s)
        and _are_bridged(written.bridged)
        and (written.routed is None or _is_texts(written.routed))
    )
    return written if is_sound else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < _LATEST_S


def _are_bridged(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_bridged(entry) for entry in value.values())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_bridged(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("url"), str)
        and _is_texts(entry.get("member"))
        and bool(entry["member"])
        and isinstance(entry.get("type", 0), str | None)
    )


class State:
    """The records of all files, while this process holds their lock."""

    def __init__(self, folder: Path, copy: Path | None = None) -> None:
        """Read the records; an unreadable file counts as none.

        Args:
            folder: where they are.
            copy: the folder of the copy; None if none is kept.
        """
        self._folder = folder
        self._paths = [place / "install.json" for place in (folder, copy) if place is not None]
        self.files: dict[str, Written] = {}
        self.listeners: list[Listener] = []
        self.is_partial = False
        """Whether records were lost, and not all of them could be recovered."""
        self.is_read = any(self._read(path) for path in self._paths)
        """Whether the records, or their copy, could be read."""

    def _read(self, path: Path) -> bool:
        try:
            stored = json.loads(read_file(path))
            known = {name: _read_written(fields) for name, fields in stored["files"].items()}
            listeners = [listener for fields in stored["listeners"] if (listener := read_listener(fields))]
        except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            return False
        self.files = {name: written for name, written in known.items() if written is not None}
        self.listeners, self.is_partial = listeners, stored.get("partial") is True
        return True

    @property
    def was_here(self) -> bool:
        """Whether there is any trace of records, readable or not."""
        return any(path.exists() for path in (*self._paths, self.backups))

    @property
    def backups(self) -> Path:
        """The folder of the backups."""
        return self._folder / "backups"

    def left_behind(self) -> Iterator[Path]:
        """Yields the temporary files that a killed process left."""
        for path in self._paths:
            yield from path.parent.glob(f".{path.name}.*")
        yield from self.backups.glob(".*")

    def listener(self, name: str, upstream: str, capture: str) -> Listener:
        """The listener for a server, an existing one if there is one; a new one is kept with the next write.

        Raises:
            OSError: no port is free.
        """
        for listener in self.listeners:
            if (listener.name, listener.upstream) == (name, upstream):
                return listener
        port = free_port(name, upstream, {listener.port for listener in self.listeners})
        self.listeners.append(Listener(name, port, upstream, capture))
        return self.listeners[-1]

    def of(self, path: Path) -> Written | None:
        """What is known of a file, by whichever of its names."""
        try:
            return self.files.get(os.path.realpath(path))
        except ValueError:
            return None

    def before_write(self, path: Path, client: str, old: bytes, new: bytes) -> Written:
        """Back up a file that is about to change, and record what it will hold; `save` writes the record to disk.

        Args:
            path: of the file.
            client: the name of its client, for the name of the copy.
            old: what it holds now.
            new: what it will hold.

        Raises:
            OSError: the backup cannot be written, so the file must not be written either.
        """
        known = self.of(path)
        now = digest(old)
        if known is None or now not in (known.base, *known.after):
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            name = f"{stamp}-{client}-{os.urandom(2).hex()}-{path.name.lstrip('.')}"
            create(self.backups / name, old)
            # What was known of entries still holds: the file was edited, but they may be as we wrote them.
            added, bridged = (known.added, known.bridged) if known is not None else ([], {})
            routed = known.routed if known is not None else []
            known = Written(now, name, added=added, bridged=bridged, routed=routed)
        known.at_s = time.time()
        known.after = [*dict.fromkeys([*known.after, digest(new)])]
        self.files[os.path.realpath(path)] = known
        return known

    def original(self, path: Path, data: bytes) -> bytes | None:
        """Returns what a file held before mcpproxy first wrote to it, or None if it has been edited since."""
        known = self.of(path)
        if known is None or digest(data) not in known.after:
            return None
        try:
            backup = read_file(self.backups / known.backup)
        except (OSError, ValueError):
            return None
        return backup if digest(backup) == known.base else None

    def save(self) -> None:
        """Write the records to disk; listeners that no entry uses are dropped.

        Raises:
            OSError: they cannot be written.
        """
        self.listeners = [listener for listener in self.listeners if listener.users]
        stored = {
            "version": 1,
            "partial": self.is_partial,
            "files": {name: asdict(written) for name, written in self.files.items()},
            "listeners": [asdict(listener) for listener in self.listeners],
        }
        failed: list[OSError] = []
        for path in self._paths:
            try:
                create(path, json.dumps(stored, indent=1).encode())
            except OSError as error:
                failed.append(OSError(error.errno, f"cannot write {path}: {error.strerror}"))
        if len(failed) == len(self._paths):
            raise failed[0]


def state_folder() -> Path:
    """Where the records are.

    Raises:
        OSError: no home directory is known.
    """
    folder = state_directory()
    if folder is None:
        raise OSError("your home directory is not known; set HOME and try again")
    return Path(folder)


def read_state() -> State:
    """Reads the records of this user, without a lock.

    Raises:
        OSError: no home directory is known.
    """
    copy = config_directory()
    return State(state_folder(), None if copy is None else Path(copy))


@contextmanager
def locked() -> Iterator[State]:
    """Reads the records and locks them: a second `install` waits.

    Raises:
        OSError: the folder cannot be created.
    """
    import fcntl  # Windows has none; there, clients are only looked for

    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Read and write, so that opening never blocks, even if the file is a pipe.
    with open(folder / "lock", "a", opener=lambda path, _: os.open(path, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Left by a killed process; no other process is writing one.
        state = read_state()
        for left in state.left_behind():
            with suppress(OSError):
                left.unlink()
        for name in state.files:
            with suppress(OSError, ValueError):
                remove_left(Path(name))
        yield state
