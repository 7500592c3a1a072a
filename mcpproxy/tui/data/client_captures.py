"""Client captures: the captures of one client process, and how far apart they began, from their headers alone.

A header names the ancestor processes of the recorder. The client is the nearest ancestor that is not a shell or a
launcher; two captures have the same client if the pid, start time and boot of that process are equal. Over HTTP, any
program can be a client, so an HTTP capture has no client process, and no related captures.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from captures.cutting import record_in, version_of
from captures.errors import CaptureError
from captures.listing import find_captures, first_segment, real_path, search_roots, segments
from captures.reader import Capture, open_capture
from captures.versions import FORMAT_VERSION

MAX_HEADERS_PER_STEP: Final = 20
"""How many headers are read per step."""

LAUNCHERS: Final = frozenset(
    (
        *(
            "sh",
            "bash",
            "dash",
            "ash",
            "zsh",
            "fish",
            "ksh",
            "tcsh",
            "csh",
            "env",
            "nice",
            "nohup",
            "setsid",
            "timeout",
        ),
        *("stdbuf", "time", "sudo", "doas", "tini", "script", "xargs", "make", "npx", "pnpm", "yarn", "bunx", "uv"),
        *("uvx", "pipx", "poetry", "pdm", "hatch", "conda", "micromamba", "direnv", "mise", "asdf", "volta"),
    )
)
"""Programs through which a client may start a server."""
_MAX_HEADER_BYTES: Final = 1 << 20
"""The maximum size of a header, in bytes."""
_LAUNCHER_PREFIXES: Final = ("npm ", "npm exec", "pnpm ", "yarn ")
NON_CLIENTS: Final = frozenset(
    (
        "systemd",
        "init",
        "launchd",
        "sshd",
        "sshd-session",
        "login",
        "su",
        "screen",
        "tmux",
        "tmux: server",
        "cron",
        "crond",
    )
)
"""Programs that are never a client: a recorder started from one of these, through shells only, was started by hand."""


class Client(NamedTuple):
    """A process, identified even if its pid is reused."""

    boot: str
    pid: int
    start: int
    exe: str


def client_of(header: Mapping[str, Any]) -> Client | None:
    """The client process that started a recorder, or None if it is not known."""
    boot, parents = header.get("boot_id"), header.get("parents")
    if header.get("transport") != "stdio" or not isinstance(boot, str) or not isinstance(parents, list):
        return None
    processes = [process for process in (_client(boot, parent) for parent in parents[:16]) if process is not None]
    for process in processes:
        if process.exe in NON_CLIENTS:
            break
        if process.exe not in LAUNCHERS and not process.exe.startswith(_LAUNCHER_PREFIXES):
            return process
    return processes[0] if processes else None


def _client(boot: str, parent: object) -> Client | None:
    if not isinstance(parent, dict):
        return None
    pid, start, exe = parent.get("pid"), parent.get("start"), parent.get("exe")
    if type(pid) is not int or type(start) is not int or not isinstance(exe, str):
        return None
    return Client(boot, pid, start, exe)


def header_of(path: Path) -> Mapping[str, Any]:
    """The members of a capture's header. Reads nothing else if the header is intact.

    Raises:
        NotACapture, NewerFormat, OSError: as for `Capture`.
    """
    with open_capture(segments(path)[0]) as file:
        line = file.readline(_MAX_HEADER_BYTES)
    record = record_in(line[:-1], 0) if line.endswith(b"\n") else None
    if record is None or record.rec != "header" or version_of(record) != FORMAT_VERSION:
        return Capture(path).header.members
    return record.members


def start_difference_ns(first: Mapping[str, Any], second: Mapping[str, Any]) -> int | None:
    """Returns how much later the second of two captures began, from their headers, or None if no clock can tell.

    Within one boot, the monotonic clock decides, because it cannot be set.
    """
    boots = first.get("boot_id"), second.get("boot_id")
    for clock in ("mono_ns", "wall_ns"):
        times = first.get(clock), second.get(clock)
        if all(type(time) is int and abs(time) < 1 << 63 for time in times) and (
            clock == "wall_ns" or (isinstance(boots[0], str) and boots[0] == boots[1])
        ):
            return int(times[1]) - int(times[0])  # type: ignore[arg-type] # they are integers
    return None


class ClientCaptures:
    """Searches for the captures of one client process, a few files at a time."""

    def __init__(self, path: Path, header: Mapping[str, Any], list_captures: Callable[[], Iterable[Path]]) -> None:
        """Prepare a search, without reading anything.

        Args:
            path: a capture of the client.
            header: its header.
            list_captures: returns the captures that are already known.
        """
        self.client = client_of(header)
        self.related: list[tuple[Path, int]] = []
        """The other captures, and how much later each began."""
        self._path, self._header, self._list_captures = path, header, list_captures
        self._seen = {first_segment(real_path(path))}
        self._unread: list[Path] = []

    def list_files(self) -> None:
        """Collect the captures to examine: those in the list, in the same directory, and below the same search root."""
        if self.client is None:
            return
        candidates = [*self._list_captures(), *self._path.parent.glob("*.mcpcap")]
        own_path = real_path(self._path)
        roots = [real_path(root) for root in search_roots()]
        candidates += [path for root in roots if own_path.is_relative_to(root) for path in find_captures(root)]
        for path in candidates:
            first_file = first_segment(real_path(path))
            if first_file not in self._seen:
                self._seen.add(first_file)
                self._unread.append(segments(path)[0])

    def step(self) -> bool:
        """Read some headers; returns False if none are left."""
        for _ in range(min(MAX_HEADERS_PER_STEP, len(self._unread))):
            path = self._unread.pop()
            try:
                header = header_of(path)
            except (CaptureError, OSError):
                continue
            difference_ns = start_difference_ns(self._header, header)
            is_other = header.get("capture") != self._header.get("capture")
            if is_other and difference_ns is not None and client_of(header) == self.client:
                self.related.append((path, difference_ns))
        return bool(self._unread)
