"""Summarise a capture: what was recorded, how much, for how long, how it ended, and whether it is complete."""

import argparse
import sys
from pathlib import Path
from typing import Any

from analysis import clock
from analysis.summary import Summary, summarise
from captures.integrity import Inspection, inspect
from captures.reader import Capture
from captures.record import Record
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.cli.verify import incompleteness_reasons, rename_damage
from mcpproxy.importers.form import origin_of
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import begins_text
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.units import duration, local_time, size, utc


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `info`."""
    parser = Parser("info", __doc__)
    add_captures(parser)
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Print the summary of each capture; returns 2 if any is damaged."""
    options = parser().parse_args(arguments)
    code = Exit.FINE
    with select_captures(options.capture, scope_of(options)) as selection:
        for number, path in enumerate(selection.paths):
            capture = Capture(path)
            inspection, name = inspect(capture), selection.name_of(path)
            if path == selection.stdin:
                rename_damage(inspection, name)
            summary = summarise(path)
            if options.format == "json":
                sys.stdout.write(json_line(_as_json(capture, name, inspection, summary)))
            else:
                sys.stdout.write(("\n" if number else "") + _text(capture, name, inspection, summary))
            code = Exit.USAGE if inspection.state == "damaged" else code
    return int(code)


def _wall_ns(header: Record) -> int | None:
    wall_ns = header.members.get("wall_ns")
    return wall_ns if type(wall_ns) is int and 0 <= wall_ns < 1 << 63 else None


def _duration_ns(wall_ns: int | None, inspection: Inspection) -> int:
    return clock.duration_ns(inspection.last_t_ns, wall_ns, is_live=inspection.live)


def _client_names(summary: Summary) -> list[str]:
    """Return the names by which the clients introduced themselves; clients without a name are left out."""
    return [client for client, _ in summary.clients if client]


def _as_json(capture: Capture, name: Path, inspection: Inspection, summary: Summary) -> dict[str, Any]:
    wall_ns = _wall_ns(capture.header)
    common_members = ("seq", "rec", "t_ns", "crc")
    return {
        "capture": str(name),
        "state": inspection.state,
        "reasons": incompleteness_reasons(inspection),
        "started": None if wall_ns is None else utc(wall_ns),
        "clients": _client_names(summary),
        "revisions": list(summary.revisions),
        "duration_ms": _duration_ns(wall_ns, inspection) / 1e6,
        "size": capture.size,
        "segments": len(capture.segments),
        "records": dict(inspection.counts),
        "exchanges": inspection.exchanges,
        "frames": inspection.frames,
        "bytes": inspection.bytes,
        "close": inspection.close
        and {name: value for name, value in inspection.close.items() if name not in common_members},
        "header": {name: value for name, value in capture.header.members.items() if name not in common_members},
    }


def _text(capture: Capture, name: Path, inspection: Inspection, summary: Summary) -> str:
    header = capture.header.members
    wall_ns, clients = _wall_ns(capture.header), _client_names(summary)
    origin = origin_of(header)
    rows = [
        ("capture", str(name)),
        ("server", header.get("name")),
        ("command", " ".join(map(str, header["argv"])) if isinstance(header.get("argv"), list) else None),
        ("upstream", header.get("upstream")),
        ("public", header.get("public")),
        ("listened on", header.get("listen")),
        ("client" if len(clients) == 1 else "clients", ", ".join(sanitise(client, 60) for client in clients)),
        ("revision" if len(summary.revisions) == 1 else "revisions", revisions_text(summary.revisions)),
        ("transport", header.get("transport")),
        ("started", None if wall_ns is None else local_time(wall_ns)),
        ("duration", duration(_duration_ns(wall_ns, inspection))),
        ("started by", _parents_text(header.get("parents"))),
        ("machine", header.get("machine")),
        ("imported", origin),
        ("imported by" if origin else "recorded by", header.get("tool")),
        ("redacted by", header.get("redacted_by")),
        ("cassette", "yes" if header.get("cassette") is True else None),
        ("frames", _traffic_text(inspection)),
        ("exchanges", f"{inspection.exchanges:,}" if inspection.exchanges else None),
        ("records", ", ".join(f"{count:,} {name}" for name, count in sorted(inspection.counts.items()))),
        ("on disk", f"{size(capture.size)}{_segments_text(capture)}"),
        ("begins", begins_text(capture.header.seq).removeprefix("begins ") if capture.header.seq else None),
        ("ended", _ending_text(inspection)),
        ("state", inspection.state),
    ]
    lines = [f"{name:<12}{sanitise(str(value))}" for name, value in rows if value]
    return "\n".join([*lines, *(f"{'':<12}{reason}" for reason in incompleteness_reasons(inspection))]) + "\n"


def _traffic_text(inspection: Inspection) -> str:
    sides = (("c2s", "to the server"), ("s2c", "to the client"))
    return ", ".join(
        f"{inspection.frames[direction]:,} {text} ({size(inspection.bytes[direction])})" for direction, text in sides
    )


def _parents_text(parents: object) -> str | None:
    if not isinstance(parents, list):
        return None
    names = [f"{parent.get('exe')} {parent.get('pid')}" for parent in parents if isinstance(parent, dict)]
    return " ← ".join(names[:4]) or None


def _segments_text(capture: Capture) -> str:
    return f" in {len(capture.segments)} segments" if len(capture.segments) > 1 else ""


def _ending_text(inspection: Inspection) -> str | None:
    if inspection.close is None:
        return None
    status, signal = inspection.close.get("status"), inspection.close.get("signal")
    exit_text = f", killed by {signal}" if signal else "" if status is None else f", exit {status}"
    endings = {
        "server": "the server ended",
        "client": "the client disconnected",
        "signal": "ended by a signal",
        "failed": "the command could not be run",
    }
    return endings.get(str(inspection.close.get("ending")), str(inspection.close.get("ending"))) + exit_text
