"""Ships one capture: a redacted copy, its tables as Parquet, the files to their names, and the manifest last.

Everything is made in a private folder first, so the destination sees only complete files, and memory does not grow with
the capture. A later shipment of the same capture replaces the same names; files that it no longer has are deleted after
the manifest.
"""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from analysis.store.open import Source
from analysis.store.table_export import export
from captures.errors import CaptureError
from captures.file import create_directory, is_live
from captures.listing import segment_number, segments
from captures.places import SUFFIX, segment_path
from mcpproxy.sharing import Wanted, redacted_copy
from mcpproxy.shipping.compaction import day_at, sha256_of, withdraw
from mcpproxy.shipping.destination import Destination
from mcpproxy.shipping.manifest import RAW, File, Manifest, State, manifest_name, manifest_of

_TAIL: Final = 1 << 20
"""Bytes at the end of a capture in which its last record is looked for."""
_LAST: Final = re.compile(rb'(?:^|\n)\{"seq":([0-9]{1,18}),[^\n]*\n\Z')


class Changed(CaptureError):
    """A capture changed while it was read: a recorder is writing to it after all."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What is shipped."""

    redacted: bool = True
    """Whether secrets are replaced first."""
    findings: bool = False
    """Whether the rules run, too."""
    raw: bool = False
    """Whether the captures themselves go along."""


class Shipped(NamedTuple):
    """What `ship` did with a capture."""

    manifest: Manifest
    put: tuple[File, ...]
    """The files that were put; none if this state was at the destination already."""


def ship(path: Path, id_: str, choices: Choices, to: Destination, room: Path) -> Shipped | None:
    """Ship a capture, unless the destination has it in this state.

    Args:
        path: one of its files.
        id_: its id.
        choices: what to ship.
        to: where.
        room: a private folder, empty before and after.

    Returns:
        What is at the destination now; None if the capture is being recorded.

    Raises:
        CannotShip: the destination or the room cannot be written.
        CaptureError: the capture cannot be read.
    """
    files = segments(path)
    if any(map(is_live, files)):
        return None
    state = state_of(files, choices)
    known = shipped(id_, to)
    if known is not None and known.state == state and is_current(known, to):
        return Shipped(known, ())
    try:
        manifest, local = _made(path, id_, state, room)
        if state_of(segments(path), choices) != state:
            raise Changed(f"{path} changed while it was read; the next run ships it")
        _put(manifest, local, to, room)
    finally:
        for left in room.iterdir():
            shutil.rmtree(left, ignore_errors=True)
    kept = {file.name for file in manifest.files}
    for file in known.files if known is not None else ():
        if file.name not in kept:
            to.delete(file.name)
    return Shipped(manifest, manifest.files)


def state_of(files: Iterable[Path], choices: Choices) -> State:
    """The state of a capture that is not being recorded.

    Raises:
        CaptureError: a file cannot be read.
    """
    sizes, last = [], None
    for file in files:
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - _TAIL))
                end = _LAST.search(stream.read(_TAIL))
        except OSError as error:
            raise CaptureError(f"cannot read {file}: {error.strerror}") from error
        sizes.append((segment_number(file), size))
        last = int(end[1]) if end else None
    return State(tuple(sizes), last, choices.redacted, choices.findings, choices.raw)


def shipped(id_: str, to: Destination) -> Manifest | None:
    """The manifest of a capture at the destination, if there is one."""
    stored = to.read(manifest_name(id_))
    return None if stored is None else manifest_of(stored.data, f"{to.shown}/{manifest_name(id_)}")


def is_current(manifest: Manifest, to: Destination) -> bool:
    """Whether readers see this shipment: a kill can leave the day's manifest with an older one."""
    day, _ = day_at(manifest.day, to)
    return day is None or day.captures.get(manifest.capture, manifest.shipment) == manifest.shipment


def is_complete(manifest: Manifest, to: Destination) -> bool:
    """Whether the destination has every file of a shipment in its size, or of the day in which it was compacted."""
    day, _ = day_at(manifest.day, to)
    files = manifest.files
    if day is not None and manifest.capture in day.captures:
        if day.captures[manifest.capture] != manifest.shipment:
            return False
        files = (*day.files, *(file for file in files if file.table == RAW))
    return all(to.size(file.name) == file.size for file in files)


def _made(path: Path, id_: str, state: State, room: Path) -> tuple[Manifest, dict[str, Path]]:
    """The manifest, and the local file of each name."""
    source, is_damaged = path, False
    if state.redacted:
        copies = room / "copy"
        create_directory(str(copies))
        account = redacted_copy(path, copies, Wanted(compares=False, renames=True))
        source, is_damaged = account.path, account.is_damaged
    tables = room / "tables"
    done = export([Source(source, id_, None)], "parquet", tables, findings=state.findings, names_only=state.redacted)
    for _, error in done.refused:
        raise error
    is_damaged = is_damaged or any(loss.damage for loss in done.losses)
    local = {file.path.relative_to(tables).as_posix(): file.path for file in done.files}
    rows = {file.path: file.rows for file in done.files}
    day = done.files[0].path.parent.name.partition("=")[2]
    if state.raw:
        for segment in segments(source):
            name = segment_path(f"{RAW}/day={day}/{id_}{SUFFIX}", segment_number(segment))
            local[name] = segment
    files = tuple(
        File(name.partition("/")[0], name, file.stat().st_size, rows.get(file), sha256_of(file))
        for name, file in local.items()
    )
    return Manifest(id_, os.urandom(8).hex(), day, state, is_damaged, files), local


def _put(manifest: Manifest, local: dict[str, Path], to: Destination, room: Path) -> None:
    for name, file in local.items():
        to.put(name, file)
    to.write(manifest_name(manifest.capture), manifest.encoded())
    if withdraw(manifest.day, manifest.capture, manifest.shipment, to, room):
        # The compaction may only now be deleting the files of the earlier shipment, which had the same names.
        for named in manifest.files:
            if to.size(named.name) != named.size:
                to.put(named.name, local[named.name])
