"""Compaction: many small files of an old day become one file for each table.

The new files are named after their content and the shipments in it. The day's manifest then switches all of its
captures from the old files to the new ones at once: it is put only if it has not changed since. The old files are
deleted last. A kill in between leaves files that no manifest names; a later compaction deletes them when they are a day
old.

A capture that is shipped again after the compaction of its day has new files, and a manifest that does not count yet.
`withdraw_capture` then rewrites the files of the day without that capture, and the day's new manifest switches it back
to its own files.
"""

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from analysis.store.parquet_merge import CannotMerge, merge
from analysis.store.table_export import UNKNOWN_DAY
from analysis.store.tables import TABLE_NAMES
from mcpproxy.shipping.destination import BrokenFile, CannotShip, Destination, StoredContent
from mcpproxy.shipping.manifest import (
    CAPTURES_TABLE,
    COMPACT_PREFIX,
    MAX_COMPACTED_CAPTURES,
    RAW,
    DayManifest,
    Manifest,
    ShippedFile,
    day_name,
    parse_name,
    read_day_manifest,
    read_manifest,
)

MIN_SINGLE_CAPTURES: Final = 4
"""The minimum number of captures with files of their own for a rewrite of their day, which copies the whole day."""
MIN_LEFTOVER_AGE_S: Final = 86_400
"""The age, in seconds, from which a file that no manifest names counts as left by a kill; a younger file may be named
soon."""
_MAX_TRIES: Final = 5


class CompactionResult(NamedTuple):
    """What a compaction did to a day."""

    files_before: int
    """The number of files before the compaction."""
    files_after: int
    """The number of files after the compaction."""


def sha256_of(file: Path) -> str:
    """The hash of a local file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def days_to_compact(before: str, destination: Destination) -> list[str]:
    """The days older than `files_before` that may need compaction, the oldest first, without the unknown day.

    Every capture has a file of the table `captures`, which is deleted after its other files. So this table shows which
    days have many captures with files of their own, and which have leftovers.
    """
    single_counts: Counter[str] = Counter()
    compact_counts: Counter[str] = Counter()
    for entry in destination.entries(CAPTURES_TABLE):
        name = parse_name(entry.name)
        if name is not None and name.day != UNKNOWN_DAY and name.day < before:
            (compact_counts if name.capture is None else single_counts)[name.day] += 1
    return sorted(
        day
        for day in single_counts | compact_counts
        if single_counts[day] >= MIN_SINGLE_CAPTURES
        or compact_counts[day] > 1
        or (compact_counts[day] and single_counts[day])
    )


def compact_day(
    day: str, destination: Destination, folder: Path, report: Callable[[str], object] = lambda _: None
) -> CompactionResult | None:
    """Rewrite the files of a day; returns None if there is too little to do, or another machine has changed it.

    Args:
        day: as in the names of its files.
        destination: the destination.
        folder: a private folder for copies of the files.
        report: called with a message if a capture's manifest is wrong; that capture keeps its own files.

    Raises:
        CannotShip: the destination cannot be read or written.
        BrokenFile: the manifest of the day is broken, or not mcpproxy's, or a file of the day cannot be read.
        CannotExport: the disk is full.
    """
    day_manifest, stored_content = read_day_manifest(day, destination)
    old_shipments = day_manifest.captures if day_manifest is not None else {}
    manifests = _single_manifests(day, destination, report)
    _delete_leftovers(day, day_manifest, manifests, destination)
    added_manifests = [
        manifest
        for manifest in manifests
        if manifest.capture not in old_shipments and _has_files(manifest, destination)
    ]
    added_manifests = (
        added_manifests[: MAX_COMPACTED_CAPTURES - len(old_shipments)]
        if len(old_shipments) < MAX_COMPACTED_CAPTURES
        else []
    )
    if len(added_manifests) < MIN_SINGLE_CAPTURES:
        return None
    single_files = [file for manifest in added_manifests for file in manifest.files if file.table != RAW]
    old_files = list(day_manifest.files) if day_manifest is not None else []
    shipments = {**old_shipments, **{manifest.capture: manifest.shipment for manifest in added_manifests}}
    new_manifest = _rewrite_day(day, shipments, [*old_files, *single_files], [], destination, stored_content, folder)
    if new_manifest is None:
        return None
    _delete_files([*single_files, *(file for file in old_files if file not in new_manifest.files)], destination)
    return CompactionResult(len(old_files) + len(single_files), len(new_manifest.files))


def withdraw_capture(day: str, capture: str, shipment: str, destination: Destination, folder: Path) -> bool:
    """Remove a capture from the files of its day if they contain another shipment of it; returns whether they did.

    Raises:
        CannotShip: the destination cannot be read or written.
        BrokenFile: the manifest of the day is broken, or not mcpproxy's, or a file of the day cannot be read.
        CannotExport: the disk is full.
    """
    for _ in range(_MAX_TRIES):
        day_manifest, stored_content = read_day_manifest(day, destination)
        if day_manifest is None or not day_manifest.has_other_shipment(capture, shipment):
            return False
        shipments = {id_: other_shipment for id_, other_shipment in day_manifest.captures.items() if id_ != capture}
        new_manifest = _rewrite_day(day, shipments, day_manifest.files, [capture], destination, stored_content, folder)
        if new_manifest is not None:
            _delete_files([file for file in day_manifest.files if file not in new_manifest.files], destination)
            return True
    raise CannotShip(
        f"cannot write {destination.display_name}/{day_name(day)}: other machines keep changing it; try again"
    )


def _rewrite_day(
    day: str,
    shipments: dict[str, str],
    files: Iterable[ShippedFile],
    excluded_captures: list[str],
    destination: Destination,
    stored_content: StoredContent | None,
    folder: Path,
) -> DayManifest | None:
    """Put new files for a day, and its manifest; returns None if a file or the manifest has changed since."""
    files = list(files)
    new_files: list[ShippedFile] = []
    # Names depend on the shipments, as another machine may be deleting a file with the same rows, which an earlier
    # manifest named.
    shipment_lines = "".join(f"{capture} {shipments[capture]}\n" for capture in sorted(shipments))
    for table in dict.fromkeys(file.table for file in files):
        with tempfile.TemporaryDirectory(prefix=COMPACT_PREFIX, dir=folder) as table_folder:
            copies = _fetch_copies([file for file in files if file.table == table], destination, Path(table_folder))
            if copies is None:
                return None
            local_files, lost_files = copies
            # Lost files stay in the manifest, so that the machines of their captures ship the captures again.
            new_files += lost_files if shipments else []
            target = Path(table_folder, "compact.parquet")
            rows = _merge_copies(local_files, target, excluded_captures, destination) if local_files else 0
            if rows:
                sha256 = sha256_of(target)
                digest = hashlib.sha256(f"{sha256}\n{shipment_lines}".encode()).hexdigest()[:32]
                name = f"{table}/day={day}/{COMPACT_PREFIX}{digest}.parquet"
                new_files.append(ShippedFile(table, name, target.stat().st_size, rows, sha256))
                destination.put(name, target)
    manifest = DayManifest(day, shipments, tuple(new_files))
    return manifest if destination.replace(day_name(day), manifest.encoded(), stored_content) else None


def _has_files(manifest: Manifest, destination: Destination) -> bool:
    """Whether a capture's own files exist; if not, its machine ships the capture again."""
    return all(destination.size(file.name) == file.size for file in manifest.files if file.table != RAW)


def _merge_copies(
    local_files: dict[Path, ShippedFile], target: Path, excluded_captures: list[str], destination: Destination
) -> int:
    """Write the rows of local copies into one file; returns the number of rows.

    Raises:
        BrokenFile: a file cannot be read, or the files cannot be merged.
    """
    try:
        return merge([*local_files], target, excluded_captures)
    except CannotMerge as error:
        for path, file in local_files.items():
            try:
                merge([path], target)
            except CannotMerge as file_error:
                location = f"{destination.display_name}/{file.name}"
                reason = str(file_error).replace(str(path), location)
                raise BrokenFile(f"cannot compact {location}: {reason}; move it away, and ship again") from error
        folder = next(iter(local_files.values())).name.rpartition("/")[0]
        raise BrokenFile(
            f"cannot compact {destination.display_name}/{folder}: its files do not go together: {error}"
        ) from error


def _fetch_copies(
    files: list[ShippedFile], destination: Destination, folder: Path
) -> tuple[dict[Path, ShippedFile], list[ShippedFile]] | None:
    """Returns local copies of files, and the compacted files that are gone or broken, which no machine replaces.

    Returns None if another file does not match its manifest, because it is being replaced or deleted.
    """
    local_files: dict[Path, ShippedFile] = {}
    lost_files = []
    for number, file in enumerate(files):
        path = folder / f"{number}.parquet"
        if destination.fetch(file.name, path, file.size) and sha256_of(path) == file.sha256:
            local_files[path] = file
        elif f"/{COMPACT_PREFIX}" in file.name:
            lost_files.append(file)
        else:
            return None
    return local_files, lost_files


def _delete_files(files: Iterable[ShippedFile], destination: Destination) -> None:
    """Delete files, those of the table `captures` last, because they show which files a kill has left."""
    for file in sorted(files, key=lambda file: file.table == CAPTURES_TABLE):
        destination.delete(file.name)


def _delete_leftovers(
    day: str, day_manifest: DayManifest | None, manifests: list[Manifest], destination: Destination
) -> None:
    """Delete files that a killed compaction left, because no manifest named them yet or it had just replaced them."""
    named_files = {file.name for file in day_manifest.files} if day_manifest is not None else set()
    shipments = day_manifest.captures if day_manifest is not None else {}
    replaced_files = {
        file.name
        for manifest in manifests
        if shipments.get(manifest.capture) == manifest.shipment
        for file in manifest.files
        if file.table != RAW
    }
    leftovers = [
        entry.name
        for table in sorted(TABLE_NAMES, key=lambda table: table == CAPTURES_TABLE)
        for entry in destination.entries(f"{table}/day={day}")
        if entry.modified_s < time.time() - MIN_LEFTOVER_AGE_S
        and (entry.name in replaced_files or parse_name(entry.name) == (table, day, None))
        and entry.name not in named_files
    ]
    for name in leftovers:
        destination.delete(name)


def _single_manifests(day: str, destination: Destination, report: Callable[[str], object]) -> list[Manifest]:
    """The manifests of the captures that have files of their own on a day, in the order of their ids."""
    names = [parse_name(entry.name) for entry in destination.entries(f"{CAPTURES_TABLE}/day={day}")]
    manifests = []
    for id_ in sorted({name.capture for name in names if name is not None and name.capture is not None}):
        try:
            manifest = read_manifest(id_, destination)
        except BrokenFile as error:
            report(str(error))
            continue
        if manifest is not None and manifest.day == day:
            manifests.append(manifest)
    return manifests
