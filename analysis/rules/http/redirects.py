"""Redirects: what happens to a message whose POST is redirected to another address.

Clients follow redirects only within an origin, and repeat the message only if the status requires it. A redirected
message and its repetition are one call, so these rules are about the server's addresses and not about calls.
"""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import Outcome
from analysis.conversation.http_exchange import REDIRECT_STATUSES, HttpExchange
from analysis.conversation.session import Session
from analysis.rules.base import NOTE, WARNING, CaptureEnd
from analysis.rules.finding import Blames, Finding, Impact
from analysis.rules.http.failures import status_text
from analysis.rules.support.eras import shortened
from analysis.rules.support.exchanges import ALL_METHODS, ExchangeEndRule, HttpRule, messages_of

_TO_GET_STATUSES: Final = frozenset({301, 302, 303})
"""Statuses after which clients turn a POST into a GET."""


class RedirectToGet(ExchangeEndRule):
    """A POST is redirected with a status that turns it into a GET.

    **Why it matters.** The message is lost: clients continue with a GET, which has no body, and treat its result as the
    response. Some clients repeat the POST, but they are not required to.

    **On the wire.** `> {"id":1,"method":"initialize",…}`, answered with `302 Found` and `Location: /mcp/`

    **Instead.** Redirect with 307 or 308, which keep the method and the body, or serve both addresses.
    """

    id = "http/redirect-to-get"
    who = "server"
    impact = Impact.CONNECTION
    statuses = _TO_GET_STATUSES
    once = True
    source = "RFC 9110 §15.4"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        messages = messages_of(http)
        if not messages or not http.is_redirect:
            return ()
        subject = shortened(messages[0].method) or "a response"
        return self.findings_in_response(
            http, session, f"{subject} is redirected with {status_text(http)}: clients continue with a GET"
        )


class RedirectScheme(ExchangeEndRule):
    """A server redirects to its own host under another scheme.

    **Why it matters.** A redirect from https to http usually comes from a server behind a gateway that terminates TLS:
    the server does not know its public address. Clients refuse to follow, or send their credentials in plain text. They
    do not follow from http to https either, because that is another origin, so nothing works at the configured address.

    **On the wire.** `https://example.com/mcp`, answered with 307 and `Location: http://example.com/mcp/`

    **Instead.** As a server, trust the gateway's `X-Forwarded-Proto` header. As a user, configure the https address,
    for `mcpproxy serve` as well.
    """

    id = "http/redirect-scheme"
    who = "server"
    impact = Impact.CONNECTION
    level = WARNING
    http_methods = ALL_METHODS
    statuses = REDIRECT_STATUSES
    once = True
    once_each = True
    source = "RFC 9110 §15.4"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        current, target = _scheme_and_host(http.upstream), _scheme_and_host(http.location)
        if not target[0] or current[1] != target[1] or current[0] == target[0]:
            return ()
        advice = f": use {shortened(_origin(http))} as its URL" if target[0] == "https" else ""
        return self.findings_in_response(
            http, session, f"the server redirects from {current[0]} to {target[0]}{advice}"
        )


class Redirected(ExchangeEndRule):
    """A request is redirected.

    **Why it matters.** Each message costs another round trip with its whole body, and clients that do not follow
    redirects fail. With 307 and 308, a message and its repetition count as one call in all statistics.

    **On the wire.** `POST /mcp`, answered with 307 and `Location: /mcp/`

    **Instead.** Configure the final address in clients. As a server, serve both addresses.
    """

    id = "http/redirected"
    who = "server"
    impact = Impact.COST
    level = NOTE
    http_methods = ALL_METHODS
    statuses = REDIRECT_STATUSES
    once = True
    once_each = True
    source = "RFC 9110 §15.4"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if not http.is_redirect or (http.status in _TO_GET_STATUSES and messages_of(http)):
            return ()
        text = f"{http.method} {shortened(http.path)} is redirected to {shortened(http.location)}"
        blames: Blames = "transport" if http.is_signed else "server"
        return [finding._replace(blames=blames) for finding in self.findings_in_response(http, session, text)]


class RedirectNotFollowed(HttpRule):
    """A client does not follow a redirect that would keep its message.

    **Why it matters.** The call has failed. Clients follow redirects only within an origin, so they ignore an address
    with another scheme, host or port. Some clients do not follow redirects at all.

    **On the wire.** `> {"id":1,"method":"initialize",…}`, answered with 307 to another host, and nothing more

    **Instead.** Configure the client with the address to which it is redirected.
    """

    id = "http/redirect-not-followed"
    level = WARNING
    at_end = True
    statuses = REDIRECT_STATUSES - _TO_GET_STATUSES
    source = "RFC 9110 §15.4"

    def on_end(self, session: Session, ending: CaptureEnd) -> Iterable[Finding]:
        if ending.reason == "open":
            return
        for call in ending.unanswered:
            http = call.http
            if call.outcome is Outcome.FAILED and http is not None and http.status in self.statuses:
                text = (
                    f"{shortened(call.request.method)} is redirected to {shortened(http.location)}, and "
                    "not repeated there"
                )
                yield from (
                    finding._replace(blames="unknown") for finding in self.findings_in_response(http, session, text)
                )


def _origin(http: HttpExchange) -> str:
    """Returns the origin of the address to which an exchange is redirected."""
    return "/".join(http.location.split("/", 3)[:3]).lower()


def _scheme_and_host(address: str) -> tuple[str, str]:
    """Returns the scheme and host of an absolute HTTP address, in lower case, or two empty strings for other texts."""
    scheme, separator, remainder = address.lower().partition("://")
    if not separator or scheme not in ("http", "https"):
        return "", ""
    authority = remainder.partition("/")[0].partition("?")[0].partition("#")[0]
    host, colon, port = authority.rpartition(":")
    return scheme, host if colon and port.isdigit() else authority
