"""The aspect `outcomes`: how the calls of a side ended, for each request and for each call as a whole."""

from collections.abc import Collection
from sys import intern
from typing import Final

from analysis.comparison.aspect import Aspect, Observer
from analysis.comparison.canonical import json_digest
from analysis.comparison.change import AspectResult, Place
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.outcome_changes import compare_outcomes
from analysis.comparison.outcome_record import CallRow, Ending, OutcomesRecord, RequestRow
from analysis.comparison.requests import RequestKey, bounded, request_key, subject_of
from analysis.comparison.sample import Sample
from analysis.conversation.call import Call, Outcome
from analysis.facts import code_of, text_of_error, texts_in
from analysis.protocol.error_codes import CONNECTION_CLOSED
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.reading import Reading

MAX_REQUESTS: Final = 20_000
"""The most different requests of a side that are compared."""
MAX_CALLS: Final = 10_000
"""The most different calls (sender, method and name) of a side that are compared."""
MAX_TEXTS: Final = 3
"""The most different error texts of a request that are kept for each outcome."""
_SUCCESSES: Final = frozenset({Outcome.RESULT, Outcome.TASK, Outcome.INPUT_REQUIRED})
_COMMON_METHODS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""Methods that a client calls on any server, in addition to the lists."""


class _OutcomesObserver(Observer):
    aspect = "outcomes"

    def __init__(self) -> None:
        self._requests: Sample[RequestRow] = Sample(MAX_REQUESTS)
        self._calls: Sample[CallRow] = Sample(MAX_CALLS)
        self._known_rows: dict[tuple[str, str, str], CallRow | None] = {}
        """The rows of calls by sender, method and name, or None for those that the sample does not keep."""
        self._count = 0
        self._capture = ""
        self._reading: Reading | None = None

    def begin(self, capture: str, reading: Reading) -> None:
        self._capture, self._reading = capture, reading

    def on_call(self, call: Call) -> None:
        label = label_of(call, is_open=False)
        if label is None or (label == "unanswered" and self._reading is not None and self._reading.end == "open"):
            return
        self._count += 1
        key = request_key(call)
        row = self._call_row(key)
        if row is not None:
            row.outcomes[label] = row.outcomes.get(label, 0) + 1
        request_row = self._requests.entry(
            key.digest, lambda: RequestRow(key.sender, intern(key.method), intern(key.name))
        )
        if request_row is not None:
            self._add(request_row.endings, label, call)

    def observed(self) -> OutcomesRecord:
        requests, calls = self._requests.kept(), self._calls.kept()
        return OutcomesRecord(requests, calls, self._count, self._requests.ceiling, self._calls.ceiling)

    def _add(self, endings: dict[str, Ending], label: str, call: Call) -> None:
        ending = endings.get(label)
        response = None if label == "unanswered" else call.response  # the error only reports that the client closed
        if ending is None:
            session = 0 if call.session is None else call.session.number
            place = Place(self._capture, session, call.request.seq if response is None else response.seq)
            ending = endings[intern(label)] = Ending(place)
        ending.count += 1
        if label != "result" and response is not None and len(ending.texts) < MAX_TEXTS:
            text = bounded(text_of_error(response) or next(texts_in(response.result), ""))
            if text not in ending.texts:
                ending.texts = (*ending.texts, text)

    def _call_row(self, key: RequestKey) -> CallRow | None:
        name = key[:3]
        if name in self._known_rows:
            return self._known_rows[name]
        if len(self._known_rows) >= MAX_CALLS:
            self._known_rows.clear()
        row = self._calls.entry(json_digest(name), lambda: CallRow(key.sender, intern(key.method), intern(key.name)))
        self._known_rows[name] = row
        return row


class OutcomesAspect(Aspect):
    """The aspect `outcomes`."""

    name = "outcomes"
    record = OutcomesRecord

    def observer(self, options: ObserveOptions) -> Observer:  # noqa: ARG002
        """Returns an observer for one side."""
        return _OutcomesObserver()

    def compare(self, old: OutcomesRecord, new: OutcomesRecord, options: CompareOptions) -> AspectResult:  # noqa: ARG002
        """Compare how calls ended on both sides."""
        return compare_outcomes(old, new)

    def recognisable(self, record: OutcomesRecord) -> Collection[str]:
        """Returns the calls that not every client makes of every server."""
        rows = record.calls.values()
        return {f"call {subject_of(row.method, row.name)}" for row in rows if not is_common_method(row.method)}


def _has_client_closed(call: Call) -> bool:
    """Whether a call ended after the client had closed its connection; servers end open calls with an error then."""
    closed_ns = None if call.session is None else call.session.closed_ns.get("client")
    return closed_ns is not None and call.ended_ns is not None and call.ended_ns >= closed_ns


def is_common_method(method: str) -> bool:
    """Whether a client calls a method on any server, so that it says nothing about what two sides have in common."""
    return method in _COMMON_METHODS or method.endswith("/list")


def label_of(call: Call, *, is_open: bool) -> str | None:
    """Returns how a call ended, such as `result`, `tool_error`, `error -32602`, `unanswered` or `abandoned`.

    Args:
        call: the call, when it is over or its capture ends.
        is_open: whether its capture is still being recorded, so that a response may still come.

    Returns:
        The outcome in one or two words, or None if the capture cannot show how it ended, or the call never ends.
    """
    if (
        call.final_outcome is Outcome.RESULT
        and call.cancellation is None
        and call.request.method not in ENDLESS_METHODS
    ):
        return "result"  # the usual case
    outcome = call.outcome
    if call.request.method in ENDLESS_METHODS or outcome is Outcome.NOT_RECORDED or call.is_forgotten:
        return None
    if outcome is Outcome.FAILED:
        return "failed"
    if call.abandoned_ns is not None:
        return "abandoned"
    if call.cancelled_ns is not None:
        return "cancelled"
    if outcome is Outcome.UNANSWERED:
        return None if is_open or not call.request.id.is_answerable else "unanswered"
    if outcome in _SUCCESSES:
        return "result"
    if outcome is Outcome.ERROR:
        code = None if call.response is None else code_of(call.response)
        if code == CONNECTION_CLOSED and _has_client_closed(call):
            return "unanswered"
        return "error" if code is None else f"error {code}"
    return str(outcome)
