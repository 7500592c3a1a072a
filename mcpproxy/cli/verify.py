"""Prove that a capture is whole, or say what is missing.

Every line's checksum is compared, and every number must be that of a record or lie in exactly one gap that the
recorder itself has counted. Exit code: 0 complete, 2 damaged, 3 incomplete (not closed, still being recorded, or with
counted losses).
"""

import argparse
import sys
from pathlib import Path

from captures.errors import CaptureError
from captures.integrity import Gap, Inspection, State, inspect_file
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import add_captures, scope_of, selected
from mcpproxy.report.output import json_line
from mcpproxy.report.text import count_text
from mcpproxy.sanitise import sanitise

_EXIT: dict[State, Exit] = {
    "complete": Exit.FINE,
    "recording": Exit.INCOMPLETE,
    "incomplete": Exit.INCOMPLETE,
    "damaged": Exit.USAGE,
}
SHOWN = 20


def parser() -> argparse.ArgumentParser:
    """The arguments of `verify`."""
    parser = Parser("verify", __doc__)
    add_captures(parser)
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Verify captures; the worst state decides the exit code, damage before incompleteness."""
    options = parser().parse_args(arguments)
    codes = [Exit.FINE]
    with selected(options.capture, scope_of(options)) as chosen:
        for path in chosen.paths:
            try:
                found = inspect_file(path)
            except CaptureError as error:
                codes.append(Exit(fail(str(error))))
                continue
            codes.append(_EXIT[found.state])
            sys.stdout.write(json_line(as_json(path, found)) if options.format == "json" else _text(path, found))
    return int(Exit.USAGE if Exit.USAGE in codes else max(codes))


def as_json(path: Path, found: Inspection) -> dict[str, object]:
    """What `verify --json` prints of one capture."""
    return {
        "capture": str(path),
        "state": found.state,
        "records": found.records,
        "first_seq": found.first_seq,
        "last_seq": found.last_seq,
        "closed": found.close is not None,
        "live": found.live,
        "torn": found.torn,
        "repeated": found.repeated,
        "gaps": [gap._asdict() for gap in found.gaps],
        "holes": [{"first": first, "last": last} for first, last in found.holes],
        "damage": [
            {"file": str(item.path), "offset": item.offset, "size": item.size, "cause": item.cause}
            for item in found.damage
        ],
    }


def _text(path: Path, found: Inspection) -> str:
    lines = [f"{sanitise(str(path))}: {found.state}, {count_text(found.records, 'record')}{_begins(found)}"]
    lines += [f"  {reason}" for reason in reasons(found)]
    return "\n".join(lines) + "\n"


def _begins(found: Inspection) -> str:
    dropped = found.first_seq and (not found.holes or found.holes[0][0] > 0)
    return f", begins at seq {found.first_seq} (the ring has dropped what was before)" if dropped else ""


def reasons(found: Inspection) -> list[str]:
    """Why a capture is not complete, a line each, the first ones of many."""
    lines = [sanitise(str(item)) for item in found.damage[:SHOWN]]
    if found.damage_count > SHOWN:
        lines.append(f"… and {found.damage_count - SHOWN:,} more damaged places, {found.damaged_bytes:,} bytes in all")
    if found.repeated:
        lines.append(f"{count_text(found.repeated, 'record')} out of order: a block stands twice, or is foreign")
    lines += [
        f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        for first, last in found.holes[:SHOWN]
    ]
    if len(found.holes) > SHOWN:
        lines.append(f"… {count_text(found.missing, 'record')} missing in all")
    lines += [gap_text(gap) for gap in found.gaps[:SHOWN]]
    if found.gap_count > SHOWN:
        lines.append(f"… and {found.gap_count - SHOWN:,} more gaps")
    if found.live:
        lines.append("it is still being recorded")
    elif not found.records:
        lines.append("it holds no whole record: the recorder was probably killed as it started, or the file was cut")
    elif found.close is None:
        lines.append(
            "it was not closed: the recorder was killed, as many hosts do at the end of a session, or the file was cut"
        )
    return lines


def gap_text(gap: Gap) -> str:
    """One gap in words."""
    if gap.reason == "fault" and gap.first == gap.at:
        if gap.lost is None:
            return f"at record {gap.at} a fault of mcpproxy ended the recording of a stream"
        missed = sum(side.get("frames", 0) for side in gap.lost.values())
        lines = gap.lost.get("other", {}).get("records", 0)
        more = f" and {count_text(lines, 'line')} of stderr" if lines else ""
        return f"not recorded after a fault of mcpproxy: {count_text(missed, 'frame')}{more}"
    which = f"record {gap.first} was" if gap.first == gap.last else f"records {gap.first} to {gap.last} were"
    frames = sum(side.get("frames", 0) for side in gap.lost.values()) if gap.lost is not None else None
    what = "" if frames is None else f", {count_text(frames, 'frame')} among them"
    return f"{which} lost{what} ({sanitise(gap.reason, 40)})"
