"""Finds the request that each cancellation names, and the outcome that the request already had."""

from typing import Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import MAX_REASON_CHARS, Call, IdState, Outcome
from analysis.conversation.call_table import CallTable
from analysis.conversation.handshake import text_of
from analysis.conversation.message import Notification, Request, Side, id_of, other_side, parse_exactly
from analysis.conversation.pairing import Pairing
from analysis.conversation.session import Session
from analysis.conversation.under_way import CallsUnderWay
from analysis.protocol.extensions import ENDLESS_METHODS

CANCELLATION_METHODS: Final = frozenset({"notifications/cancelled", "cancelled"})
"""The methods of cancellations: the correct one, and one that some peers send instead."""

# Enumeration members are slow to look up.
_FAILED: Final = Outcome.FAILED
_UNANSWERED: Final = Outcome.UNANSWERED


class Cancellations:
    """Cancels the calls that cancellations name."""

    def __init__(self, tables: dict[Side, CallTable], pairing: Pairing, under_way: CallsUnderWay) -> None:
        """Create an object that cancels the calls in these tables.

        Args:
            tables: the tables of requests, by side; the caller keeps them up to date.
            pairing: finds the named requests.
            under_way: is notified of each cancelled call.
        """
        self._tables, self._pairing, self._under_way = tables, pairing, under_way

    def on_cancelled(self, notification: Notification, session: Session) -> tuple[IdState, Request | None, Call | None]:
        """Process a cancellation; return the previous state of its id, the named request, and the cancelled call."""
        params = notification.params if isinstance(notification.params, dict) else {}
        value, reason = params.get("requestId"), text_of(params.get("reason"))
        id_ = id_of(_exact_request_id(notification) if isinstance(value, float) else value)
        frame, receiver = notification.frames[0], other_side(notification.sender)
        table, key = self._tables[notification.sender], self._pairing.find(notification.sender, frame, id_)
        listen_key = self._pairing.find(receiver, frame, id_) if key is None else None
        if listen_key is not None and _is_endless(self._tables[receiver].get(listen_key)):
            # Only such requests may be ended with a cancellation by the answering side.
            table, key = self._tables[receiver], listen_key
        state = self._pairing.last_id_state(notification.sender, session, id_) if key is None else table.id_state(key)
        key = key or RequestKey(frame.exchange, id_)
        cancelled_call = table.cancel(
            key, notification.t_ns, notification.seq, None if reason is None else reason[:MAX_REASON_CHARS]
        )
        if cancelled_call is not None:
            cancelled_call.fault = _previous_outcome(cancelled_call)
            self._under_way.cancel(cancelled_call)
            return state, cancelled_call.request, cancelled_call
        named_call = table.get(key)
        return state, None if named_call is None else named_call.request, None


def _previous_outcome(call: Call) -> Outcome | None:
    """Returns the outcome that a request already had when it was cancelled, or None if it could still be answered.

    Callers cancel anything that has timed out: a call whose stream has ended or whose server is dead, and `initialize`,
    which must not be cancelled.
    """
    request, session = call.request, call.session
    if call.exchange_end is not None:
        return None if call.has_client_closed else _FAILED
    is_gone = session is not None and not session.is_http and "server" in session.closed_ns
    is_lost = request.sender == "client" and (is_gone or request.method == "initialize")
    return _UNANSWERED if is_lost else None


def _is_endless(call: Call | None) -> bool:
    return call is not None and call.request.method in ENDLESS_METHODS


def _exact_request_id(cancellation: Notification) -> object:
    """Returns the exact id that a cancellation names; orjson makes floats of `1.0` and integers above 64 bits."""
    value = cancellation.params["requestId"]
    if cancellation.index is not None:
        return value
    try:
        return parse_exactly(cancellation.frames[0].raw)["params"]["requestId"]
    except (ValueError, RecursionError):
        return value
