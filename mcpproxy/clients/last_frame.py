"""When a server was last heard, and by which client: from its captures, reading a little of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.summary import Summarizer
from captures.errors import CaptureError
from captures.listing import first_segment, newest_first, search_roots
from captures.places import SUFFIX
from captures.reader import Capture
from captures.tail import STEP, Tail

READ_BYTES: Final = 1 << 20
"""How much of the beginning of a capture is read: client and server introduce themselves there."""
CAPTURES: Final = 5
"""How many captures of a server are looked at, the newest first."""


class LastFrame(NamedTuple):
    """The newest frames of a server. Texts are untrusted."""

    capture: Path
    wall_ns: int
    """When the last frame that was read crossed: nanoseconds since 1970."""
    client: str | None
    """What the client calls itself, with its version."""
    parent: str | None
    """The program that started the recorder, if the system showed it."""
    tool: str | None
    """The version of mcpproxy that recorded it."""


def folders_of(name: str, capture: str) -> list[Path]:
    """The folders in which captures of a server are.

    Args:
        name: of the server, as in `--name`.
        capture: what `--capture` says; empty for the default.
    """
    if capture:
        return [Path(capture)]
    return [root / name for root in search_roots()]


def last_frames(folders: Iterable[Path]) -> list[LastFrame]:
    """The newest captures with frames in some folders, the newest first."""
    paths = newest_first([path for folder in folders for path in _captures_in(folder)])
    return [last for path in paths[:CAPTURES] if (last := last_frame(path)) is not None]


def _captures_in(folder: Path) -> set[Path]:
    """The captures in a folder, and not below it: an entry of a project may name `/`."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return set()
    return {first_segment(folder / name) for name in names if name.endswith(SUFFIX)}


def last_frame(path: Path) -> LastFrame | None:
    """The last frame of a capture; None if it has none, or cannot be read."""
    summarizer = Summarizer()
    try:
        header = Capture(path).header.members
        with Tail(path) as tail:
            read = 0
            while read < READ_BYTES and not tail.has_ended:
                items = tail.step(STEP)
                read += STEP
                for item in items:
                    summarizer.feed(item)
                if not items and tail.is_at_end:
                    break
    except CaptureError:
        return None
    summary = summarizer.summary(live=False)
    if summary.frames == 0 or summary.wall_ns is None:
        return None
    parents, tool = header.get("parents"), header.get("tool")
    first = parents[0] if isinstance(parents, list) and parents and isinstance(parents[0], dict) else {}
    parent = first.get("exe")
    return LastFrame(
        path,
        max(summary.wall_ns + summary.duration_ns, _touched_ns(path) if read >= READ_BYTES else 0),
        summary.client,
        parent if isinstance(parent, str) else None,
        tool if isinstance(tool, str) else None,
    )


def _touched_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def by_client(last: Sequence[LastFrame], speaks_as: Sequence[str]) -> LastFrame | None:
    """The newest frame of one client among those of a server; None if another client alone was heard."""
    for frame in last:
        name = (frame.client or "").lower()
        if not speaks_as or not name or any(name.startswith(front.lower()) for front in speaks_as):
            return frame
    return None
