"""Capture list: every capture, newest first, each with a summary that a thread computes."""

import time
from calendar import timegm
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from analysis import tally
from analysis.summary import Summarizer, Summary, cached, key_of, save
from analysis.tally import Tally
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import segments
from captures.paths import STAMP_FORMAT, SUFFIX
from captures.tail import STEP, Tail
from mcpproxy.clients.overview import RoutedServer

SEARCH_INTERVAL_S: Final = 1.0
"""The pause between two searches for captures."""
CLIENT_CHECK_INTERVAL_S: Final = 3.0
"""The pause between two checks of the clients' configuration."""
VISIBLE_ONLY_STEPS: Final = 20
"""How many steps only the visible captures get; after that, all others get every second step."""
SEARCH_PAUSE_FACTOR: Final = 4
"""The pause is at least this many times as long as the last search, which leaves most of the time for reading."""


class ListedCapture:
    """One capture in the list."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_live = is_live(segments(path)[-1])
        self.summary: Summary | None = None
        """The summary so far; None at first."""
        self.has_full_summary = False
        """Whether the summary covers the whole capture so far."""
        self.tally: Tally | None = None
        """How many findings it has; None if it has not been checked or is still being recorded."""
        self.is_readable = True
        self.unreadable_reason = ""
        """Why it cannot be read; empty if it can."""
        self.has_begun = False
        self._file_ns = _time_of(path)
        self._summary_job: tuple[Tail, Summarizer] | None = None
        self._key: str | None = None

    @property
    def server(self) -> str:
        """The server's name in the header, or else the name of the capture's directory."""
        return (self.summary and self.summary.name) or self.path.parent.name

    @property
    def began_ns(self) -> int:
        """When the session began: from the header, or else from the file. An imported file can be much newer."""
        wall_ns = self.summary.wall_ns if self.summary is not None else None
        return self._file_ns if wall_ns is None else wall_ns

    def begin(self) -> None:
        """Load what is available immediately: a cached summary, or the header."""
        try:
            self._begin()
        finally:
            self.has_begun = True

    def _begin(self) -> None:
        summary = None if self.is_live else cached(self.path)
        self.tally = None if self.is_live else tally.cached(self.path)
        if summary is not None:
            self.summary, self.has_full_summary = summary, True
            return
        try:
            self._key = None if self.is_live else key_of(self.path)
            tail = Tail(self.path)
        except CaptureError as error:
            self.is_readable, self.has_full_summary = False, True
            self.unreadable_reason = str(error).removeprefix(f"cannot read {self.path}: ")
            return
        summarizer = Summarizer()
        summarizer.feed(tail.header)
        self.summary = summarizer.summary(live=self.is_live)
        self._summary_job = tail, Summarizer()

    def step(self) -> bool:
        """Read the next part; returns False if there is nothing more to read yet."""
        if self._summary_job is None:
            return False
        tail, summarizer = self._summary_job
        items = tail.step(STEP)
        for item in items:
            summarizer.feed(item)
        self.has_full_summary = tail.has_ended or tail.is_at_end
        is_over = tail.has_ended
        self.is_live = self.is_live and not is_over
        if items or is_over:
            self.summary = summarizer.summary(live=self.is_live)
        if is_over:
            self.close()
            key = self._key or key_of(self.path)
            if key is not None and self.summary is not None:
                save(self.path, key, self.summary)
        return bool(items)

    def close(self) -> None:
        """Stop reading it, and close its files."""
        self.has_full_summary = True
        if self._summary_job is not None:
            self._summary_job[0].close()
            self._summary_job = None


class CaptureList:
    """Every capture, newest first, with the summaries so far."""

    def __init__(
        self,
        find_captures: Callable[[], list[Path]],
        routed_servers: Callable[[], Sequence[RoutedServer]] | None = None,
    ) -> None:
        """Create an empty list; the first step searches for captures.

        Args:
            find_captures: returns the captures, newest first.
            routed_servers: returns the servers that clients route through mcpproxy; None to ignore them.
        """
        self.captures: list[ListedCapture] = []
        self.has_searched = False
        """Whether the first search is complete."""
        self.is_paused = False
        """Whether the list is hidden. A hidden list does no work, and leaves the processor to the visible screen."""
        self.in_view: Sequence[ListedCapture] = ()
        """The visible captures, which are read before all others."""
        self.unrecorded_servers: Sequence[RoutedServer] = ()
        """The routed servers that have no capture yet."""
        self._find_captures = find_captures
        self._routed_servers = routed_servers
        self._next_client_check = 0.0
        self._captures_by_path: dict[Path, ListedCapture] = {}
        self._next_search = 0.0
        self._visible_steps = 0
        """How many steps the visible captures have had without a pause."""

    def step(self) -> bool:
        """Search for captures, or read part of one; returns False if there is nothing to do yet."""
        if self.is_paused:
            return False
        start_s = time.monotonic()
        if start_s >= self._next_search:
            is_new = self._scan()
            end_s = time.monotonic()
            # With many captures, or on a slow disk, a search takes longer than the interval.
            self._next_search = end_s + max(SEARCH_INTERVAL_S, SEARCH_PAUSE_FACTOR * (end_s - start_s))
            return is_new or bool(self.captures)
        in_view = list(self.in_view)
        for capture in in_view:
            if not capture.has_begun:
                capture.begin()
                return True
        if self._read_in_view(in_view):
            return True
        for capture in self.captures:
            if not capture.has_begun:
                capture.begin()
                return True
        is_busy = False
        for capture in self.captures:
            if capture.is_live:
                is_busy = capture.step() or is_busy
        if is_busy:
            return True
        unread_capture = next(
            (capture for capture in self.captures if not (capture.has_full_summary or capture.is_live)), None
        )
        if unread_capture is not None:
            unread_capture.step()
        return unread_capture is not None

    def _read_in_view(self, in_view: Sequence[ListedCapture]) -> bool:
        """Read a little of the visible captures in turn; a large one thus does not delay the others.

        Returns False if there is nothing to read. If reading takes long, it also returns False after every second step,
        to let the other captures begin.
        """
        unread_captures = [capture for capture in in_view if not (capture.has_full_summary or capture.is_live)]
        self._visible_steps = self._visible_steps + 1 if unread_captures else 0
        if not unread_captures:
            return False
        unread_captures[self._visible_steps % len(unread_captures)].step()
        return self._visible_steps < VISIBLE_ONLY_STEPS or self._visible_steps % 2 == 0

    def set_tally(self, path: Path, finding_tally: Tally) -> None:
        """Store the number of findings of a capture."""
        capture = self._captures_by_path.get(path)
        if capture is not None:
            capture.tally = finding_tally

    def close(self) -> None:
        """Close all files."""
        for capture in self.captures:
            capture.close()

    def _scan(self) -> bool:
        paths = self._find_captures()
        is_new = not self.has_searched
        for path in paths:
            if path not in self._captures_by_path:
                self._captures_by_path[path] = ListedCapture(path)
                is_new = True
        for path in set(self._captures_by_path) - set(paths):
            self._captures_by_path.pop(path).close()
            is_new = True
        for capture in self.captures:
            if not capture.is_readable and is_live(capture.path):
                # Its recorder may not have written the first line yet.
                capture.is_readable, capture.is_live, capture.has_begun = True, True, False
        if is_new:
            self.captures = [self._captures_by_path[path] for path in paths]
        self.has_searched = True
        return self._update_unrecorded_servers() or is_new

    def _update_unrecorded_servers(self) -> bool:
        """Update the routed servers that have no capture yet; returns whether they changed."""
        now = time.monotonic()
        if self._routed_servers is None or now < self._next_client_check:
            return False
        self._next_client_check = now + CLIENT_CHECK_INTERVAL_S
        recorded_names = {capture.server for capture in self.captures} | {
            capture.path.parent.name for capture in self.captures
        }
        previous_servers, self.unrecorded_servers = (
            self.unrecorded_servers,
            [server for server in self._routed_servers() if server.name not in recorded_names],
        )
        return list(previous_servers) != self.unrecorded_servers


def _time_of(path: Path) -> int:
    """Returns the time in the name of a file, or else the time of its last write."""
    try:
        return timegm(time.strptime(path.name[: len("20261120T101500Z")], STAMP_FORMAT)) * 1_000_000_000
    except ValueError:
        pass
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def short_name(path: Path) -> str:
    """A capture's directory and file name, without the suffix; in the current directory, its file name."""
    folder = path.parent.name
    return f"{folder}/{path.name.removesuffix(SUFFIX)}" if folder else path.name
