"""Cells of calls: the worker writes the current state of each call into its columns.

A `Call` always contains its current state, so its cells are rewritten whenever a step names the call.
"""

from typing import Final

from analysis.conversation.call import Call, Outcome
from analysis.conversation.durations import Durations
from mcpproxy.tui.data.column_filler import ColumnFiller
from mcpproxy.tui.data.columns import BAD, NONE, OPEN, OUTCOMES

MIN_RESPONSES: Final = 20
"""The minimum number of responses for a kind to have a usual time."""
_GROWTH_FACTOR: Final = 1.1
"""The usual time is computed again when the number of responses has grown by this factor."""
_MAX_DURATION_NS: Final = (1 << 63) - 1
_CODES: Final = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_QUIET_CODES: Final = frozenset({_CODES[Outcome.CANCELLED], _CODES[Outcome.NOT_RECORDED]})
"""The codes of outcomes without a response that do not make the request an error."""


class CallCells:
    """Writes the cells of the calls of one capture."""

    def __init__(self, filler: ColumnFiller, max_calls: int) -> None:
        """Start without calls.

        Args:
            filler: the columns.
            max_calls: the maximum number of calls with cells.
        """
        self.omitted_count = 0
        """The number of requests above the maximum."""
        self._filler, self._max_calls = filler, max_calls
        self._durations: dict[int, Durations] = {}
        self._next_counts: dict[int, float] = {}

    def on_call(self, call: Call, row: int, *, is_last: bool = False) -> None:
        """Write the cells of a call.

        Args:
            call: the call.
            row: the row that changed it; NONE at the end of the capture.
            is_last: whether nothing can change it later.
        """
        filler, calls, number = self._filler, self._filler.columns.calls, call.number
        if number >= self._max_calls:
            self.omitted_count = max(self.omitted_count, number + 1 - self._max_calls)
            return
        if number >= len(calls):
            self._add_call(call, row)
        else:
            self._filler.note_call_change(number)
        settled_outcome, is_final = (
            call.final_outcome,
            not call.is_forgotten and (is_last or not call.request.id.is_answerable),
        )
        if call.guessed_response is not None and call.response is None:
            self._note_guess(call)
        if settled_outcome is None and call.cancellation is None and not is_final:
            return
        code = _CODES[call.outcome if settled_outcome is None else settled_outcome]
        self._note_cancellation(call, row)
        self._note_carrier(call, row)
        self._note_loss(call)
        abandoned_ns = call.abandoned_ns if calls.is_cancelled[number] else None
        is_newly_abandoned = abandoned_ns is not None and calls.abandoned_ns[number] < 0
        if abandoned_ns is not None:
            calls.abandoned_ns[number] = min(abandoned_ns, _MAX_DURATION_NS)
        if is_newly_abandoned and call.response is None:
            filler.add_mark(calls.request[number], BAD)
        old_code = calls.outcome[number]
        response = call.response
        if response is not None and calls.response[number] == NONE:
            latency_ns = min(call.latency_ns or 0, _MAX_DURATION_NS)
            calls.response[number] = filler.row_of(response.seq, row)
            calls.latency_ns[number] = latency_ns
            calls.is_inexact[number] = not call.has_exact_times
            if call.has_exact_times:
                self._note_duration(calls.kind[number], latency_ns)
        elif old_code == code:
            if is_newly_abandoned:
                calls.settled.append(number)
            return
        calls.outcome[number] = code
        calls.end[number] = self._end_of(call, row)
        calls.settled.append(number)
        if response is None and code not in _QUIET_CODES and (settled_outcome is not None or is_final):
            filler.add_mark(calls.request[number], BAD)

    def _end_of(self, call: Call, row: int) -> int:
        """Returns the row of a call's response, cancellation or failure over HTTP, whichever came first.

        Args:
            call: the call.
            row: the row that changed it; NONE at the end of the capture, which does not end a call.
        """
        return row if call.end_ref is None else self._filler.row_of(call.end_ref.seq, row)

    def _note_guess(self, call: Call) -> None:
        """Record which response was probably meant for a call; if there are several, only the first."""
        guess, notes = call.guessed_response, self._filler.notes
        if guess is not None and not notes.has("probable", call.number):
            notes.add("probable", call.number, guess.seq, guess.id)

    def _note_cancellation(self, call: Call, row: int) -> None:
        is_cancelled, seq = self._filler.columns.calls.is_cancelled, call.cancelled_seq
        if seq is not None and not is_cancelled[call.number]:
            self._filler.notes.add("cancelled", call.number, self._filler.row_of(seq, row))
        is_cancelled[call.number] = seq is not None

    def _note_carrier(self, call: Call, row: int) -> None:
        """Record the HTTP exchange by which a call ended, and when, if it was not the exchange of its request."""
        http, request_exchange = call.http, call.request.frames[0].exchange
        if http is None or call.response is not None:
            return
        exchange_end, is_failed = call.exchange_end, call.outcome is Outcome.FAILED
        if http.number == request_exchange and not (is_failed and exchange_end != http.end_ref):
            return
        end_row = None if exchange_end is None else self._filler.row_of(exchange_end.seq, row)
        self._filler.notes.add("carried", call.number, http.number, end_row)

    def _note_loss(self, call: Call) -> None:
        """Record among which lost records the response may be."""
        lost_records = call.lost_records
        if lost_records is not None:
            self._filler.notes.add("lost", call.number, *lost_records)

    def _add_call(self, call: Call, row: int) -> None:
        filler = self._filler
        calls, kind, usual_ns = filler.columns.calls, filler.kinds.register(call), filler.columns.usual_ns
        if kind >= len(usual_ns):
            usual_ns.append(-1)
        calls.request.append(filler.row_of(call.request.seq, row))
        calls.response.append(NONE)
        calls.latency_ns.append(-1)
        calls.abandoned_ns.append(-1)
        calls.kind.append(kind)
        calls.is_cancelled.append(0)
        calls.is_inexact.append(0)
        calls.end.append(NONE)
        calls.outcome.append(OPEN)

    def _note_duration(self, kind: int, ns: int) -> None:
        durations = self._durations.get(kind)
        if durations is None:
            durations = self._durations[kind] = Durations()
        durations.add(ns)
        if durations.count >= self._next_counts.get(kind, MIN_RESPONSES):
            self._next_counts[kind] = durations.count * _GROWTH_FACTOR
            usual_ns = durations.quantiles(0.95)[0]
            assert usual_ns is not None
            self._filler.set_usual(kind, usual_ns)
