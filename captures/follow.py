"""The items of a capture that is still growing, as they come.

Polling, every tenth of a second: it needs no dependency, works on every file system, and what a person sees is late
by no more. Its reads are those of `aiofiles`, in a thread, so that a slow disk never stops a screen.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiofiles

from captures.file import is_live
from captures.places import first_segment, segment_number, segment_path
from captures.reader import CHUNK, Capture, Damage, LineCutter
from captures.record import Record

POLL_S: Final = 0.1


async def follow(path: Path) -> AsyncIterator[Record | Damage | None]:
    """Yield all items of a capture from its beginning, then those that come, until its recorder is gone.

    None is yielded whenever all that there is has been read: the moment to show it.

    Raises:
        NotACapture, NewerFormat: as `Capture`.
    """
    current = Capture(path).segments[0]
    first = first_segment(path)
    while True:
        cutter = LineCutter(current)
        async with aiofiles.open(current, "rb") as file:
            while True:
                # Look before reading: what a recorder wrote before it let go is then read for certain.
                ended = not is_live(current)
                while chunk := await file.read(CHUNK):
                    for item in cutter.feed(chunk):
                        yield item
                if ended:
                    break
                yield None
                await asyncio.sleep(POLL_S)
            for item in cutter.end():
                yield item
        following = segment_path(first, segment_number(current) + 1)
        if not following.exists():
            yield None
            return
        current = following
