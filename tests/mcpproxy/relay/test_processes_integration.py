"""The descendants of a process, by /proc and by ps; unrelated processes are never signalled."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.relay import processes
from mcpproxy.relay.processes import (
    Process,
    live_processes,
    process_table,
    process_tree,
    send_signal,
    start_time,
    terminate,
)
from tests.harness import Place, is_alive, killed_at_the_end, peer, wait_until


@pytest.fixture(params=["proc", "ps"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both sources of the process table on this system."""
    if request.param == "ps":
        monkeypatch.setattr(processes, "PROC", "/nonexistent")
        if shutil.which("ps") is None:
            pytest.skip("there is no ps on this system")
    elif not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc")
    return str(request.param)


def process(pid: int) -> Process:
    start = start_time(pid)
    assert start is not None
    return Process(pid, start)


@pytest.mark.usefixtures("table")
def test_the_table_has_us_with_our_parent() -> None:
    parent, start = process_table()[os.getpid()]
    assert parent == os.getppid()
    assert start == start_time(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="compares ps with the /proc of Linux")
def test_both_ways_see_the_same_family(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = place.start(peer("three_deep"), direct=True).next_report()["pids"]
    by_proc = process_table()
    monkeypatch.setattr(processes, "PROC", "/nonexistent")
    by_ps = process_table()
    with killed_at_the_end(*pids):
        assert [by_ps[pid][0] for pid in pids] == [by_proc[pid][0] for pid in pids] == [os.getpid(), *pids[:2]]


def test_a_name_made_to_mislead_is_read_right(place: Place, tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (\n"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    session = place.start([str(program), "60"], direct=True)
    with killed_at_the_end(session.pid):
        wait_until(lambda: Path(f"/proc/{session.pid}/comm").read_bytes().startswith(b"a) Z"))
        assert process_table()[session.pid][0] == os.getpid()


@pytest.mark.usefixtures("table")
def test_a_tree_is_found_parents_first_and_not_by_another_start(place: Place) -> None:
    session = place.start(peer("three_deep"), direct=True)
    pids = session.next_report()["pids"]
    with killed_at_the_end(*pids):
        assert [found.pid for found in process_tree(process(pids[0]))] == pids
        assert process_tree(Process(pids[0], "another start")) == []
        assert [found.pid for found in process_tree(process(pids[1]), process(pids[2]))] == pids[1:]


@pytest.mark.usefixtures("table")
def test_whoever_took_over_a_pid_is_not_signalled(place: Place) -> None:
    session = place.start(["sleep", "600"], direct=True)
    stranger = Process(session.pid, "another start")
    assert live_processes([stranger]) == []
    assert send_signal([stranger], signal.SIGKILL) == []
    assert session.process.poll() is None
    assert send_signal([process(session.pid)], signal.SIGKILL) == [session.pid]
    assert session.end() == -signal.SIGKILL


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: not is_alive(child.pid))
    assert child.pid not in process_table()
    assert start_time(child.pid) is None
    assert child.wait() == 0


def test_processes_of_another_namespace_get_no_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A /proc in which this process has another pid than here."""
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "stat").write_text("4711 (python) S " + "1 " * 40)
    (tmp_path / "self").symlink_to("4711")
    monkeypatch.setattr(processes, "PROC", str(tmp_path))
    assert process_table() == {}
    assert start_time(4711) is None
    assert process_tree(Process(4711, "1")) == []


@pytest.mark.usefixtures("table")
def test_a_tree_that_does_not_go_is_killed_after_the_grace(place: Place) -> None:
    session = place.start(peer("three_deep"), direct=True)
    pids = session.next_report()["pids"]
    terminate(process_tree(process(pids[0])), 0.1)
    wait_until(lambda: not any(map(is_alive, pids)), "all three to be gone")


LATE_CHILD = """
child() { trap : TERM; while :; do sleep 0.1; done; }
trap 'child & wait; wait' TERM
echo up
while :; do sleep 0.05; done
"""


def test_a_child_born_during_the_grace_is_killed_as_well(place: Place) -> None:
    session = place.start(["sh", "-c", LATE_CHILD], direct=True)
    assert session.line() == b"up\n"
    terminate(process_tree(process(session.pid)), 0.5)
    assert session.end() == -signal.SIGKILL
    wait_until(lambda: not place.leftovers(), "the child to be gone too")
