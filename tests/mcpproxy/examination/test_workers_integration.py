"""Several processes examine captures exactly as one would, in order, and one that dies costs nothing but time."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given

from analysis import child_process
from analysis.checking.baseline import Baseline
from analysis.checking.profile import Costs
from analysis.filter import parse
from captures.errors import CaptureError
from captures.reader import Capture
from mcpproxy.examination import crew, shares
from mcpproxy.examination.crew import examined_all, processes
from mcpproxy.examination.encoding import decoded, encoded, is_last
from mcpproxy.examination.examine import Wanted, examined
from mcpproxy.examination.result import Ended, Event, LocatedFinding, Reached
from mcpproxy.examination.shares import examined_in_shares
from tests.analysis.traces import CORPUS, read
from tests.bench.check import repeated
from tests.harness import ROOT, children, is_alive, killed_at_the_end, wait_until
from tests.mcpproxy.report.findings import anything, twisted

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"
EVERY = 25
"""Of so many cases of the corpus, one is examined."""


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    """Captures with and without findings, damage and frames; one is missing, and one is no capture."""
    made = [DEMO, twisted(tmp_path / "many.mcpcap", 300)]
    for group in sorted(CORPUS.glob("*.ndjson")):
        for number, case in enumerate(read(group)[::EVERY]):
            made.append(tmp_path / f"{group.stem}-{number}.mcpcap")
            made[-1].write_bytes(b"".join(line for _, line in case.records()))
    damaged = tmp_path / "damaged.mcpcap"
    damaged.write_bytes(DEMO.read_bytes().replace(b'"method":"tools/call"', b'"method":"tools/cull"', 1))
    other = tmp_path / "other.mcpcap"
    other.write_bytes(b"not a capture\n")
    return [*made[:3], tmp_path / "missing.mcpcap", damaged, other, *made[3:]]


def all_of(events: Iterator[Event]) -> list[Event | str]:
    found: list[Event | str] = []
    try:
        found += events
    except CaptureError as error:
        found.append(str(error))
    return found


def by_capture(captures: list[Path], wanted: Wanted, count: int) -> list[tuple[Path, list[Event | str]]]:
    return [(path, all_of(events)) for path, events in examined_all(captures, wanted, count)]


@given(anything)
def test_what_was_found_survives_the_way(found: LocatedFinding) -> None:
    line = encoded(7, found)
    assert (decoded(line.rstrip(b"\n")), line.count(b"\n"), is_last(line)) == ((7, found), 1, False)


def test_every_event_survives_the_way(captures: list[Path]) -> None:
    for path in captures:
        for event in all_of(examined(path, Wanted())):
            line = encoded(7, CaptureError(event) if isinstance(event, str) else event)
            _, back = decoded(line)
            assert (str(back) if isinstance(back, CaptureError) else back) == event
            assert is_last(line) == isinstance(event, Ended | str)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(),
        Wanted(lambda rule: rule.startswith("id/")),
        Wanted(only=parse("method:tools/* level>=warning")),
        Wanted(
            baseline=Baseline(
                found.fingerprint for found in examined(DEMO, Wanted()) if isinstance(found, LocatedFinding)
            )
        ),
    ],
    ids=["all", "some rules", "a filter", "a baseline"],
)
def test_they_find_the_same_in_the_same_order(captures: list[Path], wanted: Wanted) -> None:
    alone = by_capture(captures, wanted, 0)
    assert by_capture(captures, wanted, 3) == alone
    assert [path for path, _ in alone] == captures
    assert any(isinstance(event, LocatedFinding) for _, events in alone for event in events)


def test_events_of_later_captures_wait_within_a_limit(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = by_capture(captures, Wanted(), 0)
    monkeypatch.setattr(crew, "MOST_WAITING", 0)
    assert by_capture(captures, Wanted(), 3) == alone


def test_a_worker_that_is_killed_costs_no_finding(captures: list[Path]) -> None:
    alone, others = by_capture(captures, Wanted(), 0), children(os.getpid())
    found: list[tuple[Path, list[Event | str]]] = []
    for path, events in examined_all(captures, Wanted(), 3):
        workers_left = [pid for pid in children(os.getpid()) if pid not in others]
        for worker in workers_left[:1] if len(found) in (0, 1, 20) else ():
            os.kill(worker, signal.SIGKILL)
        found.append((path, all_of(events)))
    assert found == alone


def test_no_finding_comes_twice_if_its_worker_dies_half_way(tmp_path: Path) -> None:
    many = twisted(tmp_path / "many.mcpcap", 5_000)
    alone, others = all_of(examined(many, Wanted())), children(os.getpid())
    for _, events in examined_all([many, many], Wanted(), 2):
        found: list[Event | str] = [next(events) for _ in range(10)]
        for worker in children(os.getpid()):
            if worker not in others:
                os.kill(worker, signal.SIGKILL)
        assert found + all_of(events) == alone


def test_all_is_found_though_no_worker_starts(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = by_capture(captures, Wanted(), 0)
    monkeypatch.setattr(child_process, "_BOOT", "import os; os._exit(3)")
    assert by_capture(captures, Wanted(), 2) == alone


def test_small_captures_and_a_single_one_are_left_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.mcpcap"
    large.write_bytes(bytes(2 * crew.WORTH))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(4), raising=False)
    assert processes([DEMO] * 10, Wanted()) == 0
    assert processes([large], Wanted()) == 0
    assert processes([large, tmp_path / "missing.mcpcap"], Wanted()) == 2
    assert processes([large] * 9, Wanted()) == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(1), raising=False)
    assert processes([large] * 9, Wanted()) == 0


def test_the_workers_end_when_their_parent_is_killed_or_has_enough(tmp_path: Path) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 20_000, large)
    code = """
import sys
from pathlib import Path
from mcpproxy.examination.examine import Wanted
from mcpproxy.examination.crew import examined_all
for _, events in examined_all([Path(sys.argv[1])] * 8, Wanted(), 2):
    for event in events:
        pass
"""
    with subprocess.Popen([sys.executable, "-c", code, str(large)], cwd=ROOT) as parent:
        found = wait_until(lambda: len(pids := children(parent.pid)) == 2 and pids, "the workers")
        assert isinstance(found, list)
        with killed_at_the_end(*found):
            parent.kill()
            parent.wait()
            for worker in found:
                wait_until(lambda pid=worker: not is_alive(pid), "a worker to end")  # type: ignore[misc]


def test_a_capture_that_grows_is_examined_up_to_its_end(tmp_path: Path) -> None:
    growing = tmp_path / "growing.mcpcap"
    lines = DEMO.read_bytes().splitlines(keepends=True)
    growing.write_bytes(b"".join(lines[:-1]))
    assert not any(item.rec == "close" for item in Capture(growing))  # type: ignore[union-attr]
    first, second = by_capture([growing, growing], Wanted(), 2)
    assert first == second == (growing, all_of(examined(growing, Wanted())))


def test_the_places_of_findings_rise_with_the_frames(tmp_path: Path) -> None:
    ((_, found), _) = by_capture(
        [twisted(tmp_path / "a.mcpcap", 50)] * 2, Wanted(lambda rule: rule.startswith("id/")), 2
    )
    frames = [event.finding.frame for event in found if isinstance(event, LocatedFinding)]
    assert len(frames) == 50
    assert all(one < other for one, other in pairwise(frames))


# ---- one capture, its rules shared out


def in_shares(path: Path, wanted: Wanted, count: int) -> list[Event | str]:
    return all_of(examined_in_shares(path, wanted, count))


@pytest.mark.parametrize("count", [2, 3])
def test_shares_yield_the_events_of_one_process(captures: list[Path], count: int) -> None:
    baseline = Baseline(found.fingerprint for found in examined(DEMO, Wanted()) if isinstance(found, LocatedFinding))
    for number, path in enumerate(captures[:8] + captures[8::3]):
        wanted = (Wanted(), Wanted(only=parse("level>=warning")), Wanted(baseline=baseline))[number % 3]
        assert in_shares(path, wanted, count) == all_of(examined(path, wanted))


def test_a_share_says_how_far_it_is(tmp_path: Path) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 10_000, large)
    events = in_shares(large, Wanted(), 2)
    assert [type(event) for event in events].count(Reached) == 2
    assert events == all_of(examined(large, Wanted()))


@pytest.mark.parametrize("victim", [0, 1])
def test_a_share_whose_worker_is_killed_costs_no_finding(tmp_path: Path, victim: int) -> None:
    many = twisted(tmp_path / "many.mcpcap", 5_000)
    alone, others = all_of(examined(many, Wanted())), children(os.getpid())
    events = examined_in_shares(many, Wanted(), 2)
    found: list[Event | str] = [next(events) for _ in range(10)]
    os.kill([pid for pid in children(os.getpid()) if pid not in others][victim], signal.SIGKILL)
    assert found + all_of(events) == alone
    assert children(os.getpid()) == others


def test_shares_are_found_though_no_worker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_BOOT", "import os; os._exit(3)")
    assert in_shares(DEMO, Wanted(), 2) == all_of(examined(DEMO, Wanted()))


def test_a_large_closed_capture_is_shared_out_if_most_rules_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 10_000, large)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(8), raising=False)
    assert processes([large], Wanted()) == 0
    monkeypatch.setattr(shares, "WORTH", large.stat().st_size)
    assert processes([large], Wanted()) == 4
    assert processes([large], Wanted(costs=Costs())) == 0
    assert processes([large], Wanted(lambda rule: rule.startswith("id/"))) == 0
    with large.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as its recorder does
        assert processes([large], Wanted()) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(1), raising=False)
    assert processes([large], Wanted()) == 0
