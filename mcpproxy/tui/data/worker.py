"""Worker: the process that runs the rules, so that the screen never waits for them.

`checking.py` starts it and tells it by lines of JSON which captures to check; it follows those that grow, and
tells what it finds, and how far it is. It ends when its stdin does: whatever becomes of the screen, kill -9 included,
nobody is left behind. It is nice to all other processes, and no file of the user's is written but the tally of a
capture, in the cache.

Of a capture with more findings than anybody reads, the texts of most stay here: what is told of those is the rule and
the place.
"""

import gc
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from analysis.checking.checker import Checker
from analysis.checking.tally import Tally, keep, key_of
from analysis.rules.finding import Finding
from captures.errors import CaptureError
from captures.frame import Frame
from captures.reader import Damage, FrameAssembler
from captures.record import Record
from captures.tail import Tail

STEP: Final = 64 << 10
"""Bytes that are checked at a time: some 20 ms."""
TELL_S: Final = 0.25
"""How often it is told how far a check is that lags; more than a poll, so that what comes one by one is told of when it
has been checked, and not before."""
POLL_S: Final = 0.1
KINDNESS: Final = 10
WHOLE: Final = 10_000
"""Findings of a capture that are told with their text."""
OWN: Final = 50
"""Findings of each rule whose text is told, however many others there were before."""
LONGEST: Final = 1000
"""Characters of a text."""
RELATED: Final = 20
"""Numbers of records that are told with a finding."""


class Task:
    """One capture that is checked as far as it goes, and on."""

    def __init__(self, number: int, path: Path, *, in_full: bool) -> None:
        """Open it.

        Args:
            number: what it is called in all that is told.
            path: the capture.
            in_full: whether the findings are told, or how many they are.

        Raises:
            NotACapture, NewerFormat: as `Capture`.
        """
        self.number, self.in_full = number, in_full
        self.has_ended = False
        self._path, self._key = path, key_of(path)
        self._tail = Tail(path)
        self._assembler, self._checker = FrameAssembler(), Checker()
        self._entries = 0
        self._tally = Tally()
        self._whole = 0
        self._of_rule: Counter[str] = Counter()
        self._told_s = 0.0
        self._told = -1
        """How many entries were checked when that was told, as all there were; -1 where they were not."""

    def step(self) -> bool:
        """Check a little more; False where there is no more at present."""
        items = self._tail.step(STEP)
        for item in items:
            found = self._assembler.feed(item)
            if found is not None:
                self._feed(found)
        if self._tail.has_ended:
            self._finish()
        is_even = self._tail.is_at_end or self.has_ended
        if is_even and (self._told != self._entries or self.has_ended):
            self._tell_progress(is_even=True)
        elif not is_even and time.monotonic() - self._told_s >= TELL_S:
            self._tell_progress(is_even=False)
        elif is_even:
            self._told_s = time.monotonic()
        return bool(items) or not is_even

    def close(self) -> None:
        """Close the file."""
        self._tail.close()

    def _feed(self, item: Frame | Record | Damage) -> None:
        for finding in self._checker.feed(item):
            self._tell(finding)
        self._entries += 1

    def _finish(self) -> None:
        for item in self._assembler.end():
            self._feed(item)
        for finding in self._checker.finish("closed" if self._checker.fold.ending is not None else "killed"):
            self._tell(finding)
        self.has_ended = True
        # A live capture has no key before it has ended, and no file of it is written after.
        key = self._key or key_of(self._path)
        if key is not None:
            keep(self._path, key, self._tally)

    def _tell(self, finding: Finding) -> None:
        self._tally = self._tally.plus(finding.level, finding.stands_for)
        if not self.in_full:
            return
        self._of_rule[finding.rule] += 1
        if self._whole < WHOLE or self._of_rule[finding.rule] <= OWN:
            self._whole += 1
            cut = finding._replace(
                message=finding.message[:LONGEST],
                pointer=finding.pointer[:LONGEST],
                method=finding.method[:LONGEST],
                related=finding.related[:RELATED],
            )
            tell({"n": self.number, "found": cut})
        else:
            tell({"n": self.number, "more": [finding.rule, finding.level, finding.frame, finding.stands_for]})

    def _tell_progress(self, *, is_even: bool) -> None:
        self._told_s, self._told = time.monotonic(), self._entries if is_even else -1
        tell(
            {
                "n": self.number,
                "checked": self._entries,
                "even": is_even,
                "ended": self.has_ended,
                "tally": self._tally,
                "faults": sorted(self._checker.faults),
                "forgotten": [one.text for one in self._checker.fold.forgotten],
            }
        )
        sys.stdout.flush()


def tell(value: dict[str, Any]) -> None:
    """Write a line. In ASCII: half a surrogate pair in somebody's text is no reason to fail."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")


def main() -> None:
    """Check what is wanted until nobody wants anything any more."""
    with suppress(OSError):
        os.nice(KINDNESS)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold traffic
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As `check`: of millions of objects nearly all die at once.
    gc.set_threshold(50_000, 20, 50)
    wanted: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(wanted,), daemon=True).start()
    tasks: dict[int, Task] = {}
    while True:
        is_busy = _work(tasks)
        with suppress(queue.Empty):
            order = wanted.get(timeout=0 if is_busy else POLL_S if tasks else None)
            while True:
                _obey(order, tasks)
                order = wanted.get_nowait()


def _listen(wanted: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin.buffer:
        wanted.put(json.loads(line))
    # The other end is closed, or gone: there is nobody to tell anything.
    os._exit(0)


def _obey(order: dict[str, Any], tasks: dict[int, Task]) -> None:
    number = order["n"]
    if "path" not in order:
        task = tasks.pop(number, None)
        if task is not None:
            task.close()
        return
    try:
        tasks[number] = Task(number, Path(os.fsdecode(bytes.fromhex(order["path"]))), in_full=order["in_full"])
    except CaptureError as error:
        _fail(number, str(error))


def _work(tasks: dict[int, Task]) -> bool:
    """A step of the first that has something to do: what is looked at, then what came first."""
    for task in sorted(tasks.values(), key=lambda task: (not task.in_full, task.number)):
        try:
            is_busy = task.step()
        except Exception as error:  # noqa: BLE001 - a capture that cannot be checked is no reason to check no other
            task.close()
            del tasks[task.number]
            _fail(task.number, f"{type(error).__name__}: {error}"[:LONGEST])
            return True
        if task.has_ended:
            task.close()
            del tasks[task.number]
            return True
        if is_busy:
            return True
    return False


def _fail(number: int, why: str) -> None:
    tell({"n": number, "failed": why})
    sys.stdout.flush()
