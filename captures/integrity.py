"""Checks that a capture is complete: every number is accounted for, every byte belongs to a record, and it was closed.

`inspect` reads a capture once and reports its contents. The `state` of the report sums them up in one word:

* `complete`: closed, nothing missing;
* `recording`: a recorder is still writing to it;
* `incomplete`: undamaged, but not closed, or with losses that the recorder itself counted;
* `damaged`: has bytes that are not part of a record, or lacks numbers that nothing accounts for.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from captures.damage import Damage
from captures.errors import NothingRecorded
from captures.file import is_live
from captures.gaps import lost_range, lost_traffic
from captures.reader import Capture
from captures.record import Record

State = Literal["complete", "recording", "incomplete", "damaged"]

MAX_LISTED_HOLES: Final = 100_000
"""The most holes that are listed; further ones are only counted."""
MAX_LISTED_LOSSES: Final = 1000
"""The most damaged places, gaps and record types that are listed; further ones are only counted."""


_REPLACEMENT_REASONS: Final = frozenset({"damage", "excerpt", "redaction"})
"""Reasons of gaps whose own number is that of the last record they replace."""


class Gap(NamedTuple):
    """Records that the recorder or a repair reported as lost."""

    first: int
    last: int
    """The last number of the range, which begins with `first`; both are inclusive."""
    lost: dict[str, dict[str, int]] | None
    """The counts of lost records and bytes, by direction and for all other records; None if unknown, as after a
    repair."""
    reason: str
    at: int
    """Number of the record that reports the loss; equal to `first` if it names no range."""


@dataclass
class Inspection:
    """The contents of a capture, and its losses."""

    live: bool = False
    """Whether a recorder is still writing to the capture."""
    is_redacted: bool = False
    """Whether the capture is a redacted copy."""
    is_cassette: bool = False
    """Whether the capture is a cassette, which is a redacted copy for version control."""
    is_imported: bool = False
    """Whether the capture was converted from a log, and not recorded."""
    records: int = 0
    """The number of complete records."""
    first_seq: int | None = None
    """Number of the first record; above 0 if the ring has dropped older segments."""
    last_seq: int = -1
    last_t_ns: int = 0
    """Stamp of the last record: the duration of the capture, in nanoseconds."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of records by type."""
    exchanges: int = 0
    """The number of HTTP exchanges."""
    frames: dict[str, int] = field(default_factory=lambda: {"c2s": 0, "s2c": 0})
    """The number of frames by direction."""
    bytes: dict[str, int] = field(default_factory=lambda: {"c2s": 0, "s2c": 0})
    """The number of payload bytes by direction, without delimiters."""
    close: dict[str, Any] | None = None
    """Members of the last record, if it is a `close` of the whole capture."""
    gaps: list[Gap] = field(default_factory=list)
    """The first reported losses, up to `MAX_LISTED_LOSSES`."""
    gap_count: int = 0
    """The total number of gaps."""
    holes: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of numbers, inclusive, that nothing accounts for."""
    missing: int = 0
    """How many numbers these ranges contain."""
    repeated: int = 0
    """The number of records that follow an equal or greater number: duplicates, or records of another capture."""
    damage: list[Damage] = field(default_factory=list)
    """The first stretches of bytes that are not part of a record, including torn tails."""
    damage_count: int = 0
    """The total number of such stretches."""
    damaged_bytes: int = 0
    torn: bool = False
    """Whether the last line of a segment is incomplete, as after a kill."""
    corrupt: bool = False
    """Whether anything else is damaged."""

    @property
    def state(self) -> State:
        """The state of the capture in one word."""
        if self.missing or self.repeated or self.corrupt:
            return "damaged"
        if self.live:
            return "recording"
        return "complete" if self.close is not None and not self.gap_count and not self.torn else "incomplete"

    def add_item(self, item: Record | Damage) -> None:
        """Count one item of a capture."""
        if isinstance(item, Damage):
            self._add_damage(item)
            return
        self.records += 1
        self.counts[item.rec if item.rec in self.counts or len(self.counts) < MAX_LISTED_LOSSES else "…"] += 1
        self._note_hole_before(item)
        self.last_t_ns = max(self.last_t_ns, item.t_ns)
        self.close = None
        values = item.members
        if item.rec in ("frame", "part"):
            self._add_frame(item.rec, values)
        elif item.rec == "gap":
            self._add_gap(item)
        elif item.rec == "exchange":
            number = values.get("exchange")
            self.exchanges = max(self.exchanges, number if type(number) is int else 0)
        elif item.rec == "header":
            self._add_header(item)
        elif item.rec == "close" and values.get("ending") != "segment":
            self.close = values

    def _add_header(self, header: Record) -> None:
        self.is_redacted = self.is_redacted or "redacted_by" in header.members
        self.is_cassette = self.is_cassette or header.members.get("cassette") is True
        self.is_imported = self.is_imported or "imported" in header.members
        if header.members.get("substitute") is True:
            self.gap_count += 1
            self.gaps.append(Gap(header.seq, header.seq, None, "damage", header.seq))

    def _add_damage(self, damage: Damage) -> None:
        self.damage_count += 1
        self.damaged_bytes += damage.size
        self.torn = self.torn or damage.cause == "torn"
        self.corrupt = self.corrupt or damage.cause != "torn"
        if len(self.damage) < MAX_LISTED_LOSSES:
            self.damage.append(damage)

    def _add_frame(self, rec: str, values: dict[str, Any]) -> None:
        direction, size = values.get("dir"), values.get("size")
        if direction in ("c2s", "s2c"):
            self.frames[direction] += rec == "frame"
            self.bytes[direction] += size if type(size) is int and "parts" not in values else 0

    def _add_gap(self, record: Record) -> None:
        """Add a gap, and remove its range from the holes. A repair's gap has the number of the last lost record."""
        range_ = lost_range(record)
        if range_ is not None:
            self._remove_from_holes(*range_)
        first, last = range_ or (record.seq, record.seq)
        self.gap_count += 1
        reason = str(record.members.get("reason"))[:64]
        if len(self.gaps) < MAX_LISTED_LOSSES:
            self.gaps.append(
                Gap(
                    first,
                    record.seq if reason in _REPLACEMENT_REASONS else last,
                    lost_traffic(record),
                    reason,
                    record.seq,
                )
            )

    def _note_hole_before(self, record: Record) -> None:
        """Note any hole before this record; a gap later removes its range from the holes."""
        if self.first_seq is None:
            self.first_seq = record.seq
            segment = record.members.get("segment") if record.rec == "header" else None
            is_cut_by_ring = type(segment) is int and segment > 1
            self.last_seq = record.seq - 1 if is_cut_by_ring else -1
        self.repeated += record.seq <= self.last_seq
        self._add_hole(self.last_seq + 1, record.seq - 1)
        self.last_seq = max(self.last_seq, record.seq)

    def _add_hole(self, first: int, last: int) -> None:
        if last >= first:
            self.missing += last - first + 1
            if len(self.holes) < MAX_LISTED_HOLES:
                self.holes.append((first, last))

    def _remove_from_holes(self, first: int, last: int) -> None:
        """Remove a range from the holes."""
        start = bisect_left(self.holes, first, key=lambda hole: hole[1])
        end = start
        remainders = []
        while end < len(self.holes) and self.holes[end][0] <= last:
            low, high = self.holes[end]
            remainders += [(low, first - 1)] * (low < first) + [(last + 1, high)] * (last < high)
            self.missing -= min(high, last) - max(low, first) + 1
            end += 1
        self.holes[start:end] = remainders


def inspect(capture: Capture) -> Inspection:
    """Read a whole capture and report its contents."""
    inspection = tally(capture)
    inspection.live = is_live(capture.segments[-1])
    return inspection


def inspect_file(path: Path) -> Inspection:
    """Inspect a file; a file without a complete record counts as incomplete.

    Raises:
        CaptureError: the file cannot be read, or is not a capture.
    """
    try:
        return inspect(Capture(path))
    except NothingRecorded as error:
        inspection = tally([Damage(path, 0, error.size, "torn")] if error.size else [])
        inspection.live = is_live(path)
        return inspection


def tally(items: Iterable[Record | Damage]) -> Inspection:
    """Count the items of a capture, from any source."""
    inspection = Inspection()
    for item in items:
        inspection.add_item(item)
    return inspection
