"""List captures, those being recorded first, then the newest: their state, their size, and the total.

`●` is being recorded, `○` ended normally, `✝` did not: its recorder was killed, or its server was ended by a signal or
exited with a status other than 0. Captures that cannot be read are reported on stderr.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis import clock
from analysis.conversation.call import ABANDONED_NS
from analysis.summary import bad_ending, cached, summarise
from captures.cutting import LineCutter
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import random_suffix
from captures.paths import safe_name
from captures.reader import Capture, open_capture
from captures.record import Record
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.selection import NOTHING_YET, add_captures, scope_of, select_captures
from mcpproxy.clients.unrecorded import note_text, unrecorded_servers
from mcpproxy.report.output import json_line, width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH, cells
from mcpproxy.wording.counts import abandoned_text, begins_text, count_text, lost_text
from mcpproxy.wording.units import duration, local_time, size, utc
from mcpproxy.wording.waits import waiting_text

TAIL_BYTES = 64 << 10
"""How many bytes at the end of a capture are searched for its last record."""
MAX_SUMMARISED_BYTES = 8 << 20
"""How many bytes of captures without a cached summary are read to compute one; this takes about a second."""
PRUNE_HINT_BYTES = 10_000_000_000
"""The total size of captures, in bytes, above which `prune` is mentioned."""

ListMark = Literal["live", "closed", "killed"]


@dataclass
class CaptureListRow:
    """A row of the list: what is known about a capture without reading the whole file."""

    path: Path
    server: str
    mark: ListMark
    wall_ns: int | None
    duration_ns: int | None
    """The time up to its last record, or up to now while it is being recorded; None if its end has no whole record."""
    frames: int | None
    """The number of frames; None if the capture was not closed, because counting would mean reading the whole file."""
    size: int
    lost: int
    begins_at: int
    """The number of its first record if the ring has deleted earlier records; else 0."""
    abandoned: int | None = None
    """The number of abandoned requests; None if the capture has no summary and is too large to compute one."""
    answered_late: int = 0
    """The number of abandoned requests that were answered later."""
    ending: str | None = None
    """How it ended, unless it ended normally: `exit 1`, `SIGKILL`, `killed` (not closed)."""
    waiting: int = 0
    """The number of requests that are waiting for a response, if the capture is being recorded."""
    waited_ns: int | None = None
    """How long the oldest unanswered request has waited, if the capture is being recorded."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `ls`."""
    parser = Parser("ls", __doc__)
    add_captures(parser, every=True, stdin=False)
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """List captures, first the live ones, then the others, newest first; returns 2 if any cannot be read."""
    options = parser().parse_args(arguments)
    code = int(Exit.FINE)
    rows: list[CaptureListRow] = []
    scope = scope_of(options, every=True)
    with select_captures(options.capture, scope, lists=True) as selection:
        remaining_bytes = MAX_SUMMARISED_BYTES
        for path in selection.paths:
            try:
                row = _list_row(path)
                summary = cached(row.path)
                if summary is None and row.size <= remaining_bytes:
                    remaining_bytes -= row.size
                    summary = summarise(path)
                if summary is not None:
                    row.abandoned, row.answered_late = summary.abandoned, summary.answered_late
                    row.waited_ns = summary.waited_ns
                    row.waiting = summary.waiting
                rows.append(row)
            except CaptureError as error:
                code = fail(str(error))
    rows.sort(key=lambda row: row.mark != "live")  # a stable sort: the newest first in each group
    for note in unrecorded_servers():
        say(f"▲ {note_text(note)}; restart it to record it again")
    if options.format == "json":
        sys.stdout.writelines(json_line(_as_json(row)) for row in rows)
    elif rows or scope.is_narrowed:
        sys.stdout.write(_text(rows, width_of_stdout()))
    elif code == Exit.FINE:
        sys.stdout.write(NOTHING_YET)
    return code


def _list_row(path: Path) -> CaptureListRow:
    capture = Capture(path)
    header = capture.header.members
    last_record = _last_record(capture.segments[-1])
    close_members = last_record.members if last_record is not None and last_record.rec == "close" else None
    totals = close_members.get("totals") if close_members else None
    wall_ns = header.get("wall_ns")
    start_ns = wall_ns if type(wall_ns) is int and 0 <= wall_ns < 1 << 63 else None
    is_being_recorded = is_live(capture.segments[-1])
    return CaptureListRow(
        path=path,
        server=str(header.get("name", path.parent.name)),
        mark="live" if is_being_recorded else "closed" if close_members else "killed",
        ending=None
        if is_being_recorded
        else bad_ending(*((close_members or {}).get(name) for name in ("ending", "status", "signal"))),
        wall_ns=start_ns,
        duration_ns=None
        if last_record is None
        else clock.duration_ns(last_record.t_ns, start_ns, is_live=is_being_recorded),
        frames=sum(_total(totals, direction, "frames") for direction in ("c2s", "s2c"))
        if isinstance(totals, dict)
        else None,
        size=capture.size,
        lost=_total(totals, "lost", "records"),
        begins_at=capture.header.seq,
    )


def _total(totals: object, direction: str, name: str) -> int:
    counts = totals.get(direction) if isinstance(totals, dict) else None
    count = counts.get(name) if isinstance(counts, dict) else None
    return count if type(count) is int else 0


def _last_record(path: Path) -> Record | None:
    """Read the end of a file; returns the last whole record, or None if the end contains no record."""
    with open_capture(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - TAIL_BYTES))
        cutter = LineCutter(path)
        items = [*cutter.feed(file.read(TAIL_BYTES)), *cutter.finish()]
    return next((item for item in reversed(items) if isinstance(item, Record)), None)


def _as_json(row: CaptureListRow) -> dict[str, Any]:
    return {
        "capture": str(row.path),
        "server": row.server,
        "state": row.mark,
        "ending": row.ending,
        "started": None if row.wall_ns is None else utc(row.wall_ns),
        "duration_ms": None if row.duration_ns is None else row.duration_ns / 1e6,
        "frames": row.frames,
        "lost_records": row.lost,
        "begins_at": row.begins_at,
        "abandoned": row.abandoned,
        "waiting": row.waiting,
        "waiting_ms": None if row.waited_ns is None else row.waited_ns / 1e6,
        "size": row.size,
    }


def _printed_name(row: CaptureListRow) -> str:
    """Return the name to print for a capture: the random end of its file name if that identifies it, else its path."""
    name_end = random_suffix(row.path)
    return (
        name_end
        if name_end and row.path.parent.name in (row.server, safe_name(row.server))
        else sanitise(str(row.path))
    )


def _text(rows: list[CaptureListRow], max_width: int) -> str:
    """Format the list; lines have at most `max_width` cells, if possible."""
    name_width = max([6, *(cells(sanitise(row.server)) for row in rows)])
    durations = ["" if row.duration_ns is None else duration(row.duration_ns) for row in rows]
    time_width = max([7, *map(len, durations)])
    lines = [
        f"  {'server':<{name_width}}  {'started':<19}  {'lasted':>{time_width}}  {'frames':>8}  {'size':>9}  capture"
    ]
    for row, duration_text in zip(rows, durations, strict=True):
        start_text = "" if row.wall_ns is None else local_time(row.wall_ns)
        frames = "–" if row.frames is None else f"{row.frames:,}"
        capture = _printed_name(row)
        remarks = [sanitise(row.ending)] if row.ending and row.mark == "closed" else []
        if row.begins_at:
            remarks.append(begins_text(row.begins_at))
        if row.lost:
            remarks.append(f"{lost_text(row.lost)}")
        if row.abandoned:
            remarks.append(abandoned_text(row.abandoned, row.answered_late))
        if row.waited_ns is not None and row.waited_ns >= ABANDONED_NS:
            remarks.append(waiting_text(row.waiting, row.waited_ns))
        note = f"▲ {', '.join(remarks)}" if remarks else ""
        name = sanitise(row.server)
        sign = "●" if row.mark == "live" else "✝" if row.ending else "○"
        server = f"{sign} {name}{'':<{name_width - cells(name)}}"
        line = f"{server}  {start_text:<19}  {duration_text:>{time_width}}  {frames:>8}  {size(row.size):>9}  {capture}"
        # Remarks that do not fit get a separate line, so that the terminal does not break a line within them.
        is_long = cells(line) + 2 + cells(note) > max_width < UNLIMITED_WIDTH
        lines += [line, *([f"    {note}"] if note else [])] if is_long else [f"{line}  {note}" if note else line]
    live_count = sum(row.mark == "live" for row in rows)
    lines.append("")
    total = sum(row.size for row in rows)
    lines.append(f"{count_text(len(rows), 'capture')}, {size(total)}, {live_count} live")
    if total > PRUNE_HINT_BYTES:
        lines.append("Captures stay until you delete them: mcpproxy prune --older-than 30d")
    return "\n".join(lines) + "\n"
