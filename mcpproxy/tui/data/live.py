"""Threads that read while the screen is drawn, and the shelf: every capture, and what is known of each.

The screen never waits for a file. A thread takes steps of some milliseconds, as long as there is work, and announces
news at most ten times a second, or twice a second while it is not finished; after that it looks again every tenth of a
second, as `show --follow` does. Its results are append-only, so the screen may read them at any time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from analysis.checking import tally
from analysis.checking.tally import Tally
from analysis.summary import Summarizer, Summary, cached, keep, key_of
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import segments
from captures.places import SUFFIX
from captures.tail import STEP, Tail

POLL_S: Final = 0.1
TELL_S: Final = 0.1
BUSY_S: Final = 0.5
"""After this long with uninterrupted work, news is announced only every `BUSY_TELL_S`: drawing it takes the processor
from the reading thread, which then falls behind a capture that grows quickly."""
BUSY_TELL_S: Final = 0.5
FIND_S: Final = 1.0
"""How long after a search for captures the next one starts."""
FIND_SHARE: Final = 4
"""The next search also waits this many times the duration of the last one: most of the time is for reading."""
FIRST_S: Final = 0.02
"""When the first news is announced: the first screen waits for it."""


class Pulse:
    """Takes steps in a thread of its own until it is stopped."""

    def __init__(
        self, step: Callable[[], bool], tell: Callable[[], None], fail: Callable[[str], None], name: str = "reader"
    ) -> None:
        """Start.

        Args:
            step: does some work; returns False if there is none at present.
            tell: called from the thread when there is news.
            fail: called with the reason, in words, if it cannot go on.
            name: of the thread.
        """
        self._step, self._tell, self._fail = step, tell, fail
        self._stop = threading.Event()
        self.is_busy = True
        """Whether there is work left."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the current step."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        reported = rested = time.monotonic() - TELL_S + FIRST_S
        is_new = True
        try:
            while not self._stop.is_set():
                self.is_busy = self._step()
                is_new = is_new or self.is_busy
                now = time.monotonic()
                apart = TELL_S if now - rested < BUSY_S else BUSY_TELL_S
                if is_new and (now - reported >= apart or not self.is_busy):
                    reported, is_new = now, False
                    self._tell()
                if not self.is_busy:
                    self._stop.wait(POLL_S)
                    rested = time.monotonic()
        except Exception as error:  # noqa: BLE001 - a traceback would be drawn across the screen
            self._fail(str(error) or type(error).__name__)


class Book:
    """One capture on the shelf."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_live = is_live(segments(path)[-1])
        self.summary: Summary | None = None
        """What is known so far; None at first."""
        self.is_summed = False
        """Whether the summary covers the whole capture so far."""
        self.tally: Tally | None = None
        """How many findings it has; None if it was not checked, or is being recorded."""
        self.is_readable = True
        self.has_begun = False
        self._sum: tuple[Tail, Summarizer] | None = None
        self._key: str | None = None

    @property
    def server(self) -> str:
        """Its name: from the capture, else that of its folder."""
        return (self.summary and self.summary.name) or self.path.parent.name

    def begin(self) -> None:
        """Get what is available at once: a cached summary, or the header."""
        self.has_begun = True
        summary = None if self.is_live else cached(self.path)
        self.tally = None if self.is_live else tally.cached(self.path)
        if summary is not None:
            self.summary, self.is_summed = summary, True
            return
        try:
            self._key = None if self.is_live else key_of(self.path)
            tail = Tail(self.path)
        except CaptureError:
            self.is_readable, self.is_summed = False, True
            return
        summarizer = Summarizer()
        summarizer.feed(tail.header)
        self.summary = summarizer.summary(live=self.is_live)
        self._sum = tail, Summarizer()

    def step(self) -> bool:
        """Read on; False if there is nothing more at present."""
        if self._sum is None:
            return False
        tail, summarizer = self._sum
        items = tail.step(STEP)
        for item in items:
            summarizer.feed(item)
        self.is_summed = tail.has_ended or tail.is_at_end
        is_over = tail.has_ended
        self.is_live = self.is_live and not is_over
        if items or is_over:
            self.summary = summarizer.summary(live=self.is_live)
        if is_over:
            self.close()
            key = self._key or key_of(self.path)
            if key is not None and self.summary is not None:
                keep(self.path, key, self.summary)
        return bool(items)

    def close(self) -> None:
        """Close its files; nothing more is read of it."""
        self.is_summed = True
        if self._sum is not None:
            self._sum[0].close()
            self._sum = None


class Shelf:
    """Every capture, newest first, and what is known of it so far."""

    def __init__(self, find: Callable[[], list[Path]]) -> None:
        """Start without having searched.

        Args:
            find: returns the captures, newest first.
        """
        self.books: list[Book] = []
        self.has_looked = False
        """Whether the first search is complete."""
        self.is_paused = False
        """Whether the shelf is hidden: the time is for the visible screen."""
        self.in_view: Sequence[Book] = ()
        """The visible captures, which are read before all others."""
        self._find = find
        self._known: dict[Path, Book] = {}
        self._next_look = 0.0

    def step(self) -> bool:
        """Look for captures, and read a little of one; False if there is nothing to do at present."""
        if self.is_paused:
            return False
        began = time.monotonic()
        if began >= self._next_look:
            is_new = self._look()
            ended = time.monotonic()
            # With many captures, or on a slow disk, a search takes longer than the interval.
            self._next_look = ended + max(FIND_S, FIND_SHARE * (ended - began))
            return is_new or bool(self.books)
        for book in self.in_view:
            if not book.has_begun:
                book.begin()
                return True
            if not (book.is_summed or book.is_live):
                book.step()
                return True
        for book in self.books:
            if not book.has_begun:
                book.begin()
                return True
        is_busy = False
        for book in self.books:
            if book.is_live:
                is_busy = book.step() or is_busy
        if is_busy:
            return True
        unread = next((book for book in self.books if not (book.is_summed or book.is_live)), None)
        if unread is not None:
            unread.step()
        return unread is not None

    def note(self, path: Path, counted: Tally) -> None:
        """Note how many findings a capture has."""
        book = self._known.get(path)
        if book is not None:
            book.tally = counted

    def close(self) -> None:
        """Close all files."""
        for book in self.books:
            book.close()

    def _look(self) -> bool:
        paths = self._find()
        is_new = not self.has_looked
        for path in paths:
            if path not in self._known:
                self._known[path] = Book(path)
                is_new = True
        for path in set(self._known) - set(paths):
            self._known.pop(path).close()
            is_new = True
        for book in self.books:
            if not book.is_readable and is_live(book.path):
                # Its recorder may not have written the first line yet.
                book.is_readable, book.is_live, book.has_begun = True, True, False
        if is_new:
            self.books = [self._known[path] for path in paths]
        self.has_looked = True
        return is_new


def short_name(path: Path) -> str:
    """A capture's name from its folder and file name."""
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"
