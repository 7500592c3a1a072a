"""What the process of a server is doing, as the system says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.relay.processes import start_time
from mcpproxy.tui.data.server_process import (
    ProcessState,
    RecordedProcess,
    UnknownState,
    recorded_process,
    server_states,
)
from tests.harness import wait_until

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


def recorded(pid: int) -> RecordedProcess:
    start = start_time(pid)
    assert start is not None
    return RecordedProcess(pid, start)


def own_header() -> dict[str, object]:
    """The header of a recorder that this process started."""
    return {"parents": [{"pid": os.getpid(), "start": int(recorded(os.getpid()).start), "exe": "pytest"}]}


def state_of(process: RecordedProcess) -> str:
    states = server_states(process, own_header())
    assert not isinstance(states, UnknownState)
    return states[0].state


@pytest.fixture
def reader() -> Iterator[subprocess.Popen[bytes]]:
    """A process that reads its stdin."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@needs_proc
def test_a_process_that_sleeps_is_stopped_and_ends(reader: subprocess.Popen[bytes]) -> None:
    process = recorded(reader.pid)
    wait_until(lambda: state_of(process) == "sleeping", "the process to sleep")
    states = server_states(process, own_header())
    assert not isinstance(states, UnknownState)
    assert (states[0].pid, states[0].name, len(states)) == (reader.pid, "cat", 1)
    reader.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process) == "stopped", "the process to stop")
    reader.kill()
    wait_until(lambda: state_of(process) == "zombie", "the process to end")
    reader.wait()
    assert server_states(process, own_header()) == [ProcessState(reader.pid, "", "gone")]


@needs_proc
def test_a_later_process_with_the_same_pid_is_another_one(reader: subprocess.Popen[bytes]) -> None:
    assert state_of(RecordedProcess(reader.pid, "12")) == "gone"


@needs_proc
def test_processes_that_cannot_be_seen_are_not_taken_for_ended_ones() -> None:
    process = RecordedProcess(os.getpid(), "12")
    for header in ({}, {"parents": "x"}, {"parents": [1, {"pid": "x"}, {"pid": -4}, {"pid": os.getpid(), "start": 3}]}):
        states = server_states(process, header)
        assert isinstance(states, UnknownState)
        assert "container" in states.reason
    elsewhere = server_states(process, {"boot_id": "0b6f1f2e-0000-0000-0000-000000000000"})
    assert elsewhere == UnknownState("it runs on another machine")


@needs_proc
def test_of_a_launcher_the_youngest_descendant_is_described_too() -> None:
    command = f'{sys.executable} -c "import sys; print(flush=True); sys.stdin.read()"; true'
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        states = server_states(recorded(process.pid), {})
        assert not isinstance(states, UnknownState)
        assert [state.name[:6] for state in states] == ["sh", "python"]
        process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="needs ps")
def test_without_proc_ps_says_it(reader: subprocess.Popen[bytes], tmp_path: Path) -> None:
    command = ["ps", "-o", "lstart=", "-p", str(reader.pid)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no ps")
    process = RecordedProcess(reader.pid, done.stdout.decode().strip())
    states = server_states(process, {}, tmp_path)
    assert not isinstance(states, UnknownState)
    assert (states[0].name, states[0].state) == ("cat", "sleeping")
    assert server_states(process._replace(start="Mon Jan 1 00:00:00 2001"), {}, tmp_path) == [
        ProcessState(reader.pid, "", "gone")
    ]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"event": "spawned"},
        {"event": "ended", "pid": 4, "start": 4},
        {"event": "spawned", "pid": -1, "start": 4},
        {"event": "spawned", "pid": True, "start": 4},
        {"event": "spawned", "pid": 1 << 80, "start": 4},
        {"event": "spawned", "pid": "../self", "start": 4},
        {"event": "spawned", "pid": 4, "start": [4]},
    ],
)
def test_only_a_whole_record_of_a_start_names_a_process(members: dict[str, object]) -> None:
    assert recorded_process(members) is None


def test_the_start_names_the_process() -> None:
    assert recorded_process({"event": "spawned", "pid": 4711, "start": 99}) == RecordedProcess(4711, "99")
