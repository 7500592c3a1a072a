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
from mcpproxy.cli.selection import add_captures, scope_of, selected
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from mcpproxy.sharing.scan import LikelySecret

_MAX_LISTED_PLACES = 10_000
"""How many different places of secrets are listed for one capture."""


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
    with selected(options.capture, scope_of(options)) as chosen:
        for path in chosen.paths:
            named = chosen.name_of(path)
            try:
                codes.append(_scan(path, named, options))
            except CaptureError as error:
                codes.append(Exit(fail(str(error))))
    return int(max(codes))


def _scan(path: Path, named: Path, options: argparse.Namespace) -> Exit:
    """Print the secrets of a capture; returns the exit code that it gives."""
    # Loading the rules takes a moment, for which --help should not wait.
    from mcpproxy.sharing.scan import likely_secrets

    progress = Progress()
    progress.show(f"scanning {named}")
    rows: dict[tuple[str, str, str, str], list[Any]] = {}
    counts: Counter[bool] = Counter()
    is_damaged = False
    for likely in likely_secrets(Capture(path), personal=options.personal):
        if isinstance(likely, Damage):
            is_damaged = True
            continue
        counts[likely.is_personal] += 1
        key = (likely.kind, likely.secret, likely.rec, likely.pointer)
        if key in rows:
            rows[key][1] += 1
        elif len(rows) < _MAX_LISTED_PLACES:
            rows[key] = [likely, 1]
    progress.clear()
    listed = [(likely, times) for likely, times in rows.values()]
    if options.format == "json":
        for likely, times in listed:
            sys.stdout.write(json_line(_row(named, likely, times)))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(named, listed, counts)))
    if is_damaged:
        say(f"{named} is damaged: unreadable parts were not scanned; `mcpproxy verify` lists the damage")
        return Exit.USAGE
    return Exit.FINDINGS if counts else Exit.FINE


def _row(path: Path, likely: "LikelySecret", times: int) -> dict[str, Any]:
    return {
        "capture": str(path),
        "frame": likely.seq,
        "record": likely.rec,
        "pointer": likely.pointer,
        "kind": likely.kind,
        "begins": likely.masked,
        "length": likely.size,
        "times": times,
    }


def _lines(path: Path, listed: "list[tuple[LikelySecret, int]]", counts: Counter[bool]) -> Iterable[str]:
    """The text for people; `counts` has how many are personal, and how many are not."""
    from mcpproxy.report.sharing import NOTHING_FOUND

    if not counts:
        yield f"{sanitise(str(path))}: {NOTHING_FOUND}"
        return
    nouns = {False: "likely secret", True: "personal detail"}
    what = " and ".join(
        count_text(counts[is_personal], noun) for is_personal, noun in nouns.items() if counts[is_personal]
    )
    places = count_text(len(listed), "place")
    where = f" at {places}" if len(listed) < _MAX_LISTED_PLACES else f"; the first {places} are listed"
    yield f"{sanitise(str(path))}: {what}{where}"
    width = max(len(likely.kind) for likely, _ in listed)
    for likely, times in listed:
        where = sanitise(likely.pointer, 100) or ("text" if likely.rec == "frame" else likely.rec)
        again = f" ({times:,} times)" if times > 1 else ""
        size = count_text(likely.size, "character")
        what = "frame" if likely.rec == "frame" else "record"
        yield f"  {what:<6} {likely.seq:<6} {likely.kind:<{width}}  {sanitise(likely.masked)} {size}, at {where}{again}"
