"""The ends of HTTP exchanges: which of their requests can no longer be answered, and what has become of these."""

from collections.abc import Sequence
from typing import Final

from analysis.conversation.addressing import Addressing
from analysis.conversation.call import Call, Outcome
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import STREAM, WITHOUT_BODY, HttpExchange
from analysis.conversation.message import Side
from analysis.conversation.multi_round import Chains
from analysis.conversation.record_ref import RecordRef
from analysis.conversation.under_way import UnderWay
from captures.record import Record

# Enumeration members are slow to look up.
_FAILED: Final = Outcome.FAILED
_CANCELLED: Final = Outcome.CANCELLED
_NOT_RECORDED: Final = Outcome.NOT_RECORDED
_OPEN_ENDS: Final = frozenset({Outcome.UNANSWERED, _NOT_RECORDED, _FAILED})


class ExchangeEnds:
    """Ends the calls of exchanges that have ended."""

    def __init__(
        self, tables: dict[Side, CallTable], under_way: UnderWay, addressing: Addressing, chains: Chains
    ) -> None:
        """Create an object that ends calls in these, which the caller keeps.

        Args:
            tables: the requests, by the side that sent them.
            under_way: the calls under way.
            addressing: which exchange carried each request.
            chains: are notified of retries that have failed.
        """
        self._tables, self._under_way, self._addressing, self._chains = tables, under_way, addressing, chains

    def on_exchange_end(self, record: Record, http: HttpExchange) -> Sequence[Call]:
        """End an HTTP exchange and those of its calls that can no longer be answered; return these calls.

        They have failed, unless the client closed the exchange: it gave up, which since 2026-07-28 is how it cancels.
        """
        asked, table = self._addressing.requests_in(http.stream), self._tables["client"]
        if http.stream == http.number:
            # Only a forger ends one exchange again and again, and then each end looks at what is new.
            while http.closed < len(asked) and table.get(asked[http.closed]) is None:
                http.closed += 1
            asked = asked[http.closed :]
        if all(table.get(key) is None for key in asked):
            return ()
        status, by = _status_in(record), record.members.get("ended_by")
        is_refused = status is not None and status >= 300 and not http.is_redirect
        may_follow = http.is_redirect or (status is not None and not is_refused and self._may_follow(http, by))
        is_resuming, is_older = http.stream != http.number, _is_older(http)
        if is_resuming and (status is None or status >= 300):
            return ()  # nothing has happened here
        if by == "proxy" and status is None:
            return ()  # the recorder ends, which says nothing about the server
        ended: list[Call] = []
        for key in asked:
            waiting = table.get(key)
            if waiting is None or (http.is_redirect and waiting.http is not http):
                continue  # it has come again already
            if not is_older and not is_refused and by != "proxy":
                waiting.exchange_end = RecordRef(record.seq, record.t_ns)
                waiting.client_closed = by == "client" and waiting.era != "modern" and not http.is_redirect
                self._under_way.changed[waiting] = None
            if may_follow or is_resuming:
                continue
            is_cancel = waiting.era == "modern" and by == "client" and not is_older and not is_refused
            self._under_way.remove(waiting)
            table.fail(key)
            outcome = waiting.outcome
            if is_cancel and waiting.cancelled_ns is None:
                outcome, waiting.cancellation = _CANCELLED, RecordRef(record.seq, record.t_ns)
            if is_refused or (outcome in _OPEN_ENDS and waiting.cancelled_ns is None):
                outcome = _NOT_RECORDED if waiting.may_be_in(http) else _FAILED
            waiting.settled = outcome
            ended.append(waiting)
            self._chains.on_failed(waiting.request)
        return tuple(ended)

    def _may_follow(self, http: HttpExchange, by: object) -> bool:
        """Whether the responses to the requests of an exchange that has ended may still come elsewhere.

        A stream may end early and go on as another, if its events have ids. The body of any other response is all that
        there is, unless the server only accepted the requests, or the older transport answers on its stream.
        """
        if not _is_older(http):
            if by == "client" and http.event_id is None:
                return False
            if http.media_type != STREAM and http.status not in WITHOUT_BODY:
                return False
        return by == "complete" or self._addressing.is_of_session(http.number)


def _is_older(http: HttpExchange) -> bool:
    """Whether the older transport answers its requests, on another stream."""
    return http.is_for_stream or (http.session is not None and http.session.is_legacy)


def _status_in(record: Record) -> int | None:
    response = record.members.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    return status if type(status) is int else None
