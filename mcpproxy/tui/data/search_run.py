"""Search run: a search for a text in many captures, in a process of its own (`search_worker.py`), and its results.

A thread receives the results, in the order of the captures. If the process dies, the results so far stay.
"""

import os
import threading
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, Final, NamedTuple

from analysis.child_process import PythonChild, as_json, from_json
from mcpproxy.tui.data.capture_list import ListedCapture
from mcpproxy.tui.data.checking import exit_reason
from mcpproxy.tui.data.session_search import MAX_KEPT_MATCHES, MatchedMessage

MAX_TEXT_CHARS: Final = 300
"""The maximum length of an excerpt, or of the reason why a capture was not searched, in characters."""


class SearchResult(NamedTuple):
    """What is known about one capture."""

    capture: ListedCapture
    found_count: int
    """How many messages contain the text, so far."""
    first: Sequence[MatchedMessage]
    """The first of these messages."""
    problem: str
    """Why it could not be searched; empty if it could. Untrusted."""

    @property
    def excerpt(self) -> str:
        """The text around the first match that has an excerpt. Untrusted."""
        return next((message.excerpt for message in self.first if message.excerpt), "")


class SearchRun:
    """A search: under way, complete, stopped or failed."""

    def __init__(self, text: str, captures: Sequence[ListedCapture], notify: Callable[[], None]) -> None:
        """Create it; `start` starts it.

        Args:
            text: the text; lower-case letters also match upper-case ones, unless it has any.
            captures: the captures to search, in this order.
            notify: called from a thread when something has arrived.
        """
        self.text = text
        self.captures = captures
        self.searched_count = 0
        """How many captures have been searched completely."""
        self.trouble = ""
        """Why the search has ended early, if it has."""
        self._notify_screen = notify
        self._results: dict[int, SearchResult] = {}
        self._lock = threading.Lock()
        """Held to notify the screen, which must not happen after it was closed."""
        self._is_closed = False
        self._worker: PythonChild | None = None

    @property
    def is_busy(self) -> bool:
        """Whether captures are still being searched."""
        return not self.trouble and self.searched_count < len(self.captures)

    @property
    def results(self) -> list[SearchResult]:
        """The captures with the text, and those that could not be searched, in the order of the captures."""
        return [result for _, result in sorted(self._results.copy().items()) if result.found_count or result.problem]

    def start(self) -> None:
        """Start the process."""
        try:
            self._worker = PythonChild("mcpproxy.tui.data.search_worker")
            self._worker.listen(self._on_message, self._on_end)
            paths = [os.fsencode(capture.path.absolute()).hex() for capture in self.captures]
            self._worker.send(as_json({"text": self.text, "captures": paths}))
        except OSError as error:
            self.trouble = f"the process that searches cannot be started: {error.strerror}"

    def stop(self) -> None:
        """End the process; the results so far stay."""
        self.trouble = self.trouble or "stopped"
        if self._worker is not None:
            self._worker.close()

    def close(self) -> None:
        """End the process, and report nothing more."""
        with self._lock:
            self._is_closed = True
        self.stop()

    # ---- in the thread that receives the output of the process

    def _on_message(self, message: bytes) -> None:
        report: dict[str, Any] = from_json(message)
        number, count, problem = report["n"], report["count"], report["problem"]
        is_valid = type(number) is type(count) is int and isinstance(problem, str)
        if not (is_valid and 0 <= number < len(self.captures)):
            raise ValueError("a result for a capture that does not exist")
        first = list(starmap(_matched_message, report["first"][:MAX_KEPT_MATCHES]))
        self._results[number] = SearchResult(self.captures[number], count, first, problem[:MAX_TEXT_CHARS])
        self.searched_count += report["done"] is True
        self._notify()

    def _on_end(self, status: int, fault: Exception | None) -> None:
        reason = exit_reason(status) if fault is None else f"its output is invalid ({type(fault).__name__})"
        self.trouble = self.trouble or f"the process that searches has ended: {reason}"
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._notify_screen()


def _matched_message(seq: object, *texts: object) -> MatchedMessage:
    """Returns a message that the process has sent, if it is one."""
    if type(seq) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError("a match that is none")
    direction, subject, excerpt = (str(text)[:MAX_TEXT_CHARS] for text in texts)
    return MatchedMessage(seq, direction, subject, excerpt)
