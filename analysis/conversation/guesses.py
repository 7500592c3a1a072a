"""Guesses which open request a response without a matching request was meant for.

A guess is labelled as such wherever it is shown, and decides nothing: the response pairs with nothing, and the request
stays unanswered. No guess is made if the request may not have been recorded, if the id is known from elsewhere, or if
no request is waiting.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from analysis.conversation.addressing import RequestKey
from analysis.conversation.call import Call, GuessedRequest, IdState, ProbableAnswer, quoted
from analysis.conversation.call_table import CallTable
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Response, Side, other_side
from analysis.conversation.session import Session
from analysis.protocol.extensions import ENDLESS_METHODS, KNOWN_METHODS

_METHOD_MEMBERS: Final = {
    "completion/complete": "completion",
    "elicitation/create": "action",
    "initialize": "protocolVersion",
    "prompts/get": "messages",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/read": "contents",
    "resources/templates/list": "resourceTemplates",
    "roots/list": "roots",
    "sampling/createMessage": "model",
    "server/discover": "supportedVersions",
    "tools/list": "tools",
}
"""The member of a result that identifies the method it answers, in every revision."""
_IDENTIFYING_MEMBERS: Final = frozenset(_METHOD_MEMBERS.values()) - {"action", "messages", "model"}
"""Members that results of unknown methods and of tools do not have."""
_EMPTY_RESULT_METHODS: Final = frozenset({"logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"})
"""Methods whose results have no members of their own."""
MAX_SEARCHED_REQUESTS: Final = 256
"""The most open requests that are examined, the oldest first; the others are not counted."""


def guess_request(
    response: Response,
    session: Session,
    tables: dict[Side, CallTable],
    http: HttpExchange | None,
    posted_keys: Sequence[RequestKey],
) -> GuessedRequest | None:
    """Guess the open request that an unmatched response was meant for, and note the response in its call.

    Args:
        response: the response; no request of the other side ever had its id.
        session: its session.
        tables: the requests of both sides.
        http: the HTTP exchange that carried the response; None on stdio.
        posted_keys: the keys of the client's requests that the same exchange carried.

    Returns:
        The guess, or None if there is none.
    """
    if _is_explained(response, session, tables, http):
        return None
    is_in_exchange = response.sender == "server" and http is not None and http.method == "POST"
    open_calls, is_cut = _open_calls(
        session, tables[other_side(response.sender)], posted_keys if is_in_exchange else None
    )
    candidates = [call for call in open_calls if _fits(response, call.request.method)]
    if not candidates:
        return None
    call = next((call for call in candidates if call.guessed_response is None), candidates[0])
    id_ = response.id
    answer = ProbableAnswer(response.seq, None if id_ is None or id_.type == "null" else quoted(id_.text))
    call.guessed_response = call.guessed_response or answer
    if len(candidates) == 1 and not is_cut:
        which = "the only request"
    else:
        count = f"{len(candidates)} or more" if is_cut else f"{len(candidates)}"
        which = f"the {'oldest' if call is candidates[0] else 'next'} of {count} requests"
    where = " in its exchange" if is_in_exchange else ""
    fit = "" if len(candidates) == len(open_calls) else " that it fits"
    return GuessedRequest(call, f"{which} open then{where}{fit}", answer)


def _is_explained(
    response: Response, session: Session, tables: dict[Side, CallTable], http: HttpExchange | None
) -> bool:
    """Whether something other than a wrong id explains, or may explain, that a response matches no request."""
    requester = other_side(response.sender)
    if tables[requester].forgotten_count or not session.observed_start:
        return True  # its request may not have been recorded
    if http is not None and http.is_replay:
        return True
    if http is not None and http.method not in ("", "POST") and response.frames[0].unit == "http_body":
        return True  # the body answers a GET or a DELETE, not a message
    if response.id is None or response.id.type == "null":
        is_for_unread = response.is_error and session.unread.get(requester, 0) > 0
        session.unread[requester] = session.unread.get(requester, 0) - is_for_unread
        return is_for_unread
    own_key = RequestKey(response.frames[0].exchange, response.id)
    return tables[response.sender].id_state(own_key) is not IdState.NEVER_SEEN  # its sender answered its own request


def _open_calls(
    session: Session, table: CallTable, posted_keys: Sequence[RequestKey] | None
) -> tuple[list[Call], bool]:
    """Returns the calls of a table that wait for a response, the oldest first, and whether there may be more."""
    if posted_keys is None:
        examined_calls, is_cut = table.oldest_calls(MAX_SEARCHED_REQUESTS), len(table) > MAX_SEARCHED_REQUESTS
    else:
        examined_calls = [
            call for key in islice(posted_keys, MAX_SEARCHED_REQUESTS) if (call := table.get(key)) is not None
        ]
        is_cut = len(posted_keys) > MAX_SEARCHED_REQUESTS
    candidates = [
        call
        for call in examined_calls
        if call.session is session and call.cancellation is None and call.request.method not in ENDLESS_METHODS
    ]
    return sorted(candidates, key=lambda call: (call.request.seq, call.request.index or 0)), is_cut


def _fits(response: Response, method: str) -> bool:
    """Whether a response can answer a request with this method, judging by its result."""
    result = response.result
    if response.is_error or not isinstance(result, dict):
        return True
    if _IDENTIFYING_MEMBERS.isdisjoint(result):
        return method not in _EMPTY_RESULT_METHODS or all(name == "_meta" for name in result)
    return method not in KNOWN_METHODS or _METHOD_MEMBERS.get(method) in result
