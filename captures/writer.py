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

from captures.backlog import Backlog, DirectBatch, count_whole, expand_direct, seal_direct, seal_slice
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
MIN_SLOW_SYNC_NS: Final = 500_000_000
"""The duration from which a write counts as slow if each write is synced, which takes a healthy disk milliseconds."""
HEALTHY_NS: Final = 1_000_000_000
"""How long writes must have been quick before a disk that was recently in trouble is trusted again."""
RETRY_S: Final = 1.0
MESSAGE_INTERVAL_NS: Final = 10_000_000_000
CLOSE_TIMEOUT_S: Final = 2.0
MAX_CLOSE_WAITS: Final = 10
"""The most times that `close` waits `CLOSE_TIMEOUT_S` for a disk that still accepts records."""
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
        self.total_loss = Loss()
        self.origin_ns = time.monotonic_ns()
        self._file = file
        self._header = header
        self._tell: Callable[[str], None] = lambda _: None
        self._policy: Policy = "pass"
        self._fsync = fsync
        self._slow_ns = MIN_SLOW_SYNC_NS if fsync == "always" else SLOW_NS
        self._backlog = Backlog(queue_bytes, journal)
        self._on_segment = on_segment
        self._next_seq = 0
        self._last_stamp_ns = 0
        self._order_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._open_gap: Loss | None = None
        self._is_queue_only = False
        self._patience_ns = 0
        self._healed_ns = -HEALTHY_NS
        self._write_error: AppendError | None = None
        self._last_message_ns = -MESSAGE_INTERVAL_NS
        self._has_work = threading.Event()
        self._close_requested = threading.Event()
        self._idle = threading.Condition(self._order_lock)
        self._written_seq = 0
        self._sync_thread = SyncThread(file, lambda: self._written_seq, tell, syncs=fsync == "1s")
        self._in_flight_count = 0
        self._has_last_record = False
        self._is_complete = False
        self.append(PendingRecord("header", header(1)))
        if self._write_error is not None:
            raise self._write_error
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
        self.write_staged()
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
            with self._order_lock:
                if self._is_queue_only or self._backlog.has_waiting or self._file.size >= self._file.check_size:
                    return None
                first = self._next_seq
                self._next_seq = first + len(middles)
                now_ns = time.monotonic_ns()
                t_ns = now_ns - self.origin_ns
                self._backlog.direct_batch = batch = DirectBatch(first, t_ns, rec, middles)
                waiter.waiting_since_ns = now_ns
            try:
                lines = seal_direct(batch)
                self._file.append(lines)
                self._written_seq = first + len(middles) - 1
                self._backlog.direct_batch = None
                if self._fsync == "always":
                    self._sync_thread.sync()
            except AppendError as error:
                records = expand_direct(batch, direction, sizes)
                self._handle_direct_refusal(error, records[lines.count(b"\n", 0, error.written) :])
            except Exception:
                self._count_unwritten(expand_direct(batch, direction, sizes))
                raise
        finally:
            self._write_lock.release()
        self._sync_thread.wake()
        return first

    def _handle_direct_refusal(self, error: AppendError, records: list[NumberedRecord]) -> None:
        self._handle_refusal(error, records)
        if self._policy == "block":
            self._write_queue()

    def stage(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        """Number, stamp and queue records; return the first number. `write_staged` must follow.

        Args:
            entries: the records.
            at_ns: when the recorded event happened, on the capture's clock; None for now. Stamps never decrease.

        Raises:
            RecordingStopped: by the policy `stop`.
        """
        with self._order_lock:
            return self._enqueue(entries, at_ns) if self._is_queue_only else self._stage_records(entries, at_ns)

    def write_staged(self) -> None:
        """Return when all records staged so far are in the kernel, or at once if the disk is in trouble.

        Raises:
            RecordingStopped: by the policy `stop`.
        """
        if self._is_queue_only:
            return
        with self._write_lock:
            self._write_queue()
        self._sync_thread.wake()

    def post(self, *entries: PendingRecord) -> None:
        """Number and stamp records and let the drainer write them, for threads that must never wait for the disk."""
        with self._order_lock:
            try:
                if self._is_queue_only:
                    self._enqueue(entries)
                else:
                    self._stage_records(entries)
            except RecordingStopped:
                pass
        self._has_work.set()

    def degrade(self) -> None:
        """Only queue from now on, because a write hangs. The drainer restores normal writing.

        When this returns, all waiting records are in the journal.
        """
        with self._order_lock:
            if not self._is_queue_only:
                self._begin_queueing()
        self._has_work.set()

    def _begin_queueing(self) -> None:
        self._is_queue_only = True
        # If the machine is only busy, one quick write shows it. If trouble recurs at once, writes must be quick for
        # longer.
        is_recurring = time.monotonic_ns() - self._healed_ns < HEALTHY_NS
        self._patience_ns = HEALTHY_NS if is_recurring else 0
        self._backlog.copy_all_to_journal(self._next_seq)

    def _stage_records(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        """Number, stamp and queue records; the caller holds the order lock."""
        first = self._next_seq
        t_ns = time.monotonic_ns() - self.origin_ns if at_ns is None else max(at_ns, self._last_stamp_ns)
        self._last_stamp_ns = t_ns
        records = [NumberedRecord(seq, t_ns, entry) for seq, entry in enumerate(entries, first)]
        self._next_seq = first + len(entries)
        self._backlog.queued_records += records
        if self._is_queue_only:
            self._backlog.copy_to_journal(records, self._next_seq)
        return first

    def _enqueue(self, entries: Sequence[PendingRecord], at_ns: int | None = None) -> int:
        if self._write_error is not None and self._policy == "stop":
            raise RecordingStopped
        if self._has_last_record:
            return self._next_seq
        if not self._backlog.has_room(entries):
            if len(entries) == 1:
                return self._count_unqueued(entries)
            # Small records may fit even if a larger one does not.
            return min([self._enqueue([entry], at_ns) for entry in entries])
        self._end_gap()
        self._backlog.reserve(entries)
        first = self._stage_records(entries, at_ns)
        self._has_work.set()
        self._idle.notify_all()
        return first

    def _count_unqueued(self, entries: Sequence[PendingRecord]) -> int:
        first = self._next_seq
        t_ns = time.monotonic_ns() - self.origin_ns
        for entry in entries:
            self._count_lost(NumberedRecord(self._next_seq, t_ns, entry), self._loss_reason())
            self._next_seq += 1
        self._backlog.copy_to_journal((), self._next_seq)
        self._tell_loss()
        return first

    def count_loss(self, loss: Loss) -> None:
        """Count a loss of records that never got a number."""
        self.total_loss.absorb(loss)
        self.post(loss.gap_record())

    def _count_unwritten(self, records: Sequence[NumberedRecord]) -> None:
        """Count records that could not be written because of an internal fault."""
        with self._order_lock:
            self._backlog.direct_batch, self._backlog.taken_records = None, ()
            for record in records:
                self._count_lost(record, "fault")
            # End the gap at once, while its range is contiguous; the next thread that writes will write it.
            self._end_gap()

    def _count_lost(self, record: NumberedRecord, reason: str) -> None:
        self._open_gap = self._open_gap or Loss()
        self._open_gap.add_record(record, reason)
        if record.pending.reported_loss is None:
            self.total_loss.add_record(record, reason)

    def _loss_reason(self) -> str:
        error = self._write_error
        return "slow" if error is None else errno.errorcode.get(error.errno or 0, "EIO")

    def _write_queue(self, *, last: bool = False) -> None:
        """Write the queue in slices, and follow the policy if a write is refused; the caller holds the write lock."""
        if self._has_last_record and not last:
            return
        with self._order_lock:
            records, held_bytes = self._backlog.take_all()
        self._in_flight_count = len(records)
        try:
            if records:
                self._write_lines(records, last=last)
        except RecordingStopped:
            raise
        except Exception:
            self._count_unwritten([record for record in records if record.seq > self._written_seq])
            raise
        finally:
            self._in_flight_count = 0
            self._backlog.taken_records = ()
            if held_bytes:
                # Only now, as records that are being written also take memory. Refused records have been counted again.
                with self._order_lock:
                    self._backlog.held_bytes -= held_bytes
        if self._file.size >= self._file.check_size and not last and not self._backlog.carried_records:
            self._trim_or_rotate()

    def _write_lines(self, records: list[NumberedRecord], *, last: bool = False) -> None:
        start = 0
        while start < len(records):
            lines = seal_slice(records, start)
            try:
                self._file.append(lines[0] if len(lines) == 1 else b"".join(lines), last=last)
                start += len(lines)
                self._written_seq = records[start - 1].seq
                self._backlog.free_copies(self._written_seq)
                if self._fsync == "always":
                    self._sync_thread.sync()
            except AppendError as error:
                start += count_whole(lines, error.written)
                self._handle_refusal(error, records[start:])
                if self._policy != "block" or self._close_requested.is_set():
                    return
                with self._order_lock:
                    self._backlog.retry()
        if self._write_error is not None:
            self._write_error = None
            self._file.renew_reserve()

    def _handle_refusal(self, error: AppendError, records: list[NumberedRecord]) -> None:
        """Handle a refused write: keep the records that were not written, and continue according to the policy."""
        self._write_error = error
        with self._order_lock:
            self._backlog.put_back(records)
            if self._policy == "block":
                self._is_queue_only = False
            elif not self._is_queue_only:
                self._begin_queueing()
        self._tell_trouble(error)
        if self._policy == "block":
            self._close_requested.wait(RETRY_S)
        else:
            self._has_work.set()
        if self._policy == "stop" and not self._close_requested.is_set():
            raise RecordingStopped

    def _trim_or_rotate(self) -> None:
        """Trim the ring, or begin a new segment, after either has reached its maximum size."""
        self._file.trim_ring()
        if self._file.size >= self._file.check_size:
            try:
                self._rotate()
            finally:
                self._backlog.taken_records = ()

    def _rotate(self) -> None:
        """End the segment and begin the next one, or continue the old one."""
        with self._order_lock:
            if self._backlog.queued_records or self._open_gap is not None:
                # Another thread has numbers and waits for the write lock: its records must come first, so rotate later.
                # Nor may the new numbers lie within a gap that may still grow.
                return
            numbers = (self._next_seq, self._next_seq + 1)
            self._next_seq += 2
            t_ns = self._last_stamp_ns = time.monotonic_ns() - self.origin_ns
            close_record = NumberedRecord(numbers[0], t_ns, PendingRecord("close", members(ending="segment")))
            header_record = NumberedRecord(
                numbers[1], t_ns, PendingRecord("header", self._header(self._file.segment + 1))
            )
            self._backlog.taken_records = (close_record, header_record)
            if self._is_queue_only:
                self._backlog.copy_to_journal(self._backlog.taken_records, self._next_seq)
        try:
            old_fd = self._file.begin_next_segment(seal(close_record.seq, t_ns, "close", close_record.pending.middle))
        except OSError as error:
            self._continue_segment(close_record, header_record.seq, error)
            return
        if self._fsync == "never":
            unlock_and_close(old_fd)
        else:
            self._sync_thread.retire_segment(old_fd)
        self._write_lines([header_record])
        self._on_segment(self._file.segment)

    def _continue_segment(self, ending: NumberedRecord, seq: int, error: OSError) -> None:
        """Continue the old segment; a gap with the number of the next header reports the loss of its `close`."""
        self._file.check_size = self._file.size + self._file.segment_bytes // 16
        self._tell_rarely(
            f"cannot begin the next segment of {self._file.path}: {error.strerror}; recording continues in the old one"
        )
        loss, reason = Loss(), errno.errorcode.get(error.errno or 0, "EIO")
        loss.add_record(ending, reason)
        self.total_loss.add_record(ending, reason)
        self._write_lines([NumberedRecord(seq, ending.t_ns, loss.gap_record())])

    def _run_drainer(self) -> None:
        while not self._close_requested.is_set():
            self._has_work.wait()
            self._has_work.clear()
            quick_since_ns, was_quick = time.monotonic_ns(), False
            if not self._is_queue_only:
                with self._write_lock:
                    self._drain_once()
            while self._is_queue_only and not self._close_requested.is_set():
                with self._write_lock:
                    began_ns, written_before = time.monotonic_ns(), self._written_seq
                    self._drain_once()
                    ended_ns = time.monotonic_ns()
                if self._write_error is not None:
                    self._close_requested.wait(RETRY_S)
                    quick_since_ns, was_quick = time.monotonic_ns(), False
                elif ended_ns - began_ns >= self._slow_ns:
                    quick_since_ns, was_quick = ended_ns, False
                else:
                    was_quick = was_quick or self._written_seq != written_before
                    if self._healed(ended_ns - quick_since_ns, self._patience_ns if was_quick else HEALTHY_NS):
                        break

    def _drain_once(self) -> None:
        try:
            self._write_queue()
        except RecordingStopped:
            return
        except Exception as error:  # noqa: BLE001 - a fault loses these records; without a drainer, all would be lost
            self._tell_rarely(f"a fault in mcpproxy lost records ({type(error).__name__}); traffic continues")

    def _healed(self, quick_ns: int, patience_ns: int) -> bool:
        """End queueing if all records are written and writes were quick for long enough, or else wait for work.

        Returns whether queueing has ended.
        """
        with self._order_lock:
            if not self._backlog.has_waiting:
                if quick_ns >= patience_ns and self._open_gap is None:
                    self._is_queue_only = False
                    self._healed_ns = time.monotonic_ns()
                    self._backlog.clear_journal()
                    return True
                if self._open_gap is not None:
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
        self._tell_rarely(f"cannot write to the capture {self._file.path}: {error.strerror}; {effects[self._policy]}")

    def _tell_loss(self) -> None:
        reason = "the disk does not keep up" if self._write_error is None else self._write_error.strerror
        self._tell_rarely(
            f"recording loses frames: {reason}; {self.total_loss.record_count} records lost so far; traffic continues"
        )

    def _tell_rarely(self, message: str) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._last_message_ns >= MESSAGE_INTERVAL_NS:
            self._last_message_ns = now_ns
            self._tell(message)

    def close(self, closing: Callable[[], PendingRecord], *, wait_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write the waiting records and the last one, then release the file; return True if all of them are in it.

        Args:
            closing: returns the `close` record; called last, when the losses are known.
            wait_s: how long a disk that accepts no records may delay the end, in seconds. A disk that keeps accepting
                records, as on a busy machine, gets up to `MAX_CLOSE_WAITS` times as long.
        """
        self.degrade()
        self._close_requested.set()
        self._has_work.set()
        self._sync_thread.stop()
        thread = threading.Thread(target=self._write_rest_and_close, args=(closing,), name="last-writer", daemon=True)
        thread.start()
        for _ in range(MAX_CLOSE_WAITS):
            written_before = self._written_seq
            thread.join(wait_s)
            if self._written_seq == written_before or self._is_complete or not thread.is_alive():
                break  # after all writes only the sync remains, whose progress is unknown
        if not self._is_complete:
            return self._report_unwritten(closing)
        if self.total_loss.record_count:
            self._tell(
                f"{self.total_loss.record_count} records were lost ({self.total_loss.reason}); the "
                f"capture says where: {self._file.path}"
            )
        return True

    def _write_rest_and_close(self, closing: Callable[[], PendingRecord]) -> None:
        """Write the waiting records and the last one, sync, and release the file; runs in a thread, as it may hang."""
        with self._write_lock:
            self._drain_once()
            if self._backlog.carried_records:
                self._drain_once()
            if self._backlog.carried_records:
                self._drop_waiting()
            self._number_last_record(closing)
            for pause_s in LAST_PAUSES_S:
                time.sleep(pause_s)
                self._write_queue(last=True)
                if not self._backlog.carried_records:
                    break
                self._file.release_reserve()
            self._is_complete = not self._backlog.carried_records
            if self._is_complete:
                self._backlog.clear_journal()
                if self._fsync != "never":
                    self._sync_thread.sync()
                self._file.close()

    def _number_last_record(self, closing: Callable[[], PendingRecord]) -> None:
        """Number the last record, if that has not been done yet."""
        with self._order_lock:
            if not self._has_last_record:
                self._end_gap()
                self._stage_records([closing()])
                self._has_last_record = True

    def _drop_waiting(self) -> None:
        """Drop the waiting records on a disk that stays full; free the reserve for the `gap` that reports the loss."""
        self._file.release_reserve()
        with self._order_lock:
            for record in (*self._backlog.carried_records, *self._backlog.queued_records):
                self._count_lost(record, self._loss_reason())
            self._backlog.drop_all()

    def _end_gap(self) -> None:
        if self._open_gap is not None:
            gap, self._open_gap = self._open_gap, None
            self._stage_records([gap.gap_record()])

    def _report_unwritten(self, closing: Callable[[], PendingRecord]) -> bool:
        with self._order_lock:
            missing = self._in_flight_count + len(self._backlog.carried_records) + len(self._backlog.queued_records)
            missing = max(missing + self.total_loss.record_count, self._next_seq - 1 - self._written_seq)
        # With the last record in the journal, the guard can complete the capture with the ending of its session.
        self._number_last_record(closing)
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
