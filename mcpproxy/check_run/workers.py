"""Worker processes, which examine captures for the process that reports.

They receive the rules, the baseline and the filter, then paths, and reply with the events of each capture.
"""

from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from analysis.checking.baseline import Baseline
from analysis.child_process import Parent, PythonChild, as_json, from_json
from analysis.filter import parse
from captures.errors import CaptureError
from mcpproxy.check_run.encoding import encode_event
from mcpproxy.check_run.examine import CheckOptions, examine_numbered
from mcpproxy.check_run.result import CheckProgress

MAX_EVENT_BYTES: Final = 16 << 20
"""The maximum size of an event, in bytes; the text of a finding is truncated long before."""


class Worker(PythonChild):
    """A worker process, as the process that reports uses it."""

    def __init__(self, rule_ids: Iterable[str], options: CheckOptions) -> None:
        """Start the process.

        Args:
            rule_ids: the ids of the rules whose findings the process reports.
            options: the filter, the baseline, and which findings count.

        Raises:
            OSError: the system cannot start a process.
        """
        super().__init__(__name__, longest=MAX_EVENT_BYTES)
        self.number: int | None = None
        """The number of the capture that it examines."""
        setup = {
            "picked": [*rule_ids],
            "accepted": [*options.baseline],
            "only": None if options.only is None else options.only.text,
            "counts_consequences": options.counts_consequences,
        }
        self.send(as_json(setup))

    def assign(self, number: int, path: Path) -> None:
        """Assign a capture to the process."""
        self.number = number
        self.send(as_json(str(path)))


def main() -> None:
    """Run a worker: examine the captures that the parent names."""
    parent = Parent()
    requests: SimpleQueue[bytes] = SimpleQueue()
    parent.listen(requests.put)
    setup = from_json(requests.get())
    options = CheckOptions(
        frozenset(setup["picked"]).__contains__,
        Baseline(setup["accepted"]),
        None if setup["only"] is None else parse(setup["only"]),
        counts_consequences=setup["counts_consequences"],
    )
    while True:
        step = 0
        try:
            for step, event in examine_numbered(Path(from_json(requests.get())), options):
                parent.send_later(encode_event(step, event))
                if isinstance(event, CheckProgress):
                    parent.flush()
        except CaptureError as error:
            parent.send_later(encode_event(step, error))
        parent.flush()
