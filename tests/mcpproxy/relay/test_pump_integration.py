"""One direction over real pipes: bytes unchanged, the tap first, and a tap that waits, raises or refuses."""

import errno
import fcntl
import os
import random
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mcpproxy.relay.pump import Cause, Ender, Pump, Rescuer, StopRelaying
from tests.harness import DEADLINE_S, read_some, wait_until, write_all


class RescuedChunks:
    """Keeps the chunks that passed after the tap had failed."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def add(self, data: bytes) -> None:
        self.chunks.append(data)


class RecordingTap:
    """A tap that keeps what it saw, and does something at each chunk."""

    def __init__(self, at_chunk: Callable[["RecordingTap", bytes], None] = lambda *_: None) -> None:
        self.waiting_since_ns = 0
        self.at_chunk = at_chunk
        self.chunks: list[bytes] = []
        self.stalls: list[Cause] = []
        self.endings: list[tuple[Ender, int | None]] = []
        self.failures: list[Exception] = []
        self.running = 0
        self.most_running = 0
        self.size = 1 << 20
        self.missed = RescuedChunks()

    def portion(self, data: bytes) -> int:
        return min(self.size, len(data))

    def chunk(self, data: bytes) -> None:
        self.chunks.append(data)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            self.at_chunk(self, data)
        finally:
            self.running -= 1

    def stalled(self, waited_ns: int, cause: Cause) -> None:
        assert waited_ns > 0
        self.stalls.append(cause)

    def ended(self, by: Ender, error: int | None) -> None:
        self.endings.append((by, error))

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


class PipePump:
    """A pump between two pipes, with a rescuer."""

    def __init__(self, tap: RecordingTap) -> None:
        self.source, self.sender = os.pipe()
        self.receiver, self.sink = os.pipe()
        self.tap = tap
        self.stuck = 0
        self.finished = threading.Event()
        self.pump = Pump("line", self.source, self.sink, tap, self._finish)
        self.rescuer = Rescuer([self.pump], self._on_stuck)

    def start(self) -> None:
        self.rescuer.start()
        self.pump.start()

    def _on_stuck(self) -> None:
        self.stuck += 1

    def _finish(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (self.source, self.sink):
            os.dup2(null, fd)
        os.close(null)
        self.finished.set()

    def send(self, data: bytes) -> None:
        write_all(self.sender, data)

    def hear(self, size: int) -> bytes:
        heard = b""
        while len(heard) < size and (chunk := read_some(self.receiver)):
            heard += chunk
        return heard

    def hang_up(self) -> None:
        if self.sender >= 0:
            os.close(self.sender)
            self.sender = -1

    def go_away(self) -> None:
        if self.receiver >= 0:
            os.close(self.receiver)
            self.receiver = -1

    def close(self) -> None:
        """Let all threads end before their descriptors can be reused."""
        self.hang_up()
        self.go_away()
        assert self.finished.wait(DEADLINE_S)
        wait_until(lambda: not any(thread.name == "line" for thread in threading.enumerate()), "the pumps to end")
        for fd in (self.source, self.sink):
            os.close(fd)


@pytest.fixture
def lines() -> Iterator[Callable[[RecordingTap], PipePump]]:
    made: list[PipePump] = []

    def make(tap: RecordingTap) -> PipePump:
        made.append(PipePump(tap))
        made[-1].start()
        return made[-1]

    yield make
    for line in made:
        line.close()


Lines = Callable[[RecordingTap], PipePump]


def waiting_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])


def test_a_chunk_is_shown_before_it_is_handed_on(lines: Lines) -> None:
    ahead: list[int] = []
    line = lines(RecordingTap(lambda _tap, _data: ahead.append(waiting_bytes(line.receiver))))
    for number in range(20):
        line.send(b"%d\n" % number)
        assert line.hear(len(b"%d\n" % number)) == b"%d\n" % number
    assert ahead == [0] * 20


@pytest.mark.parametrize("size", [1, 513, 1 << 20], ids=["bytes", "portions", "whole"])
def test_bytes_come_out_as_they_went_in(lines: Lines, size: int) -> None:
    tap = RecordingTap()
    tap.size = size
    line = lines(tap)
    load = random.Random(size).randbytes(300_000 if size > 1 else 3_000)
    sender = threading.Thread(target=line.send, args=(load,))
    sender.start()
    assert line.hear(len(load)) == load
    sender.join(DEADLINE_S)
    assert b"".join(tap.chunks) == load
    wait_until(lambda: line.pump.delivered_bytes == line.pump.read_bytes == len(load))


def test_the_sender_ends_and_the_receiver_sees_it(lines: Lines) -> None:
    line = lines(RecordingTap())
    line.send(b"last words")
    line.hang_up()
    assert line.hear(100) == b"last words"
    assert line.finished.wait(DEADLINE_S)
    assert line.tap.endings == [("sender", None)]
    assert not line.pump.is_broken


def test_the_receiver_goes_and_the_sender_sees_it(lines: Lines) -> None:
    line = lines(RecordingTap())
    line.go_away()
    line.send(b"anybody?")
    assert line.finished.wait(DEADLINE_S)
    assert line.tap.endings == [("receiver", None)]
    assert line.pump.is_broken
    with pytest.raises(BrokenPipeError):
        os.write(line.sender, b"?")


def test_an_error_of_reading_is_told(tmp_path: Path) -> None:
    tap = RecordingTap()
    folder = os.open(tmp_path, os.O_RDONLY)
    receiver, sink = os.pipe()
    finished = threading.Event()
    pump = Pump("line", folder, sink, tap, finished.set)
    pump.start()
    assert finished.wait(DEADLINE_S)
    assert pump.done.is_set()
    assert tap.endings == [("error", errno.EISDIR)]
    for fd in (folder, receiver, sink):
        os.close(fd)


def test_a_receiver_that_does_not_read_is_a_stall(lines: Lines) -> None:
    line = lines(RecordingTap())
    sender = threading.Thread(target=line.send, args=(b"x" * (1 << 20),))
    sender.start()
    looks: list[int] = []

    def stands_still() -> bool:
        looks.append(line.pump.delivered_bytes if line.pump.read_bytes > line.pump.delivered_bytes else -len(looks) - 1)
        return len(looks) > 10 and len(set(looks[-10:])) == 1

    wait_until(stands_still, "the pump to be blocked")
    assert len(line.hear(1 << 20)) == 1 << 20
    sender.join(DEADLINE_S)
    wait_until(lambda: line.tap.stalls)
    assert set(line.tap.stalls) == {"receiver"}


class HangingDisk:
    """A disk that hangs: every call of the tap from the nth chunk on waits until the disk recovers."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.healed = threading.Event()
        self.hung = 0

    def write(self, tap: RecordingTap, _data: bytes) -> None:
        if len(tap.chunks) == self.nth:
            self.hung += 1
            tap.waiting_since_ns = time.monotonic_ns()
            assert self.healed.wait(DEADLINE_S)
            tap.waiting_since_ns = 0


def test_a_tap_that_waits_for_the_disk_holds_up_one_chunk_for_a_moment(lines: Lines) -> None:
    disk = HangingDisk(3)
    line = lines(RecordingTap(disk.write))
    for number in range(10):
        line.send(b"%d" % number)
        assert line.hear(1) == b"%d" % number
    assert disk.hung == 1
    assert line.stuck == 1
    assert line.tap.chunks == [b"%d" % number for number in range(10)]
    assert line.tap.stalls.count("recorder") == 1
    disk.healed.set()
    wait_until(lambda: not line.tap.running)
    line.send(b"after")
    assert line.hear(5) == b"after"
    line.hang_up()
    assert line.hear(1) == b""
    assert line.tap.endings == [("sender", None)]


def test_a_rescued_portion_is_followed_by_the_rest_of_its_chunk(lines: Lines) -> None:
    disk = HangingDisk(2)
    tap = RecordingTap(disk.write)
    tap.size = 1000
    line = lines(tap)
    load = random.Random(1).randbytes(5000)
    os.write(line.sender, load)
    assert line.hear(len(load)) == load
    assert b"".join(tap.chunks) == load
    disk.healed.set()


def test_a_tap_that_is_only_slow_keeps_its_chunk_and_its_order(lines: Lines) -> None:
    """If the chunk were taken from the tap, the next chunk would be recorded before it."""
    never = threading.Event()

    def dawdle(tap: RecordingTap, data: bytes) -> None:
        never.wait(0.06)

    line = lines(RecordingTap(dawdle))
    for number in range(5):
        line.send(b"%d" % number)
    assert line.hear(5) == b"01234"
    assert line.tap.most_running == 1
    assert line.stuck == 0
    assert b"".join(line.tap.chunks) == b"01234"


def test_a_tap_that_waits_at_the_end_does_not_keep_the_end_from_the_receiver(lines: Lines) -> None:
    healed = threading.Event()

    class Hanging(RecordingTap):
        def ended(self, by: Ender, error: int | None) -> None:
            super().ended(by, error)
            self.waiting_since_ns = time.monotonic_ns()
            assert healed.wait(DEADLINE_S)

    line = lines(Hanging())
    line.send(b"x")
    assert line.hear(1) == b"x"
    line.hang_up()
    assert line.hear(1) == b""
    healed.set()
    wait_until(lambda: line.rescuer.is_asleep, "the rescuer to sleep, as nothing of the direction is left to supervise")


def test_a_tap_that_raises_is_switched_off_and_traffic_goes_on(lines: Lines) -> None:
    def fail(tap: RecordingTap, data: bytes) -> None:
        if data == b"2":
            raise ZeroDivisionError("a bug of ours")

    line = lines(RecordingTap(fail))
    for number in range(5):
        line.send(b"%d" % number)
        assert line.hear(1) == b"%d" % number
    line.hang_up()
    assert line.hear(1) == b""
    assert [str(failure) for failure in line.tap.failures] == ["a bug of ours"]
    assert line.tap.chunks == [b"0", b"1", b"2"]
    assert line.tap.endings == []


def test_a_tap_that_refuses_has_nothing_more_handed_on(lines: Lines) -> None:
    def refuse(tap: RecordingTap, data: bytes) -> None:
        if data == b"1":
            raise StopRelaying

    line = lines(RecordingTap(refuse))
    line.send(b"0")
    assert line.hear(1) == b"0"
    line.send(b"1")
    wait_until(lambda: len(line.tap.chunks) == 2 and not line.tap.running)
    line.pump.end_from_outside("error")
    assert line.hear(1) == b""


def test_a_direction_is_cut_while_its_thread_hangs_in_a_read(lines: Lines) -> None:
    line = lines(RecordingTap())
    line.send(b"x")
    assert line.hear(1) == b"x"
    line.pump.end_from_outside("receiver")
    assert line.hear(1) == b""
    assert line.finished.wait(DEADLINE_S)
    with suppress(BrokenPipeError):  # at that moment, it was not in a read
        line.send(b"ends the read")
    line.hang_up()
    wait_until(lambda: not any(thread.name == "line" for thread in threading.enumerate()), "the old thread to end")
    assert line.tap.endings == [("receiver", None)]
    assert line.tap.chunks == [b"x"]


def test_the_rescuer_sleeps_while_nothing_flows_and_wakes_again(lines: Lines) -> None:
    disk = HangingDisk(2)
    line = lines(RecordingTap(disk.write))
    line.send(b"1")
    assert line.hear(1) == b"1"
    wait_until(lambda: line.rescuer.is_asleep, "the rescuer to sleep")
    line.send(b"2")
    assert line.hear(1) == b"2"
    disk.healed.set()
