"""What may be odd about an HTTP exchange; see `Rule.exchanges`.

Nearly all exchanges are a POST of one request, with the session id and the revision that were agreed on, and its
response. Most rules about exchanges are silent about these: each names the oddities that it is about, and is called for
exchanges with one of them. As in `odd`, what is not odd must cost next to nothing.
"""

from enum import Flag, auto
from functools import lru_cache
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import STREAM, VERSION_FIELD, HttpExchange
from analysis.conversation.message import Request, Response
from analysis.conversation.resumption import LAST_EVENT_ID
from analysis.conversation.session import PROTOCOL_VERSION, Session
from analysis.conversation.session_ids import FIELD
from analysis.conversation.subscriptions import LISTEN


class OddExchange(Flag):
    """What is odd about an exchange, as far as it has come."""

    OPENING = auto()
    """It carries `initialize`."""
    LISTENING = auto()
    """It carries `subscriptions/listen`."""
    WITHOUT_ID = auto()
    """Its request names no session."""
    OTHER_ID = auto()
    """Its request names a session that was not begun in this capture, or is over; or its response names another one."""
    VERSION = auto()
    """Its request names no revision, or not the one that its message names or, without one there, its session has."""
    HEADERS = auto()
    """Its request is not JSON, or does not accept both JSON and event streams; or it has a query, an origin, a
    credential or the id of an event."""
    OLDER = auto()
    """A stream of the older transport announced its address."""
    SENT = auto()
    """It carries no message of the client, or several, or an array, or something other than a request."""
    RECEIVED = auto()
    """It has brought an error; or, not on a stream, anything but a single result; or nothing, and is over."""
    END = auto()
    """It ended, but not `complete`; or without a response to a request in it; or its request resumes a stream."""


USUAL: Final = OddExchange(0)
"""The only value of `OddExchange` without a member."""

_JSON: Final = "application/json"
_MAX_ACCEPT_CHARS: Final = 1_000
_SELDOM: Final = frozenset({"origin", "authorization", LAST_EVENT_ID})


def oddities_in(http: HttpExchange, session: Session | None) -> OddExchange:
    """What is odd about an exchange; `USUAL` itself for nearly all between peers that use session ids."""
    found = _in_messages(http)
    if not _is_usual_id(http):
        found |= OddExchange.OTHER_ID if FIELD in http.fields else OddExchange.WITHOUT_ID
    if not _is_usual_version(http, session):
        found |= OddExchange.VERSION
    if not _has_usual_headers(http):
        found |= OddExchange.HEADERS
    if http.announced_by is not None:
        found |= OddExchange.OLDER
    if http.ended_by not in (None, "complete") or http.unawaited or http.resumption is not None:
        found |= OddExchange.END
    return found


def _in_messages(http: HttpExchange) -> OddExchange:
    found, sent, received = USUAL, http.sent, http.received
    if len(sent) != 1 or type(sent[0].message) is not Request or sent[0].message.index is not None:
        found |= OddExchange.SENT
    for context in sent:
        if context.method == "initialize":
            found |= OddExchange.OPENING
        elif context.method == LISTEN:
            found |= OddExchange.LISTENING
    if not all(map(_is_usual_answer, received)) or (http.over is not None and not received):
        found |= OddExchange.RECEIVED
    return found


def _is_usual_answer(context: MessageContext) -> bool:
    message = context.message
    is_single = type(message) is Response and message.index is None
    return "error" not in context.body and (is_single or message.frames[0].unit == "sse_event")


def _is_usual_id(http: HttpExchange) -> bool:
    """Whether the request names a session that is alive, and the response the same one or none."""
    asked, given = http.fields.get(FIELD), http.answer_fields.get(FIELD)
    known = None if asked is None else http.session_ids.get(asked)
    return known is not None and known.given is not None and known.is_alive and given in (None, asked)


def _is_usual_version(http: HttpExchange, session: Session | None) -> bool:
    """Whether the request names the revision that its message names, or else that of its session."""
    version, message = http.fields.get(VERSION_FIELD), http.sent[0].message if http.sent else None
    if version is None or session is None or type(message) is not Request:
        return False
    return bool(version == message.meta.get(PROTOCOL_VERSION, session.handshake))


def _has_usual_headers(http: HttpExchange) -> bool:
    fields = http.fields
    is_usual = fields.get("content-type") == _JSON and _accepts_both(fields.get("accept", ""))
    return is_usual and _SELDOM.isdisjoint(fields) and "?" not in http.target


@lru_cache(256)
def _accepts_both(accepted: str) -> bool:
    """Whether a header names both media types, without parameters."""
    return len(accepted) < _MAX_ACCEPT_CHARS and {_JSON, STREAM} <= {part.strip() for part in accepted.split(",")}
