"""P6: after a SIGKILL at any instant, every frame that was delivered is in the capture.

A server writes numbered frames as fast as they are taken; after a random number of bytes the recorder alone is killed.
What the client has received by then, and what still lies in its pipe, was delivered.
CI kills 20 times, `make soak` 500.
"""

import random
from pathlib import Path

import pytest

from captures.integrity import inspect
from captures.reader import Capture
from tests.harness import Place, is_alive, peer, server_of, wait_until

FRAME = 400


def kill_once(place: Place, chance: random.Random) -> tuple[int, int]:
    """Kill one recorder under flood; returns how many frames were delivered, and how many of them are missing."""
    session = place.start(
        peer("flood", "--frames", "0", "--size", str(FRAME), "--batch", str(chance.choice((1, 7, 64))))
    )
    server = server_of(session)
    received = session.hear(chance.randrange(1, 4 << 20))
    session.process.kill()
    session.process.wait()
    received += session.rest()
    wait_until(lambda: not is_alive(server), "the server to be gone with its recorder")
    delivered = received.split(b"\n")[:-1]
    recorded = [frame.raw for frame in session.frames("s2c") if frame.whole]
    differing = sum(ours != theirs for ours, theirs in zip(recorded, delivered, strict=False))
    return len(delivered), differing + max(0, len(delivered) - len(recorded))


def kill_often(root: Path, count: int) -> None:
    delivered = missing = 0
    for number in range(count):
        place = Place(root / str(number))
        frames_delivered, frames_missing = kill_once(place, random.Random(number))
        found = inspect(Capture(place.sessions[0].capture or root))
        assert found.state == "incomplete", "a killed recorder leaves a whole capture without an end"
        assert not place.clear()
        delivered, missing = delivered + frames_delivered, missing + frames_missing
    print(f"\n{count} kills under flood: {delivered:,} frames delivered, {missing} missing")
    assert missing == 0
    assert delivered > count


def test_no_delivered_frame_is_missing_after_a_kill(tmp_path: Path) -> None:
    kill_often(tmp_path, 20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_delivered_frame_is_missing_after_500_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 500)


def test_a_frame_is_recorded_as_it_was_delivered(place: Place) -> None:
    session = place.start(peer("flood", "--frames", "1000", "--size", str(FRAME)))
    received = session.rest()
    assert session.end() == 0
    assert b"".join(frame.raw + frame.delim for frame in session.frames("s2c")) == received
