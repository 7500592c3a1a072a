"""The oddities that an HTTP exchange may have; see `Rule.exchanges`.

Nearly all exchanges are a POST of one request, with the session id and the revision that were agreed on, and its
response. Most rules about exchanges report nothing about these: each such rule names the oddities that it is about, and
is called only for exchanges with one of them. As in `odd`, a usual exchange must cost next to nothing.
"""

from enum import Flag, auto
from functools import lru_cache
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import EVENT_STREAM, VERSION_FIELD, HttpExchange
from analysis.conversation.message import Request, Response
from analysis.conversation.resumption import LAST_EVENT_ID
from analysis.conversation.session import PROTOCOL_VERSION, Session
from analysis.conversation.session_ids import FIELD
from analysis.protocol.extensions import ENDLESS_METHODS


class ExchangeOddity(Flag):
    """The oddities of an exchange so far."""

    OPENING = auto()
    """It carries `initialize`."""
    LISTENING = auto()
    """It carries a request that is open for as long as its sender wants, such as `subscriptions/listen`."""
    WITHOUT_ID = auto()
    """Its request names no session."""
    OTHER_ID = auto()
    """Its request names a session that did not begin in this capture or is over, or its response names another
    session."""
    VERSION = auto()
    """Its request names no revision, or one other than that of its message (of its session, if the message names
    none)."""
    HEADERS = auto()
    """Its request is not JSON, or does not accept both JSON and event streams; or it has a query, an origin, a
    credential or the id of an event."""
    OLDER = auto()
    """A stream of the older transport announced its address."""
    SENT = auto()
    """It carries no message from the client, several messages, an array, or something other than a request."""
    RECEIVED = auto()
    """The server sent an error; or, outside a stream, anything but a single result; or the exchange is over and the
    server sent no message."""
    END = auto()
    """It ended in a way other than `complete`, or without a response to one of its requests; or its request resumes a
    stream."""


USUAL: Final = ExchangeOddity(0)
"""The value of `ExchangeOddity` for an exchange without oddities."""

_JSON: Final = "application/json"
_MAX_ACCEPT_CHARS: Final = 1_000
_UNUSUAL_FIELDS: Final = frozenset({"origin", "authorization", LAST_EVENT_ID})


def oddities_in(http: HttpExchange, session: Session | None) -> ExchangeOddity:
    """Returns the oddities of an exchange; for nearly all between peers that use session ids, the object `USUAL`."""
    oddities = _message_oddities(http)
    if not _is_usual_id(http):
        oddities |= ExchangeOddity.OTHER_ID if FIELD in http.fields else ExchangeOddity.WITHOUT_ID
    if not _is_usual_version(http, session):
        oddities |= ExchangeOddity.VERSION
    if not _has_usual_headers(http):
        oddities |= ExchangeOddity.HEADERS
    if http.announced_by is not None:
        oddities |= ExchangeOddity.OLDER
    if http.ended_by not in (None, "complete") or http.ended_calls or http.resumption is not None:
        oddities |= ExchangeOddity.END
    return oddities


def _message_oddities(http: HttpExchange) -> ExchangeOddity:
    oddities, sent_contexts, received_contexts = USUAL, http.client_messages, http.server_messages
    if (
        len(sent_contexts) != 1
        or type(sent_contexts[0].message) is not Request
        or sent_contexts[0].message.index is not None
    ):
        oddities |= ExchangeOddity.SENT
    for context in sent_contexts:
        if context.method == "initialize":
            oddities |= ExchangeOddity.OPENING
        elif context.method in ENDLESS_METHODS:
            oddities |= ExchangeOddity.LISTENING
    if not all(map(_is_usual_answer, received_contexts)) or (http.end_ref is not None and not received_contexts):
        oddities |= ExchangeOddity.RECEIVED
    return oddities


def _is_usual_answer(context: MessageContext) -> bool:
    message = context.message
    is_single = type(message) is Response and message.index is None
    return "error" not in context.body and (is_single or message.frames[0].unit == "sse_event")


def _is_usual_id(http: HttpExchange) -> bool:
    """Whether the request names a live session, and the response names the same session or none."""
    requested_id, returned_id = http.fields.get(FIELD), http.answer_fields.get(FIELD)
    session_id = None if requested_id is None else http.session_ids.get(requested_id)
    return (
        session_id is not None
        and session_id.given is not None
        and session_id.is_alive
        and returned_id in (None, requested_id)
    )


def _is_usual_version(http: HttpExchange, session: Session | None) -> bool:
    """Whether the request names the revision of its message, or of its session if the message names none."""
    version, message = http.fields.get(VERSION_FIELD), http.client_messages[0].message if http.client_messages else None
    if version is None or session is None or type(message) is not Request:
        return False
    return bool(version == message.meta.get(PROTOCOL_VERSION, session.handshake))


def _has_usual_headers(http: HttpExchange) -> bool:
    fields = http.fields
    is_usual = fields.get("content-type") == _JSON and _accepts_both(fields.get("accept", ""))
    return is_usual and _UNUSUAL_FIELDS.isdisjoint(fields) and "?" not in http.target


@lru_cache(256)
def _accepts_both(accepted: str) -> bool:
    """Whether an `Accept` header names both media types, without parameters."""
    return len(accepted) < _MAX_ACCEPT_CHARS and {_JSON, EVENT_STREAM} <= {part.strip() for part in accepted.split(",")}
