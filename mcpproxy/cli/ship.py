"""Copy closed captures to DEST, as a Parquet data set that many machines can share.

DEST is a directory, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, which need `pip install
'.[ship]'` in your clone of mcpproxy, and take their credentials from the environment. Likely secrets are replaced
first, as `mcpproxy share` does, unless --unredacted is given. A capture is copied once; run `ship` as often as you
like, after a kill too.
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
from mcpproxy.cli.selection import EVERY, selected
from mcpproxy.sanitise import sanitise
from mcpproxy.shipping.destination import BrokenFile, CannotShip, Destination
from mcpproxy.shipping.opening import alone, opened, problem_of
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

if TYPE_CHECKING:
    from mcpproxy.shipping.shipment import ShipmentResult, ShipOptions


def parser() -> Parser:
    """Return the argument parser of `ship`."""
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
    """Ship; returns 2 if a capture is damaged or cannot be read, 73 if DEST cannot be written."""
    options = parser().parse_mixed(arguments)
    problem = problem_of(options.dest)
    if problem is None and "://" not in options.dest and names_recording(options.dest):
        named = options.dest
        problem = f"{named} is recorded traffic, not a place to write to; to ship it: mcpproxy ship DEST {named}"
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
        selected(options.capture, EVERY, lists=True) as chosen,
        alone(options.dest, folder),
        private_folder(folder) as room,
        opened(options.dest) as to,
    ):
        return _Pass(options, to, room).run(chosen.paths)


@dataclass
class _Pass:
    """One pass over the captures, and what it did."""

    options: argparse.Namespace
    to: Destination
    room: Path
    code: int = int(Exit.FINE)
    shipped: int = 0
    unchanged: int = 0
    recording: int = 0
    files: int = 0
    bytes: int = 0
    there: list[tuple[Path, str]] = field(default_factory=list)
    """Captures that are complete in the destination, with their ids."""
    told: set[str] = field(default_factory=set)
    """The messages already printed about broken things."""

    def run(self, paths: list[Path]) -> int:
        """Ship, then compact, then delete; returns the exit code."""
        # Loading DuckDB takes a tenth of a second, for which --help should not wait.
        from mcpproxy.shipping.shipment import ShipOptions, ShippedListing, ship

        options, progress = self.options, Progress()
        choices = ShipOptions(
            redacted=not options.unredacted,
            findings=options.findings,
            raw=options.raw,
            machine=options.machine or "",
            tag=_tag(),
        )
        there = ShippedListing(self.to)
        try:
            for number, (path, id_) in enumerate(self._identified(paths)):
                progress.show(f"shipping, {number:,} of {len(paths):,}")
                try:
                    result = ship(path, id_, choices, self.to, self.room, there)
                except CannotCreate:
                    raise
                except CaptureError as error:
                    progress.clear()
                    self._fail(error)
                    continue
                self._count(path, id_, result)
            progress.clear()
            lines = self._compacted() if options.compact else []
            lines += self._deleted(choices) if options.keep is not None else []
        except CannotCreate as error:
            progress.clear()
            done = (
                f"{count_text(self.shipped, 'capture')} shipped before that" if self.shipped else "nothing was shipped"
            )
            raise CannotShip(f"{error}; {done}, and the next run continues") from error
        skipped = [f"{self.unchanged:,} unchanged"] if self.unchanged else []
        skipped += [f"{self.recording:,} being recorded"] if self.recording else []
        counts = ", ".join([f"{count_text(self.shipped, 'capture')} shipped", *skipped])
        lines.append(f"{counts}; {count_text(self.files, 'file')}, {size(self.bytes)}")
        sys.stdout.write("".join(f"{sanitise(self.to.shown)}: {line}\n" for line in lines))
        return self.code

    def _fail(self, error: object) -> None:
        """Report a problem, once: a problem with a day affects each of its captures."""
        self.code = int(Exit.USAGE)
        if str(error) not in self.told:
            self.told.add(str(error))
            fail(str(error))

    def _identified(self, paths: list[Path]) -> Iterator[tuple[Path, str]]:
        """Captures with their ids, oldest first; of several with the same id, the largest."""
        by_id: dict[str, Path] = {}
        left_out = 0
        for path in reversed(paths):
            try:
                capture = Capture(path)
                id_ = capture_id(capture)
                if id_ in by_id:
                    left_out += 1
                    if capture.size <= Capture(by_id[id_]).size:
                        continue
                by_id[id_] = path
            except CaptureError as error:
                self.code = fail(str(error))
        if left_out:
            say(f"{count_text(left_out, 'file')} left out: another file holds the same capture")
        for id_, path in by_id.items():
            yield path, id_

    def _count(self, path: Path, id_: str, result: "ShipmentResult | None") -> None:
        if result is None:
            self.recording += 1
            return
        self.shipped += bool(result.put)
        self.unchanged += not result.put
        self.files += len(result.put)
        self.bytes += sum(file.size for file in result.put)
        if not result.manifest.is_damaged:
            self.there.append((path, id_))
        elif result.put:
            self.code = fail(f"{path} is damaged: only what is intact was shipped; `mcpproxy verify` lists the damage")

    def _compacted(self) -> list[str]:
        from mcpproxy.shipping.compaction import compact, days_to_compact

        yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%d")
        days = before = after = 0
        try:
            due = days_to_compact(yesterday, self.to)
        except BrokenFile as error:
            self._fail(error)
            due = []
        for day in due:
            try:
                done = compact(day, self.to, self.room, self._fail)
            except BrokenFile as error:
                self._fail(error)
                continue
            if done is not None:
                days, before, after = days + 1, before + done.before, after + done.after
        return [f"{count_text(days, 'day')} compacted, {count_text(before, 'file')} into {after:,}"]

    def _deleted(self, choices: "ShipOptions") -> list[str]:
        """Delete captures that the destination has, as a new check of it shows."""
        from captures.listing import segments
        from mcpproxy.removal import removable, remove
        from mcpproxy.shipping.manifest import manifest_at
        from mcpproxy.shipping.shipment import is_complete, state_of

        count = freed = 0
        for path, id_ in self.there:
            candidate = removable(path)
            if candidate is None or candidate.age_s <= self.options.keep:
                continue
            try:
                manifest = manifest_at(id_, self.to)
                if manifest is None or manifest.state != state_of(segments(path), choices):
                    continue
                is_whole = is_complete(manifest, self.to)
            except BrokenFile as error:
                self._fail(error)
                continue
            if not is_whole:
                self.code = fail(
                    f"{path} was kept: {self.to.shown} is missing some of its files; the next run ships it again"
                )
                continue
            try:
                remove(candidate)
            except OSError as error:
                self.code = fail(f"cannot delete {path}: {error.strerror}")
                continue
            count, freed = count + 1, freed + candidate.size
        return [f"{count_text(count, 'capture')} deleted here, {size(freed)}"]


def _tag() -> "Callable[[str], str | None]":
    """Returns a function that hashes a host name under this user's key, or returns None if no key can be kept."""
    redactor = Redactor(load_key(config_directory(), say))
    return lambda name: redactor.hash(name.encode("utf-8", "surrogatepass")) if redactor.lasting else None


def _write_timer(options: argparse.Namespace) -> int:
    from mcpproxy.cli.timers import operand, write_job
    from mcpproxy.clients.timer import SHIP

    words = ["--raw"] * options.raw + ["--unredacted"] * options.unredacted + ["--findings"] * options.findings
    words += [] if options.keep is None else ["--keep", f"{options.keep}s"]
    words += ["--compact"] * options.compact
    words += ["--machine", options.machine] if options.machine else []
    # A folder is created when needed.
    dest = options.dest if "://" in options.dest else str(Path(options.dest).absolute())
    return write_job(SHIP, [*words, dest, *map(operand, options.capture)])
