"""Logins and their legs in words, for all commands, reports and screens. All text of peers is sanitised."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from analysis.conversation.login import UNSUCCESSFUL, Leg, Login
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.units import duration

_MAX_NAME_CHARS: Final = 80
_MAX_DESCRIPTION_CHARS: Final = 300
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
_NEXT_KINDS: Final = {
    "resource-metadata": ("server-metadata", "authorize"),
    "server-metadata": ("registration", "authorize"),
    "registration": ("authorize",),
    "authorize": ("token",),
    "callback": ("token",),
    "device": ("token",),
}
"""The legs that should follow a leg, in the order in which a client goes on; a challenge leads to metadata."""
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
ASKED_FOR_NONCE: Final = "asked for a nonce"
"""What became of a request that the client is to repeat with a nonce in its proof (DPoP)."""
_UNTIL_THE_END: Final = "until the recording ended"
_OUTCOME_TEXTS: Final = {
    "unneeded": ("not needed: the server did not ask for a token", ""),
    "unused": ("token issued, but the client went on without it", ""),
}
"""Outcomes that need no more words than these."""


class LegLine(NamedTuple):
    """A line about a leg, or about several equal legs in a row."""

    name: str
    request: str
    """The method and the path."""
    status: str
    """The status, and the OAuth error if there is one."""
    description: str
    """What the server said about a failure."""
    times: int
    """How many equal legs it is about."""
    has_failed: bool
    """Whether the login failed here."""
    exchange: int
    """The number of the first HTTP exchange."""
    request_seq: int
    """The number of the record of its request, or -1."""
    seq: int
    """The number of the record of its end, or -1."""
    started_ns: int
    took_ns: int
    facts: tuple[Fact, ...]


class LoginSummary(NamedTuple):
    """A login in words, as it was when it ended or when its token was issued."""

    number: int
    outcome: str
    """What became of it, such as which leg failed, and with which error."""
    explanation: str
    """What the server said about a failure, or what the client of an unfinished login did not request."""
    chain: str
    """The names of its legs in order, such as `challenge → token`."""
    request_count: int
    client: str
    is_bad: bool
    """Whether it did not succeed."""
    is_unneeded: bool
    ended_ns: int
    took_ns: int
    legs: tuple[LegLine, ...]
    """Its legs, without those of earlier summaries of the same login."""
    omitted_count: int
    """How many legs before the last one are not listed, because they are not kept."""

    @property
    def title(self) -> str:
        """Its number and what became of it."""
        return f"login {self.number}: {self.outcome}"

    @property
    def extent(self) -> str:
        """Its legs and the number of its requests."""
        return f"{self.chain}  {count_text(self.request_count, 'request')}"

    @property
    def text(self) -> str:
        """All of it in one line."""
        title = _with_description(self.title, self.explanation)
        return "  ".join(filter(None, (title, f"{self.extent}, {duration(self.took_ns)}", self.client)))


def summary_of(login: Login, *, after: int = 0) -> LoginSummary:
    """Returns the summary of a login; `after` is how many of its first legs an earlier summary has listed."""
    has_failed = login.outcome in UNSUCCESSFUL or (login.outcome == "revoked" and login.failed_leg is not None)
    is_bad = has_failed and not login.is_under_way
    failed_leg = (login.rejection or login.failed_leg) if is_bad else None
    last_number = login.count - 1
    new_legs = [leg for number, leg in enumerate(login.legs[:-1]) if number >= after]
    if last_number >= after:
        new_legs.append(login.last)
    return LoginSummary(
        login.number,
        *_outcome_parts(login),
        chain_text(login),
        login.count,
        client_text(login),
        is_bad,
        login.outcome == "unneeded",
        login.ended_ns,
        max(0, login.ended_ns - login.started_ns),
        tuple(_leg_lines(login, new_legs, failed_leg)),
        max(0, last_number - max(after, len(login.legs) - 1)),
    )


def login_text(login: Login) -> str:
    """Returns a login in one line: its outcome, its legs, how long it took, and its client."""
    return summary_of(login).text


def outcome_text(login: Login) -> str:
    """Returns what became of a login: which leg failed and what the server said, or what did not follow."""
    return _with_description(*_outcome_parts(login))


def missing_text(login: Login) -> str:
    """Returns what the client of an unfinished login did not request: `no registration, no authorization`."""
    leg = _furthest_leg(login)
    if login.last.asks_for_nonce:
        return "the request was not repeated with the nonce"
    if any(other.is_pending for other in login.legs):
        return "the user did not confirm the device code"
    if leg.kind == "challenge":
        return "no metadata, no authorization"
    if leg.kind == "resource-metadata" and login.server_elsewhere:
        server = sanitise(login.server_elsewhere, _MAX_NAME_CHARS)
        return f"this capture has no request to the authorization server {server}, and no message with a token"
    missing = [
        f"no {_NAMES[kind]}"
        for kind in _NEXT_KINDS.get(leg.kind, ("token",))
        if kind != "registration" or not login.client_ids
    ]
    if leg.kind == "authorize" and leg.http.status is not None and leg.http.status < 300:
        missing.insert(0, "the page of the login was not completed")
    return ", ".join(missing)


def chain_text(login: Login) -> str:
    """Returns the legs of a login in order, equal ones once: `challenge → resource metadata → token`."""
    names = [name for name, _ in groupby(map(leg_name, login.legs))]
    return " → ".join(names)


def duration_text(login: Login) -> str:
    """Returns how many requests a login took, and how long."""
    return f"{count_text(login.count, 'request')}, {duration(max(0, login.ended_ns - login.started_ns))}"


def leg_text(leg: Leg) -> str:
    """Returns a leg in one line: its name, its request and its result."""
    return f"{leg_name(leg)}: {_request_text(leg)} → {leg_result(leg)}"


def leg_name(leg: Leg) -> str:
    """Returns the name of a leg in words."""
    return _NAMES.get(leg.kind, "login")


def leg_result(leg: Leg) -> str:
    """Returns the status of a leg, with its OAuth error and its description, or else what the server said."""
    return _with_description(leg_status(leg), leg_description(leg))


def leg_status(leg: Leg) -> str:
    """Returns the status of a leg, with its OAuth error: `400 invalid_grant`."""
    status = "no answer" if leg.http.status is None else str(leg.http.status)
    return " ".join(filter(None, (status, sanitise(leg.error, _MAX_NAME_CHARS) if leg.error else "")))


def leg_description(leg: Leg) -> str:
    """Returns what the server said about a failure: the description of the error, or the text of a response without.

    A request that is to be repeated with a nonce has not failed.

    If the exchange broke off, it is the reason for that.
    """
    if leg.asks_for_nonce:
        return ASKED_FOR_NONCE
    said = leg.facts.get("error_description", "")
    if not said and not leg.error:
        said = leg.http.response_gist.removeprefix(f"{leg.http.status} ") or leg.http.error
    return sanitise(said, _MAX_DESCRIPTION_CHARS) if said else ""


def leg_facts(leg: Leg) -> Iterator[Fact]:
    """Yields the facts about a leg, such as its scope, its resource and its error."""
    for member, name in _FACT_NAMES.items():
        value = leg.facts.get(member)
        if value:
            yield Fact(name, sanitise(value), is_bad=member == "error" and leg.has_failed)


def client_text(login: Login) -> str:
    """Returns the address and program of the first client of a login, and how many other programs took part.

    Some SDKs send the requests of a login without the name of a program, so those without one are not counted.
    """
    host, program = login.first.client
    program = program or next((leg.client[1] for leg in login.legs if leg.client[0] == host and leg.client[1]), "")
    first = " ".join(filter(None, (sanitise(host, _MAX_NAME_CHARS), sanitise(program, _MAX_NAME_CHARS))))
    other_count = len({other for _, other in login.clients} - {program, ""})
    return f"{first} and {count_text(other_count, 'other client')}" if first and other_count > 0 else first


def _outcome_parts(login: Login) -> tuple[str, str]:
    """Returns what became of a login, and why."""
    if login.is_under_way:
        return f"under way, after {leg_name(login.last)}", ""
    outcome, failed_leg = login.outcome, login.failed_leg
    if outcome in _OUTCOME_TEXTS:
        return _OUTCOME_TEXTS[outcome]
    if outcome == "rejected":
        refusal = login.rejection or login.last
        return f"the server refused the new token: {leg_status(refusal)}", leg_description(refusal)
    if failed_leg is not None and outcome in ("failed", "unfinished", "revoked"):
        return f"failed at {leg_name(failed_leg)}: {leg_status(failed_leg)}", leg_description(failed_leg)
    if outcome == "granted":
        return _granted_text(login), ""
    if outcome == "revoked":
        is_revoked = any(leg.kind == "revocation" for leg in login.legs)
        return "token revoked" if is_revoked else "token introspected", ""
    missing = ": ".join(filter(None, (_cut_off_text(login), missing_text(login))))
    return f"the client did not go on after {leg_name(_furthest_leg(login))}", missing


def _cut_off_text(login: Login) -> str:
    """Returns that the recording ended so soon that the client may have gone on after it; an empty text if not."""
    if login.cut_off_ns is None or (rest_ns := max(0, login.cut_off_ns - login.ended_ns)) >= login.patience_ns:
        return ""
    return f"{_UNTIL_THE_END}, {duration(rest_ns)} later"


def _granted_text(login: Login) -> str:
    if login.issued is not None:
        return "token renewed" if login.is_renewal else "token issued"
    elsewhere = sanitise(login.server_elsewhere, _MAX_NAME_CHARS)
    return f"token from {elsewhere} accepted" if elsewhere else "token accepted"


def _request_text(leg: Leg) -> str:
    return sanitise(f"{leg.http.method} {leg.http.path}", _MAX_NAME_CHARS)


def _with_description(text: str, description: str) -> str:
    separator = " " if description.startswith(_UNTIL_THE_END) else ": "
    return f"{text}{separator}{description}" if description else text


def _furthest_leg(login: Login) -> Leg:
    """Returns the leg with which the client got furthest, the last one of its kind."""
    order = [*_NAMES]
    reached_legs = [leg for leg in login.legs if not leg.has_failed]
    return max(reversed(reached_legs or login.legs), key=lambda leg: order.index(leg.kind))


def _leg_lines(login: Login, legs: list[Leg], failed_leg: Leg | None) -> Iterator[LegLine]:
    """Yields a line for each leg, but only one for equal legs in a row, such as the polls of a device."""
    keyed_legs = [
        (leg, (_request_text(leg), leg_status(leg), _description_in(login, leg), *leg_facts(leg))) for leg in legs
    ]
    for _, group in groupby(keyed_legs, key=lambda keyed_leg: (keyed_leg[0].kind, keyed_leg[1])):
        equal_legs = [leg for leg, *_ in group]
        first, last = equal_legs[0], equal_legs[-1]
        started_ns, ended_ns = _started_ns(first), _ended_ns(last)
        yield LegLine(
            leg_name(first),
            _request_text(first),
            leg_status(first),
            _description_in(login, first),
            len(equal_legs),
            any(leg is failed_leg for leg in equal_legs),
            first.http.number,
            -1 if first.http.started_ref is None else first.http.started_ref.seq,
            -1 if first.http.end_ref is None else first.http.end_ref.seq,
            started_ns,
            max(0, ended_ns - started_ns),
            tuple(leg_facts(first)),
        )


def _description_in(login: Login, leg: Leg) -> str:
    """Returns what the server said about a leg, and whether the client has repeated a request that lacked a nonce."""
    is_repeated = leg.asks_for_nonce and login.is_repeated(leg)
    return f"{leg_description(leg)}, repeated" if is_repeated else leg_description(leg)


def _started_ns(leg: Leg) -> int:
    start = leg.http.started_ref or leg.http.answered_ref
    return 0 if start is None else start.t_ns


def _ended_ns(leg: Leg) -> int:
    return _started_ns(leg) if leg.http.end_ref is None else leg.http.end_ref.t_ns
