"""`compare --save`: writes what was observed in captures to a file that can be the old side of later comparisons."""

import argparse
import shlex
import sys
from pathlib import Path

from analysis.comparison.contents import lacks_contents
from analysis.comparison.expectation import check_new, save
from analysis.comparison.side import Side
from mcpproxy.cli.compare_operands import observe_options_of, one_side, read_side
from mcpproxy.cli.compare_warnings import say_warnings
from mcpproxy.cli.diagnostics import Exit, Progress, fail
from mcpproxy.cli.outputs import written_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


def save_expectation(options: argparse.Namespace) -> int:
    """Write the captures that the operands name to the file of `--save`; returns the exit code.

    Raises:
        CaptureError: a capture cannot be read, or the file exists or cannot be written.
        FilterError: the filter is invalid.
    """
    target = Path(options.save)
    check_new(target)
    observe_options = observe_options_of(options)
    with one_side(options.side) as captures:
        side = read_side(captures, observe_options, Progress())
    say_warnings(side.summary)
    refusal = _refusal(side)
    if refusal is not None:
        return fail(f"{sanitise(side.summary.name)} cannot be saved: {refusal}")
    save(side, target)
    contents = f"{count_text(side.summary.captures, 'capture')}, {count_text(side.summary.frames, 'frame')}"
    advice = f"`mcpproxy compare {sanitise(shlex.quote(str(target)))} CAPTURE` compares with it"
    sys.stdout.write(written_line(target, contents, target.stat().st_size, advice))
    return int(Exit.FINE)


def _refusal(side: Side) -> str | None:
    """Returns why nothing could be compared with a side later; None if it can be saved."""
    summary = side.summary
    if summary.has_failed:
        return "a capture is damaged, or a rule crashed on it"
    if not summary.frames:
        return f"it has no message{f' ({summary.server_end})' if summary.server_end else ''}"
    if lacks_contents(side):
        return "no list and no call of a tool was recorded, or the filter selects none"
    return None
