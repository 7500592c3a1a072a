"""Comparing: a comparison of two captures in a process of its own (`comparison_worker.py`), and its result.

A thread receives the result. If the process dies, or a capture cannot be read, the comparison has failed, which is not
the same as finding nothing.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from analysis.child_process import PythonChild, as_json, from_json
from analysis.comparison.change import Change, Comparison, Witness
from analysis.comparison.kinds.table import KINDS
from mcpproxy.tui.data.capture_list import short_name
from mcpproxy.tui.data.checking import exit_reason
from mcpproxy.tui.data.comparison_messages import (
    ChangeDetail,
    ChangeMessage,
    Totals,
    read_change,
    read_detail,
    read_head,
)

MAX_MESSAGE_BYTES: Final = 32 << 20
"""The most bytes of a message from the process."""


class ComparisonRun:
    """A comparison: under way, complete or failed."""

    def __init__(self, old: Path, new: Path, notify: Callable[[], None]) -> None:
        """Create it; `start` starts it.

        Args:
            old: the capture that was relied on.
            new: the capture that is to be judged.
            notify: called from a thread when something has arrived.
        """
        self.old, self.new = old, new
        self.stage = "reading both captures"
        """What the process is doing, in words."""
        self.comparison: Comparison | None = None
        """The result; None until it is complete. Its changes are without values, which are in the details."""
        self.totals: Totals | None = None
        """How many rows the lists of the result have; fewer may have been sent."""
        self.detail: ChangeDetail | None = None
        """The detail that was requested last; None while it has not arrived."""
        self.trouble = ""
        """Why the comparison has failed, if it has; with a result, why its details cannot be shown."""
        self._notify_screen = notify
        self._lock = threading.Lock()
        """Held to notify the screen, which must not happen after it was closed."""
        self._requested_detail: int | None = None
        self._head: tuple[Comparison, Totals] | None = None
        self._changes: list[Change] = []
        self._is_closed = False
        self._worker: PythonChild | None = None

    def start(self) -> None:
        """Start the process, which reads both captures up to their present ends."""
        try:
            self._worker = PythonChild("mcpproxy.tui.data.comparison_worker", longest=MAX_MESSAGE_BYTES)
            self._worker.listen(self._on_message, self._on_end)
            captures = [(short_name(path), os.fsencode(path.absolute()).hex()) for path in (self.old, self.new)]
            self._worker.send(as_json({"captures": captures}))
        except OSError as error:
            self.trouble = f"the process that compares cannot be started: {error.strerror}"

    @property
    def is_busy(self) -> bool:
        """Whether something that was requested has not arrived yet."""
        is_detail_due = self._requested_detail is not None and self.detail is None
        return not self.trouble and (self.comparison is None or is_detail_due)

    def swap(self) -> None:
        """Compare the same two sides the other way round; does nothing before the first result."""
        if self.comparison is not None and not self.trouble and self._worker is not None:
            self.old, self.new = self.new, self.old
            self.comparison = self.totals = self.detail = self._requested_detail = None
            self._worker.send(as_json({"swap": True}))

    def request_detail(self, number: int) -> None:
        """Request the values of a change, unless they were requested last."""
        if number != self._requested_detail:
            self._requested_detail, self.detail = number, None
            if self._worker is not None and not self.trouble:
                self._worker.send(as_json({"detail": number}))

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._is_closed = True
        if self._worker is not None:
            self._worker.close()

    # ---- in the thread that receives the output of the process

    def _on_message(self, message: bytes) -> None:
        report: dict[str, Any] = from_json(message)
        if "change" in report:
            self._changes.append(change_of(read_change(report)))
            return
        if "comparison" in report:
            self._head, self._changes = read_head(report), []
            return
        if "done" in report:
            if self._head is None:
                raise ValueError("changes without a comparison")
            self.totals = self._head[1]
            self.comparison = self._head[0]._replace(changes=tuple(self._changes))
            self._head, self._changes = None, []
        elif "detail" in report:
            detail = read_detail(report)
            if detail.number != self._requested_detail:
                return
            self.detail = detail
        elif "failed" in report:
            self.trouble = str(report["failed"])
        else:
            self.stage = str(report["stage"])
        self._notify()

    def _on_end(self, status: int, fault: Exception | None) -> None:
        reason = exit_reason(status) if fault is None else f"its output is invalid ({type(fault).__name__})"
        self.trouble = self.trouble or f"the process that compares has ended: {reason}"
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._notify_screen()


def change_of(message: ChangeMessage) -> Change:
    """Returns a change without its values."""
    return Change(
        KINDS[message.kind_id],
        message.subject,
        message.message,
        message.pointer,
        old=message.old,
        new=message.new,
        witness=None if message.witness_fits_old is None else Witness(None, message.witness_fits_old),
        lowered=message.lowered,
        times=message.times,
        unproved=message.unproved,
    )
