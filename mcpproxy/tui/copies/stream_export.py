"""Stream export: a thread writes the bytes of a raw stream to a new file, each message on a line of its own."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedWriter
from itertools import islice
from pathlib import Path
from typing import Final

from captures.errors import CaptureError
from mcpproxy.tui.data.raw_stream import RawStream
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

MAX_CHUNKS_PER_STEP: Final = 200


class StreamExport:
    """An export of what a stream contains now. An incomplete file is deleted."""

    def __init__(self, stream: RawStream, target: Path, on_change: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            stream: the stream.
            target: the file, which must not exist.
            on_change: called from the thread when there is news.
        """
        self.target = target
        self.outcome = self.problem = ""
        self._on_change = on_change
        self._size, self._written = max(1, stream.size), 0
        self._stream = stream
        self._chunks: Iterator[bytes] = stream.whole_pieces()
        self._file: BufferedWriter | None = None
        self._thread = StepThread(self._step, on_change, self._fail, "export")

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(1.0, self._written / self._size)

    def close(self) -> None:
        """Stop, and delete the file if it is incomplete."""
        self._thread.stop()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            if not self.outcome:
                with suppress(OSError):
                    self.target.unlink()

    def _step(self) -> bool:
        if self.outcome:
            return False
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self.target, flags, 0o600), "wb")
            chunks = list(islice(self._chunks, MAX_CHUNKS_PER_STEP))
            for chunk in chunks:
                self._file.write(chunk)
                self._written += len(chunk)
            if not chunks:
                self._file.close()
                self.outcome = size(self._written)
                if self._stream.gone_count:
                    self.outcome += f" without {count_text(self._stream.gone_count, 'message')} that the file lost"
        except OSError as error:
            # The text of an `OSError` begins with its number.
            raise CaptureError(error.strerror or str(error)) from error
        return bool(chunks)

    def _fail(self, reason: str) -> None:
        self.problem = reason
        self._on_change()
