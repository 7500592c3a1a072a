"""`mcpproxy show --frame` and `--id`: prints single messages of captures, by record number or by id."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from analysis.filter import Filter, parse
from analysis.reading import Reading, Step
from captures.errors import CaptureError
from captures.frame import Frame
from captures.frames import assemble
from captures.reader import Capture
from captures.record import Record
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.cli.check_warnings import say_damage
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.report.message_page import SelectedMessages, id_lines
from mcpproxy.report.output import safe_for_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.json_lines import row_of, wall_of
from mcpproxy.wording.spans import Style

MAX_CHECKED_BYTES: Final = 20_000_000
"""The size, in bytes, up to which the rules check a capture; this takes a second or two."""


def filter_from_options(options: argparse.Namespace) -> Filter:
    """Return the filter to which --frame or --id is equivalent.

    Raises:
        CaptureError: `--frame` is neither a number nor a range.
    """
    if options.frame is not None:
        parse_frame_range(options.frame)
        return parse(f"frame:{options.frame}")
    # Users type an id as it is printed, and a number and a string can look the same.
    if len(options.id) > 1 and options.id[0] == options.id[-1] == '"':
        return parse(f"id:{_quoted(options.id[1:-1])}")
    quoted_id = _quoted(options.id)
    if re.fullmatch(r"-?[0-9.eE+-]+|null", options.id):
        return parse(f"id:{options.id} or id:{quoted_id}")
    return parse(f"id:{options.id}" if re.fullmatch(r"[\w.*?-]+", options.id) else f"id:{quoted_id}")


def parse_frame_range(text: str) -> tuple[int, int]:
    """Parse `--frame`; returns the first and the last number that it selects.

    Raises:
        CaptureError: the text is neither a number nor a range.
    """
    match = re.fullmatch(r"([0-9]{1,15})(?:\.\.([0-9]{1,15}))?", text)
    if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
        raise CaptureError(
            f"--frame takes the number of a frame such as 38, or a range such as 30..40, not {text!r:.40}"
        )
    return int(match[1]), int(match[2] or match[1])


def _quoted(text: str) -> str:
    """Quote a text for the filter language."""
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped_text}"'


def show_messages(paths: list[Path], selection: Filter, options: argparse.Namespace) -> int:
    """Print the selected messages; returns 2 if there are none, or a capture is damaged or cannot be read."""
    style = Style.for_choice(options.color, sys.stdout, os.environ)
    code, has_found = int(Exit.FINE), False
    last_seq = -1
    for path in paths:
        try:
            search = _MessageSearch(path, selection, checks=options.id is None and options.format == "text")
        except CaptureError as error:
            code = fail(str(error))
            continue
        code = int(Exit.USAGE) if search.is_damaged else code
        last_seq = max(last_seq, search.last_seq)
        if not search.messages.record_numbers:
            continue
        if len(paths) > 1 and options.format == "text":
            sys.stdout.write(("\n" if has_found else "") + f"{sanitise(str(path), None)}\n\n")
        has_found = True
        lines = (
            _json_rows(path, search.messages.record_numbers)
            if options.format == "json"
            else id_lines(search.messages, style)
            if options.id is not None
            else search.messages.pages(search.findings, style)
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)
    if has_found:
        return code
    target = f"frame {options.frame}" if options.frame is not None else f"message with the id {sanitise(options.id)}"
    last_text = (
        f"; the last record is {last_seq}" if options.frame is not None and len(paths) == 1 and last_seq >= 0 else ""
    )
    return fail(f"there is no {target} in {_captures_text(paths)}{last_text}")


def _captures_text(paths: list[Path]) -> str:
    return sanitise(str(paths[0]), None) if len(paths) == 1 else f"these {len(paths):,} captures"


class _MessageSearch:
    """The selected messages of a capture, with their findings."""

    def __init__(self, path: Path, selection: Filter, *, checks: bool) -> None:
        self.findings: list[LocatedFinding] | None = None
        """The findings about these messages; None if the rules did not run."""
        self.is_damaged = False
        self.last_seq = -1
        """The number of the last record; -1 if there is none."""
        capture = Capture(path)
        examination = CaptureCheck(capture, CheckOptions()) if checks and capture.size <= MAX_CHECKED_BYTES else None
        reading = Reading(capture) if examination is None else examination.reading
        steps: Iterable[tuple[Step, Iterable[LocatedFinding]]]
        steps = ((step, ()) for step in reading.to_end()) if examination is None else examination.examine_to_end()
        self.messages = SelectedMessages(selection, reading.fold)
        findings: list[LocatedFinding] = []
        for step, step_findings in steps:
            damage = reading.damage_in(step)
            if damage is not None:
                say_damage(damage, path)
                self.is_damaged = True
            if isinstance(step.record, Frame | Record):
                self.last_seq = step.record.seq
            self.messages.on_step(step)
            findings += step_findings
        if examination is not None:
            numbers = self.messages.record_numbers
            self.findings = [
                located for located in findings if numbers & {located.finding.frame, *located.finding.related}
            ]


def _json_rows(path: Path, numbers: set[int]) -> Iterator[str]:
    """Yield the records with these numbers as lines of JSON."""
    wall_ns = None
    for record, entry in assemble(Capture(path)):
        if not isinstance(record, Record):
            continue
        if record.rec == "header":
            wall_ns = wall_of(record)
        if record.seq in numbers:
            yield safe_for_stdout(row_of(record, entry, wall_ns))
