"""Report what changed between two captures, and whether it breaks clients that rely on the old one.

Compares tools, resources, prompts and their schemas, capabilities, findings, outcomes, results, the order of calls and
latencies. A change is breaking if something that worked before no longer works.

Exit code: 1 if a change is as bad as --fail-on says (default: breaking,outcome), 2 if something could not be compared.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial

from analysis.checking.baseline import Baseline
from analysis.comparison.change import Change, Comparison, Gap, SideSummary
from analysis.comparison.compare import compare
from analysis.comparison.observe_sides import SideSource
from analysis.comparison.options import CompareOptions
from analysis.filter import FilterError
from mcpproxy.cli.arguments import Parser, report_filter_error
from mcpproxy.cli.baseline_file import NewBaseline, read_baseline
from mcpproxy.cli.compare_explain import explain
from mcpproxy.cli.compare_learn import learn_places
from mcpproxy.cli.compare_operands import (
    compared_sides,
    observe_options_of,
    options_for_both,
    read_sides,
)
from mcpproxy.cli.compare_options import DEFAULT_PAGE, HTML, combination_error, compare_parser, mode_of
from mcpproxy.cli.compare_output import write_result
from mcpproxy.cli.compare_save import save_expectation
from mcpproxy.cli.compare_warnings import say_failures, say_unused_places, say_warnings
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say
from mcpproxy.cli.outputs import check_file_output
from mcpproxy.html_report.comparison import ComparisonPage
from mcpproxy.report.comparison import FORMATS, write_comparison
from mcpproxy.wording.changes import verdict_text
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Style


def parser() -> Parser:
    """Return the argument parser of `compare`."""
    return compare_parser(__doc__, [*(name for name in FORMATS if name not in ("text", "json")), HTML])


def run(arguments: list[str]) -> int:
    """Compare two sides, or do what an option says; returns the exit code."""
    own_parser = parser()
    options = own_parser.parse_intermixed(arguments)
    problem = combination_error(options, own_parser)
    if problem is not None:
        return fail(problem)
    mode = mode_of(options)
    if mode == "compare" and options.format == HTML and options.output is None:
        options.output = DEFAULT_PAGE
    if mode == "explain":
        return explain(options)
    if mode == "each":
        # Loading DuckDB takes a tenth of a second; comparisons should not wait for it.
        from mcpproxy.cli.compare_each import list_drift

        return list_drift(options)
    try:
        if mode == "save":
            return save_expectation(options)
        if mode == "learn":
            return learn_places(options)
        return compare_sides(options)
    except FilterError as error:
        report_filter_error(error)
        return int(Exit.USAGE)


def compare_sides(options: argparse.Namespace, *, annotates_old: bool = False) -> int:
    """Compare the two sides that the options name, and write the result; returns the exit code.

    Args:
        options: the options of `compare`.
        annotates_old: whether annotations belong to the captures of the old side.

    Raises:
        CaptureError: a side cannot be read, or the output cannot be written.
        FilterError: the filter is invalid.
    """
    return _ComparisonRun(options, annotates_old=annotates_old).run()


def write_failure(options: argparse.Namespace, old: str, new: str, reason: str) -> None:
    """Write why there is no comparison as a comparison that failed, if a program or a file is to get it.

    Args:
        options: the options of `compare`.
        old: the name of the old side.
        new: that of the new one.
        reason: why they could not be compared, as a clause.

    Raises:
        CannotCreate: the output cannot be written.
    """
    if options.format == "text" and options.output is None:
        return  # stderr says it
    old_side, new_side = (SideSummary(name, 1, 0, 0, None, None) for name in (old, new))
    comparison = Comparison(old_side, new_side, (), (Gap("everything", reason, is_failure=True),), ())
    write_result(options, pieces_of(comparison, options), verdict_text(comparison))


def pieces_of(comparison: Comparison, options: argparse.Namespace) -> Callable[[Style, int], Iterable[str]]:
    """Returns what writes a comparison in the format of the options, for `write_result`."""
    if options.format != HTML:
        return partial(write_comparison, comparison, options.format, fail_on=options.fail_on.words)
    return lambda _style, _width: ComparisonPage(comparison, options.fail_on.words).pieces()


class _ComparisonRun:
    """A comparison of two sides."""

    def __init__(self, options: argparse.Namespace, *, annotates_old: bool) -> None:
        """Read the baseline, if any.

        Raises:
            CaptureError: it cannot be read.
        """
        self._options, self._annotates_old = options, annotates_old
        self._new_baseline = (
            NewBaseline(options.baseline, narrowing_options="--filter or --ignore") if options.update_baseline else None
        )
        """The baseline to write, with --update-baseline."""
        self._accepted = (
            self._new_baseline.accepted
            if self._new_baseline
            else read_baseline(options.baseline)
            if options.baseline
            else Baseline()
        )
        self._ignored_places: tuple[str, ...] = ()
        """The places of `--ignore` and `--ignore-from`."""

    def run(self) -> int:
        """Compare, write the result and report what is not in it; returns the exit code.

        Raises:
            CaptureError: a side cannot be read, or the output cannot be written.
            FilterError: the filter is invalid.
        """
        options, comparison = self._options, self._accept(self._compare())
        write_result(options, pieces_of(comparison, options), verdict_text(comparison, options.fail_on.words))
        if options.output is not None or options.format != "text" or not sys.stdout.isatty():
            for side in (comparison.old, comparison.new):
                say_warnings(side)
        say_unused_places(self._ignored_places, comparison.ignored)
        self._say_absent_entries(comparison.accepted_changes)
        failures = [gap for gap in comparison.gaps if gap.is_failure]
        say_failures(failures)
        if failures:
            if self._new_baseline is not None:
                say(f"the baseline {options.baseline} was not changed: something could not be compared")
            return int(Exit.USAGE)
        if self._new_baseline is not None:
            say(self._new_baseline.write())
            return int(Exit.FINE)
        return int(Exit.FINDINGS if options.fail_on.has_failed(comparison) else Exit.FINE)

    def _accept(self, comparison: Comparison) -> Comparison:
        """Returns a comparison without accepted changes, in which everything that `--fail-on` needs is a failure."""
        if self._new_baseline is not None:
            for change in comparison.changes:
                self._new_baseline.accept_change(change)
        accepted: list[Change] = []
        others: list[Change] = []
        for change in comparison.changes:
            is_accepted = any(each in self._accepted for each in change.accepting_fingerprints)
            (accepted if is_accepted else others).append(change)
        gaps = tuple(
            gap._replace(is_failure=True) if self._options.fail_on.is_needed(gap) else gap for gap in comparison.gaps
        )
        return comparison._replace(
            changes=tuple(others),
            gaps=gaps,
            accepted_changes=tuple(accepted),
            annotates_old=self._annotates_old,
        )

    def _say_absent_entries(self, accepted: Iterable[Change]) -> None:
        """Report how many entries of the baseline accept nothing, so that they can be removed."""
        used = {each for change in accepted for each in change.accepting_fingerprints}
        count = sum(each not in used for each in self._accepted)
        if count and self._new_baseline is None:
            verb = "occurs" if count == 1 else "occur"
            say(
                f"{count_text(count, 'entry', 'entries')} of the baseline {self._options.baseline} no longer {verb}; "
                "--update-baseline removes what does not"
            )

    def _compare(self) -> Comparison:
        options = self._options
        progress, given_options = Progress(), observe_options_of(options)
        self._ignored_places = given_options.ignored_pointers
        with compared_sides(options.side) as (old, new):
            if options.output is not None:
                paths = [path for side in (old, new) if isinstance(side, SideSource) for _, path in side.captures]
                check_file_output(options.output, paths, force=options.force)
            observe_options = options_for_both(old, given_options)
            compare_options = CompareOptions(
                options.fail_on.words if options.fail_on.is_given else frozenset(),
                options.fail_on.slower_percent,
                observe_options.ignored_pointers,
            )
            old_side, new_side = read_sides(old, new, observe_options, progress)
            progress.show("comparing")
            try:
                return compare(old_side, new_side, compare_options)
            finally:
                progress.clear()
