"""Ships one capture: a redacted copy, its tables as Parquet, the files to their names, and the manifest last.

Everything is made in a private folder first, so the destination sees only complete files, and memory does not grow with
the capture.

A first shipment names its files after the capture. A later one, because the options have changed, gives them names of
its own, the same again after a kill. So the files of the earlier shipment stay what their manifest says until the new
manifest takes its place; it lists them until they are deleted.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from analysis.store.open import Source
from analysis.store.table_export import TooLarge, export
from captures.errors import CaptureError
from captures.file import create_directory, is_live
from captures.listing import segment_number, segments
from captures.paths import SUFFIX, segment_path
from captures.reader import Capture
from mcpproxy.sharing import ShareOptions, redacted_copy
from mcpproxy.shipping.compaction import sha256_of, withdraw
from mcpproxy.shipping.destination import Destination
from mcpproxy.shipping.manifest import RAW, File, Manifest, ShippedState, day_at, manifest_at, manifest_name

_TAIL: Final = 1 << 20
"""How many bytes at the end of a capture are searched for its last record."""
_LAST: Final = re.compile(rb'(?:^|\n)\{"seq":([0-9]{1,18}),[^\n]*\n\Z')


class Changed(CaptureError):
    """A capture changed while it was read, so a recorder is writing to it."""


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """What is shipped."""

    redacted: bool = True
    """Whether secrets are replaced first."""
    findings: bool = False
    """Whether the rules run, too."""
    raw: bool = False
    """Whether the captures themselves are shipped, too."""
    machine: str = ""
    """The name of the machine in the shipped tables; empty to keep a name that was chosen for the recording."""
    tag: Callable[[str], str | None] = lambda _: None
    """Returns a hash of a host name, the same in all shipments of this user, or None if there is none."""


class ShipmentResult(NamedTuple):
    """What `ship` did with a capture."""

    manifest: Manifest
    put: tuple[File, ...]
    """The files that were put; none if this state was at the destination already."""


class ShippedListing:
    """The sizes of the files at a destination, listed folder by folder."""

    def __init__(self, to: Destination) -> None:
        self._to = to
        self._sizes: dict[str, dict[str, int]] = {}

    def size(self, name: str) -> int | None:
        """The size of a file in bytes when its folder was listed, or None if it was not there."""
        folder = name.rpartition("/")[0]
        if folder not in self._sizes:
            self._sizes[folder] = {entry.name: entry.size for entry in self._to.entries(folder)}
        return self._sizes[folder].get(name)

    def forget(self) -> None:
        """Forget the listed sizes, because files have changed."""
        self._sizes.clear()


def ship(
    path: Path, id_: str, choices: ShipOptions, to: Destination, room: Path, there: ShippedListing | None = None
) -> ShipmentResult | None:
    """Ship a capture, unless the destination has it in this state, with all of its files.

    Args:
        path: one of the capture's files.
        id_: the capture's id.
        choices: what to ship.
        to: the destination.
        room: a private folder, empty before and after.
        there: a listing of the destination, which many captures can share; None to look for this capture alone.

    Returns:
        What is at the destination now; None if the capture is being recorded.

    Raises:
        CannotShip: the destination or the room cannot be written.
        Broken: something of this capture at the destination is broken, or not ours.
        CaptureError: the capture cannot be read.
    """
    files = segments(path)
    if any(map(is_live, files)):
        return None
    there = there or ShippedListing(to)
    state = state_of(files, choices)
    known = manifest_at(id_, to)
    if known is not None and known.state == state and is_current(known, to) and _is_there(known, to, there):
        return ShipmentResult(_tidied(known, to, there), ())
    try:
        manifest, local = _made(path, id_, state, choices, known, room)
        if state_of(segments(path), choices) != state:
            raise Changed(f"{path} changed while it was read; the next run ships it")
        there.forget()
        for name, file in local.items():
            to.put(name, file)
        to.write(manifest_name(id_), manifest.encoded())
        withdraw(manifest.day, id_, manifest.shipment, to, room)
        return ShipmentResult(_tidied(manifest, to, there), manifest.files)
    finally:
        for left in room.iterdir():
            shutil.rmtree(left, ignore_errors=True)


def state_of(files: Iterable[Path], choices: ShipOptions) -> ShippedState:
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
    return ShippedState(tuple(sizes), last, choices.redacted, choices.findings, choices.raw, choices.machine or None)


def is_current(manifest: Manifest, to: Destination) -> bool:
    """Whether readers see this shipment: a kill can leave the day's manifest with an older one."""
    day, _ = day_at(manifest.day, to)
    return day is None or not day.has_another(manifest.capture, manifest.shipment)


def _is_there(manifest: Manifest, to: Destination, there: ShippedListing) -> bool:
    """Whether `is_complete`; checks single files only if the listing lacks one, as another machine may have put it."""
    return is_complete(manifest, to, there.size) or is_complete(manifest, to)


def is_complete(manifest: Manifest, to: Destination, size: Callable[[str], int | None] | None = None) -> bool:
    """Whether the destination has every file of a shipment in its size, or of the day in which it was compacted.

    Args:
        manifest: the manifest of the shipment.
        to: the destination.
        size: the bytes of a file; by default as the destination says now.
    """
    size = size or to.size
    day, _ = day_at(manifest.day, to)
    files = manifest.files
    if day is not None and manifest.capture in day.captures:
        if day.has_another(manifest.capture, manifest.shipment):
            return False
        files = (*day.files, *(file for file in files if file.table == RAW))
    return all(size(file.name) == file.size for file in files)


def _made(
    path: Path, id_: str, state: ShippedState, choices: ShipOptions, known: Manifest | None, room: Path
) -> tuple[Manifest, dict[str, Path]]:
    """The manifest, and the local file of each name."""
    source, is_damaged = path, False
    if state.redacted:
        copies = room / "copy"
        create_directory(str(copies))
        account = redacted_copy(
            path, copies, ShareOptions(compares=False, renames=True, machine=_machine(path, choices))
        )
        source, is_damaged = account.path, account.is_damaged
    tables = room / "tables"
    try:
        done = export(
            [Source(source, id_, None)],
            "parquet",
            tables,
            findings=state.findings,
            names_only=state.redacted,
            machine=choices.machine,
        )
    except TooLarge as error:
        raise CaptureError(
            f"cannot ship {path}: its frames are so large that their table needs too much memory"
        ) from error
    for _, refusal in done.refused:
        raise refusal
    is_damaged = is_damaged or any(loss.damage for loss in done.losses)
    day = done.files[0].path.parent.name.partition("=")[2]
    shipment = _shipment(id_, state, known)
    stem = id_ if known is None else f"{id_}-{shipment}"
    local = {f"{file.table}/day={day}/{stem}.parquet": file.path for file in done.files}
    rows = {file.path: file.rows for file in done.files}
    if state.raw:
        for segment in segments(source):
            local[segment_path(f"{RAW}/day={day}/{stem}{SUFFIX}", segment_number(segment))] = segment
    files = tuple(
        File(name.partition("/")[0], name, file.stat().st_size, rows.get(file), sha256_of(file))
        for name, file in local.items()
    )
    replaced = () if known is None else (*known.replaced, *(file.name for file in known.files))
    return Manifest(id_, shipment, day, state, is_damaged, files, replaced), local


def _machine(path: Path, choices: ShipOptions) -> tuple[str, bool] | None:
    """Returns the machine name for a copy of a capture, and whether it was chosen; None to leave that to the copy."""
    if choices.machine:
        return choices.machine, True
    header = Capture(path).header.members
    name = header.get("machine")
    if not isinstance(name, str) or header.get("machine_chosen") is True:
        return None
    tag = choices.tag(name)
    return None if tag is None else (tag, False)


def _shipment(id_: str, state: ShippedState, known: Manifest | None) -> str:
    """Returns a number for a shipment: the same for the next try, and different from all completed ones."""
    if known is None:
        return os.urandom(8).hex()
    return hashlib.sha256(f"{id_} {known.shipment} {state}".encode()).hexdigest()[:16]


def _tidied(manifest: Manifest, to: Destination, there: ShippedListing) -> Manifest:
    """Delete the files of the earlier shipment, and record that they are gone."""
    if not manifest.replaced:
        return manifest
    for name in manifest.replaced:
        to.delete(name)
    there.forget()
    tidy = replace(manifest, replaced=())
    to.write(manifest_name(manifest.capture), tidy.encoded())
    return tidy
