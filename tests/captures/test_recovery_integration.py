"""A recorder dies while its records wait: another process completes the capture from the journal.

The recorder is a forked process with a real writer on a disk that fails according to a plan; at a chosen point, it
exits without closing anything. The test then does what the guard does.
"""

import errno
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures import recovery as recovery_module
from captures import writer as writer_module
from captures.file import CaptureFile, is_live
from captures.integrity import Inspection, tally
from captures.journal import Journal
from captures.loss import PendingRecord
from captures.reader import Capture
from captures.record import Record, line_members, seal
from captures.recovery import Recovery
from captures.verdict import UNJUDGED
from captures.writer import QUEUE_BYTES, Writer
from tests.captures.samples import Disk, Plan, header
from tests.harness import DEADLINE_S, wait_until

HANGS = threading.Event()
"""Never set: a write that waits for it hangs until the process ends."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_module, "RETRY_S", 0.001)
    # A writer in trouble does not recover: only its drainer hangs, never the script.
    monkeypatch.setattr(writer_module.Writer, "_healed", lambda *_: None)


class Waiter:
    waiting_since_ns = 0


class KilledRecorder:
    """A recorder, its journal, and what remains of both after its death."""

    def __init__(self, folder: Path, *, segment_bytes: int = 1 << 30, journal_bytes: int = 1 << 20) -> None:
        self.path = folder / "x.mcpcap"
        self.disk = Disk()
        self.file = CaptureFile(self.path, segment_bytes=segment_bytes, write=self.disk)
        self.journal = Journal(journal_bytes)
        self.recovery = Recovery(self.file, self.journal)

    def record(
        self, plan: Plan, script: Callable[[Writer, "KilledRecorder"], None], queue_bytes: int = QUEUE_BYTES
    ) -> None:
        """Run a script on a writer in another process, which dies right afterwards."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                writer = Writer(self.file, header, lambda _: None, queue_bytes=queue_bytes, journal=self.journal)
                writer.start()
                self.disk.calls, self.disk.plan = 0, plan
                script(writer, self)
                status = 0
            except Exception:  # noqa: BLE001 - printed; the exit status tells the parent
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0

    def recover(self) -> Inspection:
        """Recover the capture, as the guard does; returns its inspection."""
        assert self.recovery.complete_capture()
        return tally(Capture(self.path))

    def frames(self) -> list[bytes]:
        return [
            item.members["raw"].encode()
            for item in Capture(self.path)
            if isinstance(item, Record) and item.rec == "frame"
        ]

    @property
    def segments(self) -> list[str]:
        return [path.name for path in Capture(self.path).segments]


Make = Callable[..., KilledRecorder]


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[Make]:
    made: list[KilledRecorder] = []

    def make(**how: int) -> KilledRecorder:
        made.append(KilledRecorder(tmp_path, **how))
        return made[-1]

    yield make
    for recorder in made:
        recorder.recovery.close()


def line(number: int) -> bytes:
    return b'{"n":%d}' % number


def add_frames(writer: Writer, *numbers: int, quickly: bool = True) -> None:
    """Add frames to the writer, as a pump does."""
    middles = [line_members("s2c", line(number), UNJUDGED) for number in numbers]
    sizes = [len(line(number)) for number in numbers]
    if not quickly or writer.try_append_batch("frame", middles, "s2c", sizes, Waiter()) is None:
        writer.append(
            *[PendingRecord("frame", middle, "s2c", size) for middle, size in zip(middles, sizes, strict=True)]
        )


def add_with_hanging_write(writer: Writer, recorder: KilledRecorder, *numbers: int, quickly: bool = True) -> None:
    """Add frames in a thread whose write hangs, then degrade the writer, as the rescuer does."""
    threading.Thread(target=add_frames, args=(writer, *numbers), kwargs={"quickly": quickly}, daemon=True).start()
    assert recorder.disk.hanging.wait(DEADLINE_S)
    writer.degrade()


@pytest.mark.parametrize("quickly", [True, False])
def test_what_waits_for_a_disk_that_hangs_survives_a_kill(dying: Make, quickly: bool) -> None:
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_frames(writer, 0, 1)
        add_with_hanging_write(writer, recorder, 2, 3, quickly=quickly)
        for number in range(4, 40):
            add_frames(writer, number)

    recorder.record(lambda call: HANGS if call >= 2 else None, script)
    assert recorder.frames() == [line(0), line(1)]
    found = recorder.recover()
    assert recorder.frames() == [line(number) for number in range(40)]
    assert (found.state, found.missing, found.gap_count) == ("incomplete", 0, 0)


def test_what_a_refused_write_left_behind_survives_a_kill(dying: Make) -> None:
    recorder = dying()

    def script(writer: Writer, _: KilledRecorder) -> None:
        for number in range(20):
            add_frames(writer, number)

    recorder.record(lambda call: errno.ENOSPC if call >= 5 else None, script)
    assert len(recorder.frames()) == 4
    found = recorder.recover()
    assert recorder.frames() == [line(number) for number in range(20)]
    assert (found.missing, found.gap_count) == (0, 0)


def test_a_recovery_that_is_interrupted_anywhere_is_completed_by_the_next(dying: Make) -> None:
    """The guard is killed between two appends, or during one."""
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_with_hanging_write(writer, recorder, 0)
        for number in range(1, 600):
            add_frames(writer, number)

    recorder.record(lambda _: HANGS, script)
    for call, cut in [(1, 0), (1, 1), (2, 100), (2, 30_000), (3, 7)]:
        killed_in_write(recorder, call, cut)
    found = recorder.recover()
    assert recorder.frames() == [line(number) for number in range(600)]
    assert (found.repeated, found.missing, found.gap_count, found.damage_count) == (0, 0, 0, 0)
    size = recorder.path.stat().st_size
    recorder.recover()
    assert recorder.path.stat().st_size == size, "a second recovery has nothing left to do"


def killed_in_write(recorder: KilledRecorder, call: int, cut: int) -> None:
    """Run a recovery that dies in its write number `call`, after `cut` bytes have reached the file."""
    count = 0

    def write(fd: int, data: bytes) -> int:
        nonlocal count
        count += 1
        if count == call:
            os.write(fd, data[:cut])
            os._exit(0)
        return os.write(fd, data)

    pid = os.fork()
    if pid == 0:
        recorder.recovery._write = write
        recorder.recovery.complete_capture()
        os._exit(1)
    os.waitpid(pid, 0)


def test_a_line_that_the_kill_has_torn_is_cut_away(dying: Make) -> None:
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_frames(writer, 0)
        add_with_hanging_write(writer, recorder, 1)
        add_frames(writer, 2)

    recorder.record(lambda call: HANGS if call >= 2 else None, script)
    with recorder.path.open("ab") as file:
        file.write(b'{"seq":2,"rec":"frame","t_ns":1')
    found = recorder.recover()
    assert recorder.frames() == [line(0), line(1), line(2)]
    assert not found.torn
    assert found.damage_count == 0


def test_what_had_no_room_is_told_by_a_gap(dying: Make) -> None:
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_with_hanging_write(writer, recorder, 0)
        for number in range(1, 400):
            add_frames(writer, number)
        assert writer.total_loss.record_count

    recorder.record(lambda _: HANGS, script, queue_bytes=100_000)
    found = recorder.recover()
    frames = recorder.frames()
    assert frames == [line(number) for number in range(len(frames))]
    assert 100 < len(frames) < 400
    assert (found.state, found.missing) == ("incomplete", 0)
    assert [(gap.last - gap.first + 1, gap.reason) for gap in found.gaps] == [(400 - len(frames), "killed")]


@pytest.mark.parametrize("left", ["nothing", "empty", "half", "written"])
def test_a_segment_that_was_being_begun_goes_on(dying: Make, left: str) -> None:
    """The recorder is killed between the end of one segment and the first frame of the next."""
    recorder = dying(segment_bytes=2000)

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_with_hanging_write(writer, recorder, 0)
        for number in range(1, 60):
            add_frames(writer, number)

    recorder.record(lambda _: HANGS, script)
    opening = seal(500, 5_000_000_000, "header", header(2))
    recorder.journal.store(opening + seal(501, 5_000_000_001, "frame", line_members("s2c", line(60), UNJUDGED)), 501)
    recorder.journal.next_seq = 502
    second = recorder.path.with_name("x.2.mcpcap")
    if left != "nothing":
        second.write_bytes({"empty": b"", "half": opening[:50], "written": opening}[left])
    found = recorder.recover()
    if left == "written":  # then the close of the first segment and the numbers before it had been written, too
        assert recorder.frames()[-1] == line(60)
        return
    assert recorder.frames() == [line(number) for number in range(61)]
    assert recorder.segments == ["x.mcpcap", "x.2.mcpcap"]
    assert found.missing == 0


def test_a_strangers_file_in_the_place_of_the_next_segment_is_left_alone(dying: Make, tmp_path: Path) -> None:
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_with_hanging_write(writer, recorder, 0)

    recorder.record(lambda _: HANGS, script)
    recorder.journal.store(seal(2, 10, "header", header(2)), 2)
    recorder.journal.store(seal(3, 11, "frame", line_members("s2c", line(1), UNJUDGED)), 3)
    recorder.journal.next_seq = 4
    other = tmp_path / "x.2.mcpcap"
    other.symlink_to(tmp_path / "victim")
    (tmp_path / "victim").write_bytes(b"precious")
    assert recorder.recovery.complete_capture()
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert b'"n' in recorder.path.read_bytes().splitlines()[-2]


@pytest.mark.parametrize("hangs_at", range(2, 12))
def test_segments_that_change_while_records_wait_lose_nothing(dying: Make, hangs_at: int) -> None:
    """The drainer rotates between its writes until one of them hangs, at any position; then the recorder is killed."""
    recorder = dying(segment_bytes=400)

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        writer.degrade()
        for number in range(100):
            add_frames(writer, number)
            # Let the drainer write them one by one, until it hangs.
            wait_until(lambda: recorder.disk.hanging.is_set() or writer._written_seq == writer._next_seq - 1)

    recorder.record(lambda call: HANGS if call >= hangs_at else None, script)
    found = recorder.recover()
    assert recorder.frames() == [line(number) for number in range(100)]
    assert (found.missing, found.repeated, found.gap_count) == (0, 0, 0)
    assert len(recorder.segments) > 1 or hangs_at < 5


def test_a_disk_that_goes_on_refusing_ends_the_recovery(dying: Make) -> None:
    recorder = dying()

    def script(writer: Writer, recorder: KilledRecorder) -> None:
        add_with_hanging_write(writer, recorder, 0)

    recorder.record(lambda _: HANGS, script)
    tries = 0

    def write(_fd: int, _data: bytes) -> int:
        nonlocal tries
        tries += 1
        raise OSError(errno.ENOSPC, "full")

    recorder.recovery._write = write
    assert not recorder.recovery.complete_capture()
    assert tries == recovery_module.MAX_WRITE_ATTEMPTS


def test_what_a_gap_in_the_journal_explains_is_told_once(dying: Make) -> None:
    recorder = dying()
    recorder.record(lambda _: None, lambda writer, _: add_frames(writer, 0))
    gap = seal(9, 10, "gap", b',"first":2,"last":6,"reason":"ENOSPC"')
    recorder.journal.store(gap + seal(10, 11, "frame", line_members("s2c", line(1), UNJUDGED)), 10)
    recorder.journal.next_seq = 13
    found = recorder.recover()
    assert found.missing == 0
    assert [(gap.first, gap.last, gap.reason) for gap in found.gaps] == [
        (2, 6, "ENOSPC"),
        (7, 8, "killed"),
        (11, 12, "killed"),
    ]


def test_a_healthy_recorder_leaves_nothing_to_recover(dying: Make) -> None:
    recorder = dying()

    def script(writer: Writer, _: KilledRecorder) -> None:
        for number in range(50):
            add_frames(writer, number)

    recorder.record(lambda _: None, script)
    assert not recorder.recovery.is_needed
    assert recorder.frames() == [line(number) for number in range(50)]


def test_a_file_stays_locked_while_the_guard_has_it_open(dying: Make) -> None:
    recorder = dying()
    recorder.record(lambda _: None, lambda writer, _: add_frames(writer, 0))
    assert is_live(recorder.path)
