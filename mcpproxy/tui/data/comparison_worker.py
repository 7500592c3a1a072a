"""Worker: the process that compares two captures for a screen, and ends with it.

It reads each capture once, up to its present end, at low priority. It then keeps what it has observed, to compare again
with the sides swapped, and the changes, to send their values when they are shown.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from analysis.child_process import Parent, as_json, from_json
from analysis.comparison.change import ABSENT, Change
from analysis.comparison.compare import compare
from analysis.comparison.observe_sides import SideSource, observe_sides
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError
from mcpproxy.tui.data.changed_definitions import changed_definitions
from mcpproxy.tui.data.comparison_messages import comparison_messages, detail_message
from mcpproxy.tui.data.worker_start import start_worker
from mcpproxy.wording.counts import count_text

MAX_REASON_CHARS: Final = 1000
"""The most characters of the reason for a failure."""


class Comparer:
    """Compares two captures for a parent."""

    def __init__(self, parent: Parent) -> None:
        """Start without captures."""
        self._parent = parent
        self._sides: list[Side] = []
        self._changes: Sequence[Change] = ()

    def handle(self, request: dict[str, Any]) -> None:
        """Do what the parent requests: read two captures and compare them, swap them, or send a detail."""
        if "captures" in request:
            old, new = (
                SideSource(name, [(name, Path(os.fsdecode(bytes.fromhex(path))))]) for name, path in request["captures"]
            )
            self._sides = [*observe_sides(old, new, ObserveOptions(), self._report_frames)]
            self._compare()
        elif "swap" in request:
            self._sides.reverse()
            self._compare()
        elif 0 <= request["detail"] < len(self._changes):
            change = self._changes[request["detail"]]
            if change.before is ABSENT and change.after is ABSENT:
                before, after = changed_definitions(change, *self._sides)
                change = change._replace(before=before, after=after)
            self._parent.send(detail_message(request["detail"], change))

    def _report_frames(self, frames: int) -> None:
        self._parent.send(as_json({"stage": f"reading: {count_text(frames, 'frame')}"}))

    def _compare(self) -> None:
        self._parent.send(as_json({"stage": "comparing"}))
        old, new = self._sides
        comparison = compare(old, new, CompareOptions())
        self._changes = comparison.changes
        for message in comparison_messages(comparison):
            self._parent.send_later(message)
        self._parent.flush()


def main() -> None:
    """Compare two captures on request until stdin ends."""
    parent, requests = start_worker()
    comparer = Comparer(parent)
    while True:
        try:
            comparer.handle(from_json(requests.get()))
        except CaptureError as error:
            parent.send(as_json({"failed": str(error)}))
        except Exception as error:  # noqa: BLE001 - the screen shows why there is no result
            parent.send(as_json({"failed": f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]}))
