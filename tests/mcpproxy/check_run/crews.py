"""Checks of multi-process runs, executed in a process that has loaded the program, so its workers are forks of it.

Each check is a function of paths; `test_workers_integration.py` runs it.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from analysis.checking.baseline import Baseline
from analysis.filter import parse
from captures.errors import CaptureError
from mcpproxy.check_run import examine, worker_pool
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.parallel_rules import examine_in_shares
from mcpproxy.check_run.result import CheckProgress, Event, LocatedFinding
from mcpproxy.check_run.worker_pool import examine_captures
from tests.harness import ROOT, children

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"


def all_of(events: Iterable[Event]) -> list[Event | str]:
    """Returns the events of a capture, followed by the error that ends them, if any."""
    found: list[Event | str] = []
    try:
        found += events
    except CaptureError as error:
        found.append(str(error))
    return found


def by_capture(captures: list[Path], wanted: CheckOptions, count: int) -> list[tuple[Path, list[Event | str]]]:
    """Returns the events of each capture, examined by `count` processes."""
    return [(path, all_of(events)) for path, events in examine_captures(captures, wanted, count)]


def baseline() -> Baseline:
    """Returns a baseline of all findings in the demo."""
    return Baseline(
        found.fingerprint for found in examine_capture(DEMO, CheckOptions()) if isinstance(found, LocatedFinding)
    )


def they_find_the_same_in_the_same_order(*captures: Path) -> None:
    """Compare three workers with none under several options; options that select a part get fewer captures."""
    for wanted in (
        CheckOptions(),
        CheckOptions(lambda rule: rule.startswith("id/")),
        CheckOptions(only=parse("method:tools/* level>=warning")),
        CheckOptions(baseline=baseline()),
    ):
        given = [*captures[: None if wanted == CheckOptions() else 6]]
        alone = by_capture(given, wanted, 0)
        assert by_capture(given, wanted, 3) == alone, wanted
        assert [path for path, _ in alone] == given
        assert any(isinstance(event, LocatedFinding) for _, events in alone for event in events), wanted


def events_of_later_captures_wait_within_a_limit(*captures: Path) -> None:
    """Examine captures with a limit of 0 bytes."""
    alone = by_capture([*captures], CheckOptions(), 0)
    worker_pool.MAX_WAITING_EVENT_BYTES = 0  # type: ignore[misc]
    assert by_capture([*captures], CheckOptions(), 3) == alone


def a_worker_that_is_killed_costs_no_finding(*captures: Path) -> None:
    """Kill some workers at the start, and some when there is nothing left to do."""
    alone, others = by_capture([*captures], CheckOptions(), 0), children(os.getpid())
    found: list[tuple[Path, list[Event | str]]] = []
    for path, events in examine_captures(captures, CheckOptions(), 3):
        workers_left = [pid for pid in children(os.getpid()) if pid not in others]
        for worker in workers_left[:1] if len(found) in (0, 1, len(captures) - 2) else ():
            os.kill(worker, signal.SIGKILL)
        found.append((path, all_of(events)))
    assert found == alone


def no_finding_comes_twice_if_its_worker_dies_half_way(many: Path) -> None:
    """Kill all workers after the first ten findings of each of two captures."""
    alone, others = all_of(examine_capture(many, CheckOptions())), children(os.getpid())
    for _, events in examine_captures([many, many], CheckOptions(), 2):
        found: list[Event | str] = [next(events) for _ in range(10)]
        for worker in children(os.getpid()):
            if worker not in others:
                os.kill(worker, signal.SIGKILL)
        assert found + all_of(events) == alone


def a_capture_that_grows_is_examined_up_to_its_end(growing: Path) -> None:
    """Examine a growing capture twice, with two workers."""
    first, second = by_capture([growing, growing], CheckOptions(), 2)
    assert first == second == (growing, all_of(examine_capture(growing, CheckOptions())))


def the_places_of_findings_rise_with_the_frames(path: Path) -> None:
    """Check the order of the findings that a worker sends."""
    ((_, found), _) = by_capture([path] * 2, CheckOptions(lambda rule: rule.startswith("id/")), 2)
    frames = [event.finding.frame for event in found if isinstance(event, LocatedFinding)]
    assert len(frames) == 50
    assert frames == sorted(set(frames))


# ---- one capture, with its rules shared out


def in_shares(path: Path, wanted: CheckOptions, count: int) -> list[Event | str]:
    """Returns the events of a capture whose rules are shared out to `count` processes."""
    return all_of(examine_in_shares(path, wanted, count))


def shares_yield_the_events_of_one_process(*captures: Path) -> None:
    """Check two shares and three, with different options in turn."""
    accepted = baseline()
    for number, path in enumerate(captures):
        wanted = (CheckOptions(), CheckOptions(only=parse("level>=warning")), CheckOptions(baseline=accepted))[
            number % 3
        ]
        count = 2 + number % 2
        assert in_shares(path, wanted, count) == all_of(examine_capture(path, wanted)), (path, count)


def a_share_says_how_far_it_is(large: Path) -> None:
    """Progress is reported once, although each of the two workers reports it."""
    examine.PROGRESS_INTERVAL_ITEMS = 256  # type: ignore[misc] # so do the workers, which are forks
    events = in_shares(large, CheckOptions(), 2)
    assert [type(event) for event in events].count(CheckProgress) == 1
    assert events == all_of(examine_capture(large, CheckOptions()))


def a_share_whose_worker_is_killed_costs_no_finding(many: Path) -> None:
    """Kill the worker of each share in turn."""
    alone, others = all_of(examine_capture(many, CheckOptions())), children(os.getpid())
    for victim in (0, 1):
        events: Iterator[Event] = examine_in_shares(many, CheckOptions(), 2)
        found: list[Event | str] = [next(events) for _ in range(10)]
        os.kill([pid for pid in children(os.getpid()) if pid not in others][victim], signal.SIGKILL)
        assert found + all_of(events) == alone
        assert children(os.getpid()) == others
