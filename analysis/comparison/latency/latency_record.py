"""What a side has of the latencies of its calls: a sample for each kind of call, and how it is collected."""

from array import array
from typing import ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Struct

from analysis.comparison.aspect import Observer
from analysis.comparison.change import Place
from analysis.comparison.kind import AspectName
from analysis.comparison.requests import request_key
from analysis.conversation.call import Call
from analysis.conversation.message import Side
from analysis.reading import Reading

MAX_TIMES: Final = 4_096
"""The most latencies that are kept of a kind of call, an even number: more would tell nothing that matters."""
MAX_KINDS: Final = 1_000
"""The most kinds of calls whose latencies are kept, the first ones."""
MAX_FIRST_CALLS: Final = 100_000
"""The most first calls of a session that are told apart from later ones."""
_MAX_NS: Final = (1 << 62) - 1
_CAPTURE_BITS: Final = 40
_SessionKind: TypeAlias = tuple[int, Side, str, str]
"""The number of a session, and who sends which method with which name."""


class LatencyKey(NamedTuple):
    """A kind of call: what the same calls on both sides have in common."""

    sender: Side
    """Whose requests they are."""
    method: str
    """Untrusted text, truncated."""
    name: str
    """The tool, prompt or resource; empty if there is none. Untrusted text, truncated."""
    is_first: bool
    """Whether these are the first calls of their sessions, in which a server often loads something."""


class CallLatencies(Struct, frozen=True):
    """The latencies of one kind of call on one side."""

    key: LatencyKey
    count: int
    """How many calls there were."""
    times_ns: list[int]
    """The latencies in the order of the requests, in nanoseconds; of many, a sample."""
    place: Place
    """The first of them."""


class LatencyRecord(Struct, frozen=True):
    """The latencies of one side."""

    calls: list[CallLatencies]
    """The kinds of calls, in the order in which the first of each ended."""
    inexact_count: int
    """How many responses have no exact time, as in an imported log."""
    omitted_count: int
    """How many calls are of kinds beyond `MAX_KINDS`."""


class LatencySample:
    """Keeps an even sample of a series.

    One value of each stretch is kept. The stretches become longer as the series does, and which value is kept is
    pseudo-random, but the same for equal series: every n-th value would keep all or none of what happens at each n-th
    call. Values that are farther apart depend less on each other; as their dependence is estimated from what is kept,
    a sample says what it is worth.
    """

    def __init__(self) -> None:
        """Begin without values."""
        self.count = 0
        self._keys, self._times = array("q"), array("q")
        self._stretch, self._chosen, self._state = 1, 0, 1

    def add(self, key: int, time_ns: int) -> None:
        """Add a value.

        Args:
            key: where it belongs in the order of the series.
            time_ns: the value.
        """
        position = self.count % self._stretch
        self.count += 1
        if position == self._chosen:
            self._keys.append(key)
            self._times.append(time_ns)
        if position == self._stretch - 1:
            if len(self._times) >= MAX_TIMES:
                self._halve()
            self._chosen = self._random(self._stretch)

    def in_order(self) -> list[int]:
        """Returns the values that are kept, in the order of their keys."""
        return [time_ns for _, time_ns in sorted(zip(self._keys, self._times, strict=True))]

    def _halve(self) -> None:
        kept = [position + self._random(2) for position in range(0, len(self._times), 2)]
        self._keys = array("q", [self._keys[position] for position in kept])
        self._times = array("q", [self._times[position] for position in kept])
        self._stretch *= 2

    def _random(self, below: int) -> int:
        self._state = (self._state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % (1 << 64)
        return (self._state >> 33) % below


class LatencyObserver(Observer):
    """Collects the latencies of one side."""

    aspect: ClassVar[AspectName] = "latency"

    def __init__(self) -> None:
        """Begin without captures."""
        self._samples: dict[LatencyKey, tuple[LatencySample, Place]] = {}
        self._first_calls: set[_SessionKind] = set()
        self._samples_of_later_calls: dict[_SessionKind, LatencySample] = {}
        self._capture, self._number = "", -1
        self._inexact_count = self._omitted_count = 0

    def begin(self, capture: str, reading: Reading) -> None:  # noqa: ARG002
        """Begin a capture."""
        self._capture, self._number = capture, self._number + 1
        self._first_calls.clear()
        self._samples_of_later_calls.clear()

    def on_call(self, call: Call) -> None:
        """Keep the latency of a call, if it counts."""
        if not call.is_timely:
            self._inexact_count += call.latency_ns is not None and not call.has_exact_times
            return
        session = 0 if call.session is None else call.session.number
        kind = session, *request_key(call)[:3]
        sample = self._samples_of_later_calls.get(kind)
        if sample is None:
            sample = self._sample(call, LatencyKey(*kind[1:], is_first=self._is_first(kind)), kind)
        if sample is not None:
            sample.add((self._number << _CAPTURE_BITS) + call.number, min(_MAX_NS, call.latency_ns or 0))

    def observed(self) -> LatencyRecord:
        """Returns the latencies."""
        calls = [
            CallLatencies(key, sample.count, sample.in_order(), place) for key, (sample, place) in self._samples.items()
        ]
        return LatencyRecord(calls, self._inexact_count, self._omitted_count)

    def _sample(self, call: Call, key: LatencyKey, kind: _SessionKind) -> LatencySample | None:
        """Returns the sample to which a call belongs, created if it is new, or None if there are too many."""
        kept = self._samples.get(key)
        if kept is None:
            if len(self._samples) >= MAX_KINDS:
                self._omitted_count += 1
                return None
            kept = self._samples[key] = LatencySample(), Place(self._capture, kind[0], call.request.seq)
        if not key.is_first and len(self._samples_of_later_calls) < MAX_FIRST_CALLS:
            self._samples_of_later_calls[kind] = kept[0]
        return kept[0]

    def _is_first(self, kind: _SessionKind) -> bool:
        if kind in self._first_calls or len(self._first_calls) >= MAX_FIRST_CALLS:
            return False
        self._first_calls.add(kind)
        return True
