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

MAX_REQUESTS_PER_STEP: Final = 20_000
MAX_SETTLED_PER_STEP: Final = 3000
"""How many calls are counted per step: a few milliseconds."""
MAX_ROWS_PER_STEP: Final = 50
"""How many rows are updated per step."""
REPORT_INTERVAL_S: Final = 0.25
"""The seconds between updates of rows while there is more to count."""

_ANSWERED_CODES: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.RESULT})
_FAILED_CODE: Final = OUTCOMES.index(Outcome.FAILED)
_ERROR_CODES: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.FAILED})


class KindFigures(NamedTuple):
    """The figures of one kind of request."""

    number: int
    kind: CallKind
    requests: int = 0
    errors: int = 0
    answered: int = 0
    """Requests whose latency counts: with a final response, and not cancelled before it."""
    p50_ns: int | None = None
    p90_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None
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
        self.rows: list[KindFigures] = []
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
        self._cancelled_failures: set[int] = set()
        """The failed calls that were also cancelled."""
        self._abandoned_calls: set[int] = set()
        """The calls that were abandoned."""
        self._late_calls: set[int] = set()
        """The calls that were answered after their cancellation."""
        self._late_counts: Counter[int] = Counter()
        self._slowest: dict[int, int] = {}
        """The slowest call of each kind."""
        self._over_time: tuple[int | None, DurationsOverTime] = None, DurationsOverTime()
        self._stale_kinds: set[int] = set()
        self._written_s = 0.0

    @property
    def counted_calls(self) -> int:
        """How many calls have been counted."""
        return self._settled

    def choose_kind(self, number: int | None) -> None:
        """Choose the kind whose distribution is computed."""
        self._kind = number

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        is_busy = self._count()
        if not is_busy or time.monotonic() - self._written_s >= REPORT_INTERVAL_S:
            is_busy = self._update_rows() or is_busy
        return self._update_distribution() or is_busy

    def _count(self) -> bool:
        calls = self._reading.calls
        kinds = calls.kind[self._requests : min(len(calls), self._requests + MAX_REQUESTS_PER_STEP)]
        self._requests += len(kinds)
        for kind, count in Counter(kinds).items():
            self._calls[kind] += count
            self._stale_kinds.add(kind)
        settled_calls = calls.settled[self._settled : self._settled + MAX_SETTLED_PER_STEP]
        self._settled += len(settled_calls)
        for number in settled_calls:
            kind, outcome = calls.kind[number], calls.outcome[number]
            if calls.abandoned_ns[number] >= 0 and number not in self._abandoned_calls:
                self._abandoned_calls.add(number)
                self._abandoned[kind] += 1
                self._stale_kinds.add(kind)
            if calls.is_cancelled[number]:
                if calls.response[number] != NONE and number not in self._late_calls:
                    self._late_calls.add(number)
                    self._late_counts[kind] += 1
                    self._stale_kinds.add(kind)
                # A failed call counts whether it failed before its cancellation or after; in the second case it is
                # settled twice.
                if outcome == _FAILED_CODE and number not in self._cancelled_failures:
                    self._cancelled_failures.add(number)
                    self._errors[kind] += 1
                    self._stale_kinds.add(kind)
                continue
            if outcome in _ANSWERED_CODES and not calls.is_inexact[number]:
                durations = self._durations.get(kind)
                if durations is None:
                    durations = self._durations[kind] = Durations()
                if not durations.count or calls.latency_ns[number] > durations.most:
                    self._slowest[kind] = number
                durations.add(calls.latency_ns[number])
            if outcome in _ERROR_CODES:
                self._errors[kind] += 1
            self._stale_kinds.add(kind)
        return bool(kinds or settled_calls)

    def _update_rows(self) -> bool:
        """Update some outdated rows."""
        kinds, rows = self._reading.kinds.all, self.rows
        while len(rows) < len(kinds):
            rows.append(KindFigures(len(rows), kinds[len(rows)]))
        numbers = [self._stale_kinds.pop() for _ in range(min(MAX_ROWS_PER_STEP, len(self._stale_kinds)))]
        for number in numbers:
            durations = self._durations.get(number, _NO_DURATIONS)
            p50, p90, p95, p99 = durations.quantiles(0.5, 0.9, 0.95, 0.99)
            max_ns = durations.most if durations.count else None
            counts = self._calls[number], self._errors[number], durations.count
            rows[number] = KindFigures(
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
                self._late_counts[number],
            )
        if not self._stale_kinds:
            self._written_s = time.monotonic()
        return bool(numbers)

    def _update_distribution(self) -> bool:
        """Continue the distribution of the chosen kind over time."""
        kind, calls = self._kind, self._reading.calls
        if kind is None:
            return False
        if self._over_time[0] != kind:
            self._over_time, self._traced = (kind, DurationsOverTime()), 0
        over_time, end = self._over_time[1], min(self._settled, self._traced + MAX_REQUESTS_PER_STEP)
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
                and calls.outcome[number] in _ANSWERED_CODES
                and not calls.is_cancelled[number]
                and not calls.is_inexact[number]
                and calls.response[number] != NONE
            ):
                over_time.add(self._reading.index.t_ns(calls.response[number]), calls.latency_ns[number])
        self._traced = end
        octaves = self._durations.get(kind, _NO_DURATIONS).octaves()
        is_whole = end == self._settled
        if is_whole:
            quantiles = over_time.quantiles(0.5), over_time.quantiles(0.95)
            self.distribution = Distribution(kind, octaves, over_time.slice_ns, *quantiles, is_whole=True)
        elif self.distribution is None or self.distribution.number != kind:
            self.distribution = Distribution(kind, octaves, over_time.slice_ns, (), (), is_whole=False)
        else:
            self.distribution = self.distribution._replace(is_whole=False)
        return True


_NO_DURATIONS: Final = Durations()
