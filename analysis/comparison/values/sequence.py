"""The aspect `sequence`: which calls were made, and in which order."""

from typing import Final, NamedTuple

from analysis.comparison.aspect import Aspect, Observer
from analysis.comparison.change import AspectResult
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.requests import request_key
from analysis.comparison.values.sequence_changes import compare_sequences
from analysis.comparison.values.sequence_record import CallName, CallRun, SequenceRecord
from analysis.conversation.call import Call
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.reading import Reading

MAX_RUNS: Final = 300_000
"""The most calls of a side whose order is kept; equal ones in a row count as one. All are counted."""
MAX_NAMES: Final = 50_000
"""The most different things that are called and counted."""
_IGNORED_METHODS: Final = frozenset({"ping"})
_NEVER: Final = 1 << 62


class _Request(NamedTuple):
    """A request, as it is sorted and grouped at the end of a capture."""

    session: int
    begin: int
    """The number of its frame."""
    end: int
    """The number of the record that ended the wait for its response."""
    call: int


class SequenceObserver(Observer):
    """Notes the calls of a side in the order of their requests."""

    aspect = "sequence"

    def __init__(self) -> None:
        self._captures: list[str] = []
        self._calls: dict[tuple[str, str, str], int] = {}
        """The index of each `CallName`, by its values."""
        self._counts: list[int] = []
        self._requests: list[_Request] = []
        self._runs: list[CallRun] = []
        self._is_cut = False
        self._uncounted = 0

    def begin(self, capture: str, reading: Reading) -> None:  # noqa: ARG002
        """Begin a capture."""
        self._captures.append(capture)

    def on_call(self, call: Call) -> None:
        """Note a call."""
        request = call.request
        if request.method in _IGNORED_METHODS:
            return
        name = request_key(call)[:3]
        index = self._calls.get(name)
        if index is None:
            if len(self._calls) >= MAX_NAMES:
                self._uncounted += 1
                return
            index = self._calls[name] = len(self._calls)
            self._counts.append(0)
        self._counts[index] += 1
        if len(self._requests) + len(self._runs) >= MAX_RUNS:
            self._is_cut = True
            return
        end = None if request.method in ENDLESS_METHODS else call.end_ref
        session = 0 if call.session is None else call.session.number
        self._requests.append(_Request(session, request.seq, _NEVER if end is None else end.seq, index))

    def end(self) -> None:
        """Put the calls of the capture in order, and the ones that were in flight together in the order of their names.

        Calls belong together as long as each one's request precedes the first response to any of them.
        """
        names = self._names()
        group: list[_Request] = []
        first_end = _NEVER
        for request in sorted(self._requests):
            if group and (request.session != group[0].session or request.begin > first_end):
                self._add_group(group, names)
                group, first_end = [], _NEVER
            group.append(request)
            first_end = min(first_end, request.end)
        self._add_group(group, names)
        self._requests.clear()

    def observed(self) -> SequenceRecord:
        """Returns the calls that were observed."""
        return SequenceRecord(self._captures, self._names(), self._counts, self._runs, self._is_cut, self._uncounted)

    def _names(self) -> list[CallName]:
        return [CallName(*name) for name in self._calls]

    def _add_group(self, group: list[_Request], names: list[CallName]) -> None:
        if len(group) > 1:
            group.sort(key=lambda request: (names[request.call].method, names[request.call].name, request.begin))
        for request in group:
            last = self._runs[-1] if self._runs else None
            if last is not None and last.call == request.call:
                last.times += 1
                last.is_concurrent = last.is_concurrent or len(group) > 1
            else:
                capture = len(self._captures) - 1
                run = CallRun(request.call, 1, len(group) > 1, capture, request.session, request.begin)
                self._runs.append(run)


class SequenceAspect(Aspect):
    """The aspect `sequence`."""

    name = "sequence"
    record = SequenceRecord

    def observer(self, options: ObserveOptions) -> Observer:  # noqa: ARG002
        """Returns an observer for one side."""
        return SequenceObserver()

    def compare(self, old: SequenceRecord, new: SequenceRecord, options: CompareOptions) -> AspectResult:  # noqa: ARG002
        """Compare which calls were made, and in which order."""
        return compare_sequences(old, new)
