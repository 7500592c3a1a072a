"""The last frame of a server and the client that exchanged it, from the summaries of the server's captures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from analysis.summary import Summarizer, Summary, cached, key_of, save
from captures.errors import CaptureError
from captures.listing import first_segment, search_roots, segments
from captures.paths import SUFFIX, config_directory, safe_name
from captures.reader import Capture
from captures.redact import Redactor, load_key
from captures.tail import STEP, Tail
from mcpproxy.clients.listeners import HOST, Listener, listener_of
from mcpproxy.clients.servers import Server
from mcpproxy.clients.state import InstallState

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
    """The program that started the recorder, if the system reports it; only on stdio, where a client starts it."""
    tool: str | None
    """The version of mcpproxy that recorded it."""


Origin: TypeAlias = str | tuple[str, ...] | None
"""What a capture was recorded from: the address of a listener, or a command, words hashed as recorded."""


class CaptureFrames(NamedTuple):
    """What is known about one capture."""

    origin: Origin
    last: tuple[LastFrame, ...]
    """For each client that took part; clients that gave their names come first, the newest first."""


class CaptureLocation(NamedTuple):
    """Where a routed server is recorded, and how to recognise its captures."""

    name: str
    """The server's name in its captures."""
    folders: list[Path]
    command: tuple[str, ...]
    """The server's own command; empty if it has a URL."""
    listener: Listener | None
    """The listener that `up` runs for it, if it has a URL."""


def place_of(server: Server, state: InstallState) -> CaptureLocation | None:
    """Where a server is recorded, or None if it is not routed."""
    wrapped = server.routed
    if wrapped is not None:
        name = safe_name(wrapped.name or server.name)
        folders = [Path(wrapped.capture)] if wrapped.capture else _default_folders(name)
        return CaptureLocation(name, folders, wrapped.inner, None)
    listener = listener_of(server.url[1], state.listeners) if server.url is not None else None
    if listener is None:
        return None
    name = safe_name(listener.name)
    return CaptureLocation(
        name, [Path(listener.capture, name)] if listener.capture else _default_folders(name), (), listener
    )


def _default_folders(name: str) -> list[Path]:
    return [root / name for root in search_roots()]


class ServerCaptures:
    """The captures of some servers, each read once as long as it does not change."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int, int], CaptureFrames | None] = {}
        self._listed: dict[Path, list[tuple[Path, int, int]]] = {}
        self._origins: set[Origin] = set()
        self._redactor: Redactor | None = None

    def rescan(self, places: Iterable[CaptureLocation | None]) -> None:
        """List the folders again.

        Args:
            places: the locations of all servers. Some may have the same name, and thus the same folder: a capture that
                certainly belongs to another server does not count.
        """
        self._listed.clear()
        self._origins = {self._origin_of(place) for place in places if place is not None}

    def last_frame(self, place: CaptureLocation, speaks_as: Sequence[str]) -> LastFrame | None:
        """The last frame that a client exchanged with a server, or None if there is none.

        Args:
            place: the location of the server.
            speaks_as: prefixes of the names that the client gives; empty if they are not known.
        """
        own = self._origin_of(place)
        for path, size, written_ns in self._last_written_first(place.folders):
            key = path, size, written_ns
            if key not in self._known:
                self._known[key] = frames_of(path, written_ns)
            frames = self._known[key]
            if frames is None or (frames.origin != own and frames.origin in self._origins):
                continue
            for frame in frames.last:
                if _speaks_as(frame.client, speaks_as):
                    return frame
        return None

    def _last_written_first(self, folders: Iterable[Path]) -> list[tuple[Path, int, int]]:
        several = []
        for folder in folders:
            if folder not in self._listed:
                self._listed[folder] = _last_written_first([folder])
            several += self._listed[folder]
        return sorted(several, key=lambda capture: capture[2], reverse=True)

    def _origin_of(self, place: CaptureLocation) -> Origin:
        """How the captures of a server begin: with an address or a command, words hashed as recorded."""
        if place.listener is not None:
            return f"{HOST}:{place.listener.port}"
        if self._redactor is None:
            self._redactor = Redactor(load_key(config_directory()))
        return tuple(self._redactor.redact_command(word.encode("utf-8", "surrogatepass") for word in place.command))


def _speaks_as(client: str | None, speaks_as: Sequence[str]) -> bool:
    name = (client or "").lower()
    return not speaks_as or not name or any(name.startswith(front.lower()) for front in speaks_as)


def _last_written_first(folders: Iterable[Path]) -> list[tuple[Path, int, int]]:
    """Captures, each with the size and the modification time (in ns) of its last segment."""
    written: list[tuple[int, int, Path]] = []
    for path in {path for folder in folders for path in _captures_in(folder)}:
        try:
            status = segments(path)[-1].stat()
        except OSError:
            continue
        written.append((status.st_mtime_ns, status.st_size, path))
    return [(path, size, mtime_ns) for mtime_ns, size, path in sorted(written, reverse=True)[:CAPTURES]]


def _captures_in(folder: Path) -> set[Path]:
    """The captures directly in a folder, not in its subfolders: a project's entry may name `/`."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return set()
    return {first_segment(folder / name) for name in names if name.endswith(SUFFIX)}


def frames_of(path: Path, written_ns: int) -> CaptureFrames | None:
    """The last frame of each client in a capture, or None if it has no frames or cannot be read.

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
    # The clock may have been wrong, but no frame is newer than the last write. Over HTTP, a message without a session
    # or a name may come from any program.
    clients = [(client, t_ns) for client, t_ns in summary.clients if client or is_stdio]
    origin = _recorder(header)
    last = [LastFrame(path, min(wall_ns + t_ns, written_ns), client or None, *origin) for client, t_ns in clients]
    if not is_whole:
        # The unread rest may be from any client; on stdio, there is only one.
        client = next((frame.client for frame in last if frame.client), None) if is_stdio else None
        last.append(LastFrame(path, written_ns, client, *origin))
    last.sort(key=lambda frame: (frame.client is None, -frame.wall_ns))
    return CaptureFrames(_recorded_from(header), tuple(last))


def _recorder(header: Header) -> tuple[str | None, str | None]:
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
        save(path, key, summary)
    return summary, is_whole


def _recorded_from(header: Header) -> Origin:
    listen, argv = header.get("listen"), header.get("argv")
    if isinstance(listen, str):
        return listen
    is_words = isinstance(argv, list) and all(isinstance(word, str) for word in argv)
    return tuple(argv) if is_words and argv is not None else None
