"""How exchanges of Streamable HTTP (2025-03-26 to 2025-11-25) make session ids valid and invalid.

A server assigns an id with its response to `initialize`. A successful DELETE ends it, and so does a 404 to a message
of the session at its endpoint, or to a GET where there was a stream, as the server no longer knows it. Any other 404
may mean that there is nothing at that path, or for that HTTP method.
"""

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session_ids import FIELD, SessionId, SessionIds
from analysis.protocol.error_codes import METHOD_NOT_FOUND


def on_request(ids: SessionIds, http: HttpExchange) -> None:
    """Process the start of a request: from now on, a DELETE may be the reason that the server ends its streams."""
    named = http.fields.get(FIELD)
    if named and http.method == "DELETE":
        (ids.get(named) or ids.make(named)).tried = True


def on_response(ids: SessionIds, http: HttpExchange) -> None:
    """Process the start of a response."""
    named, given = http.fields.get(FIELD), http.answer_fields.get(FIELD)
    if named:
        _named(ids, named, http)
    if given is None or http.is_ours:
        return
    known = ids.get(given) or ids.make(given)
    known.last = http.answered
    if known.given is None and given != named:
        known.given, known.order, known.path, known.session = http.answered, http.order, http.path, http.session
        known.is_of_opening, http.assigned_id = http.is_opening, known
        ids.give(known, http.client)
    if known.order == http.order and http.session is not None and http.is_opening and given:
        ids.assign(http.session, given)


def _named(ids: SessionIds, named: str, http: HttpExchange) -> None:
    """Process the response to a request with an id."""
    is_over = not http.is_ours and not http.is_modern
    is_gone = is_over and http.status == 404 and _refuses_session(http, ids.get(named))
    is_deleted = is_over and http.method == "DELETE" and http.status is not None and 200 <= http.status < 300
    known = ids.get(named)
    if known is None:
        if not is_gone and not is_deleted:
            return
        known = ids.make(named)
    known.last = http.answered
    known.had_stream = known.had_stream or (http.method == "GET" and http.status == 200)
    if http.method == "DELETE":
        known.tried = True
        if 400 <= (http.status or 0) < 500:
            known.kept_by = http.status
        else:
            known.ended = known.ended or http.started or http.answered
    if is_gone:
        known.gone = known.gone or http.answered
    elif is_deleted:
        known.deleted = known.deleted or http.answered


def _refuses_session(http: HttpExchange, known: SessionId | None) -> bool:
    """Whether a 404 is about the session: it refuses a message at the endpoint, and not because of its method."""
    if http.method == "GET":
        # There is something for GET: a stream was there before, or the server refuses in the terms of MCP.
        return (known is not None and known.had_stream) or any("error" in seen.body for seen in http.received)
    if http.method != "POST" or not http.sent:
        return False
    if known is not None and known.order is not None and known.path != http.path:
        return False
    return not any(_is_about_method(seen.body.get("error")) for seen in http.received)


def _is_about_method(error: object) -> bool:
    return isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND
