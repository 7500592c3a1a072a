"""Detects that a stream has lost its reader, without ever writing to it.

A write would tell as well, but a server may have nothing to say for hours, and whoever started it may be long gone.
"""

import os
import select
import threading
from collections.abc import Callable

_GONE = select.POLLERR | select.POLLHUP


class ReaderWatch:
    """Watches a descriptor that we write to: without a reader a pipe polls as broken, and a socket as hung up."""

    def __init__(self, fd: int, on_gone: Callable[[], None]) -> None:
        """Prepare; `on_gone` is called once at most, in the thread of the watch."""
        self._fd = fd
        self._on_gone = on_gone
        self._woken, self._wake = os.pipe()

    def start(self) -> None:
        """Begin to watch, in a thread of its own."""
        threading.Thread(target=self._run, name="reader-watch", daemon=True).start()

    def release(self) -> None:
        """Stop watching: as long as a thread polls a descriptor, closing it does not close what it leads to."""
        os.write(self._wake, b".")

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, 0)
        poll.register(self._woken, select.POLLIN)
        # POLLNVAL would say that this system cannot poll such a thing.
        if dict(poll.poll()).get(self._fd, 0) & _GONE:
            self._on_gone()
