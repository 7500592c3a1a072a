"""`compare --each`: lists when each definition of a server changed, in all of its captures, and who received it."""

import argparse
from functools import partial

from analysis.comparison.definitions.drift import Drift, drift
from analysis.store.stats import OutOfMemoryError
from mcpproxy.cli.compare_options import FailOnChoice
from mcpproxy.cli.compare_output import write_result
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.limited_reports import LimitedReports
from mcpproxy.cli.outputs import check_file_output
from mcpproxy.cli.selection import ALL_CAPTURES, named_captures, select_captures
from mcpproxy.report.comparison_drift import FORMATS, drift_verdict, write_drift
from mcpproxy.sanitise import sanitise
from mcpproxy.sql.session import ProgressLine
from mcpproxy.wording.counts import count_text


def list_drift(options: argparse.Namespace) -> int:
    """List what changed in the captures that `--each` names; returns the exit code.

    Raises:
        CaptureError: it names no server or folder with captures, or the output cannot be written.
    """
    if options.format not in FORMATS:
        return fail(f"--each prints {' or '.join(FORMATS)}; see mcpproxy compare --help")
    if options.each == "-" or named_captures(options.each).kind not in ("server", "folder"):
        return fail(f"--each needs a server or a folder with captures; {sanitise(options.each)} is neither")
    with select_captures([options.each], ALL_CAPTURES) as selection:
        if options.output is not None:
            check_file_output(options.output, selection.paths, force=options.force)
        try:
            with ProgressLine() as progress:
                result = drift(selection.paths, progress=progress.update)
        except OutOfMemoryError as error:
            return fail(f"cannot compare the captures of {sanitise(options.each)}: {error}")
    write_result(options, partial(write_drift, result, options.format), drift_verdict(result))
    _say_refusals(result)
    return int(_exit_code(result, options.fail_on))


def _say_refusals(result: Drift) -> None:
    reports = LimitedReports(say)
    for _, reason in result.refused:
        reports.report_or_count(reason)
    if reports.unreported_count:
        say(f"{count_text(reports.unreported_count, 'more capture')} could not be read")
    if result.has_validator_failed:
        say("not compared: schemas: the validator could not run")
    reports = LimitedReports(say)
    for path, reason in result.incomplete:
        reports.report_or_count(f"{sanitise(str(path))} may lack definitions: {reason}")
    if reports.unreported_count:
        say(f"{count_text(reports.unreported_count, 'more capture')} may lack definitions")


def _exit_code(result: Drift, fail_on: FailOnChoice) -> Exit:
    """Returns the exit code. Without `--fail-on`, a change does not fail: it may be of last year."""
    is_incomplete = result.is_truncated or result.unjudged or not result.definitions
    if result.refused or result.incomplete or result.has_validator_failed:
        return Exit.USAGE
    if not fail_on.is_given or not fail_on.words:
        return Exit.FINE
    if any(change.fails(fail_on.words) for row in result.rows for change in row.changes):
        return Exit.FINDINGS
    if is_incomplete:
        say(f"not compared: {drift_verdict(result)}")
        return Exit.USAGE
    return Exit.FINE
