"""How many processes examine captures, and that findings survive the transfer between processes."""

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given

from analysis.checking.profile import Costs
from mcpproxy.check_run import parallel_rules, worker_pool
from mcpproxy.check_run.encoding import decode_event, encode_event, is_last
from mcpproxy.check_run.examine import CheckOptions
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.check_run.worker_pool import process_count
from tests.harness import ROOT
from tests.mcpproxy.report.findings import anything

DEMO = ROOT / "tests/corpus/captures/demo.mcpcap"


@given(anything)
def test_what_was_found_survives_the_way(found: LocatedFinding) -> None:
    message = encode_event(7, found)
    assert (decode_event(message), is_last(message)) == ((7, found), False)


def test_small_captures_and_a_single_one_are_left_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.mcpcap"
    large.write_bytes(bytes(2 * worker_pool.WORTH))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(4), raising=False)
    assert process_count([DEMO] * 10, CheckOptions()) == 0
    assert process_count([large], CheckOptions()) == 0
    assert process_count([large, tmp_path / "missing.mcpcap"], CheckOptions()) == 2
    assert process_count([large] * 9, CheckOptions()) == 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(1), raising=False)
    assert process_count([large] * 9, CheckOptions()) == 0


def test_a_large_closed_capture_is_shared_out_if_most_rules_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.mcpcap"
    large.write_bytes(DEMO.read_bytes())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(8), raising=False)
    assert process_count([large], CheckOptions()) == 0
    monkeypatch.setattr(parallel_rules, "WORTH", large.stat().st_size)
    assert process_count([large], CheckOptions()) == 4
    assert process_count([large], CheckOptions(costs=Costs())) == 0
    assert process_count([large], CheckOptions(lambda rule: rule.startswith("id/"))) == 0
    with large.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as its recorder does
        assert process_count([large], CheckOptions()) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(1), raising=False)
    assert process_count([large], CheckOptions()) == 0
