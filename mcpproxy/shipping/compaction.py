"""Compaction: many small files of an old day become one file for each table.

The new files are named after their content and the shipments in it. The day's manifest then switches all of its
captures from the old files to the new ones at once: it is put only if it has not changed since. The old files are
deleted last. A kill in between leaves files that no manifest names; a later compaction deletes them when they are a day
old.

A capture that is shipped again after the compaction of its day has new files, and a manifest that does not count yet.
`withdraw` then rewrites the files of the day without that capture, and the day's new manifest switches it back to its
own files.
"""

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from analysis.store.parquet_merge import CannotMerge, merge
from analysis.store.table_export import NO_DAY
from analysis.store.tables import TABLE_NAMES
from mcpproxy.shipping.destination import BrokenFile, CannotShip, Destination, StoredContent
from mcpproxy.shipping.manifest import (
    CAPTURES,
    COMPACT,
    MAX_COMPACTED_CAPTURES,
    RAW,
    Day,
    File,
    Manifest,
    day_at,
    day_name,
    manifest_at,
    name_of,
)

LEAST: Final = 4
"""How many captures must have files of their own before a day is rewritten: each rewrite copies the whole day."""
LEFT_S: Final = 86_400
"""The age from which a file that no manifest names counts as left by a kill; a younger one may be named soon."""
_TRIES: Final = 5


class CompactionResult(NamedTuple):
    """What a compaction did to a day."""

    before: int
    """How many files there were before."""
    after: int


def sha256_of(file: Path) -> str:
    """The hash of a local file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def days_to_compact(before: str, to: Destination) -> list[str]:
    """The days older than `before` that may need compaction, oldest first; not the unknown day.

    Every capture has a file of the table `captures`, which is deleted after its other files. So this table shows which
    days have many files of their own, and which have leftovers.
    """
    singles: Counter[str] = Counter()
    compact_files: Counter[str] = Counter()
    for entry in to.entries(CAPTURES):
        name = name_of(entry.name)
        if name is not None and name.day != NO_DAY and name.day < before:
            (compact_files if name.capture is None else singles)[name.day] += 1
    return sorted(
        day
        for day in singles | compact_files
        if singles[day] >= LEAST or compact_files[day] > 1 or (compact_files[day] and singles[day])
    )


def compact(
    day: str, to: Destination, room: Path, tell: Callable[[str], object] = lambda _: None
) -> CompactionResult | None:
    """Rewrite the files of a day; returns None if there is too little to do, or another machine has changed it.

    Args:
        day: as in the names of its files.
        to: the destination.
        room: a private folder for copies of the files.
        tell: called with a message if a capture's manifest is wrong; that capture keeps its own files.

    Raises:
        CannotShip: the destination cannot be read or written.
        BrokenFile: the manifest of the day is broken, or not mcpproxy's, or a file of the day cannot be read.
        CannotExport: the disk is full.
    """
    known, stored = day_at(day, to)
    held = known.captures if known is not None else {}
    manifests = _single(day, to, tell)
    _delete_leftovers(day, known, manifests, to)
    added = [manifest for manifest in manifests if manifest.capture not in held and _has_files(manifest, to)]
    added = added[: MAX_COMPACTED_CAPTURES - len(held)] if len(held) < MAX_COMPACTED_CAPTURES else []
    if len(added) < LEAST:
        return None
    singles = [file for manifest in added for file in manifest.files if file.table != RAW]
    old = list(known.files) if known is not None else []
    captures = {**held, **{manifest.capture: manifest.shipment for manifest in added}}
    new = _rewrite(day, captures, [*old, *singles], [], to, stored, room)
    if new is None:
        return None
    _delete([*singles, *(file for file in old if file not in new.files)], to)
    return CompactionResult(len(old) + len(singles), len(new.files))


def withdraw(day: str, capture: str, shipment: str, to: Destination, room: Path) -> bool:
    """Take a capture out of the files of its day if they hold another shipment of it; returns whether they did.

    Raises:
        CannotShip: the destination cannot be read or written.
        BrokenFile: the manifest of the day is broken, or not mcpproxy's, or a file of the day cannot be read.
        CannotExport: the disk is full.
    """
    for _ in range(_TRIES):
        known, stored = day_at(day, to)
        if known is None or not known.has_another(capture, shipment):
            return False
        captures = {id_: of for id_, of in known.captures.items() if id_ != capture}
        new = _rewrite(day, captures, known.files, [capture], to, stored, room)
        if new is not None:
            _delete([file for file in known.files if file not in new.files], to)
            return True
    raise CannotShip(f"cannot write {to.shown}/{day_name(day)}: other machines keep changing it; try again")


def _rewrite(
    day: str,
    captures: dict[str, str],
    files: Iterable[File],
    without: list[str],
    to: Destination,
    stored: StoredContent | None,
    room: Path,
) -> Day | None:
    """Put new files for a day, and its manifest; returns None if a file or the manifest has changed since."""
    files = list(files)
    new: list[File] = []
    # Another machine may be deleting a file with the same rows, which an earlier manifest named.
    held = "".join(f"{capture} {captures[capture]}\n" for capture in sorted(captures))
    for table in dict.fromkeys(file.table for file in files):
        with tempfile.TemporaryDirectory(prefix=COMPACT, dir=room) as folder:
            fetched = _fetched([file for file in files if file.table == table], to, Path(folder))
            if fetched is None:
                return None
            local, lost = fetched
            # Still listed, so that the machines of its captures see that it is gone, and ship them again.
            new += lost if captures else []
            target = Path(folder, "compact.parquet")
            rows = _merged(local, target, without, to) if local else 0
            if rows:
                sha256 = sha256_of(target)
                digest = hashlib.sha256(f"{sha256}\n{held}".encode()).hexdigest()[:32]
                name = f"{table}/day={day}/{COMPACT}{digest}.parquet"
                new.append(File(table, name, target.stat().st_size, rows, sha256))
                to.put(name, target)
    manifest = Day(day, captures, tuple(new))
    return manifest if to.replace(day_name(day), manifest.encoded(), stored) else None


def _has_files(manifest: Manifest, to: Destination) -> bool:
    """Whether a capture's own files are there; otherwise its machine ships it again."""
    return all(to.size(file.name) == file.size for file in manifest.files if file.table != RAW)


def _merged(local: dict[Path, File], target: Path, without: list[str], to: Destination) -> int:
    """Write the rows of local copies into one file; returns the number of rows.

    Raises:
        BrokenFile: a file is at fault, or all of them are.
    """
    try:
        return merge([*local], target, without)
    except CannotMerge as error:
        for path, file in local.items():
            try:
                merge([path], target)
            except CannotMerge as alone:
                where = f"{to.shown}/{file.name}"
                reason = str(alone).replace(str(path), where)
                raise BrokenFile(f"cannot compact {where}: {reason}; move it away, and ship again") from error
        folder = next(iter(local.values())).name.rpartition("/")[0]
        raise BrokenFile(f"cannot compact {to.shown}/{folder}: its files do not go together: {error}") from error


def _fetched(files: list[File], to: Destination, folder: Path) -> tuple[dict[Path, File], list[File]] | None:
    """Returns local copies of files, and the compacted files that are gone or broken, which no machine replaces.

    Returns None if another file does not match its manifest: it is being replaced, or deleted.
    """
    local: dict[Path, File] = {}
    lost = []
    for number, file in enumerate(files):
        path = folder / f"{number}.parquet"
        if to.fetch(file.name, path, file.size) and sha256_of(path) == file.sha256:
            local[path] = file
        elif f"/{COMPACT}" in file.name:
            lost.append(file)
        else:
            return None
    return local, lost


def _delete(files: Iterable[File], to: Destination) -> None:
    """Delete files, the files of the table `captures` last, because they show what a kill has left."""
    for file in sorted(files, key=lambda file: file.table == CAPTURES):
        to.delete(file.name)


def _delete_leftovers(day: str, known: Day | None, manifests: list[Manifest], to: Destination) -> None:
    """Delete files that a killed compaction left: files that no manifest named yet, or that it had just replaced."""
    named = {file.name for file in known.files} if known is not None else set()
    held = known.captures if known is not None else {}
    replaced = {
        file.name
        for manifest in manifests
        if held.get(manifest.capture) == manifest.shipment
        for file in manifest.files
        if file.table != RAW
    }
    left = [
        entry.name
        for table in sorted(TABLE_NAMES, key=lambda table: table == CAPTURES)
        for entry in to.entries(f"{table}/day={day}")
        if entry.modified_s < time.time() - LEFT_S
        and (entry.name in replaced or name_of(entry.name) == (table, day, None))
        and entry.name not in named
    ]
    for name in left:
        to.delete(name)


def _single(day: str, to: Destination, tell: Callable[[str], object]) -> list[Manifest]:
    """The manifests of the captures that have files of their own on a day, in the order of their ids."""
    names = [name_of(entry.name) for entry in to.entries(f"{CAPTURES}/day={day}")]
    manifests = []
    for id_ in sorted({name.capture for name in names if name is not None and name.capture is not None}):
        try:
            manifest = manifest_at(id_, to)
        except BrokenFile as error:
            tell(str(error))
            continue
        if manifest is not None and manifest.day == day:
            manifests.append(manifest)
    return manifests
