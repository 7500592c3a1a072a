"""Headers of requests over Streamable HTTP: accepted media types, content type and origin."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange, media_type_of
from analysis.conversation.session import Session
from analysis.facts import text_of_error
from analysis.protocol import features
from analysis.rules.base import NOTE, WARNING
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import AllEras, shortened
from analysis.rules.support.exchanges import (
    ALL_METHODS,
    JSON,
    SESSION_REVISIONS,
    SUCCESS_STATUSES,
    UNRELATED_STATUSES,
    ExchangeEndRule,
    ResponseStartRule,
    messages_of,
)
from analysis.rules.support.origins import is_local, is_own

_TRANSPORTS: Final = "2025-03-26 basic/transports"
_STREAMABLE_REVISIONS: Final = features.STREAMABLE_HTTP
_UTF8_CHARSETS: Final = frozenset({"", "utf-8", "utf8", "us-ascii"})
_MAX_HEADER_CHARS: Final = 4096
"""The most characters of a header that are checked."""
_NO_STREAM_STATUSES: Final = frozenset({404, 405})


class MessageNotPosted(ResponseStartRule):
    """A message is sent with an HTTP method other than POST.

    **Why it matters.** Servers expect messages only in a POST, and intermediaries may drop the body of a GET.

    **On the wire.** `PUT /mcp HTTP/1.1` … `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`

    **Instead.** Use `POST`, with a separate HTTP request for each message.
    """

    id = "http/message-not-posted"
    who = "client"
    versions = _STREAMABLE_REVISIONS
    source = _TRANSPORTS

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:  # noqa: ARG002 - the same for all hooks
        return like.method != "POST"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not messages_of(http):
            return ()
        return self.findings_in_request(http, session, f"a message is sent with {shortened(http.method)}")


class PostAccept(ResponseStartRule):
    """A POST does not accept both media types in which it may be answered.

    **Why it matters.** The server chooses between a JSON object and a stream of events. Many servers answer 406 to
    clients that do not list both, even if they send `*/*`.

    **On the wire.** `POST /mcp` with `Accept: application/json`

    **Instead.** Send `Accept: application/json, text/event-stream`; order, case and parameters do not matter.
    """

    id = "http/post-accept"
    who = "client"
    once = True
    exchanges = ExchangeOddity.HEADERS
    versions = _STREAMABLE_REVISIONS
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        missing_type = _missing_media_type(http, (JSON, EVENT_STREAM)) if messages_of(http) else None
        return (
            self.findings_in_request(http, session, f"a POST {missing_type.text}", missing_type.level)
            if missing_type is not None
            else ()
        )


class GetAccept(ResponseStartRule):
    """A GET to the endpoint does not accept a stream of events.

    **Why it matters.** A GET can only be answered with a stream of events, so servers refuse the request with 406.

    **On the wire.** `GET /mcp` with `Accept: application/json`

    **Instead.** Send `Accept: text/event-stream`.
    """

    id = "http/get-accept"
    who = "client"
    once = True
    versions = AllEras(*SESSION_REVISIONS)
    http_methods = frozenset({"GET"})
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank, era = http.transport_revision_and_era(session)
        has_sessions = SESSION_REVISIONS.applies_to(rank, era)
        if rank is not None and not has_sessions:
            return ()
        # Browsers and health checks send such requests.
        is_probe = not has_sessions or http.status in _NO_STREAM_STATUSES
        missing_type = _missing_media_type(http, (EVENT_STREAM,))
        if missing_type is None:
            return ()
        return self.findings_in_request(
            http, session, f"a GET {missing_type.text}", NOTE if is_probe else missing_type.level
        )


class RequestContentType(ResponseStartRule):
    """A POST with a message does not declare its body as JSON.

    **Why it matters.** Servers refuse other types with 415, or do not read the body at all.

    **On the wire.** `POST /mcp` with `Content-Type: text/plain`

    **Instead.** Send `Content-Type: application/json`. The only charset allowed is UTF-8.
    """

    id = "http/request-content-type"
    who = "client"
    versions = _STREAMABLE_REVISIONS
    level = WARNING
    once = True
    exchanges = ExchangeOddity.HEADERS
    source = "2026-07-28 basic/transports/streamable-http"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        value = http.fields.get("content-type", "")
        if value == JSON or not messages_of(http) or "content-type" in http.repeated_fields:
            return ()
        media = media_type_of(value)
        if media != JSON:
            text = f"a message is sent as {shortened(media)}" if media else "a message is sent without a content type"
            return self.findings_in_request(http, session, text)
        charset = _header_parameter(value, "charset")
        if charset in _UTF8_CHARSETS:
            return ()
        return self.findings_in_request(http, session, f"a message declares the charset {shortened(charset)}")


class OriginAccepted(ResponseStartRule):
    """A server serves a request from a page of another site.

    **Why it matters.** A site can make a visitor's browser send requests to a server on the visitor's own machine, by
    pointing a host name of the site at that machine (DNS rebinding). `Origin` says where the page came from; only a
    server that checks it is safe.

    **On the wire.** `POST /mcp` with `Origin: https://example.com`, answered with 200

    **Instead.** Accept only your own origin and the origins that you trust; answer 403 to all others.
    """

    id = "http/origin-accepted"
    who = "server"
    versions = _STREAMABLE_REVISIONS
    level = WARNING
    impact = Impact.SECURITY
    http_methods = ALL_METHODS
    statuses = SUCCESS_STATUSES
    once = True
    exchanges = ExchangeOddity.HEADERS
    source = _TRANSPORTS

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        origin = http.fields.get("origin")
        if not origin or origin.startswith("hmac:"):
            return ()
        if is_local(_host_of(origin)) or is_own(origin, http):
            return ()
        return self.findings_in_response(http, session, f"a request with the origin {shortened(origin)} is served")


class OriginStatus(ExchangeEndRule):
    """A request is refused because of its origin, with a status other than 403.

    **Why it matters.** Other statuses mislead the client: after 404 it drops its session, and after 400 it concludes
    that the request itself is invalid.

    **On the wire.** `Origin: https://example.com`, answered with `400` and `Origin not allowed`

    **Instead.** Send 403 Forbidden.
    """

    id = "http/origin-status"
    who = "server"
    versions = features.REFUSED_ORIGINS
    impact = Impact.CONNECTION
    http_methods = ALL_METHODS
    exchanges = ExchangeOddity.HEADERS
    source = "2025-11-25 basic/transports"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        status = http.status
        if status is None or not 400 <= status < 500 or status in UNRELATED_STATUSES or not http.fields.get("origin"):
            return ()
        texts = [http.reason, *(text_of_error(context.message) for context in http.server_messages)]
        if not any("origin" in (text or "").lower() for text in texts):
            return ()
        return self.findings_in_response(
            http, session, f"a request is refused because of its origin with status {status}"
        )


# ---- shared by the rules


class _MissingMediaType(NamedTuple):
    """A media type that the `Accept` header lacks."""

    text: str
    level: Level | None


def _missing_media_type(http: HttpExchange, required: tuple[str, ...]) -> _MissingMediaType | None:
    """Returns a required media type that is not accepted, or None if there is none.

    A type that is accepted only by a wildcard causes at most a warning.
    """
    if "accept" in http.repeated_fields:
        return None  # only the last value is known
    worst_acceptance, missing_type = 2, ""
    for media in required:
        acceptance = _acceptance(http.fields.get("accept", "")[:_MAX_HEADER_CHARS], media)
        if acceptance < worst_acceptance:
            worst_acceptance, missing_type = acceptance, media
    if worst_acceptance == 2:
        return None
    if "accept" not in http.fields:
        return _MissingMediaType("has no Accept header", None)
    return (
        _MissingMediaType(f"accepts {missing_type} only by a wildcard", WARNING)
        if worst_acceptance
        else _MissingMediaType(f"does not accept {missing_type}", None)
    )


@lru_cache(256)
def _acceptance(accept: str, media: str) -> int:
    """Returns 2 if a media type is accepted by its name, 1 if only by a wildcard, and 0 if not at all."""
    best = 0
    for part in accept.lower().split(","):
        name = media_type_of(part)
        if _header_parameter(part, "q") in ("0", "0.0", "0.00", "0.000"):
            continue
        if name == media:
            return 2
        if name in ("*/*", "*", media.partition("/")[0] + "/*"):
            best = 1
    return best


def _header_parameter(value: str, name: str) -> str:
    for part in value.split(";")[1:]:
        key, _, parameter_value = part.partition("=")
        if key.strip().lower() == name:
            return parameter_value.strip().strip('"').lower()
    return ""


def _host_of(origin: str) -> str:
    """Returns the host of an address, or an empty string if it has none."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""
