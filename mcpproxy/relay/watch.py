"""Detects that a stream has lost its reader, without ever writing to it.

A write would detect that, too, but a server may have nothing to send for hours after its client is gone.
"""

import os
import select
import threading
from collections.abc import Callable

_GONE_EVENTS = select.POLLERR | select.POLLHUP


class ReaderWatch:
    """Watches a descriptor to which the relay writes: without a reader, a poll reports POLLERR or POLLHUP."""

    def __init__(self, fd: int, on_gone: Callable[[], None]) -> None:
        """Create a watch; `on_gone` is called at most once, in the thread of the watch."""
        self._fd = fd
        self._on_gone = on_gone
        self._wake_read_end, self._wake_write_end = os.pipe()

    def start(self) -> None:
        """Start watching in a separate thread."""
        threading.Thread(target=self._run, name="reader-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop watching, because while a thread polls a descriptor, closing it does not close its file."""
        os.write(self._wake_write_end, b".")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, 0)
        poll.register(self._wake_read_end, select.POLLIN)
        # POLLNVAL would mean that this system cannot poll this kind of descriptor.
        if dict(poll.poll()).get(self._fd, 0) & _GONE_EVENTS:
            self._on_gone()
