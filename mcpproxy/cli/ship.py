"""Copy closed captures to DEST, as a Parquet data set that many machines can share.

DEST is a directory, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, which need `pip install
'.[ship]'` in your clone of mcpproxy, and take their credentials from the environment. Likely secrets are replaced
first, as `mcpproxy share` does, unless --unredacted is given. A capture is copied once; run `ship_capture` as often as
you like, after a kill too.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from captures.errors import CannotCreate, CaptureError
from captures.identity import capture_id
from captures.paths import config_directory, state_directory
from captures.private_folder import private_folder
from captures.reader import Capture
from captures.redact import Redactor, load_key
from mcpproxy.cli.arguments import Parser, add_machine, age
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say
from mcpproxy.cli.outputs import names_recording
from mcpproxy.cli.selection import ALL_CAPTURES, select_captures
from mcpproxy.sanitise import sanitise
from mcpproxy.shipping.destination import BrokenFile, CannotShip, Destination
from mcpproxy.shipping.opening import exclusive_lock, opened_destination, problem_of
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

if TYPE_CHECKING:
    from mcpproxy.shipping.shipment import ShipmentResult, ShipOptions


def parser() -> Parser:
    """Return the argument parser of `ship_capture`."""
    parser = Parser("ship", __doc__)
    parser.add_argument("dest", metavar="DEST", help="a directory, or s3://BUCKET/PREFIX, gs:// or az://")
    parser.add_argument(
        "capture",
        nargs="*",
        default=[],
        help="captures, folders or server names (default: all captures of this user)",
    )
    parser.add_argument("--raw", action="store_true", help="copy the captures themselves, too")
    parser.add_argument("--unredacted", action="store_true", help="do not replace secrets first")
    parser.add_argument("--findings", action="store_true", help="run the rules, too, and copy their findings")
    add_machine(
        parser,
        "the name of the machine of these captures in the data set (default: the name that was chosen for the "
        "recording, or a hash of the host name, the same for all captures of a machine)",
    )
    parser.add_argument(
        "--keep",
        type=age,
        metavar="AGE",
        help="then delete local captures that are complete at DEST and older than AGE: 12h, 30d, 4w",
    )
    parser.add_argument(
        "--compact", action="store_true", help="then rewrite the files of days before yesterday, one for each table"
    )
    parser.add_argument(
        "--service", action="store_true", help="write a systemd timer that runs this command every hour, and exit"
    )
    return parser


def run(arguments: list[str]) -> int:
    """Copy the captures to DEST; returns 2 if one is damaged or cannot be read, 73 if DEST cannot be written."""
    options = parser().parse_intermixed(arguments)
    problem = problem_of(options.dest)
    if problem is None and "://" not in options.dest and names_recording(options.dest):
        operand = options.dest
        problem = f"{operand} is recorded traffic, not a place to write to; to ship it: mcpproxy ship DEST {operand}"
    if problem is not None:
        return fail(problem)
    if options.service:
        return _write_timer(options)
    state = state_directory()
    if state is None:
        return fail("your home directory is not known; set HOME and try again")
    folder = Path(state)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CannotShip(f"cannot create {folder}: {error.strerror}") from error
    with (
        select_captures(options.capture, ALL_CAPTURES, lists=True) as selection,
        exclusive_lock(options.dest, folder),
        private_folder(folder) as temporary_folder,
        opened_destination(options.dest) as destination,
    ):
        return _ShippingPass(options, destination, temporary_folder).run(selection.paths)


@dataclass
class _ShippingPass:
    """One pass over the captures, with counts of what it did."""

    options: argparse.Namespace
    destination: Destination
    temporary_folder: Path
    exit_code: int = int(Exit.FINE)
    shipped_count: int = 0
    unchanged_count: int = 0
    recording_count: int = 0
    file_count: int = 0
    byte_count: int = 0
    complete_captures: list[tuple[Path, str]] = field(default_factory=list)
    """The captures that are complete in the destination, with their ids."""
    reported_errors: set[str] = field(default_factory=set)
    """The error messages that have been printed."""

    def run(self, paths: list[Path]) -> int:
        """Copy the captures, then compact the data set, then delete local captures; returns the exit code."""
        # Loading DuckDB takes a tenth of a second; --help should not wait for it.
        from mcpproxy.shipping.shipment import ShipOptions, ShippedListing, ship_capture

        options, progress = self.options, Progress()
        ship_options = ShipOptions(
            redacted=not options.unredacted,
            findings=options.findings,
            raw=options.raw,
            machine=options.machine or "",
            tag=_host_name_hasher(),
        )
        listing = ShippedListing(self.destination)
        try:
            for number, (path, id_) in enumerate(self._captures_with_ids(paths)):
                progress.show(f"shipping, {number:,} of {len(paths):,}")
                try:
                    result = ship_capture(path, id_, ship_options, self.destination, self.temporary_folder, listing)
                except CannotCreate:
                    raise
                except CaptureError as error:
                    progress.clear()
                    self._report_error(error)
                    continue
                self._count_result(path, id_, result)
            progress.clear()
            lines = self._compact() if options.compact else []
            lines += self._delete_shipped(ship_options) if options.keep is not None else []
        except CannotCreate as error:
            progress.clear()
            shipped_text = (
                f"{count_text(self.shipped_count, 'capture')} shipped before that"
                if self.shipped_count
                else "nothing was shipped"
            )
            raise CannotShip(f"{error}; {shipped_text}, and the next run continues") from error
        other_counts = [f"{self.unchanged_count:,} unchanged"] if self.unchanged_count else []
        other_counts += [f"{self.recording_count:,} being recorded"] if self.recording_count else []
        counts = ", ".join([f"{count_text(self.shipped_count, 'capture')} shipped", *other_counts])
        lines.append(f"{counts}; {count_text(self.file_count, 'file')}, {size(self.byte_count)}")
        sys.stdout.write("".join(f"{sanitise(self.destination.display_name)}: {line}\n" for line in lines))
        return self.exit_code

    def _report_error(self, error: object) -> None:
        """Report a problem, but only once: a problem with a day affects each of its captures."""
        self.exit_code = int(Exit.USAGE)
        if str(error) not in self.reported_errors:
            self.reported_errors.add(str(error))
            fail(str(error))

    def _captures_with_ids(self, paths: list[Path]) -> Iterator[tuple[Path, str]]:
        """Yield captures with their ids, oldest first; of several captures with the same id, yield the largest."""
        by_id: dict[str, Path] = {}
        duplicate_count = 0
        for path in reversed(paths):
            try:
                capture = Capture(path)
                id_ = capture_id(capture)
                if id_ in by_id:
                    duplicate_count += 1
                    if capture.size <= Capture(by_id[id_]).size:
                        continue
                by_id[id_] = path
            except CaptureError as error:
                self.exit_code = fail(str(error))
        if duplicate_count:
            say(f"{count_text(duplicate_count, 'file')} left out: another file holds the same capture")
        for id_, path in by_id.items():
            yield path, id_

    def _count_result(self, path: Path, id_: str, result: "ShipmentResult | None") -> None:
        if result is None:
            self.recording_count += 1
            return
        self.shipped_count += bool(result.put_files)
        self.unchanged_count += not result.put_files
        self.file_count += len(result.put_files)
        self.byte_count += sum(file.size for file in result.put_files)
        if not result.manifest.is_damaged:
            self.complete_captures.append((path, id_))
        elif result.put_files:
            self.exit_code = fail(
                f"{path} is damaged: only what is intact was shipped; `mcpproxy verify` lists the damage"
            )

    def _compact(self) -> list[str]:
        from mcpproxy.shipping.compaction import compact_day, days_to_compact

        yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%d")
        day_count = files_before = files_after = 0
        try:
            due_days = days_to_compact(yesterday, self.destination)
        except BrokenFile as error:
            self._report_error(error)
            due_days = []
        for day in due_days:
            try:
                result = compact_day(day, self.destination, self.temporary_folder, self._report_error)
            except BrokenFile as error:
                self._report_error(error)
                continue
            if result is not None:
                day_count, files_before, files_after = (
                    day_count + 1,
                    files_before + result.files_before,
                    files_after + result.files_after,
                )
        return [f"{count_text(day_count, 'day')} compacted, {count_text(files_before, 'file')} into {files_after:,}"]

    def _delete_shipped(self, choices: "ShipOptions") -> list[str]:
        """Delete old local captures, after a new check that the destination has them; returns the lines to print."""
        from captures.listing import segments
        from mcpproxy.removal import removable_capture, remove_capture
        from mcpproxy.shipping.manifest import read_manifest
        from mcpproxy.shipping.shipment import is_complete, state_of

        count = freed_bytes = 0
        for path, id_ in self.complete_captures:
            candidate = removable_capture(path)
            if candidate is None or candidate.age_s <= self.options.keep:
                continue
            try:
                manifest = read_manifest(id_, self.destination)
                if manifest is None or manifest.state != state_of(segments(path), choices):
                    continue
                is_shipped = is_complete(manifest, self.destination)
            except BrokenFile as error:
                self._report_error(error)
                continue
            if not is_shipped:
                self.exit_code = fail(
                    f"{path} was kept: {self.destination.display_name} is missing some of its files; the "
                    "next run ships it again"
                )
                continue
            try:
                remove_capture(candidate)
            except OSError as error:
                self.exit_code = fail(f"cannot delete {path}: {error.strerror}")
                continue
            count, freed_bytes = count + 1, freed_bytes + candidate.size
        return [f"{count_text(count, 'capture')} deleted here, {size(freed_bytes)}"]


def _host_name_hasher() -> "Callable[[str], str | None]":
    """Return a function that hashes a host name with this user's key; it returns None if no key can be stored."""
    redactor = Redactor(load_key(config_directory(), say))
    return lambda name: (
        redactor.hash_secret(name.encode("utf-8", "surrogatepass")) if redactor.is_key_permanent else None
    )


def _write_timer(options: argparse.Namespace) -> int:
    from mcpproxy.cli.timers import unit_operand, write_timer_units
    from mcpproxy.clients.timer import SHIP

    words = ["--raw"] * options.raw + ["--unredacted"] * options.unredacted + ["--findings"] * options.findings
    words += [] if options.keep is None else ["--keep", f"{options.keep}s"]
    words += ["--compact"] * options.compact
    words += ["--machine", options.machine] if options.machine else []
    # A folder is created when needed.
    dest = options.dest if "://" in options.dest else str(Path(options.dest).absolute())
    return write_timer_units(SHIP, [*words, dest, *map(unit_operand, options.capture)])
