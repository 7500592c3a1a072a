"""Numbers, stamps and writes records, for several threads at once.

While the disk is healthy: when `append` returns, the records are in the kernel, so only a power cut can lose them. A
record gets its number, stamp and place in the queue under one short lock, which is never held during a write; the
thread that then holds the write lock writes the whole queue, in order. So records are in the file in the order of their
numbers, and a thread waits for at most one write.

While the disk is in trouble: after `degrade` (a write hangs) or a refused write, `append` only queues the records and
returns at once; by then they are in the journal, if there is one, so a kill does not lose them either. A drainer
thread, started in advance because a machine in trouble may refuse new threads, waits for the stuck write, retries a
refused write once a second, and ends queueing when the queue is empty and a write was quick. If there was trouble
shortly before, writes must have been quick for a second. The queue is bounded; records that do not fit are counted, and
a `gap` record reports them.

A numbered record is always in the file or in the `Backlog`, which changes under the order lock: `degrade` copies the
whole backlog into the journal before any chunk may be taken from a waiting thread.

There are three policies for a refused write: `pass` as described, `stop` (every later `append` raises) and `block` (the
`append` waits until the disk accepts the records).
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from captures.backlog import Backlog, DirectBatch, count_whole, expand, seal_direct, seal_slice
from captures.file import AppendError, CaptureFile, unlock_and_close
from captures.loss import Loss, NumberedRecord, PendingRecord
from captures.record import members, seal
from captures.sync_thread import SyncThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, Protocol

    from captures.journal import Journal

    Policy = Literal["pass", "stop", "block"]
    Fsync = Literal["1s", "always", "never"]

else:
    Policy = Fsync = str
    Protocol = object

QUEUE_BYTES: Final = 32 << 20
SLOW_NS: Final = 5_000_000
SLOW_SYNC_NS: Final = 500_000_000
"""The duration from which a write counts as slow if each write is synced, which takes a healthy disk milliseconds."""
HEALTHY_NS: Final = 1_000_000_000
"""How long writes must have been quick before a disk that was recently in trouble is trusted again."""
RETRY_S: Final = 1.0
TELL_NS: Final = 10_000_000_000
CLOSE_S: Final = 2.0
CLOSE_EXTENSIONS: Final = 10
"""The most times that `close` waits `CLOSE_S` for a disk that still accepts records."""
LAST_PAUSES_S: Final = (0.0, 0.0, 0.1, 0.3)
"""The delays before the attempts to write the last records; in total far below the time allowed for `close`."""


class Waiter(Protocol):
    """A thread that waits for the disk and is watched by others."""

    waiting_since_ns: int
    """When the wait began, on the monotonic clock; 0 while not waiting."""


class RecordingStopped(Exception):
    """The policy is `stop`, and a record could not be written: nothing more may be forwarded."""


class Writer:
    """Appends records to a capture; see the module docstring."""

    def __init__(
        self,
        file: CaptureFile,
        header: Callable[[int], bytes],
        tell: Callable[[str], None],
        *,
        policy: Policy = "pass",
        fsync: Fsync = "1s",
        queue_bytes: int = QUEUE_BYTES,
        journal: Journal | None = None,
        on_segment: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Write the header of the first segment.

        Args:
            file: the new capture file.
            header: returns the middle of the header record for a segment number.
            tell: shows one line to the user.
            policy: the reaction to a refused write.
            fsync: when to sync the records to the disk.
            queue_bytes: the most bytes that may wait while the disk does not respond.
            journal: memory that outlives this process, for waiting records; None if no other process would read it.
            on_segment: called with the number of each new segment.

        Raises:
            AppendError: the header cannot be written.
        """
        self.lost = Loss()
        self.origin_ns = time.monotonic_ns()
        self._file = file
        self._header = header
        self._tell: Callable[[str], None] = lambda _: None
        self._policy: Policy = "pass"
        self._fsync = fsync
        self._slow_ns = SLOW_SYNC_NS if fsync == "always" else SLOW_NS
        self._backlog = Backlog(queue_bytes, journal)
        self._on_segment = on_segment
        self._seq = 0
        self._stamped_ns = 0
        self._order = threading.Lock()
        self._write_lock = threading.Lock()
        self._gap: Loss | None = None
        self._queue_only = False
        self._patience_ns = 0
        self._healed_ns = -HEALTHY_NS
        self._refused: AppendError | None = None
        self._told_ns = -TELL_NS
        self._work = threading.Event()
        self._closing = threading.Event()
        self._idle = threading.Condition(self._order)
        self._written = 0
        self._sync_thread = SyncThread(file, lambda: self._written, tell, syncs=fsync == "1s")
        self._inflight = 0
        self._over = False
        self._whole = False
        self.append(PendingRecord("header", header(1)))
        if self._refused is not None:
            raise self._refused
        self._policy, self._tell = policy, tell

    def start(self) -> None:
        """Start the drainer and the sync thread.

        This is separate from creation, because a process must fork before it starts threads.
        """
        threading.Thread(target=self._run_drainer, name="drainer", daemon=True).start()
        threading.Thread(target=self._sync_thread.run, name="keeper", daemon=True).start()

    def append(self, *entries: PendingRecord) -> int:
        """Number, stamp and write records; return the first number.

        Raises:
            RecordingStopped: by the policy `stop`.
        """
        first = self.stage(entries)
        self.write()
        return first

    def try_append_batch(
        self, rec: str, middles: Sequence[bytes], direction: str, sizes: Iterable[int], waiter: Waiter
    ) -> int | None:
        """Append records of one type and return the first number; return None if another thread writes or records wait.

        Nearly all frames are written like this, without the queue and without an object for each record. The `waiter`
        is notified when the records have their numbers and the wait for the disk begins; the `sizes` are used only if a
        write is refused.
        """
        if not self._write_lock.acquire(blocking=False):
            return None
        try:
            with self._order:
                if self._queue_only or self._backlog.waits or self._file.size >= self._file.look_at:
                    return None
                first = self._seq
                self._seq = first + len(middles)
                now_ns = time.monotonic_ns()
                t_ns = now_ns - self.origin_ns
                self._backlog.direct = batch = DirectBatch(first, t_ns, rec, middles)
                waiter.waiting_since_ns = now_ns
            try:
                lines = seal_direct(batch)
                self._file.append(lines)
                self._written = first + len(middles) - 1
                self._backlog.direct = None
                if self._fsync == "always":
                    self._sync_thread.sync()
            except AppendError as error:
                records = expand(batch, direction, sizes)
                self._settle(error, records[lines.count(b"\n", 0, error.written) :])
            except Exception:
                self._write_off(expand(batch, direction, sizes))
                raise
        finally:
            self._write_lock.release()
        self._sync_thread.wake()
        return first

    def _settle(self, error: AppendError, records: list[NumberedRecord]) -> None:
        self._trouble(error, records)
        if self._policy == "block":
            self._write_queue()

    def stage(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        """Number, stamp and queue records; return the first number. `write` must follow.

        Args:
            entries: the records.
            at_ns: when the recorded event happened, on the capture's clock; None for now. Stamps never decrease.

        Raises:
            RecordingStopped: by the policy `stop`.
        """
        with self._order:
            return self._enqueue(entries, at_ns) if self._queue_only else self._number(entries, at_ns)

    def write(self) -> None:
        """Return when all records staged so far are in the kernel, or at once if the disk is in trouble.

        Raises:
            RecordingStopped: by the policy `stop`.
        """
        if self._queue_only:
            return
        with self._write_lock:
            self._write_queue()
        self._sync_thread.wake()

    def post(self, *entries: PendingRecord) -> None:
        """Number and stamp records and let the drainer write them, for threads that must never wait for the disk."""
        with self._order:
            try:
                if self._queue_only:
                    self._enqueue(entries)
                else:
                    self._number(entries)
            except RecordingStopped:
                pass
        self._work.set()

    def degrade(self) -> None:
        """Only queue from now on, because a write hangs. The drainer restores normal writing.

        When this returns, all waiting records are in the journal.
        """
        with self._order:
            if not self._queue_only:
                self._begin_queueing()
        self._work.set()

    def _begin_queueing(self) -> None:
        self._queue_only = True
        # If the machine is only busy, one quick write shows it. If trouble recurs at once, writes must be quick for
        # longer.
        is_recurring = time.monotonic_ns() - self._healed_ns < HEALTHY_NS
        self._patience_ns = HEALTHY_NS if is_recurring else 0
        self._backlog.copy_all_to_journal(self._seq)

    def _number(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        """Number, stamp and queue records; the caller holds the order lock."""
        first = self._seq
        t_ns = time.monotonic_ns() - self.origin_ns if at_ns is None else max(at_ns, self._stamped_ns)
        self._stamped_ns = t_ns
        records = [NumberedRecord(seq, t_ns, entry) for seq, entry in enumerate(entries, first)]
        self._seq = first + len(entries)
        self._backlog.queue += records
        if self._queue_only:
            self._backlog.copy_to_journal(records, self._seq)
        return first

    def _enqueue(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        if self._refused is not None and self._policy == "stop":
            raise RecordingStopped
        if self._over:
            return self._seq
        if not self._backlog.has_room(entries):
            if len(entries) == 1:
                return self._lose(entries)
            # Small records may fit even if a larger one does not.
            return min([self._enqueue([entry], at_ns) for entry in entries])
        self._end_gap()
        self._backlog.reserve(entries)
        first = self._number(entries, at_ns)
        self._work.set()
        self._idle.notify_all()
        return first

    def _lose(self, entries: Sequence[PendingRecord]) -> int:
        first = self._seq
        t_ns = time.monotonic_ns() - self.origin_ns
        for entry in entries:
            self._count_lost(NumberedRecord(self._seq, t_ns, entry), self._reason())
            self._seq += 1
        self._backlog.copy_to_journal((), self._seq)
        self._tell_loss()
        return first

    def write_off(self, loss: Loss) -> None:
        """Count a loss of records that never got a number."""
        self.lost.absorb(loss)
        self.post(loss.entry())

    def _write_off(self, records: Sequence[NumberedRecord]) -> None:
        """Count records that could not be written because of an internal fault."""
        with self._order:
            self._backlog.direct, self._backlog.taken = None, ()
            for record in records:
                self._count_lost(record, "fault")
            # End the gap at once, while its range is contiguous; the next thread that writes will write it.
            self._end_gap()

    def _count_lost(self, record: NumberedRecord, reason: str) -> None:
        self._gap = self._gap or Loss()
        self._gap.add(record, reason)
        if record.entry.loss is None:
            self.lost.add(record, reason)

    def _reason(self) -> str:
        error = self._refused
        return "slow" if error is None else errno.errorcode.get(error.errno or 0, "EIO")

    def _write_queue(self, *, last: bool = False) -> None:
        """Write the queue in slices, and follow the policy if a write is refused; the caller holds the write lock."""
        if self._over and not last:
            return
        with self._order:
            records, held_bytes = self._backlog.take_all()
        self._inflight = len(records)
        try:
            if records:
                self._write_lines(records, last=last)
        except RecordingStopped:
            raise
        except Exception:
            self._write_off([record for record in records if record.seq > self._written])
            raise
        finally:
            self._inflight = 0
            self._backlog.taken = ()
            if held_bytes:
                # Only now, as records that are being written also take memory. Refused records have been counted again.
                with self._order:
                    self._backlog.held_bytes -= held_bytes
        if self._file.size >= self._file.look_at and not last and not self._backlog.carry:
            self._make_way()

    def _write_lines(self, records: list[NumberedRecord], *, last: bool = False) -> None:
        start = 0
        while start < len(records):
            lines = seal_slice(records, start)
            try:
                self._file.append(lines[0] if len(lines) == 1 else b"".join(lines), last=last)
                start += len(lines)
                self._written = records[start - 1].seq
                self._backlog.free(self._written)
                if self._fsync == "always":
                    self._sync_thread.sync()
            except AppendError as error:
                start += count_whole(lines, error.written)
                self._trouble(error, records[start:])
                if self._policy != "block" or self._closing.is_set():
                    return
                with self._order:
                    self._backlog.retry()
        if self._refused is not None:
            self._refused = None
            self._file.renew_reserve()

    def _trouble(self, error: AppendError, records: list[NumberedRecord]) -> None:
        """Handle a refused write: keep the records that were not written, and continue according to the policy."""
        self._refused = error
        with self._order:
            self._backlog.put_back(records)
            if self._policy == "block":
                self._queue_only = False
            elif not self._queue_only:
                self._begin_queueing()
        self._tell_trouble(error)
        if self._policy == "block":
            self._closing.wait(RETRY_S)
        else:
            self._work.set()
        if self._policy == "stop" and not self._closing.is_set():
            raise RecordingStopped

    def _make_way(self) -> None:
        """Trim the ring, or begin a new segment, after either has reached its maximum size."""
        self._file.trim()
        if self._file.size >= self._file.look_at:
            try:
                self._rotate()
            finally:
                self._backlog.taken = ()

    def _rotate(self) -> None:
        """End the segment and begin the next one, or continue the old one."""
        with self._order:
            if self._backlog.queue or self._gap is not None:
                # Another thread has numbers and waits for the write lock: its records must come first, so rotate later.
                # Nor may the new numbers lie within a gap that may still grow.
                return
            numbers = (self._seq, self._seq + 1)
            self._seq += 2
            t_ns = self._stamped_ns = time.monotonic_ns() - self.origin_ns
            close_record = NumberedRecord(numbers[0], t_ns, PendingRecord("close", members(ending="segment")))
            header_record = NumberedRecord(
                numbers[1], t_ns, PendingRecord("header", self._header(self._file.segment + 1))
            )
            self._backlog.taken = (close_record, header_record)
            if self._queue_only:
                self._backlog.copy_to_journal(self._backlog.taken, self._seq)
        try:
            old_fd = self._file.next_segment(seal(close_record.seq, t_ns, "close", close_record.entry.middle))
        except OSError as error:
            self._stay(close_record, header_record.seq, error)
            return
        if self._fsync == "never":
            unlock_and_close(old_fd)
        else:
            self._sync_thread.retire(old_fd)
        self._write_lines([header_record])
        self._on_segment(self._file.segment)

    def _stay(self, ending: NumberedRecord, seq: int, error: OSError) -> None:
        """Continue the old segment; a gap with the number of the next header reports the loss of its `close`."""
        self._file.look_at = self._file.size + self._file.segment_bytes // 16
        self._tell_seldom(
            f"cannot begin the next segment of {self._file.path}: {error.strerror}; recording continues in the old one"
        )
        loss, reason = Loss(), errno.errorcode.get(error.errno or 0, "EIO")
        loss.add(ending, reason)
        self.lost.add(ending, reason)
        self._write_lines([NumberedRecord(seq, ending.t_ns, loss.entry())])

    def _run_drainer(self) -> None:
        while not self._closing.is_set():
            self._work.wait()
            self._work.clear()
            quick_since_ns, was_quick = time.monotonic_ns(), False
            if not self._queue_only:
                with self._write_lock:
                    self._drain_once()
            while self._queue_only and not self._closing.is_set():
                with self._write_lock:
                    began_ns, written_before = time.monotonic_ns(), self._written
                    self._drain_once()
                    ended_ns = time.monotonic_ns()
                if self._refused is not None:
                    self._closing.wait(RETRY_S)
                    quick_since_ns, was_quick = time.monotonic_ns(), False
                elif ended_ns - began_ns >= self._slow_ns:
                    quick_since_ns, was_quick = ended_ns, False
                else:
                    was_quick = was_quick or self._written != written_before
                    if self._healed(ended_ns - quick_since_ns, self._patience_ns if was_quick else HEALTHY_NS):
                        break

    def _drain_once(self) -> None:
        try:
            self._write_queue()
        except RecordingStopped:
            return
        except Exception as error:  # noqa: BLE001 - a fault loses these records; without a drainer, all would be lost
            self._tell_seldom(f"a fault in mcpproxy lost records ({type(error).__name__}); traffic continues")

    def _healed(self, quick_ns: int, patience_ns: int) -> bool:
        """End queueing if all records are written and writes were quick for long enough, or else wait for work.

        Returns whether queueing has ended.
        """
        with self._order:
            if not self._backlog.waits:
                if quick_ns >= patience_ns and self._gap is None:
                    self._queue_only = False
                    self._healed_ns = time.monotonic_ns()
                    self._backlog.clear_journal()
                    return True
                if self._gap is not None:
                    self._end_gap()
                    return False
                self._idle.wait((patience_ns - quick_ns) / 1e9)
        return False

    def _tell_trouble(self, error: AppendError) -> None:
        effects = {
            "pass": "traffic continues, retrying",
            "stop": "ending the session",
            "block": "traffic waits, retrying",
        }
        self._tell_seldom(f"cannot write to the capture {self._file.path}: {error.strerror}; {effects[self._policy]}")

    def _tell_loss(self) -> None:
        reason = "the disk does not keep up" if self._refused is None else self._refused.strerror
        self._tell_seldom(
            f"recording loses frames: {reason}; {self.lost.records} records lost so far; traffic continues"
        )

    def _tell_seldom(self, message: str) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._told_ns >= TELL_NS:
            self._told_ns = now_ns
            self._tell(message)

    def close(self, closing: Callable[[], PendingRecord], *, wait_s: float = CLOSE_S) -> bool:
        """Write the waiting records and the last one, then release the file; return True if all of them are in it.

        Args:
            closing: returns the `close` record; called last, when the losses are known.
            wait_s: how long a disk that accepts no records may delay the end, in seconds. A disk that keeps accepting
                records, as on a busy machine, gets up to `CLOSE_EXTENSIONS` times as long.
        """
        self.degrade()
        self._closing.set()
        self._work.set()
        self._sync_thread.stop()
        thread = threading.Thread(target=self._finish, args=(closing,), name="last-writer", daemon=True)
        thread.start()
        for _ in range(CLOSE_EXTENSIONS):
            written_before = self._written
            thread.join(wait_s)
            if self._written == written_before or self._whole or not thread.is_alive():
                break  # after all writes only the sync remains, whose progress is unknown
        if not self._whole:
            return self._give_up(closing)
        if self.lost.records:
            self._tell(
                f"{self.lost.records} records were lost ({self.lost.reason}); the capture says where: {self._file.path}"
            )
        return True

    def _finish(self, closing: Callable[[], PendingRecord]) -> None:
        """Write the waiting records and the last one, sync, and release the file; runs in a thread, as it may hang."""
        with self._write_lock:
            self._drain_once()
            if self._backlog.carry:
                self._drain_once()
            if self._backlog.carry:
                self._make_room()
            self._end(closing)
            for pause_s in LAST_PAUSES_S:
                time.sleep(pause_s)
                self._write_queue(last=True)
                if not self._backlog.carry:
                    break
                self._file.release_reserve()
            self._whole = not self._backlog.carry
            if self._whole:
                self._backlog.clear_journal()
                if self._fsync != "never":
                    self._sync_thread.sync()
                self._file.close()

    def _end(self, closing: Callable[[], PendingRecord]) -> None:
        """Number the last record, if that has not been done yet."""
        with self._order:
            if not self._over:
                self._end_gap()
                self._number([closing()])
                self._over = True

    def _make_room(self) -> None:
        """Drop the waiting records on a disk that stays full; free the reserve for the `gap` that reports the loss."""
        self._file.release_reserve()
        with self._order:
            for record in (*self._backlog.carry, *self._backlog.queue):
                self._count_lost(record, self._reason())
            self._backlog.drop()

    def _end_gap(self) -> None:
        if self._gap is not None:
            gap, self._gap = self._gap, None
            self._number([gap.entry()])

    def _give_up(self, closing: Callable[[], PendingRecord]) -> bool:
        with self._order:
            missing = self._inflight + len(self._backlog.carry) + len(self._backlog.queue)
            missing = max(missing + self.lost.records, self._seq - 1 - self._written)
        # With the last record in the journal, the guard can complete the capture with the ending of its session.
        self._end(closing)
        # The guard writes the records in the journal as soon as the disk allows.
        status = "are not yet" if self._backlog.survives_process else "are not"
        self._tell(
            f"the disk does not answer: {missing} records of this session {status} in the capture {self._file.path}"
        )
        return False

    @property
    def durable_seq(self) -> int | None:
        """If syncing has failed, the number of the last record that is known to be on the disk; else None."""
        return self._sync_thread.durable_seq
