"""Follows a capture that is still growing and yields its items as they arrive.

It polls every tenth of a second, which needs no dependency, works on every file system, and delays the display by at
most that time. It reads with `aiofiles`, in a thread, so a slow disk never blocks a screen.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiofiles

from captures.cutting import LineCutter
from captures.damage import Damage
from captures.errors import NotACapture
from captures.file import is_live
from captures.listing import segment_number, segments
from captures.reader import CHUNK_BYTES, Capture, open_capture
from captures.record import Record

POLL_S: Final = 0.1


async def follow(path: Path) -> AsyncIterator[Record | Damage | None]:
    """Yield all items of a capture from its beginning, then new ones, until its recorder ends.

    Also yields None each time that everything written so far has been read and can be shown.

    Raises:
        NotACapture, NewerFormat: as `Capture`; also if a later segment cannot be read.
    """
    segment: Path | None = Capture(path).segments[0]
    while segment is not None:
        async for item in _follow_segment(segment):
            yield item
        # If the ring has already deleted the next segment, continue with the one after it.
        number = segment_number(segment)
        segment = next((candidate for candidate in segments(path) if segment_number(candidate) > number), None)
    yield None


async def _follow_segment(path: Path) -> AsyncIterator[Record | Damage | None]:
    """Yield the items of one file until its end is reached and no recorder has it locked."""
    cutter = LineCutter(path)
    if not _is_readable(path):
        return
    try:
        file = await aiofiles.open(path, "rb")
    except FileNotFoundError:
        return
    try:
        while True:
            # Check before reading: this ensures that everything the recorder wrote before releasing the lock is read.
            has_ended = not is_live(path)
            while chunk := await file.read(CHUNK_BYTES):
                for item in cutter.feed(chunk):
                    yield item
            if has_ended:
                break
            yield None
            await asyncio.sleep(POLL_S)
        for item in cutter.finish():
            yield item
    finally:
        await file.close()


def _is_readable(path: Path) -> bool:
    """Whether there is a regular file to read.

    Raises:
        NotACapture: the file cannot be opened, or is not a regular file: opening a FIFO could wait forever.
    """
    try:
        open_capture(path).close()
    except NotACapture:
        if os.path.lexists(path):
            raise
        return False
    return True
