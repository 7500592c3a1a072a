"""Worker processes, which examine captures for the process that reports.

They read paths from stdin, and answer on stdout with the events of each capture, as lines of JSON. The first line that
they read names the rules, the baseline and the filter.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from analysis.checking.baseline import Baseline
from analysis.child_process import PythonChild, take_pipes, write_all
from analysis.filter import parse
from captures.errors import CaptureError
from mcpproxy.examination.encoding import encoded
from mcpproxy.examination.examine import Wanted, numbered, spare_collections
from mcpproxy.examination.result import Reached

LONGEST_LINE: Final = 16 << 20
"""Bytes of an event; the text of a finding is truncated long before."""

_PIECE: Final = 1 << 16
"""Bytes of events that a worker collects before it writes them."""


class Worker:
    """One process."""

    def __init__(self, picked: Iterable[str], wanted: Wanted) -> None:
        """Start it.

        Args:
            picked: the rules whose findings it reports, by id.
            wanted: the filter, the baseline, and what counts.

        Raises:
            OSError: the system cannot start a process.
        """
        self.process = PythonChild(__name__)
        self.number: int | None = None
        """Which of the captures it examines."""
        with suppress(OSError):  # it is dead, as its stdout will show
            self.process.send_line(
                {
                    "picked": [*picked],
                    "accepted": [*wanted.baseline],
                    "only": None if wanted.only is None else wanted.only.text,
                    "counts_consequences": wanted.counts_consequences,
                }
            )

    def give(self, number: int, path: Path) -> None:
        """Assign a capture."""
        self.number = number
        with suppress(OSError):
            self.process.send_line(str(path))


def main() -> None:
    """Run a worker: examine the captures that stdin names."""
    stdin, answers = take_pipes()
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(stdin, requests), daemon=True).start()
    spare_collections()
    setup = json.loads(requests.get())
    wanted = Wanted(
        frozenset(setup["picked"]).__contains__,
        Baseline(setup["accepted"]),
        None if setup["only"] is None else parse(setup["only"]),
        counts_consequences=setup["counts_consequences"],
    )
    while True:
        events = bytearray()
        step = 0
        try:
            for step, event in numbered(Path(json.loads(requests.get())), wanted):
                events += encoded(step, event)
                if len(events) >= _PIECE or isinstance(event, Reached):
                    write_all(answers, bytes(events))
                    events.clear()
        except CaptureError as error:
            events += encoded(step, error)
        write_all(answers, bytes(events))


def _receive(stdin: int, requests: "SimpleQueue[bytes]") -> None:
    """Pass on the requests; end the process when the parent ends, whatever it is doing."""
    for line in os.fdopen(stdin, "rb"):
        requests.put(line)
    os._exit(0)
