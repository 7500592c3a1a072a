"""Report violations of the protocol's rules in captures or, with --trace, in traces from other tools.

With --join, report what was lost or changed between two captures of one conversation.

Exit code: 1 if there are findings at or above --fail-on (default: error), 2 if something could not be checked or there
was nothing to check, 130 after Ctrl-C, which with --follow prints the totals first.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from analysis.checking.baseline import Baseline
from analysis.checking.profile import Costs
from analysis.filter import Filter, FilterError, parse
from analysis.reading import End
from analysis.rules.discovery import rules, rules_for
from analysis.rules.finding import Level
from analysis.rules.old_ids import current_id
from captures.damage import Damage
from captures.errors import CaptureError
from captures.follow import follow
from mcpproxy.check_run.examine import CaptureCheck, CheckOptions
from mcpproxy.check_run.result import CheckOutcome, CheckProgress, Event, Reporter, Totals
from mcpproxy.check_run.worker_pool import examine_captures, process_count
from mcpproxy.cli.arguments import Parser, add_color, add_follow, add_format, report_filter_error
from mcpproxy.cli.baseline_file import NewBaseline, read_baseline
from mcpproxy.cli.check_warnings import say_damage, say_outcome
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say, say_table
from mcpproxy.cli.follow_selection import FollowedCaptures
from mcpproxy.cli.join import check_join
from mcpproxy.cli.rule import unknown_rule_error
from mcpproxy.cli.selection import add_captures, scope_of, select_captures
from mcpproxy.cli.traces import check_traces
from mcpproxy.report.costs import cost_lines
from mcpproxy.report.findings import TextReporter
from mcpproxy.report.findings_json import JsonReporter
from mcpproxy.report.github import GithubReporter
from mcpproxy.report.junit import JunitReporter
from mcpproxy.report.output import width_of_stdout
from mcpproxy.report.sarif import SarifReporter
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.spans import Style

_LEVELS = {**{str(level): level for level in reversed(Level)}, "never": None}
_MAX_COLUMNS = 120
"""The maximum width of the text output, in columns; longer lines are hard to read."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `check`."""
    parser = Parser("check", __doc__)
    add_captures(parser)
    parser.add_argument(
        "--fail-on",
        choices=tuple(_LEVELS),
        default="error",
        help="exit with 1 if there are findings of this level or worse (default: error)",
    )
    parser.add_argument(
        "--rule",
        action="append",
        metavar="G",
        help="check only these rules: an id, or a pattern such as id/*; can be repeated",
    )
    parser.add_argument("--ignore", action="append", metavar="G", help="skip these rules, named as for --rule")
    parser.add_argument("--filter", metavar="EXPR", help="only findings about messages that EXPR selects")
    parser.add_argument("--baseline", metavar="F", help="accept the findings in F, and report only new ones")
    parser.add_argument(
        "--update-baseline",
        action="store_true",
        help="write the findings to the file of --baseline, for the next run to accept",
    )
    parser.add_argument("--allow-empty", action="store_true", help="exit with 0 if there is nothing to check")
    parser.add_argument(
        "--notes", action="store_true", help="print notes, too; text and github otherwise only count them"
    )
    add_follow(parser)
    parser.add_argument("--profile", action="store_true", help="report on stderr how long each rule took")
    parser.add_argument(
        "--trace",
        metavar="F",
        help="check the conversations in F, or - for stdin, and compare with the findings they expect",
    )
    parser.add_argument(
        "--join",
        action="store_true",
        help="report what was lost or changed between two captures of one conversation, instead of checking rules",
    )
    add_color(parser)
    add_format(parser, "junit", "sarif", "github")
    return parser


def run(arguments: list[str]) -> int:
    """Check captures, or traces; returns the exit code."""
    options = parser().parse_args(arguments)
    options.rule, options.ignore = ([*map(current_id, patterns or ())] for patterns in (options.rule, options.ignore))
    problem = _choice_error(options)
    if problem is not None:
        return fail(problem)
    if options.join:
        return check_join(options, _LEVELS[options.fail_on])
    if options.trace is not None:
        return _check_traces(options)
    if options.update_baseline and options.baseline is None:
        return fail("--update-baseline needs --baseline F, the file to write; see mcpproxy check --help")
    new_baseline = (
        NewBaseline(options.baseline, narrowing_options="--rule, --ignore or --filter")
        if options.update_baseline
        else None
    )
    try:
        check_options = CheckOptions(
            lambda rule: _is_picked(rule, options),
            new_baseline.accepted
            if new_baseline
            else read_baseline(options.baseline)
            if options.baseline
            else Baseline(),
            None if options.filter is None else _parse_filter(options.filter),
            Costs() if options.profile else None,
            # A baseline must contain consequences, too: they are reported once their cause is accepted.
            counts_consequences=new_baseline is None,
        )
    except FilterError as error:
        report_filter_error(error)
        return int(Exit.USAGE)
    return _CheckRun(options, check_options, new_baseline).run()


def _parse_filter(text: str) -> Filter:
    message_filter = parse(text)
    if "has:mark" in message_filter.keys:
        raise FilterError(
            "`check` does not read marks, which belong to `mcpproxy tui`", text, message_filter.keys["has:mark"]
        )
    return message_filter


def _choice_error(options: argparse.Namespace) -> str | None:
    """Return the error in --rule or --ignore, if any."""
    for pattern in (*(options.rule or ()), *(options.ignore or ())):
        if not any(fnmatchcase(rule, pattern) for rule in rules()):
            return unknown_rule_error(pattern)
    return None


def _is_picked(rule: str, options: argparse.Namespace) -> bool:
    return (not options.rule or any(fnmatchcase(rule, pattern) for pattern in options.rule)) and not any(
        fnmatchcase(rule, pattern) for pattern in options.ignore or ()
    )


def _check_traces(options: argparse.Namespace) -> int:
    has_conflict = any(
        (options.capture, options.baseline, options.update_baseline, options.filter, options.follow, options.profile)
    )
    if has_conflict or options.format not in ("text", "json"):
        return fail(
            "--trace can only be combined with --rule, --ignore, and --format text or json; see mcpproxy check --help"
        )
    if options.trace == "-":
        if sys.stdin is None:
            return fail("cannot read traces from stdin: it is closed")
        return check_traces(sys.stdin.buffer, "stdin", lambda rule: _is_picked(rule, options), options.format)
    try:
        file = open(options.trace, "rb")  # noqa: SIM115 - the error below is only about opening the file
    except OSError as error:
        return fail(f"cannot read {options.trace}: {error.strerror}")
    with file:
        return check_traces(file, options.trace, lambda rule: _is_picked(rule, options), options.format)


class _CheckRun:
    """A check of all selected captures."""

    def __init__(
        self, options: argparse.Namespace, check_options: CheckOptions, new_baseline: NewBaseline | None
    ) -> None:
        self._options = options
        self._check_options = check_options
        self._new_baseline = new_baseline
        """The baseline to write, with --update-baseline."""
        self._totals = Totals()
        self._report = self._new_report()
        self._display_name = Path()
        """The name of the current capture in reports."""
        self._has_failed = False
        self._is_empty = True
        """Whether no capture so far had anything to check."""
        self._followed_check: CaptureCheck | None = None
        self._progress = Progress()
        self._activity = "checking"
        self._start_ns = time.perf_counter_ns()

    def run(self) -> int:
        try:
            self._check_all()
        except KeyboardInterrupt:
            self._progress.clear()
            # Ctrl-C is the usual way to end --follow; the user still wants the totals.
            if self._followed_check is None:
                raise
            self._finish_followed(self._followed_check, "open")
            self._write(self._report.close(self._totals))
            raise
        self._write(self._report.close(self._totals))
        if self._check_options.costs is not None:
            took_ns = time.perf_counter_ns() - self._start_ns
            rule_ids = [rule.id for rule in rules_for(self._check_options.picks)]
            say_table(cost_lines(self._check_options.costs.rules, rule_ids, self._totals.frames, took_ns))
        if self._check_options.only is not None and self._totals.captures and not self._totals.finding_count:
            say("no finding matches the filter")
        if self._has_failed or (self._is_empty and not self._options.allow_empty):
            if self._new_baseline is not None:
                say(
                    f"the baseline {self._options.baseline} was not changed: "
                    "something could not be checked, or there was nothing to check"
                )
            return int(Exit.USAGE)
        if self._new_baseline is not None:
            say(self._new_baseline.write())
            return int(Exit.FINE)
        threshold, worst_level = _LEVELS[self._options.fail_on], self._totals.worst_level
        return int(
            Exit.FINDINGS
            if threshold is not None and worst_level is not None and worst_level >= threshold
            else Exit.FINE
        )

    def _new_report(self) -> Reporter:
        options = self._options
        chosen_rules = {rule: rule_class for rule, rule_class in rules().items() if self._check_options.picks(rule)}
        # Notes are printed if they make the run fail, or if their rule was given by its id.
        shows_notes, named_rules = options.notes or options.fail_on == str(Level.NOTE), frozenset(options.rule or ())
        if options.format == "json":
            return JsonReporter()
        if options.format == "junit":
            return JunitReporter(notes=shows_notes, named=named_rules)
        if options.format == "sarif":
            return SarifReporter(chosen_rules)
        if options.format == "github":
            return GithubReporter(notes=shows_notes, named=named_rules)
        return TextReporter(
            Style.for_choice(options.color, sys.stdout, os.environ),
            notes=shows_notes,
            named=named_rules,
            live=options.follow,
            width=width_of_stdout(_MAX_COLUMNS),
            wraps=sys.stdout.isatty(),
            encoding=sys.stdout.encoding,
        )

    def _check_all(self) -> None:
        if self._options.follow and "-" not in self._options.capture:
            asyncio.run(self._follow_all())
            return
        with select_captures(self._options.capture, scope_of(self._options)) as selection:
            processes, capture_count = process_count(selection.paths, self._check_options), len(selection.paths)
            for number, (path, events) in enumerate(
                examine_captures(selection.paths, self._check_options, processes), 1
            ):
                self._display_name = selection.name_of(path)
                if capture_count > 1:
                    self._activity = f"checking {number:,} of {capture_count:,} captures"
                    self._progress.show(self._activity)
                try:
                    self._report_capture(events)
                except CaptureError as error:
                    self._on_unreadable(error, path)

    async def _follow_all(self) -> None:
        followed_captures = FollowedCaptures(self._options.capture, scope_of(self._options))
        if followed_captures.is_endless and not followed_captures.is_single_session:
            raise CaptureError(
                "--follow checks a single session: name at most one server, and use no option that selects several; "
                "`mcpproxy show --follow --all` follows all sessions"
            )
        async for path in followed_captures.paths():
            self._display_name = path
            try:
                await self._follow(path)
            except CaptureError as error:
                self._on_unreadable(error, path)

    def _on_unreadable(self, error: CaptureError, path: Path) -> None:
        self._has_failed = True
        self._progress.clear()
        reason = str(error).replace(str(path), str(self._display_name))
        say(reason)
        self._write(self._report.unreadable(self._display_name, reason))

    def _report_capture(self, events: Iterator[Event]) -> None:
        """Report the events of a capture."""
        has_begun = False
        for event in events:
            if not has_begun:
                self._begin_capture()
                has_begun = True
            self._on_event(event)

    async def _follow(self, path: Path) -> None:
        async for item in follow(path):
            if self._followed_check is None:
                self._begin_capture()
                self._followed_check = CaptureCheck(path, self._check_options)
            if item is None:
                for located in self._followed_check.findings_by_clock():
                    self._on_event(located)
                sys.stdout.flush()
                continue
            step, findings = self._followed_check.feed(item)
            damage = self._followed_check.reading.damage_in(step)
            if damage is not None:
                self._on_event(damage)
            for located in findings:
                self._on_event(located)
        if self._followed_check is not None:
            followed_check = self._followed_check
            self._finish_followed(
                followed_check, "closed" if followed_check.reading.capture.ending is not None else "killed"
            )

    def _finish_followed(self, followed_check: CaptureCheck, reason: End) -> None:
        self._followed_check = None
        for _, findings in followed_check.finish(reason):
            for located in findings:
                self._on_event(located)
        self._on_event(followed_check.outcome)

    def _begin_capture(self) -> None:
        self._totals.captures += 1
        self._write(self._report.begin(self._display_name))

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Damage):
            self._progress.clear()
            say_damage(event, self._display_name)
        elif isinstance(event, CheckProgress):
            self._progress.show(f"{self._activity}: {event.frames:,} frames so far")
        elif isinstance(event, CheckOutcome):
            self._on_outcome(event._replace(capture=self._display_name))
        else:
            located = event._replace(capture=self._display_name)
            self._totals.count_finding(located)
            if self._new_baseline is not None:
                self._new_baseline.accept_finding(located)
            self._write(self._report.report(located))

    def _on_outcome(self, outcome: CheckOutcome) -> None:
        self._progress.clear()
        if not outcome.nothing_reason:
            self._is_empty = False
        elif not self._options.allow_empty:
            say(
                f"{sanitise(str(self._display_name))}: nothing to check: {outcome.nothing_reason}; "
                "--allow-empty accepts that"
            )
        self._totals.frames += outcome.frames
        self._totals.sessions += outcome.sessions
        self._write(self._report.finish(outcome))
        self._has_failed = not say_outcome(outcome) or self._has_failed

    def _write(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self._progress.clear()
            sys.stdout.write(piece)
