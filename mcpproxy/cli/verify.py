"""Prove that a capture is complete, or report what is missing.

It checks the checksum of every line, and that every record number is either present or in exactly one gap that the
recorder reported. Exit code: 0 complete, 2 damaged, 3 incomplete (not closed, still being recorded, or with counted
losses).
"""

import argparse
import sys
from pathlib import Path

from captures.errors import CaptureError
from captures.integrity import Gap, Inspection, State, inspect_file
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text, count_text

_EXIT_CODES: dict[State, Exit] = {
    "complete": Exit.FINE,
    "recording": Exit.INCOMPLETE,
    "incomplete": Exit.INCOMPLETE,
    "damaged": Exit.USAGE,
}
MAX_SHOWN = 20


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `verify`."""
    parser = Parser("verify", __doc__)
    add_captures(parser)
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Verify captures; returns the exit code of the worst state, where damage is worse than incompleteness."""
    options = parser().parse_args(arguments)
    codes = [Exit.FINE]
    with select_captures(options.capture, scope_of(options)) as selection:
        for path in selection.paths:
            try:
                inspection = inspect_file(path)
            except CaptureError as error:
                codes.append(Exit(fail(str(error))))
                continue
            codes.append(_EXIT_CODES[inspection.state])
            name = selection.name_of(path)
            if path == selection.stdin:
                rename_damage(inspection, name)
            sys.stdout.write(
                json_line(as_json(name, inspection)) if options.format == "json" else _text(name, inspection)
            )
    return int(Exit.USAGE if Exit.USAGE in codes else max(codes))


def rename_damage(inspection: Inspection, name: Path) -> None:
    """Use `name` as the name of the file in all reports of damage."""
    inspection.damage = [item._replace(path=name) for item in inspection.damage]


def as_json(path: Path, inspection: Inspection) -> dict[str, object]:
    """Return the row of a capture in `verify --json`."""
    return {
        "capture": str(path),
        "state": inspection.state,
        "records": inspection.records,
        "first_seq": inspection.first_seq,
        "last_seq": inspection.last_seq,
        "closed": inspection.close is not None,
        "live": inspection.live,
        "torn": inspection.torn,
        "redacted": inspection.is_redacted,
        "cassette": inspection.is_cassette,
        "imported": inspection.is_imported,
        "repeated": inspection.repeated,
        "gaps": [gap._asdict() for gap in inspection.gaps],
        "holes": [{"first": first, "last": last} for first, last in inspection.holes],
        "damage": [
            {"file": str(item.path), "offset": item.offset, "size": item.size, "cause": item.cause}
            for item in inspection.damage
        ],
    }


def _text(path: Path, inspection: Inspection) -> str:
    origin = ", imported" if inspection.is_imported else ""
    redaction = ", redacted" if inspection.is_redacted else ""
    redaction += ", cassette" if inspection.is_cassette else ""
    state = (
        f"{inspection.state}{origin}{redaction}, {count_text(inspection.records, 'record')}{_begins_suffix(inspection)}"
    )
    lines = [f"{sanitise(str(path))}: {state}"]
    lines += [f"  {reason}" for reason in incompleteness_reasons(inspection)]
    return "\n".join(lines) + "\n"


def _begins_suffix(inspection: Inspection) -> str:
    has_dropped_records = inspection.first_seq and (not inspection.holes or inspection.holes[0][0] > 0)
    return f", {begins_text(inspection.first_seq or 0)}" if has_dropped_records else ""


def incompleteness_reasons(inspection: Inspection) -> list[str]:
    """Return the reasons why a capture is not complete, one per line, up to a limit."""
    lines = [sanitise(str(item)) for item in inspection.damage[:MAX_SHOWN]]
    if inspection.damage_count > MAX_SHOWN:
        lines.append(
            f"… and {inspection.damage_count - MAX_SHOWN:,} more damaged places, "
            f"{inspection.damaged_bytes:,} bytes in all"
        )
    if inspection.repeated:
        lines.append(f"{count_text(inspection.repeated, 'record')} out of order: a block is duplicated or foreign")
    lines += [
        f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        for first, last in inspection.holes[:MAX_SHOWN]
    ]
    if len(inspection.holes) > MAX_SHOWN:
        lines.append(f"… {count_text(inspection.missing, 'record')} missing in all")
    lines += [gap_text(gap) for gap in inspection.gaps[:MAX_SHOWN]]
    if inspection.gap_count > MAX_SHOWN:
        lines.append(f"… and {inspection.gap_count - MAX_SHOWN:,} more gaps")
    if inspection.live:
        lines.append("it is still being recorded")
    elif not inspection.records:
        lines.append("it contains no whole record: the recorder was probably killed as it started, or the file was cut")
    elif inspection.close is None:
        lines.append(
            "it was not closed: the recorder was killed, as many hosts do at the end of a session, or the file was cut"
        )
    return lines


def gap_text(gap: Gap) -> str:
    """Describe a gap."""
    if gap.reason == "fault" and gap.first == gap.at:
        if gap.lost is None:
            return f"at record {gap.at} a fault in mcpproxy ended the recording of a stream"
        frame_count = sum(side.get("frames", 0) for side in gap.lost.values())
        line_count = gap.lost.get("other", {}).get("records", 0)
        lines_text = f" and {count_text(line_count, 'line')} of stderr" if line_count else ""
        return f"not recorded after a fault in mcpproxy: {count_text(frame_count, 'frame')}{lines_text}"
    if gap.reason == "import" and gap.first == gap.at:
        return f"at record {gap.at} something in the log could not be imported"
    if gap.reason in ("excerpt", "redaction"):
        subject = f"record {gap.first} was" if gap.first == gap.at else f"records {gap.first} to {gap.at} were"
        return f"{subject} left out of this redacted copy"
    subject = f"record {gap.first} was" if gap.first == gap.last else f"records {gap.first} to {gap.last} were"
    frames = sum(side.get("frames", 0) for side in gap.lost.values()) if gap.lost is not None else None
    frames_text = "" if frames is None else f", {count_text(frames, 'frame')} among them"
    return f"{subject} lost{frames_text} ({sanitise(gap.reason, 40)})"
