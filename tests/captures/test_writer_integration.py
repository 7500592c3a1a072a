"""Several threads write one capture on a failing disk: every record is written, or counted as lost."""

import errno
import fcntl
import os
import random
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from captures import writer as writer_module
from captures.damage import Damage
from captures.file import AppendError, CaptureFile, is_live
from captures.integrity import inspect
from captures.journal import Journal
from captures.loss import Loss, PendingRecord
from captures.reader import Capture
from captures.record import Record, frame_members, line_members, members, part_members, raw_bytes
from captures.verdict import UNJUDGED, Direction
from captures.writer import Policy, RecordingStopped, Writer
from tests.captures.samples import Disk, Full, Plan, at, header
from tests.harness import DEADLINE_S, wait_until

NAME = "x.mcpcap"
CODES = [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EFBIG]
RETRY_S = 0.005


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens recovery to milliseconds; a write counts as hanging only if the disk's plan makes it hang."""
    monkeypatch.setattr(writer_module, "RETRY_S", RETRY_S)
    monkeypatch.setattr(writer_module, "HEALTHY_NS", 3_000_000)
    monkeypatch.setattr(writer_module, "SLOW_NS", 500_000_000)


class Watcher:
    """Stands for a pump that waits for its tap."""

    waiting_since_ns = 0


class Recording:
    """A writer, all frames that were added to it, and the messages that it reported."""

    def __init__(
        self,
        folder: Path,
        plan: Plan = lambda _: None,
        *,
        segment_bytes: int = 1 << 30,
        ring_bytes: int = 1 << 40,
        **how: Any,
    ) -> None:
        self.path = folder / NAME
        self.told: list[str] = []
        self.disk = Disk(plan)
        self.file = CaptureFile(self.path, segment_bytes=segment_bytes, ring_bytes=ring_bytes, write=self.disk)
        self.writer = Writer(self.file, lambda segment: header(segment), self.told.append, **how)
        self.writer.start()
        self.delivered: dict[int, tuple[Direction, bytes]] = {}
        """Number → frame, of all that were added, one by one or in batches."""
        self.closed = False

    def say(self, direction: Direction, raw: bytes, *, quickly: bool = True) -> int:
        """Add a frame, as a pump does; returns its number."""
        middle = line_members(direction, raw, UNJUDGED)
        seq = self.writer.try_append_batch("frame", [middle], direction, [len(raw)], Watcher()) if quickly else None
        if seq is None:
            seq = self.writer.append(PendingRecord("frame", middle, direction, len(raw)))
        self.delivered[seq] = (direction, raw)
        return seq

    def talk(self, count: int, start: int = 0, size: int = 0) -> None:
        """Add frames in both directions, and other records between them."""
        for n in range(start, start + count):
            self.say("c2s" if n % 2 else "s2c", b'{"n":%d,"pad":"%b"}' % (n, b"x" * size), quickly=n % 3 > 0)
            if n % 7 == 3:
                self.writer.append(PendingRecord("stall", members(dir="c2s", of=n, waited_ns=5, cause="receiver")))
            if n % 11 == 5:
                self.writer.post(
                    PendingRecord("signal", members(event="sent", name="SIGTERM", reason="forwarded", pids=[]))
                )

    def close(self, wait_s: float = 20) -> bool:
        self.closed = self.writer.close(
            lambda: PendingRecord("close", members(ending="server", totals=self.totals())), wait_s=wait_s
        )
        return self.closed

    def totals(self) -> dict[str, Any]:
        lost = self.writer.total_loss
        return {"lost": {"records": lost.record_count, "bytes": lost.byte_count}}

    def items(self) -> list[Record | Damage]:
        return list(Capture(self.path))

    def records(self) -> list[Record]:
        items = self.items()
        assert not [item for item in items if isinstance(item, Damage)]
        return [item for item in items if isinstance(item, Record)]

    def lines(self) -> bytes:
        """All bytes of all segments."""
        return b"".join(path.read_bytes() for path in Capture(self.path).segments)

    def healed(self) -> None:
        """Wait until threads that add records write them directly again."""
        wait_until(lambda: not self.writer._is_queue_only, "the writer to be healthy again")


def accounted(recording: Recording, dropped: int = 0) -> Counter[str]:
    """Check that each number is a record or in one gap, that gaps count the losses, and that nothing is duplicated.

    Returns how many numbers there are of each kind. Numbers below `dropped` may have been deleted by the ring.
    """
    records = recording.records()
    if dropped:
        dropped = records[0].seq
    numbers = [record.seq for record in records]
    assert all(one < two for one, two in pairwise(numbers)), "the order of the file is not that of the numbers"
    assert all(one.t_ns <= two.t_ns for one, two in pairwise(records))
    gaps = [record.members for record in records if record.rec == "gap"]
    in_gaps = [seq for gap in gaps for seq in range(gap["first"], gap["last"] + 1)]
    assert sorted(numbers + in_gaps) == list(range(dropped, numbers[-1] + 1))
    by_number = {record.seq: record for record in records}
    for seq, (direction, raw) in recording.delivered.items():
        if seq in by_number:
            found = by_number[seq].members
            assert (found["rec"], found["dir"], raw_bytes(found)) == ("frame", direction, raw)
        else:
            assert seq < dropped or seq in in_gaps, f"frame {seq} is neither there nor counted"
    for gap in gaps:
        assert gap["lost"] == loss_of(recording, gap["first"], gap["last"])
    if recording.closed and not dropped:
        check_totals(recording, records, in_gaps)
    return Counter(record.rec for record in records) + Counter(lost=len(in_gaps))


def loss_of(recording: Recording, first: int, last: int) -> dict[str, dict[str, int]]:
    lost = {"c2s": {"frames": 0, "bytes": 0}, "s2c": {"frames": 0, "bytes": 0}, "other": {"records": 0, "bytes": 0}}
    for seq in range(first, last + 1):
        if seq in recording.delivered:
            direction, raw = recording.delivered[seq]
            lost[direction]["frames"] += 1
            lost[direction]["bytes"] += len(raw)
        else:
            lost["other"]["records"] += 1
    return lost


def check_totals(recording: Recording, records: list[Record], in_gaps: list[int]) -> None:
    *_, close = records
    assert close.rec == "close"
    frames = [seq for seq in recording.delivered if seq in set(in_gaps)]
    told = close.members["totals"]["lost"]
    assert told["bytes"] == sum(len(recording.delivered[seq][1]) for seq in frames)
    assert len(frames) <= told["records"] <= len(in_gaps)
    state = inspect(Capture(recording.path)).state
    assert state == ("incomplete" if in_gaps else "complete")


@pytest.fixture
def recordings(tmp_path: Path) -> Iterator[Callable[..., Recording]]:
    made: list[Recording] = []

    def make(*arguments: Any, **how: Any) -> Recording:
        folder = tmp_path / f"{len(made)}"
        folder.mkdir()
        made.append(Recording(folder, *arguments, **how))
        return made[-1]

    yield make
    for recording in made:
        if not recording.writer._close_requested.is_set():  # the test has failed
            recording.disk.plan = lambda _: None
            recording.close()
    names = ("drainer", "keeper", "last-writer")
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name in names], "all threads to end")


class TestHealthy:
    """Without failures, every record that was added has reached the kernel."""

    def test_each_record_is_in_the_file_when_add_returns(self, recordings: Callable[..., Recording]) -> None:
        recording = recordings()
        for n in range(50):
            seq = recording.say("c2s", b"%d" % n, quickly=n % 2 == 0)
            assert recording.path.read_bytes().rpartition(b'{"seq":')[2].startswith(b"%d," % seq)
        assert recording.close()
        assert accounted(recording) == {"header": 1, "frame": 50, "close": 1}
        assert recording.told == []

    def test_records_that_belong_together_are_numbered_together(self, recordings: Callable[..., Recording]) -> None:
        recording = recordings()
        entries = [PendingRecord("frame", frame_members("c2s", b"x", UNJUDGED), "c2s", 1)] * 5
        assert recording.writer.append(*entries) == 1
        middles = [entry.middle for entry in entries]
        assert recording.writer.try_append_batch("frame", middles, "c2s", [1] * 5, Watcher()) == 6
        recording.close()
        assert [record.seq for record in recording.records()] == list(range(12))
        assert len({record.t_ns for record in recording.records()[6:11]}) == 1

    def test_the_order_of_the_file_is_that_of_the_numbers_over_all_threads(
        self, recordings: Callable[..., Recording]
    ) -> None:
        recording = recordings(segment_bytes=20_000)
        run_at_once(*[lambda n=n: recording.talk(300, n * 1000) for n in range(5)])
        assert recording.close()
        counts = accounted(recording)
        assert counts["frame"] == len(recording.delivered) == 1500
        assert counts["lost"] == 0
        for thread in range(5):
            own = [raw for _, raw in (recording.delivered[seq] for seq in sorted(recording.delivered))]
            mine = [raw for raw in own if raw.startswith(b'{"n":') and int(raw[5:].split(b",")[0]) // 1000 == thread]
            assert mine == sorted(mine, key=lambda raw: int(raw[5:].split(b",")[0]))

    def test_a_capture_that_cannot_take_its_header_is_refused(self, tmp_path: Path) -> None:
        file = CaptureFile(tmp_path / NAME, write=Disk(at(2, errno.ENOSPC)))
        with pytest.raises(AppendError):
            Writer(file, header, print)
        file.close()


def run_at_once(*works: Callable[[], None]) -> None:
    """Run all of them in parallel, and raise what any of them raises."""
    raised: list[Exception] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised again in the thread of the test
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "a thread hangs"
    if raised:
        raise raised[0]


class TestRefusedWrites:
    """While the disk refuses writes, nothing waits, and what does not fit is counted; recording resumes by itself."""

    @pytest.mark.parametrize("code", CODES)
    @pytest.mark.parametrize("policy", ["pass", "block"])
    def test_one_refusal_anywhere_loses_nothing(
        self, recordings: Callable[..., Recording], code: int, policy: Policy
    ) -> None:
        call = 3
        while True:
            recording = recordings(at(call, code), policy=policy)
            recording.talk(20)
            assert recording.close()
            assert accounted(recording)["lost"] == 0
            if recording.disk.calls < call:
                return
            assert len(recording.told) == 1
            assert os.strerror(code) in recording.told[0]
            call += 1 if (policy, code) == ("pass", errno.ENOSPC) else 7

    @pytest.mark.parametrize("short", [-1, -40, -10_000])
    def test_a_short_write_anywhere_loses_nothing(self, recordings: Callable[..., Recording], short: int) -> None:
        for call in range(3, 40, 3):
            recording = recordings(at(call, short))
            recording.talk(30)
            assert recording.close()
            assert accounted(recording)["lost"] == 0
            assert recording.told == []

    @pytest.mark.parametrize("code", CODES)
    def test_a_short_write_and_then_a_refusal_leaves_whole_lines(
        self, recordings: Callable[..., Recording], code: int
    ) -> None:
        for call in range(3, 40, 3):
            recording = recordings(lambda n, call=call: -20 if n == call else code if n == call + 1 else None)
            recording.talk(30)
            assert recording.close()
            assert accounted(recording)["lost"] == 0

    @pytest.mark.parametrize("missing", [1, 100, 101, 102, 250, 400, 10_000])
    def test_of_lines_that_go_in_together_each_is_written_once(
        self, recordings: Callable[..., Recording], missing: int
    ) -> None:
        # The first calls write the reserve and the header; then come the lines, cut short, and the refusal of the rest.
        recording = recordings(lambda n: -missing if n == 3 else errno.EIO if n == 4 else None)
        raws = [b"%d" % n for n in range(5)]
        middles = [frame_members("c2s", raw, UNJUDGED) for raw in raws]
        assert recording.writer.try_append_batch("frame", middles, "c2s", map(len, raws), Watcher()) == 1
        assert recording.close()
        frames = [record for record in recording.records() if record.rec == "frame"]
        assert [record.seq for record in frames] == [1, 2, 3, 4, 5]
        assert [raw_bytes(record.members) for record in frames] == raws

    def test_a_torn_line_that_cannot_be_cut_away_costs_nothing(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "ftruncate", lambda *_: os.close(-1))
        recording = recordings(lambda n: -20 if n == 10 else errno.EIO if n == 11 else None)
        recording.talk(30)
        assert recording.close()
        torn = [item for item in recording.items() if isinstance(item, Damage)]
        assert len(torn) == 1
        numbers = [item.seq for item in recording.items() if isinstance(item, Record)]
        assert numbers == list(range(len(numbers)))

    @pytest.mark.parametrize("code", CODES)
    def test_what_does_not_fit_into_the_queue_is_counted_exactly(
        self, recordings: Callable[..., Recording], code: int
    ) -> None:
        full = Full(code)
        recording = recordings(full, queue_bytes=1000)
        for round_ in range(4):
            recording.talk(20, round_ * 1000)
            full.full = True
            recording.talk(100, round_ * 1000 + 100)
            full.full = False
            recording.healed()
            seq = recording.say("c2s", b"direct again")
            assert recording.path.read_bytes().rpartition(b'{"seq":')[2].startswith(b"%d," % seq)
        assert recording.close()
        counts = accounted(recording)
        assert counts["gap"] >= 4
        assert counts["lost"] > 200
        assert {gap["reason"] for gap in gaps(recording)} == {errno.errorcode[code]}
        assert sum("cannot write to the capture" in line for line in recording.told) == 1
        assert recording.told[-1].startswith(f"{recording.writer.total_loss.record_count} records were lost")

    def test_many_threads_may_add_while_the_disk_comes_and_goes(self, recordings: Callable[..., Recording]) -> None:
        full = Full()
        recording = recordings(full, queue_bytes=3000, segment_bytes=9000)
        over = threading.Event()

        def weather() -> None:
            while not over.wait(0.004):
                full.full = not full.full

        def talk(start: int) -> None:
            recording.talk(600, start)

        changing = threading.Thread(target=weather)
        changing.start()
        run_at_once(*[lambda n=n: talk(n * 1000) for n in range(4)])
        over.set()
        changing.join()
        full.full = False
        assert recording.close()
        assert accounted(recording)["frame"] + lost_frames(recording) == 2400

    def test_what_waits_for_a_disk_that_refuses_is_bounded(self, recordings: Callable[..., Recording]) -> None:
        full = Full()
        recording = recordings(full, queue_bytes=1 << 17)
        recording.talk(3)
        full.full = True
        tracemalloc.start()
        try:
            for n in range(8):
                calls = recording.disk.calls
                recording.talk(250, n * 250, size=200)
                self.tried_again(recording, calls)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        delivered = sum(len(raw) for _, raw in recording.delivered.values())
        assert delivered > 3 << 17
        assert peak - 2 * delivered < 12 << 17
        assert recording.writer.total_loss.byte_count > delivered - (1 << 17)
        full.full = False
        assert recording.close()
        accounted(recording)

    def tried_again(self, recording: Recording, calls: int) -> None:
        wait_until(lambda: recording.disk.calls > calls + 1, "the drainer to try again")


def gaps(recording: Recording) -> list[dict[str, Any]]:
    return [record.members for record in recording.records() if record.rec == "gap"]


def lost_frames(recording: Recording) -> int:
    return sum(gap["lost"][way]["frames"] for gap in gaps(recording) for way in ("c2s", "s2c"))


class TestHangingWrites:
    """While a write hangs, one thread waits for it; all others continue until it returns."""

    def test_others_only_queue_after_the_rescue_and_nothing_is_lost(self, recordings: Callable[..., Recording]) -> None:
        hang = threading.Event()
        recording = recordings(at(6, hang))
        stuck = threading.Thread(target=recording.talk, args=(30,))
        stuck.start()
        recording.disk.hanging.wait()
        recording.writer.degrade()
        recording.talk(200, 1000)
        assert b'"n":1000' not in recording.path.read_bytes()
        hang.set()
        stuck.join()
        recording.healed()
        assert recording.close()
        counts = accounted(recording)
        assert (counts["frame"], counts["lost"]) == (230, 0)
        assert recording.told == []

    def test_a_write_may_return_while_its_records_are_copied(self, recordings: Callable[..., Recording]) -> None:
        hang = threading.Event()
        recording = recordings(at(4, hang), journal=Journal())
        recording.say("c2s", b"fine")
        # Large, so that sealing the copy takes longer than the write needs to return.
        stuck = threading.Thread(target=recording.say, args=("s2c", b"x" * (4 << 20)))
        stuck.start()
        recording.disk.hanging.wait()
        faults: list[BaseException] = []

        def rescue() -> None:
            try:
                recording.writer.degrade()
            except AttributeError as error:
                faults.append(error)

        rescuer = threading.Thread(target=rescue)
        rescuer.start()
        wait_until(lambda: recording.writer._is_queue_only, "the rescue")
        hang.set()
        stuck.join()
        rescuer.join()
        assert faults == []
        recording.healed()
        assert recording.close()
        assert accounted(recording) == {"header": 1, "frame": 2, "close": 1}

    @pytest.mark.parametrize("quickly", [True, False])
    def test_a_queue_that_overflows_is_a_gap_of_the_slow(
        self, recordings: Callable[..., Recording], quickly: bool
    ) -> None:
        hang = threading.Event()
        recording = recordings(at(4, hang), queue_bytes=2000)
        stuck = threading.Thread(target=lambda: recording.say("s2c", b"stuck", quickly=quickly))
        recording.say("s2c", b"fine")
        stuck.start()
        recording.disk.hanging.wait()
        recording.writer.degrade()
        recording.talk(100)
        hang.set()
        stuck.join()
        recording.healed()
        recording.talk(10, 500)
        assert recording.close()
        assert accounted(recording)["lost"] > 50
        assert {gap["reason"] for gap in gaps(recording)} == {"slow"}
        assert "recording loses frames: the disk does not keep up" in recording.told[0]

    def test_a_small_record_finds_room_where_a_large_one_beside_it_does_not(
        self, recordings: Callable[..., Recording]
    ) -> None:
        hang = threading.Event()
        recording = recordings(at(4, hang), queue_bytes=20_000)
        stuck = threading.Thread(target=lambda: recording.say("s2c", b"stuck"))
        recording.say("s2c", b"fine")
        stuck.start()
        recording.disk.hanging.wait()
        recording.writer.degrade()
        large = line_members("c2s", b"x" * 30_000, UNJUDGED)
        small = members(event="told")
        first = recording.writer.stage(
            [PendingRecord("frame", large, "c2s", 30_000), PendingRecord("process", small)], at_ns=7
        )
        hang.set()
        stuck.join()
        recording.healed()
        assert recording.close()
        by_number = {record.seq: record for record in recording.records()}
        assert first not in by_number
        assert by_number[first + 1].rec == "gap"
        assert by_number[first + 2].members["event"] == "told"
        assert [record.t_ns for record in recording.records()] == sorted(record.t_ns for record in recording.records())

    def test_a_disk_that_is_always_slow_is_left_to_the_drainer(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "SLOW_NS", 0)
        recording = recordings()
        recording.writer.degrade()
        for n in range(20):
            recording.talk(10, n * 100)
            wait_until(lambda: not recording.writer._backlog.queued_records)
            assert recording.writer._is_queue_only
        assert recording.close()
        assert accounted(recording)["frame"] == 200


class TestPolicies:
    """Other policies for refused writes."""

    def test_stop_ends_every_add(self, recordings: Callable[..., Recording]) -> None:
        for call in range(3, 12):
            full = Full()
            recording = recordings(full, policy="stop")
            recording.talk(call - 3)
            full.full = True
            for quickly in (True, False, True):
                with pytest.raises(RecordingStopped):
                    recording.say("c2s", b"refused", quickly=quickly)
            full.full = False
            assert recording.close()
            assert [record.seq for record in recording.records()] == list(range(recording.records()[-1].seq + 1))
            assert "ending the session" in recording.told[0]

    @pytest.mark.parametrize("quickly", [True, False])
    def test_block_waits_for_the_disk_and_loses_nothing(
        self, recordings: Callable[..., Recording], quickly: bool
    ) -> None:
        full = Full()
        recording = recordings(full, policy="block")
        recording.talk(5)
        full.full = True
        calls = recording.disk.calls
        waiting = [
            threading.Thread(target=recording.say, args=("c2s", b"%d" % n), kwargs={"quickly": quickly})
            for n in range(3)
        ]
        for thread in waiting:
            thread.start()
        wait_until(lambda: recording.disk.calls > calls + 5)
        assert all(thread.is_alive() for thread in waiting)
        full.full = False
        for thread in waiting:
            thread.join(DEADLINE_S)
        recording.talk(5, 50)
        assert recording.close()
        assert accounted(recording)["lost"] == 0
        assert "traffic waits" in recording.told[0]

    def test_block_gives_way_to_the_end(self, recordings: Callable[..., Recording]) -> None:
        full = Full()
        recording = recordings(full, policy="block")
        recording.talk(5)
        full.full = True
        calls = recording.disk.calls
        waiting = threading.Thread(target=recording.say, args=("c2s", b"blocked"))
        waiting.start()
        wait_until(lambda: recording.disk.calls > calls + 1)
        assert not recording.close()
        waiting.join(DEADLINE_S)
        assert not waiting.is_alive()
        assert "not in the capture" in recording.told[-1]
        full.full = False
        recording.file.close()


class TestRotation:
    """Segments follow each other without lost or duplicated records."""

    def names(self, recording: Recording) -> list[str]:
        return [path.name for path in Capture(recording.path).segments]

    def check_segments(self, recording: Recording) -> None:
        segments = Capture(recording.path).segments
        for path in segments:
            records = [item for item in Capture(path) if isinstance(item, Record)]
            assert records
        for path in segments[:-1]:
            own = path.read_bytes().splitlines()
            assert b'"rec":"header"' in own[0]
            assert b'"rec":"close"' in own[-1]
            assert b'"ending":"segment"' in own[-1]

    def test_under_load_from_several_threads(self, recordings: Callable[..., Recording]) -> None:
        recording = recordings(segment_bytes=3000)
        run_at_once(*[lambda n=n: recording.talk(80, n * 1000) for n in range(4)])
        assert recording.close()
        assert accounted(recording)["frame"] == 320
        assert len(self.names(recording)) > 9
        self.check_segments(recording)

    def test_the_ring_drops_whole_segments_from_the_front(self, recordings: Callable[..., Recording]) -> None:
        recording = recordings(segment_bytes=3000, ring_bytes=12_000)
        run_at_once(*[lambda n=n: recording.talk(250, n * 1000) for n in range(4)])
        assert recording.close()
        accounted(recording, dropped=1)
        found = inspect(Capture(recording.path))
        assert found.state == "complete"
        assert found.first_seq
        assert found.first_seq > 100
        assert Capture(recording.path).size <= 12_000 + 3000
        assert Capture(recording.path).header.members["segment"] > 1

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EACCES])
    @pytest.mark.parametrize(("module", "name"), [(os, "open"), (os, "fchmod"), (fcntl, "flock"), (os, "unlink")])
    def test_a_refused_segment_lets_the_old_one_go_on(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch, module: Any, name: str, code: int
    ) -> None:
        recording = recordings(segment_bytes=2000, ring_bytes=8000)
        real = getattr(module, name)
        failing = True

        def call(*arguments: Any, **more: Any) -> Any:
            if failing:
                raise OSError(code, os.strerror(code))
            return real(*arguments, **more)

        monkeypatch.setattr(module, name, call)
        recording.talk(40)
        failing = False
        recording.talk(40, 100)
        assert recording.close()
        accounted(recording, dropped=1)
        if name != "unlink":
            assert "recording continues in the old one" in recording.told[0]

    def test_a_stranger_at_the_name_of_the_next_segment_is_left_alone(
        self, recordings: Callable[..., Recording]
    ) -> None:
        recording = recordings(segment_bytes=2000)
        stranger = recording.path.with_name("x.2.mcpcap")
        stranger.write_bytes(b"precious")
        recording.talk(60)
        assert recording.close()
        assert stranger.read_bytes() == b"precious"
        stranger.unlink()
        counts = accounted(recording)
        assert counts["header"] == 1
        assert counts["frame"] == 60

    @pytest.mark.parametrize("how", ["once", "for a while", "short"])
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
    def test_a_refusal_at_any_write_around_a_rotation(
        self, recordings: Callable[..., Recording], how: str, code: int
    ) -> None:
        count = 3
        while True:
            until = {"once": count, "for a while": count + 2, "short": count + 1}[how]

            def plan(n: int, first: int = count, until: int = until) -> int | None:
                if how == "short" and n == first:
                    return -25
                return code if first <= n <= until else None

            recording = recordings(plan, segment_bytes=1500)
            recording.talk(30)
            assert recording.close()
            counts = accounted(recording)
            assert counts["frame"] + lost_frames(recording) == 30
            assert how == "for a while" or counts["frame"] == 30
            if recording.disk.calls < count:
                return
            count += 1 if code == errno.ENOSPC else 5


class TestClosing:
    """Closing is quick, regardless of the state of the disk, and missing records are reported."""

    def test_a_disk_that_stays_full_gets_gap_and_close_into_the_reserve(
        self, recordings: Callable[..., Recording]
    ) -> None:
        full = Full()
        recording = recordings(full)
        full.file = recording.file
        recording.talk(10)
        full.full = True
        recording.talk(50, 100)
        assert recording.close()
        counts = accounted(recording)
        assert counts["gap"] == 1
        assert counts["close"] == 1
        assert counts["lost"] >= 50
        assert recording.told[-1].startswith(f"{recording.writer.total_loss.record_count} records were lost (ENOSPC)")

    def test_an_overflow_before_does_not_confuse_the_last_gap(self, recordings: Callable[..., Recording]) -> None:
        held: list[CaptureFile] = []
        full = Full()
        recording = recordings(
            lambda n: full(n) if not held or held[0]._reserve is not None else None, queue_bytes=1500
        )
        held.append(recording.file)
        recording.talk(10)
        full.full = True
        recording.talk(100, 100)
        assert recording.writer._open_gap is not None
        assert recording.close()
        assert accounted(recording)["gap"] == 1

    def test_gaps_that_wait_to_be_told_are_told_with_what_was_lost_after_them(
        self, recordings: Callable[..., Recording]
    ) -> None:
        """The queue overflows, empties partly while a write hangs, and the disk is full at the end."""
        full, hang = Full(), threading.Event()
        recording = recordings(lambda n: hang if n == 5 else full(n), queue_bytes=1500)
        full.file = recording.file
        stuck = threading.Thread(target=recording.talk, args=(5,))
        stuck.start()
        recording.disk.hanging.wait()
        recording.writer.degrade()
        recording.talk(60, 100)
        full.full = True
        hang.set()
        stuck.join()
        wait_until(lambda: recording.writer._write_error)
        recording.talk(60, 200)
        assert recording.close()
        accounted(recording)

    @pytest.mark.parametrize("quickly", [True, False])
    def test_a_disk_that_hangs_is_not_waited_for(self, recordings: Callable[..., Recording], quickly: bool) -> None:
        hang = threading.Event()
        recording = recordings(at(10, hang))
        for n in range(7):
            recording.say("c2s", b"%d" % n)
        stuck = threading.Thread(target=recording.say, args=("c2s", b"stuck"), kwargs={"quickly": quickly})
        stuck.start()
        recording.disk.hanging.wait()
        recording.writer.degrade()
        recording.talk(6, 100)
        try:
            assert not recording.close(wait_s=0.05)
        finally:
            hang.set()
            stuck.join()
        # The stuck record, followed by six frames, a stall and a signal.
        assert recording.told[-1].startswith("the disk does not answer: 9 records")
        wait_until(lambda: not is_live(recording.path), "the disk to take what waited, though nobody waits any more")
        assert accounted(recording)["frame"] == 14

    def test_a_write_that_hangs_during_the_end_is_not_waited_for(self, recordings: Callable[..., Recording]) -> None:
        hang = threading.Event()
        recording = recordings(at(8, hang))
        for n in range(5):
            recording.say("c2s", b"%d" % n)
        closing = threading.Thread(target=recording.close, kwargs={"wait_s": 0.05})
        closing.start()
        recording.disk.hanging.wait()
        try:
            closing.join(DEADLINE_S)
            assert not closing.is_alive()
            assert "the disk does not answer" in recording.told[-1]
        finally:
            hang.set()
            closing.join()

    def test_late_adds_neither_hang_nor_follow_the_close(self, recordings: Callable[..., Recording]) -> None:
        for _ in range(6):
            recording = recordings()
            over = threading.Event()

            def talk(start: int, recording: Recording = recording, over: threading.Event = over) -> None:
                while not over.is_set():
                    recording.talk(5, start)

            threads = [threading.Thread(target=talk, args=(n * 1000,)) for n in range(3)]
            for thread in threads:
                thread.start()
            wait_until(partial(self.has_talked, recording))
            assert recording.close()
            over.set()
            for thread in threads:
                thread.join(DEADLINE_S)
                assert not thread.is_alive()
            records = recording.records()
            assert [record.rec for record in records].index("close") == len(records) - 1
            assert [record.seq for record in records] == list(range(len(records)))

    def has_talked(self, recording: Recording) -> bool:
        return len(recording.delivered) > 30


class TestSyncing:
    """What is synced to the disk itself, as far as the system shows."""

    def test_it_happens_by_itself_and_after_a_failure_never_counts_again(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[int] = []
        failing = False

        def fdatasync(fd: int) -> None:
            synced.append(fd)
            if failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fdatasync", fdatasync)
        recording = recordings(fsync="always")
        recording.talk(10)
        durable = recording.say("c2s", b"durable")
        assert len(synced) >= 12
        assert self.durable(recording) is None
        failing = True
        recording.say("c2s", b"who knows")
        assert self.durable(recording) == durable
        failing = False
        recording.talk(10, 50)
        count = len(synced)
        recording.talk(10, 70)
        assert len(synced) == count
        assert self.durable(recording) == durable
        recording.close()
        recording.closed = False
        accounted(recording)
        assert len(recording.told) == 1
        assert f"safe up to record {durable} only" in recording.told[0]

    def durable(self, recording: Recording) -> int | None:
        return recording.writer.durable_seq

    def test_a_segment_that_is_safe_says_nothing_of_the_next_one(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        recording = recordings(fsync="always", segment_bytes=2000)
        first = os.stat(recording.path).st_ino

        def fdatasync(fd: int) -> None:
            if os.fstat(fd).st_ino != first:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fdatasync", fdatasync)
        recording.talk(40)
        recording.close()
        durable = self.durable(recording)
        assert durable is not None
        assert durable < next(record.seq for record in recording.records() if record.rec == "close")

    def test_a_lack_of_descriptors_is_no_failure_of_the_disk(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[int] = []
        monkeypatch.setattr(os, "fdatasync", synced.append)
        recording = recordings(fsync="always")
        with monkeypatch.context() as patch:
            patch.setattr(os, "dup", lambda _: os.close(-1))
            recording.talk(5)
        count = len(synced)
        recording.talk(5, 50)
        assert len(synced) >= count + 5
        recording.close()
        assert recording.told == []

    def test_a_record_that_waits_in_memory_is_not_called_durable(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = False
        monkeypatch.setattr(os, "fdatasync", lambda _: os.close(-1) if failing else None)
        full = Full()
        recording = recordings(full, fsync="always")
        durable = recording.say("c2s", b"durable")
        full.full = True
        recording.say("c2s", b"waits")
        recording.writer._sync_thread.sync()
        failing = True
        recording.writer._sync_thread.sync()
        assert recording.writer.durable_seq == durable
        full.full = failing = False
        recording.close()

    def test_once_a_second_while_something_is_written(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = threading.Event()
        monkeypatch.setattr(os, "fdatasync", lambda _: synced.set())
        recording = recordings()
        recording.say("c2s", b"x")
        assert synced.wait(DEADLINE_S)
        recording.close()

    def test_never_means_never(self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[int] = []
        monkeypatch.setattr(os, "fdatasync", synced.append)
        recording = recordings(fsync="never", segment_bytes=2000)
        recording.talk(60)
        assert recording.close()
        assert synced == []
        accounted(recording)

    def test_a_sync_that_hangs_holds_nobody_up(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hang, hanging = threading.Event(), threading.Event()

        def fdatasync(_: int) -> None:
            hanging.set()
            assert hang.wait(DEADLINE_S)

        def join(thread: threading.Thread, timeout: float | None = None) -> None:
            waits.append(timeout)
            joined(thread, timeout)

        waits, joined = list[float | None](), threading.Thread.join
        monkeypatch.setattr(os, "fdatasync", fdatasync)
        monkeypatch.setattr(threading.Thread, "join", join)
        recording = recordings(segment_bytes=2000)
        recording.talk(5)
        assert hanging.wait(DEADLINE_S)
        try:
            for n in range(60):
                seq = recording.say("c2s", b"%d" % n)
                assert b'{"seq":%d,' % seq in recording.lines()
            assert recording.close(wait_s=1.25)
            assert waits.count(1.25) == 1  # everything is written, and a sync shows no progress to wait for
        finally:
            hang.set()
        # Each file is released by its own sync, in any order.
        wait_until(lambda: not any(map(is_live, Capture(recording.path).segments)), "the syncs to return")
        accounted(recording)

    def test_retired_segments_are_synced_and_let_go(
        self, recordings: Callable[..., Recording], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        recording = recordings(segment_bytes=1000)
        recording.talk(200)
        assert recording.close()
        if before:
            wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "all descriptors to be closed")


class TestWatching:
    """External changes to the file are reported."""

    @pytest.mark.parametrize(
        ("do", "word"),
        [
            (lambda path: path.unlink(), "removed"),
            (lambda path: path.rename(path.with_name("y")), "removed"),
            (lambda path: os.truncate(path, 3), "truncated"),
            (lambda path: (path.unlink(), path.touch()), "replaced"),
        ],
        ids=["unlink", "rename", "truncate", "replace"],
    )
    def test_once_and_recording_goes_on(self, recordings: Callable[..., Recording], do: Any, word: str) -> None:
        recording = recordings()
        recording.talk(5)
        do(recording.path)
        recording.talk(5)
        wait_until(lambda: recording.told, "the loss of the file to be told")
        recording.talk(5)
        assert recording.close()
        assert len(recording.told) == 1
        assert f"was {word} while being written" in recording.told[0]


class TestLoss:
    """Counts of lost records."""

    def test_a_part_is_bytes_and_no_frame(self, recordings: Callable[..., Recording]) -> None:
        full = Full()
        recording = recordings(full, queue_bytes=1)
        recording.talk(2)
        full.full = True
        recording.say("c2s", b"kept by the retry")
        raw = b"p" * 50
        recording.writer.append(PendingRecord("part", part_members("s2c", 1, raw), "s2c", 50))
        frame = PendingRecord("frame", frame_members("s2c", b"", UNJUDGED, parts=(1, 50)), "s2c")
        recording.writer.append(frame)
        full.full = False
        recording.healed()
        recording.close()
        (gap,) = gaps(recording)
        assert gap["lost"]["s2c"] == {"frames": 1, "bytes": 50}

    def test_nothing_lost_is_nothing(self) -> None:
        assert (Loss().record_count, Loss().byte_count, Loss().reason) == (0, 0, "")


def weather(folder: Path, seed: int) -> Counter[str]:
    """Run a session on a disk that randomly refuses, hangs or writes less; checks the account and returns it."""
    rng = random.Random(seed)
    folder.mkdir()
    state: list[int | threading.Event | None] = [None]
    hang = threading.Event()

    def plan(_: int) -> int | threading.Event | None:
        return state[0]

    recording = Recording(
        folder, plan, segment_bytes=rng.choice([1500, 6000, 1 << 30]), queue_bytes=rng.choice([300, 3000, 1 << 20])
    )
    over = threading.Event()

    def change() -> None:
        nonlocal hang
        while not over.wait(rng.random() / 200):
            hang.set()
            hang = threading.Event()
            state[0] = rng.choice([None, None, None, errno.ENOSPC, errno.EIO, -5, hang])
            if state[0] is hang and recording.disk.hanging.wait(0.02):
                recording.writer.degrade()
        state[0] = None
        hang.set()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        run_at_once(*[lambda n=n: recording.talk(rng.randrange(20, 300), n * 1000) for n in range(3)])
    finally:
        over.set()
        changing.join()
    assert recording.close()
    return accounted(recording)


def test_any_failures_of_the_disk(tmp_path: Path) -> None:
    for seed in range(6):
        weather(tmp_path / f"{seed}", seed)


@pytest.mark.soak
def test_any_weather_for_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total: Counter[str] = Counter()
    for seed in range(1000, 1500):
        total += weather(tmp_path / f"{seed}", seed)
    with capsys.disabled():
        print(
            f"\nsessions 500, frames recorded {total['frame']}, records lost and counted {total['lost']}, not counted 0"
        )
