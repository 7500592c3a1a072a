"""Examines several captures at once, with one process for each processor, and yields their events in order.

Captures are assigned to workers in the order in which they are reported, so the first unfinished one is always being
examined. Its events are passed on as they come; those of later captures wait in memory, up to a limit, beyond which
their workers wait for this process. For a single capture, the rules are divided instead (`parallel_rules`).

A worker that dies costs only time: this process then examines its capture, from the first event not yet passed on.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from analysis.child_process import Team, usable_processors
from analysis.rules.discovery import rules
from captures.errors import CaptureError
from mcpproxy.check_run.encoding import decode_event, is_last
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.parallel_rules import examine_in_shares, process_count_for_one
from mcpproxy.check_run.result import CheckOutcome, Event
from mcpproxy.check_run.workers import Worker

WORTH: Final = 4 << 20
"""The size of the captures, in bytes, that justifies another process: starting it takes as long as examining 2 MB."""
MAX_WAITING_EVENT_BYTES: Final = 64 << 20
"""The maximum size of the events that wait for their turn, in bytes."""


def process_count(paths: Sequence[Path], options: CheckOptions) -> int:
    """How many processes to start for captures: none if this process alone is as quick, or has to measure costs."""
    processors = usable_processors()
    if processors < 2 or options.costs is not None:
        return 0
    if len(paths) == 1:
        return process_count_for_one(paths[0], options)
    count = min(processors, len(paths), sum(map(_size, paths)) // WORTH + 1)
    return count if count > 1 else 0


def examine_captures(
    paths: Sequence[Path], options: CheckOptions, count: int
) -> Iterator[tuple[Path, Iterator[Event]]]:
    """Examine captures.

    Args:
        paths: the captures.
        options: selects findings.
        count: the number of processes to use, from `process_count`.

    Yields:
        Each capture, in the order of `paths`, and its events, which must be consumed before the next capture. The
        events raise CaptureError if the capture cannot be read.
    """
    if not count:
        for path in paths:
            yield path, examine_capture(path, options)
        return
    if len(paths) == 1:
        yield paths[0], examine_in_shares(paths[0], options, count)
        return
    with Team[Worker]() as team:
        pool = _WorkerPool(team, paths, options, count)
        for number, path in enumerate(paths):
            yield path, pool.events(number)


def _size(path: Path) -> int:
    """The size of the first segment, in bytes, which is enough for an estimate."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _WorkerPool:
    """Several workers and their captures."""

    def __init__(self, team: Team[Worker], paths: Sequence[Path], options: CheckOptions, count: int) -> None:
        self._team, self._paths, self._options = team, paths, options
        self._assigned_count = 0
        """The number of captures that have been assigned."""
        self._waiting_messages: dict[int, deque[bytes]] = {}
        """Events that are not yet passed on, by capture."""
        self._waiting_bytes = 0
        rule_ids = [rule for rule in rules() if options.picks(rule)]
        with suppress(OSError):  # the workers that did start do all the work
            for _ in range(count):
                worker = Worker(rule_ids, options)
                team.add(worker)
                self._assign_next(worker)

    def events(self, number: int) -> Iterator[Event]:
        """The events of a capture.

        Args:
            number: the number of the capture; captures must be requested in order.

        Raises:
            CaptureError: it cannot be read.
        """
        yielded_count = 0
        while (message := self._next_message(number)) is not None:
            _, event = decode_event(message)
            if isinstance(event, CaptureError):
                raise event
            yield event
            yielded_count += 1
            if isinstance(event, CheckOutcome):
                return
        yield from islice(examine_capture(self._paths[number], self._options), yielded_count, None)

    def _next_message(self, number: int) -> bytes | None:
        """The next event of a capture, as soon as there is one; returns None if no worker will deliver it."""
        while not (waiting_messages := self._waiting_messages.get(number)):
            worker = next((candidate for candidate in self._team.children if candidate.number == number), None)
            if worker is None:
                return None
            for sender, messages in self._team.receive(
                worker if self._waiting_bytes > MAX_WAITING_EVENT_BYTES else None
            ):
                self._on_messages(sender, messages)
        message = waiting_messages.popleft()
        self._waiting_bytes -= len(message)
        if not waiting_messages:
            del self._waiting_messages[number]
        return message

    def _on_messages(self, worker: Worker, messages: list[bytes] | None) -> None:
        if messages is None:
            worker.number = None
            return
        for message in messages:
            assert worker.number is not None
            self._waiting_messages.setdefault(worker.number, deque()).append(message)
            self._waiting_bytes += len(message)
            if is_last(message):
                self._assign_next(worker)

    def _assign_next(self, worker: Worker) -> None:
        """Assign the next capture, if any, to a worker."""
        worker.number = None
        if self._assigned_count < len(self._paths):
            worker.assign(self._assigned_count, self._paths[self._assigned_count])
            self._assigned_count += 1
