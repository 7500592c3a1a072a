"""Finds the last frame of a server, and the client that exchanged it, in the summaries of the server's captures."""

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

MAX_STDIO_BYTES: Final = 1 << 20
"""The maximum number of bytes read from a stdio capture, which has one client that introduces itself at the start."""
MAX_HTTP_BYTES: Final = 64 << 20
"""The maximum number of bytes read from an HTTP capture, which may have many clients; this takes one to two seconds."""
MAX_CAPTURES: Final = 1000
"""The maximum number of captures examined per server, starting with the most recently written."""

Header = Mapping[str, Any]


class LastFrame(NamedTuple):
    """The last frame of one client in one capture. Its strings are untrusted."""

    capture: Path
    wall_ns: int
    """When the frame crossed, in nanoseconds since 1970."""
    client: str | None
    """The name and version that the client sent, or None if it sent none."""
    parent_program: str | None
    """The program that started the recorder, if the system reports it; only on stdio, where the client starts it."""
    tool_version: str | None
    """The version of mcpproxy that recorded the frame."""


Origin: TypeAlias = str | tuple[str, ...] | None
"""The source of a capture: the address of a listener, or a command with its secrets hashed as in the recording."""


class CaptureFrames(NamedTuple):
    """The last frames of one capture, and its origin."""

    origin: Origin
    last_frames: tuple[LastFrame, ...]
    """The last frame of each client, newest first; the frames of clients without a name come last."""


class CaptureLocation(NamedTuple):
    """Where the captures of a routed server are, and how to recognise them."""

    name: str
    """The server's name in its captures."""
    folders: list[Path]
    command: tuple[str, ...]
    """The server's own command; empty if it has a URL."""
    listener: Listener | None
    """The listener that `up` runs for it, if it has a URL."""


def capture_location(server: Server, state: InstallState) -> CaptureLocation | None:
    """Returns where the captures of a server are, or None if it is not routed."""
    wrapped_command = server.wrapped_command
    if wrapped_command is not None:
        name = safe_name(wrapped_command.name or server.name)
        folders = [Path(wrapped_command.capture)] if wrapped_command.capture else _default_folders(name)
        return CaptureLocation(name, folders, wrapped_command.server_command, None)
    listener = listener_of(server.url_member[1], state.listeners) if server.url_member is not None else None
    if listener is None:
        return None
    name = safe_name(listener.name)
    return CaptureLocation(
        name, [Path(listener.capture, name)] if listener.capture else _default_folders(name), (), listener
    )


def _default_folders(name: str) -> list[Path]:
    return [root / name for root in search_roots()]


class ServerCaptures:
    """The captures of several servers; a capture is read again only after it has changed."""

    def __init__(self) -> None:
        self._frames: dict[tuple[Path, int, int], CaptureFrames | None] = {}
        self._listings: dict[Path, list[tuple[Path, int, int]]] = {}
        self._origins: set[Origin] = set()
        self._redactor: Redactor | None = None

    def rescan(self, locations: Iterable[CaptureLocation | None]) -> None:
        """Make the next search list the folders again.

        Args:
            locations: the locations of all servers. Servers with the same name share a folder, so a capture with the
                origin of another server does not count.
        """
        self._listings.clear()
        self._origins = {self._origin_of(location) for location in locations if location is not None}

    def last_frame(self, location: CaptureLocation, speaks_as: Sequence[str]) -> LastFrame | None:
        """Returns the last frame that a client exchanged with a server, or None if there is none.

        Args:
            location: the location of the server's captures.
            speaks_as: prefixes of the names that the client sends; empty if they are not known.
        """
        own_origin = self._origin_of(location)
        for path, size, written_ns in self._sorted_captures(location.folders):
            key = path, size, written_ns
            if key not in self._frames:
                self._frames[key] = read_frames(path, written_ns)
            frames = self._frames[key]
            if frames is None or (frames.origin != own_origin and frames.origin in self._origins):
                continue
            for frame in frames.last_frames:
                if _has_prefix(frame.client, speaks_as):
                    return frame
        return None

    def _sorted_captures(self, folders: Iterable[Path]) -> list[tuple[Path, int, int]]:
        captures = []
        for folder in folders:
            if folder not in self._listings:
                self._listings[folder] = _sorted_captures([folder])
            captures += self._listings[folder]
        return sorted(captures, key=lambda capture: capture[2], reverse=True)

    def _origin_of(self, location: CaptureLocation) -> Origin:
        """Returns the origin that the captures of a server name in their headers."""
        if location.listener is not None:
            return f"{HOST}:{location.listener.port}"
        if self._redactor is None:
            self._redactor = Redactor(load_key(config_directory()))
        return tuple(self._redactor.redact_command(word.encode("utf-8", "surrogatepass") for word in location.command))


def _has_prefix(client: str | None, speaks_as: Sequence[str]) -> bool:
    name = (client or "").lower()
    return not speaks_as or not name or any(name.startswith(prefix.lower()) for prefix in speaks_as)


def _sorted_captures(folders: Iterable[Path]) -> list[tuple[Path, int, int]]:
    """Returns captures, each with the size and the modification time (in ns) of its last segment, newest first."""
    captures: list[tuple[int, int, Path]] = []
    for path in {path for folder in folders for path in _captures_in(folder)}:
        try:
            status = segments(path)[-1].stat()
        except OSError:
            continue
        captures.append((status.st_mtime_ns, status.st_size, path))
    return [(path, size, mtime_ns) for mtime_ns, size, path in sorted(captures, reverse=True)[:MAX_CAPTURES]]


def _captures_in(folder: Path) -> set[Path]:
    """Returns the captures in a folder, without its subfolders, because a project's entry may name `/`."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return set()
    return {first_segment(folder / name) for name in names if name.endswith(SUFFIX)}


def read_frames(path: Path, written_ns: int) -> CaptureFrames | None:
    """Returns the last frame of each client in a capture, or None if it has no frames or cannot be read.

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
            summary, is_whole = _read_summary(path, MAX_STDIO_BYTES if is_stdio else MAX_HTTP_BYTES)
    except CaptureError:
        return None
    if summary.frames == 0 or summary.wall_ns is None:
        return None
    wall_ns = summary.wall_ns
    # The clock may have been wrong, but no frame is newer than the last write. Over HTTP, a message without a session
    # or a name may come from any program.
    clients = [(client, t_ns) for client, t_ns in summary.clients if client or is_stdio]
    recorder = _recorder_of(header)
    last_frames = [
        LastFrame(path, min(wall_ns + t_ns, written_ns), client or None, *recorder) for client, t_ns in clients
    ]
    if not is_whole:
        # The unread part may contain frames of any client; on stdio, there is only one.
        client = next((frame.client for frame in last_frames if frame.client), None) if is_stdio else None
        last_frames.append(LastFrame(path, written_ns, client, *recorder))
    last_frames.sort(key=lambda frame: (frame.client is None, -frame.wall_ns))
    return CaptureFrames(_origin_of_header(header), tuple(last_frames))


def _recorder_of(header: Header) -> tuple[str | None, str | None]:
    """Returns the program that started the recorder, and the version of the recorder."""
    parents, tool = header.get("parents"), header.get("tool")
    first_parent = parents[0] if isinstance(parents, list) and parents and header.get("transport") == "stdio" else None
    parent = first_parent.get("exe") if isinstance(first_parent, dict) else None
    return parent if isinstance(parent, str) else None, tool if isinstance(tool, str) else None


def _read_summary(path: Path, limit: int) -> tuple[Summary, bool]:
    """Returns the summary of a capture or of its beginning, and whether it covers everything recorded so far.

    Raises:
        CaptureError: the capture cannot be read.
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


def _origin_of_header(header: Header) -> Origin:
    listen, argv = header.get("listen"), header.get("argv")
    if isinstance(listen, str):
        return listen
    is_words = isinstance(argv, list) and all(isinstance(word, str) for word in argv)
    return tuple(argv) if is_words and argv is not None else None
