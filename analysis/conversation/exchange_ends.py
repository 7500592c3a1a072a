"""Finds the requests that can no longer be answered when their HTTP exchange ends, and sets their outcomes."""

from collections.abc import Sequence
from typing import Final

from analysis.conversation.addressing import Addressing
from analysis.conversation.call import Call, Outcome
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import BODILESS_STATUSES, EVENT_STREAM, HttpExchange
from analysis.conversation.message import Side
from analysis.conversation.multi_round import Chains
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.under_way import CallsUnderWay
from captures.record import Record

# Enumeration members are slow to look up.
_FAILED: Final = Outcome.FAILED
_CANCELLED: Final = Outcome.CANCELLED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_UNSETTLED_OUTCOMES: Final = frozenset({Outcome.UNANSWERED, _NOT_RECORDED, _FAILED})


class ExchangeEnds:
    """Ends the calls of exchanges that have ended."""

    def __init__(
        self, tables: dict[Side, CallTable], under_way: CallsUnderWay, addressing: Addressing, chains: Chains
    ) -> None:
        """Create an object that ends calls in these tables, which the caller keeps up to date.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            addressing: which exchange carried each request.
            chains: the chains of calls, which are notified of failed retries.
        """
        self._tables, self._under_way, self._addressing, self._chains = tables, under_way, addressing, chains

    def on_exchange_end(self, record: Record, http: HttpExchange) -> Sequence[Call]:
        """End an HTTP exchange and those of its calls that can no longer be answered; return these calls.

        The calls have failed, unless the client closed the exchange: then it gave up. Since 2026-07-28, this is how a
        client cancels.
        """
        keys, table = self._addressing.requests_in(http.stream), self._tables["client"]
        if http.stream == http.number:
            # A forged capture can end an exchange again and again; each end then examines only new requests.
            while http.closed_count < len(keys) and table.get(keys[http.closed_count]) is None:
                http.closed_count += 1
            keys = keys[http.closed_count :]
        if all(table.get(key) is None for key in keys):
            return ()
        status, ended_by = _status_in(record), record.members.get("ended_by")
        is_refused = status is not None and status >= 300 and not http.is_redirect
        may_be_answered_elsewhere = http.is_redirect or (
            status is not None and not is_refused and self._may_be_answered_elsewhere(http, ended_by)
        )
        is_resuming, is_legacy = http.stream != http.number, _uses_legacy_transport(http)
        if is_resuming and (status is None or status >= 300):
            return ()  # a failed attempt to resume the stream changes nothing
        if ended_by == "proxy" and status is None:
            return ()  # the recorder ended, which says nothing about the server
        ended_calls: list[Call] = []
        for key in keys:
            call = table.get(key)
            if call is None or (http.is_redirect and call.http is not http):
                continue  # the request has already been repeated
            if not is_legacy and not is_refused and ended_by != "proxy":
                call.exchange_end = RecordRef(record.seq, record.t_ns)
                call.has_client_closed = ended_by == "client" and call.era != "modern" and not http.is_redirect
                self._under_way.changed_calls[call] = None
            if may_be_answered_elsewhere or is_resuming:
                continue
            is_cancellation = call.era == "modern" and ended_by == "client" and not is_legacy and not is_refused
            self._under_way.remove(call)
            table.fail(key)
            outcome = call.outcome
            if is_cancellation and call.cancelled_ns is None:
                outcome, call.cancellation = _CANCELLED, RecordRef(record.seq, record.t_ns)
            if is_refused or (outcome in _UNSETTLED_OUTCOMES and call.cancelled_ns is None):
                outcome = _NOT_RECORDED if call.may_be_in(http) else _FAILED
            call.final_outcome = outcome
            ended_calls.append(call)
            self._chains.on_failed(call.request)
        return tuple(ended_calls)

    def _may_be_answered_elsewhere(self, http: HttpExchange, ended_by: object) -> bool:
        """Whether the responses to the requests of an exchange that has ended may still come elsewhere.

        A stream may end early and continue as another, if its events have ids. The body of any other response is
        complete, unless the server only accepted the requests, or the older transport answers on its stream.
        """
        if not _uses_legacy_transport(http):
            if ended_by == "client" and http.event_id is None:
                return False
            if http.media_type != EVENT_STREAM and http.status not in BODILESS_STATUSES:
                return False
        return ended_by == "complete" or self._addressing.is_of_session(http.number)


def _uses_legacy_transport(http: HttpExchange) -> bool:
    """Whether the older transport answers its requests, on another stream."""
    return http.is_for_stream or (http.session is not None and http.session.is_legacy)


def _status_in(record: Record) -> int | None:
    response = record.members.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    return status if type(status) is int else None
