"""Tracks how exchanges of Streamable HTTP (2025-03-26 to 2025-11-25) make session ids valid and invalid.

A server assigns an id with its response to `initialize`. A successful DELETE makes it invalid. So does a 404 in
response to a message of the session at its endpoint, or to a GET where there was a stream: the server no longer knows
the session. Any other 404 may mean that the path does not exist, or does not support the HTTP method.
"""

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session_ids import FIELD, SessionId, SessionIds
from analysis.protocol.error_codes import METHOD_NOT_FOUND


def on_request(ids: SessionIds, http: HttpExchange) -> None:
    """Process the start of a request: after a DELETE, the server may end its streams for that reason."""
    request_id = http.fields.get(FIELD)
    if request_id and http.method == "DELETE":
        (ids.get(request_id) or ids.begin_history(request_id)).tried = True


def on_response(ids: SessionIds, http: HttpExchange) -> None:
    """Process the start of a response."""
    request_id, assigned_id = http.fields.get(FIELD), http.answer_fields.get(FIELD)
    if request_id:
        _on_response_with_id(ids, request_id, http)
    if assigned_id is None or http.is_from_recorder:
        return
    history = ids.get(assigned_id) or ids.begin_history(assigned_id)
    history.last = http.answered_ref
    if history.given is None and assigned_id != request_id:
        history.given, history.order, history.path, history.session = (
            http.answered_ref,
            http.order,
            http.path,
            http.session,
        )
        history.is_of_opening, http.assigned_id = http.is_initializing, history
        ids.assign_to_client(history, http.client_fingerprint)
    if history.order == http.order and http.session is not None and http.is_initializing and assigned_id:
        ids.assign(http.session, assigned_id)


def _on_response_with_id(ids: SessionIds, request_id: str, http: HttpExchange) -> None:
    """Process the response to a request with a session id."""
    is_over = not http.is_from_recorder and not http.is_modern
    is_gone = is_over and http.status == 404 and _refuses_session(http, ids.get(request_id))
    is_deleted = is_over and http.method == "DELETE" and http.status is not None and 200 <= http.status < 300
    history = ids.get(request_id)
    if history is None:
        if not is_gone and not is_deleted:
            return
        history = ids.begin_history(request_id)
    history.last = http.answered_ref
    history.had_stream = history.had_stream or (http.method == "GET" and http.status == 200)
    if http.method == "DELETE":
        history.tried = True
        if 400 <= (http.status or 0) < 500:
            history.kept_by = http.status
        else:
            history.ended = history.ended or http.started_ref or http.answered_ref
    if is_gone:
        history.gone = history.gone or http.answered_ref
    elif is_deleted:
        history.deleted = history.deleted or http.answered_ref


def _refuses_session(http: HttpExchange, history: SessionId | None) -> bool:
    """Whether a 404 refuses the session, rather than a path or a method.

    It does if it refuses a message at the endpoint of the session, and not because of the method.

    """
    if http.method == "GET":
        # The server supports GET: there was a stream before, or its refusal is an MCP message.
        return (history is not None and history.had_stream) or any(
            "error" in context.body for context in http.server_messages
        )
    if http.method != "POST" or not http.client_messages:
        return False
    if history is not None and history.order is not None and history.path != http.path:
        return False
    return not any(_is_about_method(context.body.get("error")) for context in http.server_messages)


def _is_about_method(error: object) -> bool:
    return isinstance(error, dict) and error.get("code") == METHOD_NOT_FOUND
