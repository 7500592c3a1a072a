"""Examines one large capture with several processes: each reads all of it, and runs a share of the rules.

Together, the shares find what all rules find in one process (`analysis.checking.partition`), so the events of the
workers only have to be put in order: by step, and within a step as one process would yield them. Events that do not
depend on rules (damage, progress, the outcome) come from every worker, and are passed on once.

Every worker reads the capture and follows the conversation, which takes two fifths of the time that one process needs
for everything. So two processes are 1.3 to 1.4 times as fast as one, and more than four are hardly faster than four.

If a worker dies, this process examines the capture, from the first event not yet passed on.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from analysis.checking.checker import sort_key
from analysis.checking.partition import shares
from analysis.child_process import Team, usable_processors
from analysis.rules.discovery import rules, rules_for
from captures.errors import CaptureError
from captures.file import is_live
from captures.reader import Capture
from mcpproxy.check_run.encoding import decode_event
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.result import CheckOutcome, Event, LocatedFinding
from mcpproxy.check_run.workers import Worker

WORTH: Final = 64 << 20
"""The size of a capture, in bytes, that justifies several processes: with a quarter of that, they save only as much
time as they take to start."""
MAX_PROCESSES: Final = 4
"""The maximum number of processes for one capture."""
MAX_WAITING_EVENT_BYTES: Final = 64 << 20
"""The maximum size of the events that wait for their turn, in bytes."""


class _WorkerDied(Exception):
    """A worker has died."""


def process_count_for_one(path: Path, options: CheckOptions) -> int:
    """How many processes to start for one capture: none if this process is as quick alone, or the capture may grow."""
    if len(rules_for(options.picks)) < len(rules()) / 2:
        return 0
    try:
        capture = Capture(path)
        # Each worker would find a different end.
        if capture.size < WORTH or is_live(capture.segments[-1]):
            return 0
    except (CaptureError, OSError):
        return 0
    return min(usable_processors(), MAX_PROCESSES)


def examine_in_shares(path: Path, options: CheckOptions, count: int) -> Iterator[Event]:
    """Examine a capture that no longer grows.

    Args:
        path: the capture.
        options: selects findings.
        count: the number of processes to use.

    Yields:
        The events that `examine_capture` yields, in the same order.

    Raises:
        CaptureError: it cannot be read.
    """
    yielded_count = 0
    with Team[_EventStream]() as team, suppress(_WorkerDied, OSError):
        for rule_ids in shares(options.picks, count):
            stream = _EventStream(rule_ids, options)
            team.add(stream)
            stream.assign(0, path)
        for event in _EventMerger(team).events():
            yield event
            yielded_count += 1
            if isinstance(event, CheckOutcome):
                return
    yield from islice(examine_capture(path, options), yielded_count, None)


class _EventStream(Worker):
    """A worker and its events: the next one, its place in the order of all events, and the waiting ones."""

    def __init__(self, rule_ids: Iterable[str], options: CheckOptions) -> None:
        super().__init__(rule_ids, options)
        self.waiting_messages: deque[bytes] = deque()
        self.is_over = False
        self.event: Event
        self.place: tuple[int, ...]


class _EventMerger:
    """Puts the events of several workers in order. No worker has to wait for a slower one."""

    def __init__(self, team: Team[_EventStream]) -> None:
        self._team = team
        self._waiting_bytes = 0

    def events(self) -> Iterator[Event]:
        """The events in order.

        Raises:
            CaptureError: the capture cannot be read.
            _WorkerDied: a worker has died before its last event.
        """
        for stream in self._team.children:
            self._advance(stream)
        while True:
            next_place = min(stream.place for stream in self._team.children)
            next_streams = [stream for stream in self._team.children if stream.place == next_place]
            event = next_streams[0].event
            if isinstance(event, CheckOutcome):
                yield _joined_outcome(
                    [stream.event for stream in self._team.children if isinstance(stream.event, CheckOutcome)]
                )
                return
            yield event
            for stream in next_streams:
                self._advance(stream)

    def _advance(self, stream: _EventStream) -> None:
        """Wait for the next event of a worker."""
        while not stream.waiting_messages:
            if stream.is_over:
                raise _WorkerDied
            for sender, messages in self._team.receive(
                stream if self._waiting_bytes > MAX_WAITING_EVENT_BYTES else None
            ):
                sender.is_over = messages is None
                sender.waiting_messages += messages or ()
                self._waiting_bytes += sum(map(len, messages or ()))
        message = stream.waiting_messages.popleft()
        self._waiting_bytes -= len(message)
        step, event = decode_event(message)
        if isinstance(event, CaptureError):
            raise event
        stream.event = event
        stream.place = (step, 0, *sort_key(event.finding)) if isinstance(event, LocatedFinding) else (step, 1)


def _joined_outcome(outcomes: list[CheckOutcome]) -> CheckOutcome:
    """The outcome that one process would have reported: the outcomes of the workers differ only by their rules."""
    return outcomes[0]._replace(
        counts={key: count for outcome in outcomes for key, count in outcome.counts.items()},
        followers={key: count for outcome in outcomes for key, count in outcome.followers.items()},
        faults=dict(sorted(fault for outcome in outcomes for fault in outcome.faults.items())),
        nothing_reason=min(outcome.nothing_reason for outcome in outcomes),  # empty if any of them has findings
    )
