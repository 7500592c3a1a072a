"""Worker: the process that runs the rules, so that the screen never waits for them.

`checking.py` starts it and sends it the captures to check. It follows captures that grow, and reports findings and
progress. Whatever happens to the screen, even `kill -9`, it ends with it. It runs at low priority (nice), and writes no
file except the tally of a capture, in the cache.

If a capture has more findings than a person can read, it reports most of them without text: only rule and frame.
"""

import os
import queue
import resource
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from analysis.checking.checker import Rules
from analysis.child_process import Parent, as_json, from_json
from analysis.reading import Reading, Step
from analysis.rules.finding import Finding
from analysis.tally import Tally, keep, key_of
from captures.errors import CaptureError
from captures.tail import Tail

STEP: Final = 64 << 10
"""Bytes checked per step: some 20 ms."""
REPORT_S: Final = 0.25
"""Seconds between progress reports while a check lags behind; longer than a poll, so that a single new entry causes a
report only once it has been checked."""
POLL_S: Final = 0.1
NICENESS: Final = 10
WITH_TEXT: Final = 10_000
"""Findings of a capture that are reported with their text."""
OWN: Final = 50
"""Findings of each rule whose text is always reported, however many came before."""
LONGEST: Final = 1000
"""Characters of a text."""
RELATED: Final = 20
"""Record numbers reported with a finding."""


class Task:
    """One capture, which is checked to its current end and then followed."""

    def __init__(self, parent: Parent, number: int, path: Path, *, in_full: bool) -> None:
        """Open it.

        Args:
            parent: who learns of the findings.
            number: identifies it in all reports.
            path: the capture.
            in_full: whether to report the findings, or only their number.

        Raises:
            NotACapture, NewerFormat: as `Capture`.
        """
        self._parent = parent
        self.number, self.in_full = number, in_full
        self.has_ended = False
        self._path, self._key = path, key_of(path)
        self._tail = Tail(path)
        self._reading = Reading(rules=Rules())
        self._entries = 0
        self._tally = Tally()
        self._with_text = 0
        self._of_rule: Counter[str] = Counter()
        self._reported_s = 0.0
        self._reported = -1
        """The number of entries in the last report if the check had caught up; -1 if it had not."""

    def step(self) -> bool:
        """Check a little more; False if there is no more at present."""
        items = self._tail.step(STEP)
        for item in items:
            self._take(self._reading.take(item))
        if self._tail.has_ended:
            self._finish()
        has_caught_up = self._tail.is_at_end or self.has_ended
        if has_caught_up and (self._reported != self._entries or self.has_ended):
            self._report_progress(has_caught_up=True)
        elif not has_caught_up and time.monotonic() - self._reported_s >= REPORT_S:
            self._report_progress(has_caught_up=False)
        elif has_caught_up:
            self._reported_s = time.monotonic()
        return bool(items) or not has_caught_up

    def close(self) -> None:
        """Close the file."""
        self._tail.close()

    def _take(self, step: Step) -> None:
        for finding in step.findings:
            self._report(finding)
        self._entries += step.item is not None

    def _finish(self) -> None:
        for step in self._reading.finish():
            self._take(step)
        self.has_ended = True
        # A live capture has no cache key before it has ended, and no cache file is written for it afterwards.
        key = self._key or key_of(self._path)
        if key is not None:
            keep(self._path, key, self._tally)

    def _report(self, finding: Finding) -> None:
        self._tally = self._tally.plus(finding.level, finding.stands_for)
        if not self.in_full:
            return
        self._of_rule[finding.rule] += 1
        if self._with_text < WITH_TEXT or self._of_rule[finding.rule] <= OWN:
            self._with_text += 1
            cut = finding._replace(
                message=finding.message[:LONGEST],
                pointer=finding.pointer[:LONGEST],
                method=finding.method[:LONGEST],
                related=finding.related[:RELATED],
            )
            report: dict[str, Any] = {"found": cut}
        else:
            report = {"more": [finding.rule, finding.level, finding.frame, finding.stands_for]}
        self._parent.put(as_json({"n": self.number, **report}))

    def _report_progress(self, *, has_caught_up: bool) -> None:
        self._reported_s, self._reported = time.monotonic(), self._entries if has_caught_up else -1
        report = {
            "n": self.number,
            "checked": self._entries,
            "even": has_caught_up,
            "ended": self.has_ended,
            "tally": self._tally,
            "faults": sorted(self._reading.faults),
            "forgotten": [loss.text for loss in self._reading.forgotten],
        }
        self._parent.send(as_json(report))


def main() -> None:
    """Check captures on request until stdin ends."""
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold traffic
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent()
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    parent.listen(orders.put)
    tasks: dict[int, Task] = {}
    while True:
        is_busy = _work(parent, tasks)
        with suppress(queue.Empty):
            order = orders.get(timeout=0 if is_busy else POLL_S if tasks else None)
            while True:
                _handle(parent, from_json(order), tasks)
                order = orders.get_nowait()


def _handle(parent: Parent, order: dict[str, Any], tasks: dict[int, Task]) -> None:
    number = order["n"]
    if "path" not in order:
        task = tasks.pop(number, None)
        if task is not None:
            task.close()
        return
    try:
        tasks[number] = Task(parent, number, Path(os.fsdecode(bytes.fromhex(order["path"]))), in_full=order["in_full"])
    except CaptureError as error:
        _fail(parent, number, str(error))


def _work(parent: Parent, tasks: dict[int, Task]) -> bool:
    """Run a step of the first task with work: the visible capture, then in order of arrival."""
    for task in sorted(tasks.values(), key=lambda task: (not task.in_full, task.number)):
        try:
            is_busy = task.step()
        except Exception as error:  # noqa: BLE001 - a capture that cannot be checked must not stop the others
            task.close()
            del tasks[task.number]
            _fail(parent, task.number, f"{type(error).__name__}: {error}"[:LONGEST])
            return True
        if task.has_ended:
            task.close()
            del tasks[task.number]
            return True
        if is_busy:
            return True
    return False


def _fail(parent: Parent, number: int, why: str) -> None:
    parent.send(as_json({"n": number, "failed": why}))
