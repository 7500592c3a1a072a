"""Login: the HTTP exchanges with which one client tries to get a token, and what became of it.

A login only knows its own legs; `analysis.conversation.logins` decides which legs these are.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

from analysis.conversation.http_exchange import HttpExchange

MAX_LEGS: Final = 32
"""The most legs of a login that are kept: the first ones and the last one."""
MAX_PAUSE_NS: Final = 30 * 60 * 1_000_000_000
"""How long a login may pause, because a person may be asked; after that, its client has probably given up."""
GIVEN_UP_NS: Final = 10_000_000_000
"""How long after a leg a client counts as gone if no user can be the reason. Clients react within seconds, for example
to a refresh token that has expired."""
USER_WAIT_NS: Final = 60_000_000_000
"""How long after a leg a client counts as gone if it may ask its user before it goes on."""
T = TypeVar("T")
Client: TypeAlias = tuple[str, str]
"""A client, as its address and its program (the field `User-Agent`). Untrusted texts."""
Outcome: TypeAlias = Literal["granted", "rejected", "unused", "failed", "unfinished", "unneeded", "revoked"]
"""What became of a login.

- `granted`: a token was issued, here or elsewhere, and the endpoint did not refuse it.
- `rejected`: the endpoint refused the token that had been obtained.
- `unused`: a token was issued, but the client went on without it.
- `failed`: the last leg of its kind failed, see `Login.failed_leg`.
- `unfinished`: every leg succeeded, but the client did not go on.
- `unneeded`: the client asked for metadata and was never challenged, and its messages were accepted or there is none.
- `revoked`: a token was only introspected or revoked.
"""
UNSUCCESSFUL: Final[frozenset[Outcome]] = frozenset({"failed", "rejected", "unfinished", "unused"})
"""The outcomes that leave a client without a token, or without one that it uses."""
_PENDING_ERRORS: Final = frozenset({"authorization_pending", "slow_down"})
"""Errors that ask a device to wait (RFC 8628 §3.5)."""
DISCOVERY: Final = frozenset({"resource-metadata", "server-metadata"})
"""The kinds of the legs in which a client reads metadata."""
BEGINNING: Final = frozenset({"challenge", *DISCOVERY})
"""Legs before a client has decided how to go on."""
AFTER_LOGIN: Final = frozenset({"revocation", "introspection"})
"""Legs that concern a token which was issued earlier. They are never part of the login that obtained it."""
BROWSER_LEGS: Final = frozenset({"authorize", "callback"})
"""Legs that are requested by the user's browser."""
_REGISTERING: Final = frozenset({"registration", "device"})
"""Legs with which a client begins to ask for a token."""
_KINDS: Final = BEGINNING | _REGISTERING | BROWSER_LEGS | AFTER_LOGIN | {"token"}
_CLIENT_ID_MEMBERS: Final = ("registration_endpoint", "client_id_metadata_document_supported")
"""Members of metadata that say how a client gets an id."""
_MISSING_STATUSES: Final = frozenset({404, 405})
"""Statuses of responses at an address where there is no endpoint."""
_NOT_MODIFIED: Final = 304


class Leg(NamedTuple):
    """One exchange of a login."""

    kind: str
    """The member `leg` in FORMAT.md, such as `token`."""
    http: HttpExchange
    facts: Mapping[str, str]
    """The other members of `oauth` that are texts, such as `error` and `scope`. Untrusted texts."""

    @property
    def error(self) -> str:
        """The OAuth error, such as `invalid_grant`, or an empty string if there is none."""
        return self.facts.get("error", "")

    @property
    def is_pending(self) -> bool:
        """Whether a device was asked to wait."""
        return self.kind == "token" and self.error in _PENDING_ERRORS

    @property
    def asks_for_nonce(self) -> bool:
        """Whether the client was asked to repeat the request with a nonce in its proof (DPoP)."""
        return self.http.asks_for_nonce

    @property
    def has_failed(self) -> bool:
        """Whether it did not lead on; a challenge never fails, nor does a request that is to be repeated."""
        if self.kind == "challenge" or self.is_pending or self.asks_for_nonce:
            return False
        status = self.http.status
        if self.error or status is None or status >= 400:
            return True
        if self.kind in DISCOVERY:
            return status != _NOT_MODIFIED and (status >= 300 or not self._has_document)
        return status >= 300 and self.kind not in BROWSER_LEGS

    @property
    def _has_document(self) -> bool:
        """Whether the response contains metadata, or JSON that is not recorded, instead of a page for every address."""
        return self.http.metadata is not None or "json" in self.http.media_type

    @property
    def offers_client_id(self) -> bool:
        """Whether the metadata of an authorization server may say how to get a client id, as far as is known."""
        metadata = self.http.metadata
        return metadata is None or any(name in metadata for name in _CLIENT_ID_MEMBERS)

    @property
    def client(self) -> Client:
        """The address and the program of its client."""
        return client_of(self.http)

    @property
    def started_ns(self) -> int:
        """When it began, in nanoseconds since the capture opened."""
        return start_ns_of(self.http)

    @property
    def ended_ns(self) -> int:
        """When it ended."""
        end = self.http.end_ref
        return self.started_ns if end is None else end.t_ns


class Login:
    """One login, as far as it is known."""

    def __init__(self, number: int) -> None:
        """Create a login without legs; `number` is its position among all logins of the capture, from 1."""
        self.number = number
        self.legs: list[Leg] = []
        """Its legs, in the order of their ends; at most `MAX_LEGS`."""
        self.skipped_count = 0
        """How many legs before the last one are not kept."""
        self.guessed_count = 0
        """How many legs were assigned by a guess."""
        self.kinds: set[str] = set()
        """The kinds of all its legs."""
        self.found_kinds: set[str] = set()
        """The kinds of which a leg succeeded."""
        self.client_ids: set[str] = set()
        """The client ids of its legs, as keyed hashes or URLs."""
        self.clients: set[Client] = set()
        """The addresses and programs of its clients."""
        self.browser: Client | None = None
        """The client that opened its page last."""
        self.has_code = False
        """Whether a code was given to a browser and not yet exchanged for a token, as far as is recorded."""
        self.issued: Leg | None = None
        """The last leg that issued a token."""
        self.refused_credentials: set[str] = set()
        """The credentials that its challenges refused, as keyed hashes; an empty text for a request without one."""
        self.rejection: Leg | None = None
        """The challenge that refused the token that was obtained."""
        self.accepted: HttpExchange | None = None
        """The first exchange with the endpoint that was accepted after its legs."""
        self.is_unbroken = True
        """Whether no record was lost between its first and its last leg, or its end."""
        self.is_paused = False
        """Whether its client has probably given up, although a leg with its client id may still continue it."""
        self.is_over = False
        """Whether no leg can follow."""
        self.cut_off_ns: int | None = None
        """When the capture ended, if only that ended it."""

    @property
    def first(self) -> Leg:
        """The first leg."""
        return self.legs[0]

    @property
    def last(self) -> Leg:
        """The last leg."""
        return self.legs[-1]

    @property
    def count(self) -> int:
        """How many legs it has, including those that are not kept."""
        return len(self.legs) + self.skipped_count

    @property
    def started_ns(self) -> int:
        """When its first leg began, in nanoseconds since the capture opened."""
        return self.first.started_ns

    @property
    def ended_ns(self) -> int:
        """When its last leg ended."""
        return self.last.ended_ns

    @property
    def patience_ns(self) -> int:
        """How long after the last leg its client counts as gone; it may still go on after that."""
        last = self.last
        if last.kind in BROWSER_LEGS and not last.has_failed and not last.http.is_redirect:
            return MAX_PAUSE_NS  # the user reads the page
        if last.kind == "server-metadata" and not self.client_ids and not last.offers_client_id:
            return GIVEN_UP_NS
        if last.kind in BEGINNING or ((last.kind in _REGISTERING or last.is_pending) and not last.has_failed):
            return USER_WAIT_NS
        return GIVEN_UP_NS

    @property
    def is_challenged(self) -> bool:
        """Whether the endpoint has asked for a token."""
        return "challenge" in self.kinds

    @property
    def is_beginning(self) -> bool:
        """Whether its client has not yet gone beyond metadata, other than by renewing a token."""
        return self.kinds <= BEGINNING or (self.kinds <= {*BEGINNING, "token"} and self.is_renewal)

    @property
    def is_renewal(self) -> bool:
        """Whether a token was only renewed with a refresh token, without asking the user."""
        grants = {leg.facts.get("grant_type") for leg in self.legs if leg.kind == "token"}
        return grants == {"refresh_token"} and not self.kinds & BROWSER_LEGS

    @property
    def server_elsewhere(self) -> str:
        """The authorization server that the metadata names if it is not here; otherwise an empty string.

        It is here if it has the origin of the recorded server, or if a leg at one succeeded here.
        """
        if self.found_kinds - {"challenge", "resource-metadata"}:
            return ""
        for leg in reversed(self.legs):
            server = leg.facts.get("as_server", "") if leg.kind == "resource-metadata" else ""
            if server:
                here = {_origin(leg.http.upstream), _origin(leg.facts.get("resource", ""))}
                return "" if _origin(server) in here else server
        return ""

    @property
    def failed_leg(self) -> Leg | None:
        """The last leg that failed, unless a later leg shows that the client went on without it.

        Clients ask for metadata in several places, so a missing document counts only if none of its kind was found.
        Without metadata, they try usual addresses: if nothing is there, what failed is the request for metadata.
        """
        for leg in reversed(self.legs):
            if leg.kind == "challenge" or leg.is_pending or leg.asks_for_nonce:
                continue
            if not leg.has_failed:
                return None
            if leg.kind in DISCOVERY and leg.kind in self.found_kinds:
                continue
            if leg.http.status in _MISSING_STATUSES and "server-metadata" not in self.found_kinds:
                return next((other for other in reversed(self.legs) if other.kind == "server-metadata"), leg)
            return leg
        return None

    @property
    def outcome(self) -> Outcome:
        """What became of it, as far as is known."""
        if self.kinds <= AFTER_LOGIN:
            return "revoked"
        if self.rejection is not None:
            return "rejected"
        if self.issued is not None:
            return "unused" if self._is_token_unused else "granted"
        if self.accepted is not None:
            is_granted = self.is_challenged or (self.server_elsewhere and credential_of(self.accepted))
            return "granted" if is_granted else "unneeded"
        if self.kinds <= DISCOVERY and not self.found_kinds:
            return "unneeded"
        return "unfinished" if self.failed_leg is None else "failed"

    @property
    def is_under_way(self) -> bool:
        """Whether it may still succeed: its last leg has not failed, apart from metadata that may be elsewhere."""
        if (
            self.is_over
            or self.is_paused
            or self.issued is not None
            or self.rejection is not None
            or self.outcome == "revoked"
        ):
            return False
        return self.failed_leg is None or self.failed_leg.kind in DISCOVERY

    @property
    def _is_token_unused(self) -> bool:
        """Whether the last thing that the client did was a request without the token that had been issued."""
        last, issued = self.last, self.issued
        return (
            self.accepted is None
            and issued is not None
            and last.kind == "challenge"
            and not credential_of(last.http)
            and last.started_ns >= issued.ended_ns
        )

    @property
    def can_resume(self) -> bool:
        """Whether it can continue after a long pause: a person was asked, and a client id shows who continues it."""
        is_person_asked = bool(self.kinds & (BROWSER_LEGS | _REGISTERING))
        return is_person_asked and self.issued is None and self.failed_leg is None and bool(self._own_client_ids)

    @property
    def _own_client_ids(self) -> set[str]:
        """The client ids that are no URLs, which many users share."""
        return {client_id for client_id in self.client_ids if "://" not in client_id}

    def add(self, leg: Leg, *, is_guess: bool = False) -> None:
        """Add the next leg."""
        if len(self.legs) == MAX_LEGS:
            self.legs.pop()
            self.skipped_count += 1
        self.legs.append(leg)
        self.guessed_count += is_guess
        self.is_unbroken = self.is_unbroken and self.first.http.is_unbroken
        self.kinds.add(leg.kind)
        is_success = not leg.has_failed and not leg.is_pending and not leg.asks_for_nonce
        if is_success:
            self.found_kinds.add(leg.kind)
        if leg.kind == "token":
            self.has_code = self.has_code and leg.asks_for_nonce
            self.issued = leg if is_success else self.issued
        elif leg.kind == "challenge" and not leg.asks_for_nonce:
            _add_bounded(self.refused_credentials, credential_of(leg.http))
        elif leg.kind in BROWSER_LEGS:
            self.browser, self.has_code = leg.client, self.has_code or leg.http.has_code
        _add_bounded(self.clients, leg.client)
        client_id = leg.facts.get("client_id")
        if client_id:
            _add_bounded(self.client_ids, client_id)

    def is_repeated(self, leg: Leg) -> bool:
        """Returns whether its client has sent the request of a leg again, as far as is known."""
        later_legs = self.legs[self.legs.index(leg) + 1 :] if leg in self.legs else []
        if leg.kind == "challenge" and self.accepted is not None:
            return True
        return any(later.kind == leg.kind for later in later_legs)

    def has_client(self, client: Client) -> bool:
        """Returns whether a client is one of its clients; the SDKs send some requests without the name of a program."""
        address, program = client
        programs = {other for host, other in self.clients if host == address}
        return bool(programs) and (not program or program in programs or programs == {""})

    def can_have_page(self, leg: Leg) -> bool:
        """Returns whether a leg of a browser can belong to it: no other browser has opened its page.

        A client id that is not a URL may belong to this login alone, so a user may then change to another browser
        until one of them has got the code.
        """
        if self.kinds <= AFTER_LOGIN:
            return False
        if self.browser == leg.client:
            return True
        if self.browser is None:
            return self.issued is None
        client_id = leg.facts.get("client_id", "")
        return not self.has_code and self.issued is None and client_id in self.client_ids and "://" not in client_id

    def awaits_page(self, leg: Leg) -> bool:
        """Returns whether a leg of a browser is expected: no page has led to a code yet, and its last leg did not fail.

        A callback is expected once, after a page.
        """
        if leg.kind == "callback" and (self.browser is None or "callback" in self.kinds):
            return False
        return not self.has_code and self.issued is None and not self.last.has_failed


def leg_of(http: HttpExchange) -> Leg | None:
    """Returns the leg of a login that an exchange is, or None."""
    facts = http.oauth
    if facts is None or http.is_from_recorder:
        return None
    kind = facts.get("leg")
    return Leg(kind, http, facts) if kind in _KINDS else None


def credential_of(http: HttpExchange) -> str:
    """Returns the credential of a request as a keyed hash, or an empty string if it has none."""
    fields = http.fields
    return fields.get("authorization") or fields.get("x-api-key") or ""


def _add_bounded(values: set[T], value: T) -> None:
    if len(values) < MAX_LEGS:
        values.add(value)


def client_of(http: HttpExchange) -> Client:
    """Returns the address and the program of the client of an exchange."""
    return http.peer_host, http.fields.get("user-agent", "")


def start_ns_of(http: HttpExchange) -> int:
    """Returns when an exchange began, in nanoseconds since the capture opened, as far as it is recorded."""
    start = http.started_ref or http.answered_ref
    return 0 if start is None else start.t_ns


def _origin(url: str) -> str:
    """Returns scheme, host and port of a URL, or an empty string if it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""
