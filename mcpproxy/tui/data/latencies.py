"""Latencies: how long the responses to each kind of request took; a thread counts them from the columns of a reading.

It counts what the SQL views count: a response counts unless it is interim or its request was cancelled before; an error
is a JSON-RPC error, a tool error, or a failed HTTP exchange. Nothing is counted twice, so a growing capture costs only
what is new.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from analysis.conversation.call import Outcome
from analysis.conversation.histogram import Histogram
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.durations import Course
from mcpproxy.tui.data.exchanges import NONE, OUTCOMES
from mcpproxy.tui.data.reading import Reading

REQUESTS_AT_ONCE: Final = 20_000
SETTLED_AT_ONCE: Final = 3000
"""Exchanges per step: a few milliseconds."""
ROWS_AT_ONCE: Final = 50
"""Rows written per step."""
REPORT_S: Final = 0.25
"""Seconds between updates of rows while there is more to count."""

_ANSWERED: Final = frozenset(OUTCOMES.index(one) for one in (Outcome.RESULT, Outcome.TOOL_ERROR, Outcome.ERROR))
_FAILED: Final = OUTCOMES.index(Outcome.FAILED)
_ERRORS: Final = frozenset(OUTCOMES.index(one) for one in (Outcome.TOOL_ERROR, Outcome.ERROR, Outcome.FAILED))


class Figures(NamedTuple):
    """One kind of request."""

    number: int
    call: CallKind
    asked: int = 0
    errors: int = 0
    answered: int = 0
    p50_ns: int | None = None
    p90_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    most_ns: int | None = None
    octaves: Mapping[int, int] = MappingProxyType({})
    """Its distribution: counts by power of two."""
    abandoned: int = 0
    slowest: int | None = None
    """The exchange with the longest latency, the first of equals; None without responses."""


class Distribution(NamedTuple):
    """The durations of one kind: how often each occurs, and how they change over time."""

    number: int
    octaves: dict[int, int]
    slice_ns: int
    p50_ns: Sequence[int | None]
    """By time slice."""
    p95_ns: Sequence[int | None]
    is_whole: bool
    """Whether it includes everything counted."""


class Latencies:
    """Counts latencies. One thread steps; others read `rows` and `distribution`."""

    def __init__(self, reading: Reading) -> None:
        """Start without counts."""
        self.rows: list[Figures] = []
        """By the number of the kind."""
        self.distribution: Distribution | None = None
        """More about the chosen kind."""
        self._reading = reading
        self._kind: int | None = None
        self._requests = self._settled = self._traced = 0
        self._calls: Counter[int] = Counter()
        self._errors: Counter[int] = Counter()
        self._abandoned: Counter[int] = Counter()
        self._histograms: dict[int, Histogram] = {}
        self._left: set[int] = set()
        """The exchanges among the errors that were cancelled."""
        self._slowest: dict[int, int] = {}
        """The slowest exchange of each kind."""
        self._course: tuple[int | None, Course] = None, Course()
        self._stale: set[int] = set()
        self._wrote = 0.0

    @property
    def counted(self) -> int:
        """How many exchanges are counted."""
        return self._settled

    def choose(self, number: int | None) -> None:
        """Choose the kind whose distribution is computed."""
        self._kind = number

    def step(self) -> bool:
        """Do some milliseconds of work; False if there is none at present."""
        is_busy = self._count()
        if not is_busy or time.monotonic() - self._wrote >= REPORT_S:
            is_busy = self._write() or is_busy
        return self._trace() or is_busy

    def _count(self) -> bool:
        exchanges = self._reading.exchanges
        calls = exchanges.kind[self._requests : min(len(exchanges), self._requests + REQUESTS_AT_ONCE)]
        self._requests += len(calls)
        for call, count in Counter(calls).items():
            self._calls[call] += count
            self._stale.add(call)
        for number in list(exchanges.abandoned_ns)[self._abandoned.total() :]:
            self._abandoned[exchanges.kind[number]] += 1
            self._stale.add(exchanges.kind[number])
        settled = exchanges.settled[self._settled : self._settled + SETTLED_AT_ONCE]
        self._settled += len(settled)
        for number in settled:
            call, outcome = exchanges.kind[number], exchanges.outcome[number]
            if exchanges.is_cancelled[number]:
                # What has failed counts, before its cancellation or after it; in the second case it is settled twice.
                if outcome == _FAILED and number not in self._left:
                    self._left.add(number)
                    self._errors[call] += 1
                    self._stale.add(call)
                continue
            if outcome in _ANSWERED:
                histogram = self._histograms.get(call)
                if histogram is None:
                    histogram = self._histograms[call] = Histogram()
                if not histogram.count or exchanges.latency_ns[number] > histogram.most:
                    self._slowest[call] = number
                histogram.add(exchanges.latency_ns[number])
            if outcome in _ERRORS:
                self._errors[call] += 1
            self._stale.add(call)
        return bool(calls or settled)

    def _write(self) -> bool:
        """Update some of the outdated rows."""
        calls, rows = self._reading.kinds.all, self.rows
        while len(rows) < len(calls):
            rows.append(Figures(len(rows), calls[len(rows)]))
        numbers = [self._stale.pop() for _ in range(min(ROWS_AT_ONCE, len(self._stale)))]
        for number in numbers:
            histogram = self._histograms.get(number, _EMPTY)
            p50, p90, p95, p99 = histogram.quantiles(0.5, 0.9, 0.95, 0.99)
            most = histogram.most if histogram.count else None
            counts = self._calls[number], self._errors[number], histogram.count
            rows[number] = Figures(
                number,
                calls[number],
                *counts,
                p50,
                p90,
                p95,
                p99,
                most,
                histogram.octaves(),
                self._abandoned[number],
                self._slowest.get(number),
            )
        if not self._stale:
            self._wrote = time.monotonic()
        return bool(numbers)

    def _trace(self) -> bool:
        """Continue the course of the chosen kind."""
        kind, exchanges = self._kind, self._reading.exchanges
        if kind is None:
            return False
        if self._course[0] != kind:
            self._course, self._traced = (kind, Course()), 0
        course, end = self._course[1], min(self._settled, self._traced + REQUESTS_AT_ONCE)
        if (
            self._traced == end
            and self.distribution is not None
            and self.distribution.number == kind
            and self.distribution.is_whole
        ):
            return False
        for number in exchanges.settled[self._traced : end]:
            if (
                exchanges.kind[number] == kind
                and exchanges.outcome[number] in _ANSWERED
                and not exchanges.is_cancelled[number]
                and exchanges.response[number] != NONE
            ):
                course.add(self._reading.index.t_ns(exchanges.response[number]), exchanges.latency_ns[number])
        self._traced = end
        octaves = self._histograms.get(kind, _EMPTY).octaves()
        is_whole = end == self._settled
        if is_whole:
            times = course.quantiles(0.5), course.quantiles(0.95)
            self.distribution = Distribution(kind, octaves, course.slice_ns, *times, is_whole=True)
        elif self.distribution is None or self.distribution.number != kind:
            self.distribution = Distribution(kind, octaves, course.slice_ns, (), (), is_whole=False)
        else:
            self.distribution = self.distribution._replace(is_whole=False)
        return True


_EMPTY: Final = Histogram()
