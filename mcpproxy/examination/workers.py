"""Examines several captures at once, with one process for each processor, and yields their events in order.

Workers are processes of our own that read paths from stdin and answer on stdout with the events of each capture, as
lines of JSON. Captures are given out in the order in which they are reported, so the first one that is not finished is
always being examined. Its events are passed on as they come; those of later captures wait in memory, up to a limit, at
which their workers are left to wait for us.

A worker that dies costs only time: this process then examines its capture, from the first event not yet passed on.
"""

import json
import os
import selectors
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final, Self

from analysis.child_process import PythonChild, take_pipes, usable_processors, write_all
from analysis.filter import parse
from analysis.rules.discovery import rules
from captures.errors import CaptureError
from mcpproxy.examination.encoding import decoded, encoded, is_last
from mcpproxy.examination.examine import Wanted, examined, spare_collections
from mcpproxy.examination.result import Ended, Event, LocatedFinding

WORTH: Final = 4 << 20
"""Bytes of captures that justify another process: starting it takes as long as examining 2 MB."""
MOST_WAITING: Final = 64 << 20
"""Bytes of events that wait for their turn."""

_LONGEST_LINE: Final = 16 << 20
"""Bytes of an event; the text of a finding is truncated long before."""
_PIECE: Final = 1 << 16
"""Bytes of events that a worker collects before it writes them."""


def processes(paths: Sequence[Path]) -> int:
    """How many processes to start for captures: none if this one alone is as quick."""
    usable = usable_processors()
    if usable < 2 or len(paths) < 2:
        return 0
    count = min(usable, len(paths), sum(map(_size, paths)) // WORTH + 1)
    return count if count > 1 else 0


def examined_all(paths: Sequence[Path], wanted: Wanted, count: int) -> Iterator[tuple[Path, Iterator[Event]]]:
    """Examine captures.

    Args:
        paths: the captures.
        wanted: selects findings; costs cannot be collected by several processes.
        count: how many processes to use; 0 for this one alone.

    Yields:
        Each capture, in the order given, and its events, which must be consumed before the next capture. They raise
        CaptureError if it cannot be read.
    """
    if not count:
        for path in paths:
            yield path, examined(path, wanted)
        return
    with _Crew(paths, wanted, count) as crew:
        for number, path in enumerate(paths):
            yield path, crew.events(number)


def _size(path: Path) -> int:
    """Bytes of the first segment, which is enough for an estimate."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _Worker:
    """One process."""

    def __init__(self, setup: object) -> None:
        self.process = PythonChild(__name__)
        self.number: int | None = None
        """Which of the captures it examines."""
        with suppress(OSError):  # it is dead, as its stdout will show
            self.process.send(setup)

    def give(self, number: int, path: Path) -> None:
        """Assign a capture."""
        self.number = number
        with suppress(OSError):
            self.process.send(str(path))


class _Crew:
    """Several workers and their captures; use it with `with` to be sure that all end."""

    def __init__(self, paths: Sequence[Path], wanted: Wanted, count: int) -> None:
        self._paths, self._wanted, self._count = paths, wanted, count
        self._workers: list[_Worker] = []
        self._given = 0
        """How many captures have been given out."""
        self._waiting: dict[int, deque[bytes]] = {}
        """Events that are not yet passed on, by capture."""
        self._waiting_bytes = 0
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        picked = [rule for rule in rules() if self._wanted.picks(rule)]
        setup = {"picked": picked, "only": None if self._wanted.only is None else self._wanted.only.text}
        with suppress(OSError):  # the workers that did start do the work
            for _ in range(self._count):
                worker = _Worker(setup)
                self._workers.append(worker)
                self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
                self._give(worker)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for worker in self._workers:
            worker.process.close()

    def events(self, number: int) -> Iterator[Event]:
        """The events of a capture.

        Args:
            number: which of the captures; their events must be asked for in order.

        Raises:
            CaptureError: it cannot be read.
        """
        passed_on = 0
        while (line := self._next(number)) is not None:
            event = decoded(line)
            if isinstance(event, CaptureError):
                raise event
            if isinstance(event, LocatedFinding):  # a worker knows no baseline
                event = event._replace(accepted=event.fingerprint in self._wanted.baseline)
            yield event
            passed_on += 1
            if isinstance(event, Ended):
                return
        yield from islice(examined(self._paths[number], self._wanted), passed_on, None)

    def _next(self, number: int) -> bytes | None:
        """The next event of a capture, as soon as there is one; None if no worker will deliver it."""
        while not (lines := self._waiting.get(number)):
            worker = next((one for one in self._workers if one.number == number), None)
            if worker is None:
                return None
            if self._waiting_bytes > MOST_WAITING:
                self._read(worker)
            else:
                for key, _ in self._selector.select():
                    self._read(key.data)
        line = lines.popleft()
        self._waiting_bytes -= len(line)
        if not lines:
            del self._waiting[number]
        return line

    def _read(self, worker: _Worker) -> None:
        lines = worker.process.read_lines(_LONGEST_LINE)
        if lines is None:
            worker.number = None
            self._selector.unregister(worker.process.stdout)
            return
        for line in lines:
            assert worker.number is not None
            self._waiting.setdefault(worker.number, deque()).append(line)
            self._waiting_bytes += len(line)
            if is_last(line):
                self._give(worker)

    def _give(self, worker: _Worker) -> None:
        """Assign the next capture, if any."""
        worker.number = None
        if self._given < len(self._paths):
            worker.give(self._given, self._paths[self._given])
            self._given += 1


def main() -> None:
    """Run a worker: examine the captures that stdin names."""
    stdin, answers = take_pipes()
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(stdin, requests), daemon=True).start()
    spare_collections()
    setup = json.loads(requests.get())
    wanted = Wanted(
        frozenset(setup["picked"]).__contains__, only=None if setup["only"] is None else parse(setup["only"])
    )
    while True:
        events = bytearray()
        try:
            for event in examined(Path(json.loads(requests.get())), wanted):
                events += encoded(event)
                if len(events) >= _PIECE:
                    write_all(answers, bytes(events))
                    events.clear()
        except CaptureError as error:
            events += encoded(error)
        write_all(answers, bytes(events))


def _receive(stdin: int, requests: "SimpleQueue[bytes]") -> None:
    """Pass on the requests; end the process when the parent ends, whatever it is doing."""
    for line in os.fdopen(stdin, "rb"):
        requests.put(line)
    os._exit(0)
