"""The items of a capture that is still growing, as they come.

Polling, every tenth of a second: it needs no dependency, works on every file system, and what a person sees is late
by no more. Its reads are those of `aiofiles`, in a thread, so that a slow disk never stops a screen.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiofiles

from captures.errors import NotACapture
from captures.file import is_live
from captures.listing import segment_number, segments
from captures.reader import CHUNK, Capture, Damage, LineCutter, open_capture
from captures.record import Record

POLL_S: Final = 0.1


async def follow(path: Path) -> AsyncIterator[Record | Damage | None]:
    """Yield all items of a capture from its beginning, then those that come, until its recorder is gone.

    None is yielded whenever all that there is has been read: the moment to show it.

    Raises:
        NotACapture, NewerFormat: as `Capture`; also where a later segment cannot be read.
    """
    current: Path | None = Capture(path).segments[0]
    while current is not None:
        async for item in _segment(current):
            yield item
        # The one after next where the ring has deleted the next one already.
        reached = segment_number(current)
        current = next((later for later in segments(path) if segment_number(later) > reached), None)
    yield None


async def _segment(path: Path) -> AsyncIterator[Record | Damage | None]:
    """One file to its end, when no recorder holds it any more."""
    cutter = LineCutter(path)
    if not _is_there(path):
        return
    try:
        file = await aiofiles.open(path, "rb")
    except FileNotFoundError:
        return
    try:
        while True:
            # Look before reading: what a recorder wrote before it let go is then read for certain.
            ended = not is_live(path)
            while chunk := await file.read(CHUNK):
                for item in cutter.feed(chunk):
                    yield item
            if ended:
                break
            yield None
            await asyncio.sleep(POLL_S)
        for item in cutter.end():
            yield item
    finally:
        await file.close()


def _is_there(path: Path) -> bool:
    """Whether there is a file to read.

    Raises:
        NotACapture: it cannot be opened, or is no regular file: one would wait for a FIFO without an end.
    """
    try:
        open_capture(path).close()
    except NotACapture:
        if os.path.lexists(path):
            raise
        return False
    return True
