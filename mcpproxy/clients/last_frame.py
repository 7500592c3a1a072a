"""The last frame of a server and the client that exchanged it, from the summaries of the server's captures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from analysis.summary import Summarizer, Summary, cached, keep, key_of
from captures.errors import CaptureError
from captures.listing import first_segment, search_roots, segments
from captures.places import SUFFIX, config_directory, safe_name
from captures.reader import Capture
from captures.redact import Redactor, load_key
from captures.tail import STEP, Tail
from mcpproxy.clients.listeners import HOST, Listener, listener_of
from mcpproxy.clients.servers import Server
from mcpproxy.clients.state import State

STDIO_BYTES: Final = 1 << 20
"""How much of a stdio capture is read: it has one client, which introduces itself at the beginning."""
HTTP_BYTES: Final = 64 << 20
"""How much of an HTTP capture is read, which may have many clients; reading it takes one to two seconds."""
CAPTURES: Final = 1000
"""The maximum number of captures examined per server, the most recently written first."""

Header = Mapping[str, Any]


class LastFrame(NamedTuple):
    """The last frame of one client in one capture. Its strings are untrusted."""

    capture: Path
    wall_ns: int
    """When it crossed: nanoseconds since 1970."""
    client: str | None
    """The name and version that the client gives; None if it gives none."""
    parent: str | None
    """The program that started the recorder, if the system reports it; on stdio only, where a client starts it."""
    tool: str | None
    """The version of mcpproxy that recorded it."""


class CaptureFrames(NamedTuple):
    """The header of one capture and the last frames in it."""

    header: Header
    last: tuple[LastFrame, ...]
    """One for each client: first the clients that gave a name, then the others; the newest first in each group."""


class Place(NamedTuple):
    """Where a routed server is recorded, and how to recognise its captures."""

    name: str
    """The server's name in its captures."""
    folders: list[Path]
    command: tuple[str, ...]
    """The server's own command; empty if it has a URL."""
    listener: Listener | None
    """The listener that `up` runs for it, if it has a URL."""


def place_of(server: Server, state: State) -> Place | None:
    """Where a server is recorded; None if it is not routed."""
    wrapped = server.routed
    if wrapped is not None:
        name = safe_name(wrapped.name or server.name)
        folders = [Path(wrapped.capture)] if wrapped.capture else _default_folders(name)
        return Place(name, folders, wrapped.inner, None)
    listener = listener_of(server.url[1], state.listeners) if server.url is not None else None
    if listener is None:
        return None
    name = safe_name(listener.name)
    return Place(name, [Path(listener.capture, name)] if listener.capture else _default_folders(name), (), listener)


def _default_folders(name: str) -> list[Path]:
    return [root / name for root in search_roots()]


class Captures:
    """The captures of servers, each read again only if it has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int, int], CaptureFrames | None] = {}
        self._redactor: Redactor | None = None

    def last_frame(self, place: Place, speaks_as: Sequence[str], others: Iterable[Place | None]) -> LastFrame | None:
        """The last frame that a client exchanged with a server; None if there is none.

        Args:
            place: the place of the server.
            speaks_as: prefixes of the names that the client gives; empty if unknown.
            others: the places of all servers, some of which may have the same name. A capture that certainly
                belongs to another server is ignored.
        """
        for path, size, written_ns in _last_written_first(place.folders):
            key = path, size, written_ns
            if key not in self._known:
                self._known[key] = frames_of(path, written_ns)
            frames = self._known[key]
            if frames is None:
                continue
            rivals = [other for other in others if other is not None and other is not place]
            if not self._is_of(place, frames.header) and any(self._is_of(rival, frames.header) for rival in rivals):
                continue
            for frame in frames.last:
                if _speaks_as(frame.client, speaks_as):
                    return frame
        return None

    def _is_of(self, place: Place, header: Header) -> bool:
        """Whether a capture with this header is certainly a server's own: entries of the same name share a folder."""
        if place.listener is not None:
            return header.get("listen") == f"{HOST}:{place.listener.port}"
        if self._redactor is None:
            self._redactor = Redactor(load_key(config_directory()))
        words = [word.encode("utf-8", "surrogatepass") for word in place.command]
        return header.get("argv") == self._redactor.command(words)


def _speaks_as(client: str | None, speaks_as: Sequence[str]) -> bool:
    name = (client or "").lower()
    return not speaks_as or not name or any(name.startswith(front.lower()) for front in speaks_as)


def _last_written_first(folders: Iterable[Path]) -> Iterator[tuple[Path, int, int]]:
    """Captures, each with the size and the modification time (in ns) of its last segment."""
    written: list[tuple[int, int, Path]] = []
    for path in {path for folder in folders for path in _captures_in(folder)}:
        try:
            status = segments(path)[-1].stat()
        except OSError:
            continue
        written.append((status.st_mtime_ns, status.st_size, path))
    for mtime_ns, size, path in sorted(written, reverse=True)[:CAPTURES]:
        yield path, size, mtime_ns


def _captures_in(folder: Path) -> set[Path]:
    """The captures directly in a folder, not in its subfolders: a project's entry may name `/`."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return set()
    return {first_segment(folder / name) for name in names if name.endswith(SUFFIX)}


def frames_of(path: Path, written_ns: int) -> CaptureFrames | None:
    """The last frame of each client in a capture; None if it has no frames, or cannot be read.

    Args:
        path: the path of the capture.
        written_ns: when it was last written.
    """
    try:
        header = Capture(path).header.members
        is_stdio = header.get("transport") == "stdio"
        summary = cached(path)
        is_whole = summary is not None
        if summary is None:
            summary, is_whole = _read(path, STDIO_BYTES if is_stdio else HTTP_BYTES)
    except CaptureError:
        return None
    if summary.frames == 0 or summary.wall_ns is None:
        return None
    wall_ns = summary.wall_ns
    last = [LastFrame(path, wall_ns + t_ns, client or None, *_origin(header)) for client, t_ns in summary.clients]
    if not is_whole:
        # The unread rest may be from any client; on stdio, there is only one.
        client = next((frame.client for frame in last if frame.client), None) if is_stdio else None
        last.append(LastFrame(path, written_ns, client, *_origin(header)))
    return CaptureFrames(header, tuple(sorted(last, key=lambda frame: (frame.client is None, -frame.wall_ns))))


def _origin(header: Header) -> tuple[str | None, str | None]:
    """The program that started the recorder, and the version of the recorder."""
    parents, tool = header.get("parents"), header.get("tool")
    first = parents[0] if isinstance(parents, list) and parents and header.get("transport") == "stdio" else None
    parent = first.get("exe") if isinstance(first, dict) else None
    return parent if isinstance(parent, str) else None, tool if isinstance(tool, str) else None


def _read(path: Path, limit: int) -> tuple[Summary, bool]:
    """The summary of a capture or of its beginning, and whether it covers everything recorded so far.

    Raises:
        CaptureError: it cannot be read.
    """
    summarizer, key = Summarizer(), key_of(path)
    with Tail(path) as tail:
        while tail.read_bytes < limit and not tail.has_ended:
            items = tail.step(STEP)
            for item in items:
                summarizer.feed(item)
            if not items and tail.is_at_end:
                break
        is_whole = tail.has_ended or tail.is_at_end
    summary = summarizer.summary(live=not tail.has_ended)
    if tail.has_ended and key is not None:
        keep(path, key, summary)
    return summary, is_whole
