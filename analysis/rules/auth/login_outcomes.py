"""What became of logins: which leg failed, and what the client did not request."""

import re
from collections.abc import Iterable
from typing import Final

from analysis.conversation.login import DISCOVERY, Leg, Login
from analysis.rules.base import ERROR, NOTE, WARNING, CaptureEnd
from analysis.rules.finding import Finding
from analysis.rules.support.login_rules import (
    LoginRule,
    is_certain,
    is_server_elsewhere,
    metadata_of,
)

MIN_SILENCE_NS: Final = 500_000_000
"""How long a client must have been silent at the end of a recording for more than a note."""
_NAMES: Final = {
    "resource-metadata": "the resource metadata",
    "server-metadata": "the server metadata",
    "registration": "registration",
    "authorize": "authorization",
    "callback": "the callback",
    "token": "the token request",
    "device": "the request for a device code",
    "revocation": "revocation",
    "introspection": "introspection",
}
_LEFT_OUT: Final = {
    "challenge": "it did not request metadata",
    "resource-metadata": "it did not request the server metadata",
    "server-metadata": "it neither registered nor requested authorization",
    "registration": "it did not request authorization",
    "callback": "it did not request a token",
    "device": "it did not request a token",
    "token": "it stopped polling for the token",
}
"""What a client did not do after the last leg, by the kind of that leg."""
_USUAL_ERRORS: Final = frozenset(
    {"access_denied", "expired_token", "login_required", "consent_required", "interaction_required"}
)
"""Errors that the user causes, by refusing or by not being there."""
_is_error_code = re.compile(r"[A-Za-z0-9_.-]{1,60}", re.ASCII).fullmatch
_UNAUTHORIZED: Final = 401
_MIN_SERVER_ERROR: Final = 500


class LoginFailed(LoginRule):
    """A login ended with a request that failed.

    **Why it matters.** The client has no token, so it cannot use the server. Its user usually reads only that there was
    an error; the finding says which request failed, and how the server answered it.

    **On the wire.** `> POST /token`, answered `400 Bad Request` `{"error":"invalid_grant"}`

    **Instead.** Look at the response: `show` and the report have the description that the server sent. It is only a
    note if the user refused, or if a refresh token has expired. A status of 500 and above, or a grant that is announced
    and not supported, is an error of the server; for other refusals, the capture does not show who is at fault. While
    the capture is being recorded, the finding comes when the client has not gone on for 10 s, or for 60 s after
    metadata.
    """

    id = "auth/login-failed"
    level = WARNING
    once = True
    once_each = True
    follows = (
        "auth/challenge-missing",
        "auth/document-missing",
        "auth/endpoint-missing",
        "auth/metadata-type",
    )
    source = "2025-03-26 basic/authorization"

    def on_login_stop(self, login: Login, ending: CaptureEnd | None) -> Iterable[Finding]:
        leg = login.failed_leg
        if login.outcome != "failed" or leg is None:
            return ()
        text = f"the login failed at {_NAMES.get(leg.kind, 'a leg')}: {_result(leg)}"
        is_usual = leg.error in _USUAL_ERRORS or (login.is_renewal and leg.error == "invalid_grant")
        if leg.kind in DISCOVERY and ending is not None:  # the client may look elsewhere
            text += f"; {_end_text(login, ending)}"
            is_usual = is_usual or _is_short(login, ending)
        level = NOTE if is_usual else ERROR if _is_server_at_fault(login, leg) else WARNING
        return self.findings_at(leg, text, level)


class LoginUnfinished(LoginRule):
    """A client began a login, got what it requested, and did not go on.

    **Why it matters.** Clients give up silently if the metadata does not offer what they need. Nothing fails on the
    wire, and the user reads only that there was an error.

    **On the wire.** `> GET /.well-known/oauth-authorization-server`, answered 200, and then nothing

    **Instead.** Look at what the client read last. A client without a client id needs `registration_endpoint` or
    `"client_id_metadata_document_supported":true` in the metadata. If both are missing, it is a warning, otherwise a
    note: the user may have left, or the client may have gone on at an authorization server elsewhere, whose traffic is
    not in the capture. If the recording ended soon after, the finding says so. While it goes on, the client has 10 s,
    or 60 s if it may ask its user first, or half an hour if the user reads a page.
    """

    id = "auth/login-unfinished"
    level = WARNING
    once = True
    once_each = True
    follows = (
        "auth/challenge-missing",
        "auth/resource-metadata-missing",
        "auth/metadata-address",
        "auth/metadata-document",
        "auth/metadata-type",
        "auth/resource-mismatch",
        "auth/issuer-mismatch",
        "auth/server-metadata",
        "auth/pkce-unsupported",
        "auth/registration-response",
        "auth/iss-parameter",
        "auth/retry-loop",
    )
    source = "2025-06-18 basic/authorization"

    def on_login_stop(self, login: Login, ending: CaptureEnd | None) -> Iterable[Finding]:
        last = login.last
        if login.outcome != "unfinished" or not last.http.is_unbroken:
            return ()
        is_sent_back = last.kind == "authorize" and last.http.is_redirect
        if last.kind == "challenge" and (last.http.status != _UNAUTHORIZED or "authorization" in last.http.fields):
            return ()  # the origin was refused, for example, or the client has a credential that needs no login
        after = "the challenge" if last.kind == "challenge" else _NAMES.get(last.kind, "a leg")
        until = "" if ending is None else f" until {_end_text(login, ending)}"
        text = f"the client did not go on after {after}{until}: {_left_out(last, is_sent_back=is_sent_back)}"
        level = NOTE
        metadata = metadata_of(login)
        if is_server_elsewhere(login):
            text += "; the authorization server is elsewhere"
        elif last.kind == "server-metadata" and not _offers_client_id(metadata):
            text += "; the metadata has no registration_endpoint and no client_id_metadata_document_supported"
            level = NOTE if _is_short(login, ending) else WARNING
        return self.findings_at(last, text, level)


class TokenRejected(LoginRule):
    """The server refuses a token that was just issued for it.

    **Why it matters.** The login succeeds, but the user is not logged in. Often the two parts of the server disagree on
    the audience, the issuer, the keys or the clock.

    **On the wire.** `> POST /token`, answered 200, then `> POST /mcp` with the token, answered 401

    **Instead.** Compare `aud`, `iss` and `exp` in the token with what the endpoint checks; after a 403 with
    `insufficient_scope`, compare the scopes that were issued with those that the endpoint needs. If the token comes
    from an authorization server elsewhere, it is a note: the capture does not show whether the client sent the right
    one.
    """

    id = "auth/token-rejected"
    level = WARNING
    source = "RFC 6750 §3.1; 2025-06-18 basic/authorization"

    def check_login(self, login: Login) -> Iterable[Finding]:
        rejection, issued = login.rejection, login.issued
        if login.outcome != "rejected" or rejection is None:
            return ()
        if rejection.http.status != _UNAUTHORIZED and rejection.error != "insufficient_scope":
            return ()
        if issued is None:
            if not is_server_elsewhere(login):
                return ()
            text, level = "the server refuses the token from an authorization server elsewhere", NOTE
        elif _is_before(issued, rejection):
            text, level = "the server refuses the token that it has just issued", WARNING
        else:
            return ()
        return self.findings_at(rejection, f"{text}: {_result(rejection)}", level)


class TokenUnused(LoginRule):
    """A client obtains a token, and sends its next request without it.

    **Why it matters.** The server refuses the request as before, and the user is asked to log in again.

    **On the wire.** `> POST /token`, answered 200, then `> POST /mcp` without `Authorization`, answered 401

    **Instead.** As a client, send the token with each request. It is a note: another user of the same client may have
    sent that request.
    """

    id = "auth/token-unused"
    who = "client"
    level = NOTE
    once = True
    source = "2025-03-26 basic/authorization"

    def on_login_stop(self, login: Login, ending: CaptureEnd | None) -> Iterable[Finding]:  # noqa: ARG002 - as above
        if login.outcome != "unused" or not is_certain(login) or not login.is_unbroken:
            return ()
        return self.findings_at(login.last, "the client went on without the token that it had obtained")


# ---- shared by the rules


def _end_text(login: Login, ending: CaptureEnd) -> str:
    """Returns how long after the last leg the recording ended."""
    return f"the recording ended, {max(0, ending.t_ns - login.ended_ns) / 1e9:,.1f} s later"


def _is_short(login: Login, ending: CaptureEnd | None) -> bool:
    """Whether the recording ended before the client had time to go on."""
    return ending is not None and ending.t_ns - login.ended_ns < MIN_SILENCE_NS


def _is_server_at_fault(login: Login, leg: Leg) -> bool:
    """Whether the server certainly is at fault for a failed leg: it failed itself, or announced what it refuses."""
    if leg.http.status is not None and leg.http.status >= _MIN_SERVER_ERROR:
        return True
    grants = metadata_of(login).get("grant_types_supported")
    is_announced = isinstance(grants, list) and leg.facts.get("grant_type") in grants
    return leg.error == "unsupported_grant_type" and is_announced


def _result(leg: Leg) -> str:
    """Returns the status of a leg, and its error if that is a code; its description is text of the peer."""
    status = "no response" if leg.http.status is None else str(leg.http.status)
    return f"{status} {leg.error}" if _is_error_code(leg.error) else status


def _left_out(leg: Leg, *, is_sent_back: bool) -> str:
    if leg.asks_for_nonce:
        return "it did not repeat the request with the nonce of the server"
    if leg.kind == "authorize":
        return "it did not request a token" if is_sent_back else "no code was issued"
    return _LEFT_OUT.get(leg.kind, "nothing followed")


def _offers_client_id(metadata: dict[str, object]) -> bool:
    if not metadata:
        return True
    return bool(metadata.get("registration_endpoint")) or metadata.get("client_id_metadata_document_supported") is True


def _is_before(issued: Leg, rejection: Leg) -> bool:
    """Whether the client sent the request that was refused after it had the token."""
    end, start = issued.http.end_ref, rejection.http.started_ref
    return end is not None and start is not None and end.seq < start.seq
