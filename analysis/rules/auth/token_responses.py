"""Responses of the token endpoint (RFC 6749 §5)."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.login import Leg
from analysis.conversation.session import Session
from analysis.rules.base import ERROR, NOTE, WARNING
from analysis.rules.finding import Finding
from analysis.rules.support.auth_exchanges import scheme_of
from analysis.rules.support.exchanges import JSON
from analysis.rules.support.login_rules import LegRule, is_response_read

_TOKEN: Final = frozenset({"token"})
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_ERRORS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
    }
)
"""The errors of RFC 6749 §5.2 and RFC 8707 §2."""
_ERROR_STATUSES: Final = frozenset({400, _UNAUTHORIZED})
_HASH_PREFIX: Final = "hmac:"


class TokenResponse(LegRule):
    """A token is issued without its type.

    **Why it matters.** Clients must not use a token whose type they do not know, and many refuse the response.

    **On the wire.** `< HTTP/1.1 200 OK` `{"access_token":"…"}`

    **Instead.** `{"access_token":"…","token_type":"Bearer"}`. An error has status 400, not 200.
    """

    id = "auth/token-response"
    who = "server"
    once = True
    source = "RFC 6749 §5.1"
    kinds = _TOKEN

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        http = leg.http
        # Without a grant type it is not known whether the request was understood, and then few texts are kept.
        is_known = is_response_read(http) and http.media_type == JSON and "grant_type" in leg.facts
        if http.status != _OK or not is_known or "token_type" in leg.facts:
            return ()
        return self.findings_at_leg(http, session, "a token response has no token_type", ERROR)


class TokenCached(LegRule):
    """A response with a token may be stored by caches.

    **Why it matters.** A cache between client and server could keep the token, or hand it to another client.

    **On the wire.** `< HTTP/1.1 200 OK` with a token and without `Cache-Control`

    **Instead.** `Cache-Control: no-store`. It is only a note, because shared caches rarely store responses to POST.
    """

    id = "auth/token-cached"
    who = "server"
    level = NOTE
    once = True
    source = "RFC 6749 §5.1"
    kinds = _TOKEN

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        control = leg.http.answer_fields.get("cache-control", "").lower()
        if leg.http.status != _OK or "no-store" in control or control.startswith(_HASH_PREFIX):
            return ()
        return self.findings_at_leg(leg.http, session, "a token response has no Cache-Control: no-store", NOTE)


class TokenErrorStatus(LegRule):
    """The token endpoint refuses a request with the wrong status.

    **Why it matters.** Clients read the error only if the status is 400 or 401. Otherwise they may repeat the request,
    or show the user nothing but a number.

    **On the wire.** `< HTTP/1.1 403 Forbidden` `{"error":"invalid_grant"}`

    **Instead.** `< HTTP/1.1 400 Bad Request` `{"error":"invalid_grant"}`, and 401 for `invalid_client`, at least if the
    client sent its credentials in `Authorization`.
    """

    id = "auth/token-error-status"
    who = "server"
    level = WARNING
    once = True
    once_each = True
    source = "RFC 6749 §5.2"
    kinds = _TOKEN

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        http = leg.http
        if leg.error not in _ERRORS:
            return ()
        if http.status not in _ERROR_STATUSES:
            text = f"the token endpoint refuses a request as {leg.error} with status {http.status}, not 400"
        elif leg.error == "invalid_client" and http.status != _UNAUTHORIZED and scheme_of(http) == "basic":
            text = (
                f"a client with credentials in Authorization is refused as invalid_client with {http.status}, not 401"
            )
        else:
            return ()
        return self.findings_at_leg(http, session, text, WARNING)
