"""SyncThread: syncs written records to the disk, and checks that the file is still in place.

Promises: once a sync has failed, no later record counts as safe, because the kernel may have marked the pages clean
anyway; a complete segment is closed once it is on the disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from captures.file import CaptureFile, sync, unlock_and_close

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PERIOD_S: Final = 1.0


class SyncThread:
    """Syncs one capture for the threads that write it."""

    def __init__(self, file: CaptureFile, written: Callable[[], int], tell: Callable[[str], None], *, syncs: bool):
        """Create an object that has synced nothing yet.

        Args:
            file: the file being written.
            written: returns the number of the last record that is in the kernel.
            tell: shows one line to the user.
            syncs: whether `run` syncs, or only checks the file.
        """
        self._file = file
        self._written_seq = written
        self._tell = tell
        self._syncs = syncs
        self._has_written = threading.Event()
        self._stop_requested = threading.Event()
        self._retired_fds: list[int] = []
        self._durable_seq: int | None = None
        self._error: str | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Report that records were written."""
        # The event is nearly always set already, and `set` takes a lock.
        if not self._has_written.is_set():
            self._has_written.set()

    def retire_segment(self, fd: int) -> None:
        """Let the next sync also sync a complete segment, and then close it."""
        self._retired_fds.append(fd)

    def stop(self) -> None:
        """End `run`."""
        self._stop_requested.set()
        self._has_written.set()

    def run(self) -> None:
        """Sync once a second while records are written, and check that the file is still in place."""
        reported_change = ""
        while not self._stop_requested.is_set():
            self._has_written.wait()
            if self._stop_requested.wait(PERIOD_S):
                return
            self._has_written.clear()
            if self._syncs:
                self.sync()
            change = self._file_change()
            if change and change != reported_change:
                self._tell(
                    f"the capture {self._file.path} was {change} while being written; recording continues into it"
                )
                reported_change = change

    def _file_change(self) -> str:
        try:
            return self._file.external_change() or ""
        except OSError:
            return ""

    def sync(self) -> None:
        """Sync the retired segments and the current one; never again after a failure."""
        with self._lock:
            last_seq = self._written_seq()
            try:
                current_fd = os.dup(self._file.fd)
            except OSError:  # no descriptor is available just now; the next sync covers these records
                return
            fds = [*self._retired_fds, current_fd]
            del self._retired_fds[: len(fds) - 1]
            try:
                if self._error is None:
                    for fd in fds:
                        sync(fd)
                    self._durable_seq = last_seq
            except OSError as error:
                self._error = error.strerror or str(error)
                self._tell(
                    f"the disk refused to sync the capture ({self._error}): safe up to record {self._durable_seq} only"
                )
            finally:
                for fd in fds[:-1]:
                    unlock_and_close(fd)
                os.close(current_fd)

    @property
    def durable_seq(self) -> int | None:
        """If syncing has failed, the number of the last record that is known to be on the disk; else None."""
        return self._durable_seq if self._error is not None else None
