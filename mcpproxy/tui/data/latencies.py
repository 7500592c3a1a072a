"""Latencies: how long the responses to each kind of request took; a thread counts them from the columns of a reading.

It counts as the SQL views do: a response counts unless it is interim or its request had been cancelled; an error
is a JSON-RPC error, a tool error, or a failed HTTP exchange. Nothing is counted twice, so in a growing capture, only
new calls cost time.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, Outcome
from analysis.conversation.durations import Durations
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.columns import NONE, OUTCOMES
from mcpproxy.tui.data.durations_over_time import DurationsOverTime
from mcpproxy.tui.data.reading import Reading

REQUESTS_AT_ONCE: Final = 20_000
SETTLED_AT_ONCE: Final = 3000
"""How many calls are counted per step: a few milliseconds."""
ROWS_AT_ONCE: Final = 50
"""How many rows are updated per step."""
REPORT_S: Final = 0.25
"""The seconds between updates of rows while there is more to count."""

_ANSWERED: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.RESULT})
_FAILED: Final = OUTCOMES.index(Outcome.FAILED)
_ERRORS: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.FAILED})


class Figures(NamedTuple):
    """The figures of one kind of request."""

    number: int
    call: CallKind
    asked: int = 0
    errors: int = 0
    answered: int = 0
    """Requests whose latency counts: with a final response, and not cancelled before it."""
    p50_ns: int | None = None
    p90_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    most_ns: int | None = None
    octaves: Mapping[int, int] = MappingProxyType({})
    """Its distribution: counts by power of two."""
    abandoned: int = 0
    slowest: int | None = None
    """The call with the longest latency, or the first of several such calls; None if there are no responses."""
    late: int = 0
    """Requests that were answered after they had been cancelled."""


class Distribution(NamedTuple):
    """The durations of one kind: how often each occurs, and how they change over time."""

    number: int
    octaves: dict[int, int]
    slice_ns: int
    p50_ns: Sequence[int | None]
    """The medians, by time slice."""
    p95_ns: Sequence[int | None]
    is_whole: bool
    """Whether it includes everything counted."""


class Latencies:
    """Counts latencies. One thread calls `step`; others read `rows` and `distribution`."""

    def __init__(self, reading: Reading) -> None:
        """Start without counts."""
        self.rows: list[Figures] = []
        """The figures, by the number of the kind."""
        self.distribution: Distribution | None = None
        """The distribution of the chosen kind."""
        self._reading = reading
        self._kind: int | None = None
        self._requests = self._settled = self._traced = 0
        self._calls: Counter[int] = Counter()
        self._errors: Counter[int] = Counter()
        self._abandoned: Counter[int] = Counter()
        self._durations: dict[int, Durations] = {}
        self._left: set[int] = set()
        """The failed calls that were also cancelled."""
        self._given_up: set[int] = set()
        """The calls that were abandoned."""
        self._late: set[int] = set()
        """The calls that were answered after their cancellation."""
        self._late_of: Counter[int] = Counter()
        self._slowest: dict[int, int] = {}
        """The slowest call of each kind."""
        self._course: tuple[int | None, DurationsOverTime] = None, DurationsOverTime()
        self._stale: set[int] = set()
        self._wrote = 0.0

    @property
    def counted(self) -> int:
        """How many calls have been counted."""
        return self._settled

    def choose(self, number: int | None) -> None:
        """Choose the kind whose distribution is computed."""
        self._kind = number

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        is_busy = self._count()
        if not is_busy or time.monotonic() - self._wrote >= REPORT_S:
            is_busy = self._write() or is_busy
        return self._trace() or is_busy

    def _count(self) -> bool:
        calls = self._reading.calls
        kinds = calls.kind[self._requests : min(len(calls), self._requests + REQUESTS_AT_ONCE)]
        self._requests += len(kinds)
        for kind, count in Counter(kinds).items():
            self._calls[kind] += count
            self._stale.add(kind)
        settled_calls = calls.settled[self._settled : self._settled + SETTLED_AT_ONCE]
        self._settled += len(settled_calls)
        for number in settled_calls:
            kind, outcome = calls.kind[number], calls.outcome[number]
            if calls.abandoned_ns[number] >= 0 and number not in self._given_up:
                self._given_up.add(number)
                self._abandoned[kind] += 1
                self._stale.add(kind)
            if calls.is_cancelled[number]:
                if calls.response[number] != NONE and number not in self._late:
                    self._late.add(number)
                    self._late_of[kind] += 1
                    self._stale.add(kind)
                # A failed call counts whether it failed before its cancellation or after; in the second case it is
                # settled twice.
                if outcome == _FAILED and number not in self._left:
                    self._left.add(number)
                    self._errors[kind] += 1
                    self._stale.add(kind)
                continue
            if outcome in _ANSWERED and not calls.is_inexact[number]:
                durations = self._durations.get(kind)
                if durations is None:
                    durations = self._durations[kind] = Durations()
                if not durations.count or calls.latency_ns[number] > durations.most:
                    self._slowest[kind] = number
                durations.add(calls.latency_ns[number])
            if outcome in _ERRORS:
                self._errors[kind] += 1
            self._stale.add(kind)
        return bool(kinds or settled_calls)

    def _write(self) -> bool:
        """Update some outdated rows."""
        kinds, rows = self._reading.kinds.all, self.rows
        while len(rows) < len(kinds):
            rows.append(Figures(len(rows), kinds[len(rows)]))
        numbers = [self._stale.pop() for _ in range(min(ROWS_AT_ONCE, len(self._stale)))]
        for number in numbers:
            durations = self._durations.get(number, _EMPTY)
            p50, p90, p95, p99 = durations.quantiles(0.5, 0.9, 0.95, 0.99)
            max_ns = durations.most if durations.count else None
            counts = self._calls[number], self._errors[number], durations.count
            rows[number] = Figures(
                number,
                kinds[number],
                *counts,
                p50,
                p90,
                p95,
                p99,
                max_ns,
                durations.octaves(),
                self._abandoned[number],
                self._slowest.get(number),
                self._late_of[number],
            )
        if not self._stale:
            self._wrote = time.monotonic()
        return bool(numbers)

    def _trace(self) -> bool:
        """Continue the distribution of the chosen kind over time."""
        kind, calls = self._kind, self._reading.calls
        if kind is None:
            return False
        if self._course[0] != kind:
            self._course, self._traced = (kind, DurationsOverTime()), 0
        over_time, end = self._course[1], min(self._settled, self._traced + REQUESTS_AT_ONCE)
        if (
            self._traced == end
            and self.distribution is not None
            and self.distribution.number == kind
            and self.distribution.is_whole
        ):
            return False
        for number in calls.settled[self._traced : end]:
            if (
                calls.kind[number] == kind
                and calls.outcome[number] in _ANSWERED
                and not calls.is_cancelled[number]
                and not calls.is_inexact[number]
                and calls.response[number] != NONE
            ):
                over_time.add(self._reading.index.t_ns(calls.response[number]), calls.latency_ns[number])
        self._traced = end
        octaves = self._durations.get(kind, _EMPTY).octaves()
        is_whole = end == self._settled
        if is_whole:
            quantiles = over_time.quantiles(0.5), over_time.quantiles(0.95)
            self.distribution = Distribution(kind, octaves, over_time.slice_ns, *quantiles, is_whole=True)
        elif self.distribution is None or self.distribution.number != kind:
            self.distribution = Distribution(kind, octaves, over_time.slice_ns, (), (), is_whole=False)
        else:
            self.distribution = self.distribution._replace(is_whole=False)
        return True


_EMPTY: Final = Durations()
