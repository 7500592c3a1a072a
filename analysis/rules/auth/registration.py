"""Dynamic registration of clients (RFC 7591)."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.login import Leg
from analysis.conversation.session import Session
from analysis.rules.base import ERROR, WARNING
from analysis.rules.finding import Finding
from analysis.rules.support.login_rules import LegRule, is_response_read, is_success

_REGISTRATION: Final = frozenset({"registration"})
_CREATED: Final = 201
_BAD_REQUEST: Final = 400
_ERRORS: Final = frozenset(
    {"invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement"}
)


class RegistrationRequest(LegRule):
    """A client registers for logins in a browser, but names no address to which the browser is sent back.

    **Why it matters.** The server must refuse an address that is not registered, so the login fails in the browser.

    **On the wire.** `> POST /register` `{"client_name":"host","grant_types":["authorization_code"]}`

    **Instead.** Add `"redirect_uris":["http://127.0.0.1:8080/callback"]`.
    """

    id = "auth/registration-request"
    who = "client"
    source = "RFC 7591 §2"
    kinds = _REGISTRATION

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        # Without a grant type it is not known whether the request was understood.
        if "redirect_uri" in leg.facts or "authorization_code" not in leg.facts.get("grant_type", "").split():
            return ()
        return self.findings_at_leg(leg.http, session, "a registration has no redirect_uris", ERROR)


class RegistrationResponse(LegRule):
    """A registration is answered without a client id, or with a status other than 201.

    **Why it matters.** Without `client_id` the client cannot go on. Some clients treat other statuses as failures.

    **On the wire.** `< HTTP/1.1 200 OK` `{"client_id":"c1", …}`

    **Instead.** `< HTTP/1.1 201 Created` `{"client_id":"c1", …}`
    """

    id = "auth/registration-response"
    who = "server"
    once = True
    once_each = True
    source = "RFC 7591 §3.2.1"
    kinds = _REGISTRATION

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        http = leg.http
        if not is_success(http) or http.method != "POST":
            return ()
        findings: list[Finding] = []
        if is_response_read(http) and "client_id" not in leg.facts:
            findings += self.findings_at_leg(http, session, "a registration is answered without client_id", ERROR)
        if http.status != _CREATED:
            text = f"a registration is answered with {http.status}, not 201"
            findings += self.findings_at_leg(http, session, text, WARNING)
        return findings


class RegistrationError(LegRule):
    """A registration is refused with the wrong status.

    **Why it matters.** Clients read the error only if the status is 400. With 401 or 403 they look for a token first.

    **On the wire.** `< HTTP/1.1 403 Forbidden` `{"error":"invalid_redirect_uri"}`

    **Instead.** `< HTTP/1.1 400 Bad Request` `{"error":"invalid_redirect_uri"}`
    """

    id = "auth/registration-error"
    who = "server"
    level = WARNING
    once = True
    once_each = True
    source = "RFC 7591 §3.2.2"
    kinds = _REGISTRATION

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        if leg.error not in _ERRORS or leg.http.status == _BAD_REQUEST:
            return ()
        text = f"a registration is refused as {leg.error} with status {leg.http.status}, not 400"
        return self.findings_at_leg(leg.http, session, text, WARNING)
