"""The records of `install`: a backup of every file that it changed, and a record of what it wrote there.

They are in the user's state directory (0700, files 0600), because clients' files can contain secrets. A second copy of
the records, without the backups, is in the configuration directory. Each copy contains a serial number that grows with
each write: if one copy could not be written, the other has the higher number. `mcpproxy.clients.recovery` recovers
records that both copies lack, as far as possible, because it can recognise mcpproxy's words in a client's file.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from captures.paths import config_directory, state_directory
from mcpproxy.clients.documents.document import read_file
from mcpproxy.clients.listeners import PORT_COUNT, Listener, free_port, parsed_listener
from mcpproxy.clients.replace import remove_leftovers, write_private

_VERSION: Final = 1
"""The version of the records. Members can be added without a new version, because readers drop unknown members."""
_MAX_BYTES: Final = 4 << 20
"""Larger files are refused: mcpproxy did not write them, and reading them would take minutes."""
_MAX_TIME_S: Final = 1e12
"""The latest valid time in a record, in seconds since 1970."""
_MAX_SERIAL: Final = 1 << 63


class LaterRecords(OSError):
    """A later version of mcpproxy wrote the records, so this one must not overwrite them; the text says what to do."""


def digest(data: bytes) -> str:
    """Returns a digest of the content of a file."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class FileRecord:
    """The record of one file."""

    base: str
    """The digest of the file before mcpproxy wrote to it."""
    backup: str
    """The name of the copy of that content in `backup_folder`."""
    after: list[str] = field(default_factory=list)
    """The digests of what mcpproxy wrote; while the file matches one of them, the backup is its complete original."""
    at_s: float = 0.0
    """When mcpproxy last wrote the file, in seconds since 1970."""
    added: list[str] = field(default_factory=list)
    """The paths of the members that mcpproxy added, as JSON."""
    bridged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The paths of the entries whose URL became a command, with the data that restores each."""
    routed: list[str] | None = None
    """The paths of the commands that `install` wrapped; None if a version that did not record them wrote the record."""


_MEMBERS: Final = frozenset(member.name for member in fields(FileRecord))


def _parsed_record(stored_data: Any) -> FileRecord | None:
    """Returns the record of a file, or None if it is malformed; unknown members are dropped."""
    if not isinstance(stored_data, dict):
        return None
    try:
        record = FileRecord(**{name: value for name, value in stored_data.items() if name in _MEMBERS})
    except TypeError:
        return None
    if not _is_time(record.at_s):
        record.at_s = 0.0  # `uninstall` does not need it
    is_valid = (
        all(isinstance(text, str) for text in (record.base, record.backup))
        and record.backup == os.path.basename(record.backup)
        and all(_is_text_list(texts) for texts in (record.after, record.added))
        and _is_bridge_map(record.bridged)
        and (record.routed is None or _is_text_list(record.routed))
    )
    return record if is_valid else None


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < _MAX_TIME_S


def _is_bridge_map(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_bridge_data(entry) for entry in value.values())


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_bridge_data(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("url"), str)
        and _is_text_list(entry.get("member"))
        and bool(entry["member"])
        and isinstance(entry.get("type", 0), str | None)
    )


@dataclass(slots=True)
class _RecordsCopy:
    """The content of one copy of the records."""

    files: dict[str, FileRecord] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    serial: int = 0
    """A number that grows with each write; 0 in the records of earlier versions."""
    is_partial: bool = False
    """Whether records were lost before this copy was written."""
    is_whole: bool = True
    """Whether the whole copy could be read."""

    def merge(self, other: _RecordsCopy) -> None:
        """Add the records that only the other copy contains."""
        self.files = other.files | self.files
        known_ports = {listener.port for listener in self.listeners}
        self.listeners += [listener for listener in other.listeners if listener.port not in known_ports]


def _read_copy(path: Path) -> _RecordsCopy | None:
    """Returns the content of a copy, or None if it cannot be read.

    Raises:
        LaterRecords: a later version of mcpproxy wrote it, so it must not be overwritten.
    """
    try:
        stored_data = json.loads(read_file(path, _MAX_BYTES))
        version = stored_data.get("version", _VERSION)
        if isinstance(version, int | float) and version > _VERSION:
            raise LaterRecords(
                f"{path} was written by a later version of mcpproxy (format {version}; this one reads {_VERSION}); "
                "update mcpproxy and try again"
            )
    except LaterRecords:
        raise
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    files, listeners, serial = (stored_data.get(name) for name in ("files", "listeners", "serial"))
    copy = _RecordsCopy(is_partial=stored_data.get("partial") is True)
    if type(serial) is int and 0 <= serial < _MAX_SERIAL:
        copy.serial = serial
    if isinstance(files, dict):
        records = {name: _parsed_record(record) for name, record in files.items()}
        copy.files = {name: record for name, record in records.items() if record is not None}
    if isinstance(listeners, list) and len(listeners) <= PORT_COUNT:
        copy.listeners = [listener for entry in listeners if (listener := parsed_listener(entry)) is not None]
    copy.is_whole = (
        isinstance(files, dict)
        and isinstance(listeners, list)
        and (len(copy.files), len(copy.listeners)) == (len(files), len(listeners))
    )
    return copy


class InstallState:
    """The records of all files, while this process holds their lock."""

    def __init__(self, folder: Path, copy: Path | None = None) -> None:
        """Read the newer copy of the records; an unreadable file counts as missing.

        Args:
            folder: the folder of the records.
            copy: the folder of the second copy, or None if there is none.

        Raises:
            LaterRecords: a later version of mcpproxy wrote the records.
        """
        self._folder = folder
        self._paths = [place / "install.json" for place in (folder, copy) if place is not None]
        copies = [loaded_copy for path in self._paths if (loaded_copy := _read_copy(path)) is not None]
        copies.sort(key=lambda loaded_copy: (loaded_copy.serial, loaded_copy.is_whole), reverse=True)
        newest = copies[0] if copies else _RecordsCopy(is_whole=False)
        if not newest.is_whole:
            for older in copies[1:]:
                newest.merge(older)
        self.files = newest.files
        self.listeners = newest.listeners
        self.is_partial = newest.is_partial
        """Whether records were lost, and not all of them could be recovered."""
        self.is_complete = newest.is_whole
        """Whether all records could be read; if not, `files` and `listeners` contain those that could."""
        self._serial = newest.serial

    @property
    def has_trace(self) -> bool:
        """Whether any trace of records exists, readable or not."""
        return any(path.exists() for path in (*self._paths, self.backup_folder))

    @property
    def backup_folder(self) -> Path:
        """The folder of the backups."""
        return self._folder / "backups"

    def leftovers(self) -> Iterator[Path]:
        """Yields the temporary files that killed processes left."""
        for path in self._paths:
            yield from path.parent.glob(f".{path.name}.*")
        yield from self.backup_folder.glob(".*")

    def get_or_add_listener(self, name: str, upstream: str, capture: str) -> Listener:
        """Returns the listener for a server; if there is none, adds one, which the next `save` writes to disk.

        Raises:
            OSError: no port is free.
        """
        for listener in self.listeners:
            if (listener.name, listener.upstream) == (name, upstream):
                return listener
        port = free_port(name, upstream, {listener.port for listener in self.listeners})
        self.listeners.append(Listener(name, port, upstream, capture))
        return self.listeners[-1]

    def record_of(self, path: Path) -> FileRecord | None:
        """Returns the record of a file, under any path of it, or None."""
        try:
            return self.files.get(os.path.realpath(path))
        except ValueError:
            return None

    def back_up(self, path: Path, client: str, old: bytes, new: bytes) -> FileRecord:
        """Back up a file that is about to change, and record its new content; `save` writes the record to disk.

        Args:
            path: the file.
            client: the id of its client, for the name of the backup.
            old: its current content.
            new: its new content.

        Raises:
            OSError: the backup cannot be written, so the file must not be written either.
        """
        record = self.record_of(path)
        old_digest = digest(old)
        if record is None or old_digest not in (record.base, *record.after):
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            name = f"{stamp}-{client}-{os.urandom(2).hex()}-{path.name.lstrip('.')}"
            write_private(self.backup_folder / name, old)
            # The file was edited, but its entries may still be as mcpproxy wrote them, so their records are kept.
            added_paths, bridge_data = (record.added, record.bridged) if record is not None else ([], {})
            routed_paths = record.routed if record is not None else []
            record = FileRecord(old_digest, name, added=added_paths, bridged=bridge_data, routed=routed_paths)
        record.at_s = time.time()
        record.after = [*dict.fromkeys([*record.after, digest(new)])]
        self.files[os.path.realpath(path)] = record
        return record

    def original_content(self, path: Path, data: bytes) -> bytes | None:
        """Returns the content of a file before mcpproxy first wrote to it, or None if it has been edited since."""
        record = self.record_of(path)
        if record is None or digest(data) not in record.after:
            return None
        try:
            backup = read_file(self.backup_folder / record.backup)
        except (OSError, ValueError):
            return None
        return backup if digest(backup) == record.base else None

    def save(self) -> None:
        """Write the records to disk; drops listeners that no entry uses.

        Raises:
            OSError: neither copy of the records can be written.
        """
        self.listeners = [listener for listener in self.listeners if listener.users]
        # The serial number comes from the clock, because that of an unreadable copy is not known.
        self._serial = max(time.time_ns(), self._serial + 1)
        stored_data = {
            "version": _VERSION,
            "serial": self._serial,
            "partial": self.is_partial,
            "files": {name: asdict(record) for name, record in self.files.items()},
            "listeners": [asdict(listener) for listener in self.listeners],
        }
        errors: list[OSError] = []
        for path in self._paths:
            try:
                write_private(path, json.dumps(stored_data, indent=1).encode())
            except OSError as error:
                errors.append(OSError(error.errno, f"cannot write {path}: {error.strerror}"))
        if len(errors) == len(self._paths):
            raise errors[0]


def state_folder() -> Path:
    """Returns the folder of the records.

    Raises:
        OSError: no home directory is known.
    """
    folder = state_directory()
    if folder is None:
        raise OSError("your home directory is not known; set HOME and try again")
    return Path(folder)


def read_state() -> InstallState:
    """Read the records of this user, without a lock.

    Raises:
        OSError: no home directory is known, or a later version of mcpproxy wrote the records.
    """
    copy = config_directory()
    return InstallState(state_folder(), None if copy is None else Path(copy))


def open_state(*, is_dry: bool) -> AbstractContextManager[InstallState]:
    """Returns the records for a command, locked; for a dry run they are not locked, because a lock creates a file.

    Raises:
        OSError: as raised by `lock_state`.
    """
    return nullcontext(read_state()) if is_dry else lock_state()


@contextmanager
def lock_state() -> Iterator[InstallState]:
    """Read the records and lock them, so a second `install` waits.

    Raises:
        OSError: the folder cannot be created, or a later version of mcpproxy wrote the records.
    """
    import fcntl  # missing on Windows, where mcpproxy only lists clients

    folder = state_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Read and write, so that opening never blocks, even if the file is a pipe.
    with open(folder / "lock", "a", opener=lambda path, _: os.open(path, os.O_RDWR | os.O_CREAT, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = read_state()
        # With the lock held, no other process is writing these files.
        for leftover in state.leftovers():
            with suppress(OSError):
                leftover.unlink()
        for name in state.files:
            with suppress(OSError, ValueError):
                remove_leftovers(Path(name))
        yield state
