"""Several processes examine captures exactly as one would, in order; a worker that dies costs only time."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis import child_process
from captures.errors import CaptureError
from captures.reader import Capture
from mcpproxy.check_run.encoding import decode_event, encode_event, is_last
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.result import CheckOutcome
from tests.analysis.traces import CORPUS, read
from tests.bench.check import repeated
from tests.harness import ROOT, children, is_alive, killed_at_the_end, wait_until
from tests.mcpproxy.check_run import crews
from tests.mcpproxy.check_run.crews import DEMO, all_of, by_capture, in_shares
from tests.mcpproxy.cli import typed
from tests.mcpproxy.report.findings import twisted

EVERY = 5
"""The first case of every fifth group of the corpus is examined."""
HALF_WAY = 800
"""So many findings that a worker has sent the first of them, but far from all: the pipe and the reader hold fewer."""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Captures with and without findings, damage and frames; one path is missing, and one file is not a capture."""
    folder = tmp_path_factory.mktemp("captures")
    made = [DEMO, twisted(folder / "many.mcpcap", 300)]
    for group in sorted(CORPUS.glob("*.ndjson"))[::EVERY]:
        made.append(folder / f"{group.stem}.mcpcap")
        made[-1].write_bytes(b"".join(line for _, line in read(group)[0].records()))
    damaged = folder / "damaged.mcpcap"
    damaged.write_bytes(DEMO.read_bytes().replace(b'"method":"tools/call"', b'"method":"tools/cull"', 1))
    other = folder / "other.mcpcap"
    other.write_bytes(b"not a capture\n")
    return [*made[:3], folder / "missing.mcpcap", damaged, other, *made[3:]]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with more findings than a worker can send before anyone reads them."""
    return twisted(tmp_path_factory.mktemp("many") / "many.mcpcap", HALF_WAY)


def hold(check: Callable[..., None], *captures: Path) -> None:
    """Run a check of `crews` in a process that has loaded the program."""
    code = (
        f"import sys; from pathlib import Path; from tests.mcpproxy.check_run.crews import {check.__name__} as check;"
        "check(*map(Path, sys.argv[1:]))"
    )
    done = typed.python(code, *captures)
    assert done.returncode == 0, done.stderr.decode()


def test_every_event_survives_the_way(captures: list[Path]) -> None:
    for path in captures:
        for event in all_of(examine_capture(path, CheckOptions())):
            message = encode_event(7, CaptureError(event) if isinstance(event, str) else event)
            _, back = decode_event(message)
            assert (str(back) if isinstance(back, CaptureError) else back) == event
            assert is_last(message) == isinstance(event, CheckOutcome | str)


def test_they_find_the_same_in_the_same_order(captures: list[Path]) -> None:
    hold(crews.they_find_the_same_in_the_same_order, *captures)


def test_events_of_later_captures_wait_within_a_limit(captures: list[Path]) -> None:
    hold(crews.events_of_later_captures_wait_within_a_limit, *captures)


def test_a_worker_that_is_killed_costs_no_finding(captures: list[Path]) -> None:
    hold(crews.a_worker_that_is_killed_costs_no_finding, *captures)


def test_no_finding_comes_twice_if_its_worker_dies_half_way(many: Path) -> None:
    hold(crews.no_finding_comes_twice_if_its_worker_dies_half_way, many)


def test_all_is_found_though_no_worker_starts(captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = by_capture(captures[:5], CheckOptions(), 0)
    monkeypatch.setattr(child_process, "_BOOT_CODE", "import os; os._exit(3)")
    assert by_capture(captures[:5], CheckOptions(), 2) == alone
    assert in_shares(DEMO, CheckOptions(), 2) == all_of(examine_capture(DEMO, CheckOptions()))


def test_the_workers_end_when_their_parent_is_killed_or_has_enough(tmp_path: Path) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 1_000, large)
    code = """
import sys
from pathlib import Path
from mcpproxy.check_run.examine import CheckOptions
from mcpproxy.check_run.worker_pool import examine_captures
for _, events in examine_captures([Path(sys.argv[1])] * 100_000, CheckOptions(), 2):
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


def test_workers_that_start_as_for_a_user_find_the_same(captures: list[Path]) -> None:
    """The workers of all other tests are forks of a process that has loaded what they need."""
    assert by_capture(captures[:2], CheckOptions(), 2) == by_capture(captures[:2], CheckOptions(), 0)


def test_a_capture_that_grows_is_examined_up_to_its_end(tmp_path: Path) -> None:
    growing = tmp_path / "growing.mcpcap"
    lines = DEMO.read_bytes().splitlines(keepends=True)
    growing.write_bytes(b"".join(lines[:-1]))
    assert not any(item.rec == "close" for item in Capture(growing))  # type: ignore[union-attr]
    hold(crews.a_capture_that_grows_is_examined_up_to_its_end, growing)


def test_the_places_of_findings_rise_with_the_frames(tmp_path: Path) -> None:
    hold(crews.the_places_of_findings_rise_with_the_frames, twisted(tmp_path / "a.mcpcap", 50))


# ---- one capture, with its rules shared out


def test_shares_yield_the_events_of_one_process(captures: list[Path]) -> None:
    hold(crews.shares_yield_the_events_of_one_process, *captures[:8])


@pytest.mark.soak
def test_shares_yield_the_events_of_one_process_of_the_whole_corpus(tmp_path: Path) -> None:
    for group in sorted(CORPUS.glob("*.ndjson")):
        made = []
        for number, case in enumerate(read(group)):
            made.append(tmp_path / f"{group.stem}-{number}.mcpcap")
            made[-1].write_bytes(b"".join(line for _, line in case.records()))
        hold(crews.they_find_the_same_in_the_same_order, DEMO, *made)
        hold(crews.shares_yield_the_events_of_one_process, *made)


def test_a_share_says_how_far_it_is(tmp_path: Path) -> None:
    large = tmp_path / "large.mcpcap"
    repeated(DEMO, 300, large)
    hold(crews.a_share_says_how_far_it_is, large)


def test_a_share_whose_worker_is_killed_costs_no_finding(many: Path) -> None:
    hold(crews.a_share_whose_worker_is_killed_costs_no_finding, many)
