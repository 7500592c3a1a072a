"""Worker: the process that searches captures for a text, one after another, at low priority.

It ends with the screen.
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from analysis.child_process import Parent, as_json, from_json
from analysis.filter.text_search import TextSearch
from captures.errors import CaptureError
from mcpproxy.tui.data.session_search import Matches, count_messages
from mcpproxy.tui.data.worker_start import start_worker

REPORT_INTERVAL_S: Final = 0.1
"""How often results are sent: many small captures share a message, and a large one reports its count so far."""
MAX_REASON_CHARS: Final = 300
"""The maximum length of the reason why a capture cannot be searched, in characters."""


class Searcher:
    """Searches captures for a parent."""

    def __init__(self, parent: Parent) -> None:
        """Start without results."""
        self._parent = parent
        self._sent_s = 0.0

    def search(self, request: dict[str, Any]) -> None:
        """Search the captures of a request, in their order."""
        text = TextSearch(request["text"], is_literal=False)
        for number, encoded_path in enumerate(request["captures"]):
            path, problem, matches = Path(os.fsdecode(bytes.fromhex(encoded_path))), "", Matches(text)
            try:
                matches = count_messages(path, text, partial(self._send_matches, number))
            except CaptureError:
                problem = "cannot be read"
            except Exception as error:  # noqa: BLE001 - a capture that cannot be read must not stop the others
                problem = f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]
            self._send(number, matches, problem=problem, is_done=True)
        self._parent.flush()

    def _send_matches(self, number: int, matches: Matches) -> None:
        """Send what has been found in a capture so far, if it is time."""
        if time.monotonic() - self._sent_s >= REPORT_INTERVAL_S:
            self._send(number, matches)

    def _send(self, number: int, matches: Matches, *, problem: str = "", is_done: bool = False) -> None:
        first = [list(message) for message in matches.first]
        report = {"n": number, "count": matches.count, "first": first, "problem": problem, "done": is_done}
        self._parent.send_later(as_json(report))
        now = time.monotonic()
        if now - self._sent_s >= REPORT_INTERVAL_S:
            self._sent_s = now
            self._parent.flush()


def main() -> None:
    """Search captures on request until stdin ends."""
    parent, requests = start_worker()
    searcher = Searcher(parent)
    while True:
        searcher.search(from_json(requests.get()))
