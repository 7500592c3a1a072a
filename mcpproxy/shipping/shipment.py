"""Ships one capture: writes a redacted copy and its tables as Parquet, puts the files, and puts the manifest last.

Everything is written to a private folder first, so the destination receives only complete files, and memory does not
grow with the capture.

The first shipment of a capture names its files after the capture. A later shipment, which follows a change of the
options, uses other names, and the same names again after a kill. So the files of the earlier shipment match their
manifest until the new manifest replaces it; the new manifest lists them until they are deleted.
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
from mcpproxy.shipping.compaction import sha256_of, withdraw_capture
from mcpproxy.shipping.destination import Destination
from mcpproxy.shipping.manifest import (
    RAW,
    Manifest,
    ShippedFile,
    ShippedState,
    manifest_name,
    read_day_manifest,
    read_manifest,
)

_TAIL_BYTES: Final = 1 << 20
"""The number of bytes at the end of a capture that are searched for its last record."""
_LAST_RECORD: Final = re.compile(rb'(?:^|\n)\{"seq":([0-9]{1,18}),[^\n]*\n\Z')


class CaptureChanged(CaptureError):
    """A capture changed while it was read, so a recorder is writing to it."""


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """The options of a shipment."""

    redacted: bool = True
    """Whether secrets are replaced first."""
    findings: bool = False
    """Whether the rules run, and their findings are shipped."""
    raw: bool = False
    """Whether the captures themselves are shipped, too."""
    machine: str = ""
    """The name of the machine in the shipped tables; empty to keep a name that was chosen for the recording."""
    tag: Callable[[str], str | None] = lambda _: None
    """Returns a hash of a host name, the same in all shipments of this user, or None if there is none."""


class ShipmentResult(NamedTuple):
    """What `ship_capture` did with a capture."""

    manifest: Manifest
    put_files: tuple[ShippedFile, ...]
    """The files that were put; empty if the destination already had this state."""


class ShippedListing:
    """The sizes of the files at a destination, listed folder by folder."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._sizes: dict[str, dict[str, int]] = {}

    def size(self, name: str) -> int | None:
        """The size of a file in bytes when its folder was listed, or None if it was not there."""
        folder = name.rpartition("/")[0]
        if folder not in self._sizes:
            self._sizes[folder] = {entry.name: entry.size for entry in self._destination.entries(folder)}
        return self._sizes[folder].get(name)

    def forget(self) -> None:
        """Forget the listed sizes, as files have changed."""
        self._sizes.clear()


def ship_capture(
    path: Path,
    id_: str,
    options: ShipOptions,
    destination: Destination,
    folder: Path,
    listing: ShippedListing | None = None,
) -> ShipmentResult | None:
    """Ship a capture, unless the destination has it in this state, with all of its files.

    Args:
        path: one of the capture's files.
        id_: the capture's id.
        options: what to ship.
        destination: the destination.
        folder: a private folder, empty before and after.
        listing: a listing of the destination, which many captures can share; None to list it for this capture alone.

    Returns:
        The shipment that is at the destination now; None if the capture is being recorded.

    Raises:
        CannotShip: the destination or the folder cannot be written.
        BrokenFile: a file of this capture at the destination is broken, or not mcpproxy's.
        CaptureError: the capture cannot be read.
    """
    files = segments(path)
    if any(map(is_live, files)):
        return None
    listing = listing or ShippedListing(destination)
    state = state_of(files, options)
    old_manifest = read_manifest(id_, destination)
    if (
        old_manifest is not None
        and old_manifest.state == state
        and is_current(old_manifest, destination)
        and _is_complete_now(old_manifest, destination, listing)
    ):
        return ShipmentResult(_delete_replaced(old_manifest, destination, listing), ())
    try:
        manifest, local_files = _write_files(path, id_, state, options, old_manifest, folder)
        if state_of(segments(path), options) != state:
            raise CaptureChanged(f"{path} changed while it was read; the next run ships it")
        listing.forget()
        for name, file in local_files.items():
            destination.put(name, file)
        destination.write(manifest_name(id_), manifest.encoded())
        withdraw_capture(manifest.day, id_, manifest.shipment, destination, folder)
        return ShipmentResult(_delete_replaced(manifest, destination, listing), manifest.files)
    finally:
        for leftover in folder.iterdir():
            shutil.rmtree(leftover, ignore_errors=True)


def state_of(files: Iterable[Path], options: ShipOptions) -> ShippedState:
    """The state of a capture that is not being recorded.

    Raises:
        CaptureError: a file cannot be read.
    """
    sizes, last_seq = [], None
    for file in files:
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - _TAIL_BYTES))
                match = _LAST_RECORD.search(stream.read(_TAIL_BYTES))
        except OSError as error:
            raise CaptureError(f"cannot read {file}: {error.strerror}") from error
        sizes.append((segment_number(file), size))
        last_seq = int(match[1]) if match else None
    return ShippedState(
        tuple(sizes), last_seq, options.redacted, options.findings, options.raw, options.machine or None
    )


def is_current(manifest: Manifest, destination: Destination) -> bool:
    """Whether readers see this shipment: a kill can leave the day's manifest with an older one."""
    day, _ = read_day_manifest(manifest.day, destination)
    return day is None or not day.has_other_shipment(manifest.capture, manifest.shipment)


def _is_complete_now(manifest: Manifest, destination: Destination, listing: ShippedListing) -> bool:
    """As `is_complete`, but looks up single files only if the listing lacks one, as another machine may have put it."""
    return is_complete(manifest, destination, listing.size) or is_complete(manifest, destination)


def is_complete(manifest: Manifest, destination: Destination, size: Callable[[str], int | None] | None = None) -> bool:
    """Whether the destination has every file of a shipment, or of its compacted day, in the right size.

    Args:
        manifest: the manifest of the shipment.
        destination: the destination.
        size: returns the size of a file in bytes; by default, the destination is asked.
    """
    size = size or destination.size
    day, _ = read_day_manifest(manifest.day, destination)
    files = manifest.files
    if day is not None and manifest.capture in day.captures:
        if day.has_other_shipment(manifest.capture, manifest.shipment):
            return False
        files = (*day.files, *(file for file in files if file.table == RAW))
    return all(size(file.name) == file.size for file in files)


def _write_files(
    path: Path, id_: str, state: ShippedState, options: ShipOptions, old_manifest: Manifest | None, folder: Path
) -> tuple[Manifest, dict[str, Path]]:
    """Write the files of a shipment; returns its manifest, and the local file of each name."""
    source, is_damaged = path, False
    if state.redacted:
        copy_folder = folder / "copy"
        create_directory(str(copy_folder))
        account = redacted_copy(
            path, copy_folder, ShareOptions(compares=False, renames=True, machine=_machine(path, options))
        )
        source, is_damaged = account.path, account.is_damaged
    tables_folder = folder / "tables"
    try:
        export_result = export(
            [Source(source, id_, None)],
            "parquet",
            tables_folder,
            findings=state.findings,
            names_only=state.redacted,
            machine=options.machine,
        )
    except TooLarge as error:
        raise CaptureError(
            f"cannot ship {path}: its frames are so large that their table needs too much memory"
        ) from error
    for _, refusal in export_result.refused:
        raise refusal
    is_damaged = is_damaged or any(loss.damage for loss in export_result.losses)
    day = export_result.files[0].path.parent.name.partition("=")[2]
    shipment = _shipment_id(id_, state, old_manifest)
    stem = id_ if old_manifest is None else f"{id_}-{shipment}"
    local_files = {f"{file.table}/day={day}/{stem}.parquet": file.path for file in export_result.files}
    rows = {file.path: file.rows for file in export_result.files}
    if state.raw:
        for segment in segments(source):
            local_files[segment_path(f"{RAW}/day={day}/{stem}{SUFFIX}", segment_number(segment))] = segment
    files = tuple(
        ShippedFile(name.partition("/")[0], name, file.stat().st_size, rows.get(file), sha256_of(file))
        for name, file in local_files.items()
    )
    replaced = () if old_manifest is None else (*old_manifest.replaced, *(file.name for file in old_manifest.files))
    return Manifest(id_, shipment, day, state, is_damaged, files, replaced), local_files


def _machine(path: Path, options: ShipOptions) -> tuple[str, bool] | None:
    """Returns the machine name for a copy of a capture, and whether it was chosen; None to leave that to the copy."""
    if options.machine:
        return options.machine, True
    header = Capture(path).header.members
    name = header.get("machine")
    if not isinstance(name, str) or header.get("machine_chosen") is True:
        return None
    tag = options.tag(name)
    return None if tag is None else (tag, False)


def _shipment_id(id_: str, state: ShippedState, old_manifest: Manifest | None) -> str:
    """Returns an id for a shipment: the same for each try, and different from the ids of all completed shipments."""
    if old_manifest is None:
        return os.urandom(8).hex()
    return hashlib.sha256(f"{id_} {old_manifest.shipment} {state}".encode()).hexdigest()[:16]


def _delete_replaced(manifest: Manifest, destination: Destination, listing: ShippedListing) -> Manifest:
    """Delete the files of the earlier shipment; returns the manifest that no longer lists them, which is put, too."""
    if not manifest.replaced:
        return manifest
    for name in manifest.replaced:
        destination.delete(name)
    listing.forget()
    tidy_manifest = replace(manifest, replaced=())
    destination.write(manifest_name(manifest.capture), tidy_manifest.encoded())
    return tidy_manifest
