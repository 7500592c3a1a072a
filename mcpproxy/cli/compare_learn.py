"""`compare --learn`: finds what varies between two recordings of the same thing, for `--ignore-from`."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from analysis.comparison.change import Comparison, Gap
from analysis.comparison.compare import compare
from analysis.comparison.kind import FailOn
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side
from analysis.comparison.values.ignored_places import ignore_file
from analysis.comparison.values.learning import learn
from captures.errors import CannotCreate, CaptureError
from captures.new_file import new_file
from mcpproxy.cli.compare_operands import compared_sides, observe_options_of, options_for_both, read_sides
from mcpproxy.cli.compare_options import FailOnChoice
from mcpproxy.cli.compare_warnings import say_failures, say_warnings
from mcpproxy.cli.diagnostics import Exit, Progress, say
from mcpproxy.cli.outputs import written_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

_ADVICE: Final = "; delete it first, or choose another name"
_VALUES: Final = FailOnChoice(frozenset(("value",)))
"""What there is to learn from: without values on both sides, an empty file would look as if nothing varied."""

_SAME_THING: Final = "--learn is for two recordings of the same thing"
_OUTCOMES: Final[frozenset[FailOn]] = frozenset(("outcome",))


def learn_places(options: argparse.Namespace) -> int:
    """Write the places of values that differ between the sides to the file of `--learn`; returns the exit code.

    Raises:
        CaptureError: a side cannot be read, or the file exists or cannot be written.
        FilterError: the filter is invalid.
    """
    target = Path(options.learn)
    if os.path.lexists(target):
        raise CannotCreate(f"{target} exists{_ADVICE}")
    given_options = observe_options_of(options)._replace(with_findings=False)
    with compared_sides(options.side) as (old, new):
        if isinstance(old, Side):
            raise CaptureError(
                f"{sanitise(old.summary.name)} was written by --save; --learn needs two captures of the same thing"
            )
        observe_options = options_for_both(old, given_options)
        sides = read_sides(old, new, observe_options, Progress())
    for side in sides:
        say_warnings(side.summary)
    comparison = compare(*sides, CompareOptions(ignored_pointers=observe_options.ignored_pointers))
    failures: list[Gap] = [gap for gap in comparison.gaps if _VALUES.is_needed(gap)]
    if failures:
        say_failures(failures)
        return int(Exit.USAGE)
    _say_doubts(comparison)
    places = learn(*(side.records["values"] for side in sides))
    with new_file(target, advice=_ADVICE) as path:
        path.write_text(ignore_file(places), "ascii")
        size_bytes = path.stat().st_size
    advice = f"`mcpproxy compare --ignore-from {sanitise(shlex.quote(str(target)))} OLD NEW` ignores them"
    sys.stdout.write(written_line(target, count_text(len(places), "place"), size_bytes, advice))
    return int(Exit.FINE)


def _say_doubts(comparison: Comparison) -> None:
    """Report signs that the recordings are not of the same thing: what changed would be ignored as varying."""
    servers = [sanitise(side.server or "unknown") for side in (comparison.old, comparison.new)]
    if servers[0] != servers[1]:
        say(f"{_SAME_THING}: the servers or their versions differ ({servers[0]}, {servers[1]})")
    if any(change.fails(_OUTCOMES) for change in comparison.changes):
        say(f"{_SAME_THING}: calls end differently; `mcpproxy compare` says which")
