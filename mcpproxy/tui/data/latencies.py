"""Latencies: how long the responses to each kind of request took; a thread counts them from the columns of a reading.

It counts as the SQL views do: a response counts unless it is interim or its request had been cancelled; an error
is a JSON-RPC error, a tool error, or a failed HTTP exchange. Nothing is counted twice, so in a growing capture, only
new calls cost time. Figures of selected calls are counted again only if a call leaves the selection.
"""

import time
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappush, heappushpop
from types import MappingProxyType
from typing import Final, NamedTuple

from analysis.conversation.call import ERRORS, Outcome
from analysis.conversation.durations import Durations
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.tui.data.call_selection import CallSelection
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
PAUSE_FACTOR: Final = 4
"""The pause before counting again after a call has left the selection, as a multiple of the time it took."""
MAX_SLOWEST_CALLS: Final = 50
"""How many of the slowest calls of the chosen kind are listed."""

_ANSWERED_CODES: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.RESULT})
_UNANSWERED_CODE: Final = OUTCOMES.index(Outcome.UNANSWERED)
_FAILED_CODE: Final = OUTCOMES.index(Outcome.FAILED)
_ERROR_CODES: Final = frozenset(OUTCOMES.index(outcome) for outcome in ERRORS | {Outcome.FAILED})
_IS_COUNTED: Final = 1
_IS_SETTLED: Final = 2


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
    unanswered: int = 0
    """Requests without a response when the capture ended; they were neither cancelled nor did their exchanges fail."""


class Distribution(NamedTuple):
    """The durations of one kind: how often each occurs, and how they change over time."""

    number: int
    parts: dict[int, int]
    """Counts by part of an octave."""
    slice_ns: int
    p50_ns: Sequence[int | None]
    """The medians, by time slice."""
    p95_ns: Sequence[int | None]
    is_whole: bool
    """Whether it includes everything counted."""
    slowest: Sequence[int] = ()
    """The slowest calls, the slowest first; at most `MAX_SLOWEST_CALLS`."""


class Latencies:
    """Counts latencies. One thread calls `step`; others read `rows` and `distribution`."""

    def __init__(self, reading: Reading, selection: CallSelection | None = None) -> None:
        """Start without counts.

        Args:
            reading: the capture.
            selection: the calls to count, which each step continues to search for; None for all calls.
        """
        self.rows: list[KindFigures] = []
        """The figures, by the number of the kind."""
        self.distribution: Distribution | None = None
        """The distribution of the chosen kind."""
        self._reading, self._selection = reading, selection
        self._kind: int | None = None
        self._written_s = self._recounted_s = self._recount_pause_s = 0.0
        self._is_recounting = False
        """Whether the figures in `rows` are kept until all calls are counted again."""
        self._stale_kinds: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        """Count from the beginning."""
        self._generation = 0 if self._selection is None else self._selection.generation
        self._began_s = time.monotonic()
        self._requests = self._settled = self._traced = 0
        if self.distribution is not None:
            self.distribution = self.distribution._replace(is_whole=False)
        self._states = bytearray()
        """By call, if they are selected: whether it is counted as a request, and whether its outcome is known."""
        self._settled_order = self._reading.calls.settled if self._selection is None else array("I")
        """The calls whose outcomes are counted, in the order in which they were."""
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
        self._unanswered: Counter[int] = Counter()
        self._over_time: tuple[int | None, DurationsOverTime] = None, DurationsOverTime()
        self._slowest_calls: list[tuple[int, int]] = []
        """A heap of the slowest calls of the chosen kind: latency, and the call as a negative number."""

    @property
    def is_searching(self) -> bool:
        """Whether there may be more calls to select already."""
        return self._selection is not None and self._selection.is_searching

    def close(self) -> None:
        """Stop searching for selected calls."""
        if self._selection is not None:
            self._selection.close()

    def choose_kind(self, number: int | None) -> None:
        """Choose the kind whose distribution is computed."""
        self._kind = number

    def step(self) -> bool:
        """Work for a few milliseconds; returns False if there is nothing to do yet."""
        is_busy = self._selection is not None and self._step_selection(self._selection)
        is_counting = self._count()
        is_busy = is_counting or is_busy
        if self._is_recounting:
            if is_counting:
                return True
            self._is_recounting, self._recounted_s = False, time.monotonic()
            self._recount_pause_s = PAUSE_FACTOR * (self._recounted_s - self._began_s)
        if not is_busy or time.monotonic() - self._written_s >= REPORT_INTERVAL_S:
            is_busy = self._update_rows() or is_busy
        return self._update_distribution() or is_busy

    def _step_selection(self, selection: CallSelection) -> bool:
        is_busy = selection.step()
        if selection.generation != self._generation and time.monotonic() - self._recounted_s >= self._recount_pause_s:
            self._is_recounting = True
            self._stale_kinds |= set(range(len(self.rows)))
            self._begin()
        return is_busy

    def _count(self) -> bool:
        calls, selection = self._reading.calls, self._selection
        kinds, settled_calls, is_busy = self._next_calls() if selection is None else self._next_selected(selection)
        for kind, count in Counter(kinds).items():
            self._calls[kind] += count
            self._stale_kinds.add(kind)
        for number in settled_calls:
            kind, outcome = calls.kind[number], calls.outcome[number]
            if outcome == _UNANSWERED_CODE:
                self._unanswered[kind] += 1
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
        return is_busy

    def _next_calls(self) -> tuple[Sequence[int], Sequence[int], bool]:
        """Returns the kinds of new calls, the calls whose outcomes are to be counted, and whether there are any."""
        calls = self._reading.calls
        kinds = calls.kind[self._requests : min(len(calls), self._requests + MAX_REQUESTS_PER_STEP)]
        settled_calls = calls.settled[self._settled : self._settled + MAX_SETTLED_PER_STEP]
        self._requests += len(kinds)
        self._settled += len(settled_calls)
        return kinds, settled_calls, bool(kinds or settled_calls)

    def _next_selected(self, selection: CallSelection) -> tuple[Sequence[int], Sequence[int], bool]:
        """As `_next_calls`, for selected calls.

        The outcome of a call may become known before the call is selected, or after.
        """
        calls, states = self._reading.calls, self._states
        if selection.generation != self._generation:
            return [], [], False  # what is counted now is counted again after a pause
        states.extend(bytes(max(0, len(calls) - len(states))))
        joined = selection.joined[self._requests : self._requests + MAX_SETTLED_PER_STEP]
        passed = calls.settled[self._settled : self._settled + MAX_SETTLED_PER_STEP]
        self._requests += len(joined)
        settled_calls: list[int] = []
        for number in joined:
            states[number] |= _IS_COUNTED
            if states[number] & _IS_SETTLED:
                settled_calls.append(number)
        for number in passed:
            if number >= len(states):
                break
            self._settled += 1
            states[number] |= _IS_SETTLED
            if states[number] & _IS_COUNTED:
                settled_calls.append(number)
        self._settled_order.extend(settled_calls)
        return [calls.kind[number] for number in joined], settled_calls, bool(joined or passed)

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
                self._unanswered[number],
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
            self._over_time, self._traced, self._slowest_calls = (kind, DurationsOverTime()), 0, []
        over_time, settled_calls, slowest_calls = self._over_time[1], self._settled_order, self._slowest_calls
        settled_count = self._settled if self._selection is None else len(settled_calls)
        end = min(settled_count, self._traced + MAX_REQUESTS_PER_STEP)
        if (
            self._traced == end
            and self.distribution is not None
            and self.distribution.number == kind
            and self.distribution.is_whole
        ):
            return False
        for number in settled_calls[self._traced : end]:
            if (
                calls.kind[number] == kind
                and calls.outcome[number] in _ANSWERED_CODES
                and not calls.is_cancelled[number]
                and not calls.is_inexact[number]
                and calls.response[number] != NONE
            ):
                over_time.add(self._reading.index.t_ns(calls.response[number]), calls.latency_ns[number])
                push = heappush if len(slowest_calls) < MAX_SLOWEST_CALLS else heappushpop
                push(slowest_calls, (calls.latency_ns[number], -number))
        self._traced = end
        parts = self._durations.get(kind, _NO_DURATIONS).parts()
        is_whole = end == settled_count
        if is_whole:
            quantiles = over_time.quantiles(0.5), over_time.quantiles(0.95)
            slowest = [-number for _, number in sorted(slowest_calls, reverse=True)]
            self.distribution = Distribution(
                kind, parts, over_time.slice_ns, *quantiles, is_whole=True, slowest=slowest
            )
        elif self.distribution is None or self.distribution.number != kind:
            self.distribution = Distribution(kind, parts, over_time.slice_ns, (), (), is_whole=False)
        else:
            self.distribution = self.distribution._replace(is_whole=False)
        return True


_NO_DURATIONS: Final = Durations()
