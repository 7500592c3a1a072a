"""Logins and their legs in words, for all commands, reports and screens. All text of peers is sanitised."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from analysis.conversation.logins import Leg, Login
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.units import duration

_MAX_NAME_CHARS: Final = 80
_NAMES: Final = {
    "challenge": "challenge",
    "resource-metadata": "resource metadata",
    "server-metadata": "server metadata",
    "registration": "registration",
    "authorize": "authorization",
    "callback": "callback",
    "token": "token",
    "revocation": "revocation",
    "introspection": "introspection",
    "device": "device code",
}
"""The names of legs, in words."""
_FACT_NAMES: Final = {
    "scope": "scope",
    "resource": "resource",
    "client_id": "client id",
    "redirect_uri": "redirect to",
    "grant_type": "grant type",
    "response_type": "response type",
    "code_challenge_method": "PKCE method",
    "as_server": "authorization server",
    "iss": "issuer",
    "token_type": "token type",
    "error": "error",
    "error_description": "description",
    "error_uri": "error page",
}
"""The members of `oauth` in FORMAT.md that are facts for a reader, and their names."""


def login_text(login: Login) -> str:
    """Returns a login in one line: its client, its legs, and what became of it."""
    return f"login {login.number}: {outcome_text(login)}  {chain_text(login)}  {duration_text(login)}"


def outcome_text(login: Login) -> str:
    """Returns what became of a login, or what it waits for."""
    if not login.is_over and login.issued is None and login.rejection is None:
        return f"under way, after {leg_name(login.last)}"
    outcome, failed_leg = login.outcome, login.failed_leg
    if outcome == "granted":
        elsewhere = sanitise(login.server_elsewhere, _MAX_NAME_CHARS)
        if login.issued is None:
            return f"a token of {elsewhere} accepted" if elsewhere else "a token accepted"
        return "token renewed" if login.is_renewal else "token issued"
    if outcome == "rejected":
        return f"the server refused the new token: {leg_result(login.rejection or login.last)}"
    if outcome == "failed" and failed_leg is not None:
        return f"failed at {leg_name(failed_leg)}: {leg_result(failed_leg)}"
    if outcome == "unneeded":
        return "not needed: the server asked for no token"
    if outcome == "revoked":
        return "a token revoked" if any(leg.kind == "revocation" for leg in login.legs) else "a token examined"
    return f"the client did not go on after {leg_name(login.last)}"


def chain_text(login: Login) -> str:
    """Returns the legs of a login in order, equal ones once: `challenge → resource metadata → token`."""
    names = [name for name, _ in groupby(map(leg_name, login.legs))]
    return " → ".join(names)


def duration_text(login: Login) -> str:
    """Returns how many requests a login took, and how long."""
    return f"{count_text(login.count, 'request')}, {duration(max(0, login.ended_ns - login.started_ns))}"


def leg_text(leg: Leg) -> str:
    """Returns a leg in one line: its name, its request and its result."""
    target = sanitise(f"{leg.http.method} {leg.http.path}", _MAX_NAME_CHARS)
    return f"{leg_name(leg)}: {target} → {leg_result(leg)}"


def leg_name(leg: Leg) -> str:
    """Returns the name of a leg in words."""
    return _NAMES.get(leg.kind, "login")


def leg_result(leg: Leg) -> str:
    """Returns the status of a leg, with its OAuth error and the description of that."""
    status = "no answer" if leg.http.status is None else str(leg.http.status)
    error = sanitise(leg.error, _MAX_NAME_CHARS)
    description = sanitise(leg.facts.get("error_description", ""))
    return f"{status}{f' {error}' if error else ''}{f': {description}' if description else ''}"


def leg_facts(leg: Leg) -> Iterator[Fact]:
    """Yields what is known about a leg, such as its scope, its resource and its error."""
    for member, name in _FACT_NAMES.items():
        value = leg.facts.get(member)
        if value:
            yield Fact(name, sanitise(value), is_bad=member == "error" and leg.has_failed)


def client_text(login: Login) -> str:
    """Returns the address and program of the first client of a login."""
    host, program = login.first.client
    return " ".join(filter(None, (sanitise(host, _MAX_NAME_CHARS), sanitise(program, _MAX_NAME_CHARS))))
