"""After a SIGKILL at any instant, every frame that was delivered is in the capture, even on a busy machine.

The kills are those of `tests/bench/kills.py`, which prints their figures; one of most kinds here, soon after the start,
and 200 of each in `make soak`.
"""

import os
import random
from pathlib import Path

import pytest

from captures.file import is_live
from tests.bench.kills import CONDITIONS, FRAME, busy_loops, kill_often
from tests.harness import Place, Session, is_alive, peer, server_of, wait_until

SOON = 1 << 20
"""The most bytes before a kill, so that a kill takes little time."""


@pytest.mark.costly("processes that do nothing but use a processor are what is tested")
@pytest.mark.parametrize("condition", [name for name in CONDITIONS if not name.startswith("nice")])
def test_no_delivered_frame_is_missing_after_a_kill(tmp_path: Path, condition: str) -> None:
    kills = 2 if condition == "quiet" else 1
    outcome = kill_often(tmp_path, kills, CONDITIONS[condition]._replace(most_bytes=SOON))
    assert outcome.missing == 0
    assert outcome.delivered > kills


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_delivered_frame_is_missing_after_200_kills(tmp_path: Path, condition: str) -> None:
    outcome = kill_often(tmp_path, 200, CONDITIONS[condition])
    print(f"\n{condition}: {outcome.kills} kills, {outcome.delivered:,} delivered, {outcome.missing} missing")
    assert outcome.missing == 0


def threads(session: Session) -> list[int]:
    """Returns the threads of a recorder in the order in which they were started."""
    return sorted(map(int, os.listdir(f"/proc/{session.pid}/task")))


@pytest.mark.costly("a process that does nothing but use a processor is what is tested")
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="threads cannot be starved here")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 9))])
def test_a_pump_that_is_not_scheduled_costs_no_frame(place: Place, seed: int) -> None:
    """A thread that gets no processor looks like a disk that hangs; its chunk is rescued all the same."""
    session = place.start(peer("flood", "--frames", "0", "--size", str(FRAME), "--batch", "1", "--wait-first"))
    server = server_of(session)
    # The main thread, drainer, keeper, rescuer, and the pumps of client, server and stderr.
    pump = wait_until(lambda: threads(session)[5:6], "the pump of the server to run")[0]
    cpu = min(os.sched_getaffinity(0))
    with busy_loops(1, cpu):
        os.sched_setaffinity(pump, {cpu})
        os.sched_setscheduler(pump, os.SCHED_IDLE, os.sched_param(0))
        session.send(b"go\n")
        received = session.receive(random.Random(seed).randrange(FRAME, 400 * FRAME))
        session.process.kill()
    # After the block: a killed thread needs the processor to end, and would be the last one to get it.
    session.process.wait()
    received += session.rest()
    assert session.capture is not None
    path = session.capture
    wait_until(lambda: not is_alive(server) and not is_live(path), "the guard to have done its work")
    delivered = received.split(b"\n")[:-1]
    recorded = [frame.raw for frame in session.frames("s2c") if frame.whole]
    assert recorded[: len(delivered)] == delivered


def test_a_frame_is_recorded_as_it_was_delivered(place: Place) -> None:
    session = place.start(peer("flood", "--frames", "1000", "--size", str(FRAME)))
    received = session.rest()
    assert session.end() == 0
    assert b"".join(frame.raw + frame.delim for frame in session.frames("s2c")) == received
