"""Delete old captures by age, number or size. Captures that are still being recorded are never touched.

Give at least one of --older-than, --keep and --max-size. --dry-run lists what would be deleted. --service writes a
timer that deletes every day.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from mcpproxy.cli.arguments import Parser, age, count
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.selection import ALL_CAPTURES, select_captures
from mcpproxy.removal import RemovableCapture, removable_capture, remove_capture
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

_UNIT_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a size such as 500M or 10G")
    return int(match[1]) * _UNIT_BYTES[match[2]]


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `prune`."""
    parser = Parser("prune", __doc__)
    parser.add_argument(
        "capture", nargs="*", help="captures, folders or server names (default: all captures of this user)"
    )
    parser.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="delete captures last written more than AGE ago: 90m, 12h, 30d, 4w",
    )
    parser.add_argument("--keep", type=count, metavar="N", help="keep the N newest of each server")
    parser.add_argument(
        "--max-size",
        type=_parse_size,
        metavar="SIZE",
        help="delete the oldest until the rest take at most this much: 500M, 10G",
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask for confirmation; required if there is no terminal"
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="write a systemd timer that runs this command every day, without asking, and exit",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be deleted, and delete nothing")
    return parser


def run(arguments: list[str]) -> int:
    """Delete the selected captures; returns 2 if a file could not be deleted."""
    options = parser().parse_args(arguments)
    if options.older_than is None and options.keep is None and options.max_size is None:
        return fail("prune needs --older-than, --keep or --max-size to select captures; see mcpproxy prune --help")
    if options.service:
        return _write_timer(options)
    with select_captures(options.capture, ALL_CAPTURES, lists=True) as selection:
        candidates = [candidate for path in selection.paths if (candidate := removable_capture(path)) is not None]
    captures_to_delete = _captures_to_delete(candidates, options)
    if captures_to_delete and not (options.yes or options.dry_run):
        total_bytes = sum(candidate.size for candidate in captures_to_delete)
        amount = f"{count_text(len(captures_to_delete), 'capture')}, {size(total_bytes)}"
        if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
            return fail(f"prune would delete {amount}: add --yes to delete them, or --dry-run to list them")
        if not _confirm(captures_to_delete, amount):
            return int(Exit.FINE)
    code, freed_bytes, count = int(Exit.FINE), 0, 0
    for candidate in captures_to_delete:
        try:
            if not options.dry_run:
                remove_capture(candidate)
        except OSError as error:
            code = fail(f"cannot delete {sanitise(str(candidate.path))}: {error.strerror}")
            continue
        freed_bytes, count = freed_bytes + candidate.size, count + 1
        sys.stdout.write(f"{sanitise(str(candidate.path))}  {size(candidate.size)}\n")
    verb = "would be deleted" if options.dry_run else "deleted"
    sys.stdout.write(f"{count_text(count, 'capture')}, {size(freed_bytes)} {verb}\n")
    return code


def _write_timer(options: argparse.Namespace) -> int:
    """Write a timer that runs prune with these options; asks nothing, because nothing is deleted now."""
    # Writing a timer is rare; deletions should not wait for modules that only a timer needs.
    from mcpproxy.cli.timers import unit_operand, write_timer_units
    from mcpproxy.clients.timer import PRUNE

    if options.dry_run:
        return fail("--service and --dry-run cannot be combined; look with --dry-run first, then write the timer")
    words = [] if options.older_than is None else ["--older-than", f"{options.older_than}s"]
    words += [] if options.keep is None else ["--keep", str(options.keep)]
    words += [] if options.max_size is None else ["--max-size", str(options.max_size)]
    return write_timer_units(PRUNE, [*words, "--yes", *map(unit_operand, options.capture)])


def _confirm(captures: list[RemovableCapture], amount: str) -> bool:
    """List the captures, and ask whether to delete them; returns the answer."""
    for candidate in captures:
        sys.stdout.write(f"{sanitise(str(candidate.path))}  {size(candidate.size)}\n")
    sys.stdout.write(f"Delete {amount}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _captures_to_delete(candidates: list[RemovableCapture], options: argparse.Namespace) -> list[RemovableCapture]:
    """Return the captures to delete, oldest first; `candidates` are sorted newest first."""
    kept_counts: Counter[Path] = Counter()
    kept_bytes = 0
    is_full = False
    captures_to_delete = []
    for candidate in candidates:
        folder = candidate.path.parent
        is_too_old = options.older_than is not None and candidate.age_s > options.older_than
        has_newer = options.keep is not None and kept_counts[folder] >= options.keep
        # Once a capture does not fit, all older ones go, too: a small old capture must not outlive a newer one.
        is_full = is_full or (options.max_size is not None and kept_bytes + candidate.size > options.max_size)
        if is_too_old or has_newer or is_full:
            captures_to_delete.append(candidate)
        else:
            kept_counts[folder] += 1
            kept_bytes += candidate.size
    return captures_to_delete[::-1]
