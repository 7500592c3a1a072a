"""List likely secrets in captures, masked, with their frame and place.

Exits with 1 if there are any, so that a CI job can refuse to store or publish a capture.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captures.damage import Damage
from captures.errors import CaptureError
from captures.reader import Capture
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from mcpproxy.sharing.scan import LikelySecret

_MAX_LISTED_PLACES = 10_000
"""The maximum number of different places that are listed for one capture."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `scan`."""
    parser = Parser("scan", __doc__)
    add_captures(parser)
    parser.add_argument(
        "--personal",
        action="store_true",
        help="also list e-mail addresses, user names, hosts, IP and MAC addresses, telephone numbers and bank accounts",
    )
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """List the secrets; returns 1 if there are any, 2 if a capture is damaged or cannot be read."""
    options = parser().parse_args(arguments)
    codes = [Exit.FINE]
    with select_captures(options.capture, scope_of(options)) as selection:
        for path in selection.paths:
            display_name = selection.name_of(path)
            try:
                codes.append(_scan(path, display_name, options))
            except CaptureError as error:
                codes.append(Exit(fail(str(error))))
    return int(max(codes))


def _scan(path: Path, display_name: Path, options: argparse.Namespace) -> Exit:
    """Print the likely secrets of a capture; returns the exit code."""
    # Loading the rules takes a moment; --help should not wait for it.
    from mcpproxy.sharing.scan import likely_secrets

    progress = Progress()
    progress.show(f"scanning {display_name}")
    rows: dict[tuple[str, str, str, str], list[Any]] = {}
    counts: Counter[bool] = Counter()
    is_damaged = False
    for item in likely_secrets(Capture(path), personal=options.personal):
        if isinstance(item, Damage):
            is_damaged = True
            continue
        counts[item.is_personal] += 1
        key = (item.kind, item.secret, item.rec, item.pointer)
        if key in rows:
            rows[key][1] += 1
        elif len(rows) < _MAX_LISTED_PLACES:
            rows[key] = [item, 1]
    progress.clear()
    listed_secrets = [(secret, times) for secret, times in rows.values()]
    if options.format == "json":
        for item, times in listed_secrets:
            sys.stdout.write(json_line(_row(display_name, item, times)))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(display_name, listed_secrets, counts)))
    if is_damaged:
        say(f"{display_name} is damaged: unreadable parts were not scanned; `mcpproxy verify` lists the damage")
        return Exit.USAGE
    return Exit.FINDINGS if counts else Exit.FINE


def _row(path: Path, secret: "LikelySecret", times: int) -> dict[str, Any]:
    return {
        "capture": str(path),
        "frame": secret.seq,
        "record": secret.rec,
        "pointer": secret.pointer,
        "kind": secret.kind,
        "begins": secret.masked,
        "length": secret.size,
        "times": times,
    }


def _lines(path: Path, secrets: "list[tuple[LikelySecret, int]]", counts: Counter[bool]) -> Iterable[str]:
    """Yield the lines of text output; `counts` contains the number of personal details, and that of other secrets."""
    from mcpproxy.report.sharing import NOTHING_FOUND

    if not counts:
        yield f"{sanitise(str(path))}: {NOTHING_FOUND}"
        return
    nouns = {False: "likely secret", True: "personal detail"}
    totals = " and ".join(
        count_text(counts[is_personal], noun) for is_personal, noun in nouns.items() if counts[is_personal]
    )
    places = count_text(len(secrets), "place")
    extent = f" at {places}" if len(secrets) < _MAX_LISTED_PLACES else f"; the first {places} are listed"
    yield f"{sanitise(str(path))}: {totals}{extent}"
    width = max(len(secret.kind) for secret, _ in secrets)
    for secret, times in secrets:
        pointer = sanitise(secret.pointer, 100) or ("text" if secret.rec == "frame" else secret.rec)
        repeats = f" ({times:,} times)" if times > 1 else ""
        length = count_text(secret.size, "character")
        noun = "frame" if secret.rec == "frame" else "record"
        masked = sanitise(secret.masked)
        yield f"  {noun:<6} {secret.seq:<6} {secret.kind:<{width}}  {masked} {length}, at {pointer}{repeats}"
