"""Login: the HTTP exchanges with which one client tries to get a token, and what became of it.

A login is the run of legs (see `oauth` in FORMAT.md) of one client, from the first challenge or request for metadata
to the first message that the server accepts, or to the last leg. Its legs may come from several programs: a service
registers and requests the token, and the user's browser opens the page. A hosted service serves many users under one
name. So a leg belongs to the login with the same client id, unless another browser is there already; otherwise to a
login with a leg of the same address and program; otherwise, as a guess, to the last one that can continue with it. If
several have the client id, one that waits for the leg comes first, then one of the same client. If only the order is
left to decide, that is a guess, too.

A client and a token are told apart by keyed hashes, so a login also knows whether the token that a message carries is
a new one. Memory is bounded, and so is the number of logins that are looked at for a leg.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import MAX_HTTP_EXCHANGES, HttpExchange

MAX_LOGINS: Final = 500
"""The most logins that are kept; the oldest are forgotten first."""
MAX_LEGS: Final = 32
"""The most legs of a login that are kept: the first ones and the last one."""
MAX_PAUSE_NS: Final = 30 * 60 * 1_000_000_000
"""How long a login may pause, because a person may be asked; after that, its client has probably given up."""
GIVEN_UP_NS: Final = 10_000_000_000
"""How long after a leg a client counts as gone if no user can be the reason. Clients react within seconds, for example
to a refresh token that has expired."""
USER_WAIT_NS: Final = 60_000_000_000
"""How long after a leg a client counts as gone if it may ask its user before it goes on."""
MAX_HOP_NS: Final = 60 * 1_000_000_000
"""How long after its last leg a login may continue from another address, because a service has several."""
MAX_CANDIDATES: Final = 50
"""The most logins that are looked at for a leg, the latest first."""
MAX_CREDENTIALS: Final = 10_000
"""The most accepted credentials that are remembered."""

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
_DISCOVERY: Final = frozenset({"resource-metadata", "server-metadata"})
_BEGINNING: Final = frozenset({"challenge", *_DISCOVERY})
"""Legs before a client has decided how to go on."""
_AFTER_LOGIN: Final = frozenset({"revocation", "introspection"})
"""Legs that concern a token which was issued earlier. They are never part of the login that obtained it."""
_BROWSER_LEGS: Final = frozenset({"authorize", "callback"})
_REGISTERING: Final = frozenset({"registration", "device"})
"""Legs with which a client begins to ask for a token."""
_KINDS: Final = _BEGINNING | _REGISTERING | _BROWSER_LEGS | _AFTER_LOGIN | {"token"}
_CLIENT_ID_MEMBERS: Final = ("registration_endpoint", "client_id_metadata_document_supported")
"""Members of metadata that say how a client gets an id."""
_GRANTS_WITHOUT_PAGE: Final = frozenset({"client_credentials", "refresh_token"})
"""Grants for which no person is asked."""
_MISSING_STATUSES: Final = frozenset({404, 405})
"""Statuses of responses at an address where there is no endpoint."""
_NOT_MODIFIED: Final = 304
_FORBIDDEN: Final = 403


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
    def has_failed(self) -> bool:
        """Whether it did not lead on; a challenge never fails."""
        if self.kind == "challenge" or self.is_pending:
            return False
        status = self.http.status
        if self.error or status is None or status >= 400:
            return True
        if self.kind in _DISCOVERY:
            return status != _NOT_MODIFIED and (status >= 300 or not self._has_document)
        return status >= 300 and self.kind not in _BROWSER_LEGS

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
        return _client_of(self.http)

    @property
    def started_ns(self) -> int:
        """When it began, in nanoseconds since the capture opened."""
        return _started_ns(self.http)

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
        if last.kind in _BROWSER_LEGS and not last.has_failed and not last.http.is_redirect:
            return MAX_PAUSE_NS  # the user reads the page
        if last.kind == "server-metadata" and not self.client_ids and not last.offers_client_id:
            return GIVEN_UP_NS
        if last.kind in _BEGINNING or ((last.kind in _REGISTERING or last.is_pending) and not last.has_failed):
            return USER_WAIT_NS
        return GIVEN_UP_NS

    @property
    def is_challenged(self) -> bool:
        """Whether the endpoint has asked for a token."""
        return "challenge" in self.kinds

    @property
    def is_beginning(self) -> bool:
        """Whether its client has not yet gone beyond metadata, other than by renewing a token."""
        return self.kinds <= _BEGINNING or (self.kinds <= {*_BEGINNING, "token"} and self.is_renewal)

    @property
    def is_renewal(self) -> bool:
        """Whether a token was only renewed with a refresh token, without asking the user."""
        grants = {leg.facts.get("grant_type") for leg in self.legs if leg.kind == "token"}
        return grants == {"refresh_token"} and not self.kinds & _BROWSER_LEGS

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
            if leg.kind == "challenge" or leg.is_pending:
                continue
            if not leg.has_failed:
                return None
            if leg.kind in _DISCOVERY and leg.kind in self.found_kinds:
                continue
            if leg.http.status in _MISSING_STATUSES and "server-metadata" not in self.found_kinds:
                return next((other for other in reversed(self.legs) if other.kind == "server-metadata"), leg)
            return leg
        return None

    @property
    def outcome(self) -> Outcome:
        """What became of it, as far as is known."""
        if self.kinds <= _AFTER_LOGIN:
            return "revoked"
        if self.rejection is not None:
            return "rejected"
        if self.issued is not None:
            return "unused" if self._is_token_unused else "granted"
        if self.accepted is not None:
            is_granted = self.is_challenged or (self.server_elsewhere and credential_of(self.accepted))
            return "granted" if is_granted else "unneeded"
        if self.kinds <= _DISCOVERY and not self.found_kinds:
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
        return self.failed_leg is None or self.failed_leg.kind in _DISCOVERY

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
        is_person_asked = bool(self.kinds & (_BROWSER_LEGS | _REGISTERING))
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
        is_success = not leg.has_failed and not leg.is_pending
        if is_success:
            self.found_kinds.add(leg.kind)
        if leg.kind == "token":
            self.has_code = False
            self.issued = leg if is_success else self.issued
        elif leg.kind == "challenge":
            _add_bounded(self.refused_credentials, credential_of(leg.http))
        elif leg.kind in _BROWSER_LEGS:
            self.browser, self.has_code = leg.client, self.has_code or leg.http.has_code
        _add_bounded(self.clients, leg.client)
        client_id = leg.facts.get("client_id")
        if client_id:
            _add_bounded(self.client_ids, client_id)

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
        if self.kinds <= _AFTER_LOGIN:
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


def _first_with_least(logins: list[Login], key: Callable[[Login], tuple[bool, bool]]) -> tuple[Login, bool]:
    """Returns the first login whose key is the least, and whether another one has the same key."""
    keys = [key(login) for login in logins]
    least = min(keys)
    return logins[keys.index(least)], keys.count(least) > 1


class _Index:
    """Logins by a text of their legs. It knows itself what to remove, so nothing else has to agree with it."""

    def __init__(self) -> None:
        self._logins: dict[str, dict[Login, None]] = {}
        self._keys: dict[Login, set[str]] = {}

    def __len__(self) -> int:
        """The number of texts."""
        return len(self._logins)

    @property
    def logins(self) -> list[Login]:
        """The logins, in the order in which they were first added."""
        return [*self._keys]

    def put(self, key: str, login: Login) -> None:
        """Add a login, or make it the latest."""
        _put_last(self._logins.setdefault(key, {}), login)
        self._keys.setdefault(login, set()).add(key)

    def remove(self, login: Login) -> None:
        """Remove a login, if it is there."""
        for key in self._keys.pop(login, ()):
            logins = self._logins[key]
            del logins[login]
            if not logins:
                del self._logins[key]

    def latest(self, key: str) -> list[Login]:
        """Returns the latest logins with a text, the latest first; at most `MAX_CANDIDATES`."""
        return [*islice(reversed(self._logins.get(key, {})), MAX_CANDIDATES)]


class Logins:
    """The logins of a capture."""

    def __init__(self) -> None:
        self.count = 0
        """How many logins have begun."""
        self.changed: dict[Login, None] = {}
        """The logins that the last item changed."""
        self._logins: BoundedDict[int, Login] = BoundedDict(MAX_LOGINS)
        self._open_logins: dict[Login, None] = {}
        """The logins that are not over, the one with the latest leg last."""
        self._by_address = _Index()
        self._by_client_id = _Index()
        self._paused_by_client_id = _Index()
        self.forgotten_open_count = 0
        """How many logins had to be forgotten before they were over."""
        self._by_exchange: BoundedDict[int, Login] = BoundedDict(MAX_HTTP_EXCHANGES)
        self._accepted_credentials: BoundedDict[str, None] = BoundedDict(MAX_CREDENTIALS)

    def __bool__(self) -> bool:
        """Whether there is any login."""
        return bool(self._logins)

    @property
    def forgotten_count(self) -> int:
        """How many logins had to be forgotten."""
        return self._logins.forgotten

    def all(self) -> list[Login]:
        """Returns the logins that are kept, in the order in which they began."""
        return [*self._logins.values()]

    def of_exchange(self, number: int) -> Login | None:
        """Returns the login to which an exchange belongs as a leg, or None."""
        return self._by_exchange.get(number)

    def on_exchange_end(self, http: HttpExchange) -> None:
        """Process an exchange that has ended."""
        if self._open_logins:
            self._end_paused(http)
        if http.oauth is None:
            credential = credential_of(http)
            is_new = bool(credential) and credential not in self._accepted_credentials
            if is_new or self._open_logins:  # rarely
                self._on_message(http, credential, is_new=is_new)
            return
        leg = leg_of(http) if http.number not in self._by_exchange else None
        if leg is not None:
            self._on_leg(leg)

    def finish(self, end_ns: int) -> None:
        """End all logins, because the capture has ended at `end_ns`."""
        for login in self._open_logins:
            login.cut_off_ns = end_ns
        for login in [*self._paused_by_client_id.logins, *self._open_logins]:
            self._end(login)

    def _on_leg(self, leg: Leg) -> None:
        login, is_guess = self._login_for(leg)
        if login is None or is_guess:
            paused = self._paused_login_for(leg, login)
            if paused is not None:
                login, is_guess = paused, False
                self._resume(paused)
        if login is None:
            if _is_plain_refusal(leg):
                return
            login = self._begin()
        is_rejection = leg.kind == "challenge" and self._is_rejection(leg, login)
        self._by_exchange.put(leg.http.number, login)
        login.add(leg, is_guess=is_guess)
        self.changed[login] = None
        _put_last(self._open_logins, login)
        if leg.client in login.clients:
            self._by_address.put(leg.client[0], login)
        client_id = leg.facts.get("client_id", "")
        if client_id in login.client_ids:
            self._by_client_id.put(client_id, login)
        if is_rejection:
            login.rejection = leg
            self._end(login)

    def _end(self, login: Login) -> None:
        """Note that no leg can follow."""
        self._close(login)
        self._paused_by_client_id.remove(login)
        login.is_over = True
        login.is_unbroken = login.is_unbroken and login.first.http.is_unbroken
        self.changed[login] = None

    def _close(self, login: Login) -> None:
        """Remove a login from those that any leg can continue."""
        self._open_logins.pop(login, None)
        self._by_address.remove(login)
        self._by_client_id.remove(login)

    def _end_paused(self, http: HttpExchange) -> None:
        """End the logins that have paused for too long, apart from those that can resume.

        A request may be open for long, such as that for a page, so its start counts.
        """
        now_ns = _started_ns(http)
        while self._open_logins and now_ns - (oldest := next(iter(self._open_logins))).ended_ns > MAX_PAUSE_NS:
            if oldest.can_resume:
                self._pause(oldest)
            else:
                self._end(oldest)

    def _pause(self, login: Login) -> None:
        """Note that only a leg with the client id of a login can continue it."""
        self._close(login)
        for client_id in login.client_ids:
            self._paused_by_client_id.put(client_id, login)
        login.is_paused = True
        self.changed[login] = None

    def _resume(self, login: Login) -> None:
        """Note that a login continues."""
        self._paused_by_client_id.remove(login)
        login.is_paused = False
        for address, _ in login.clients:
            self._by_address.put(address, login)
        for client_id in login.client_ids:
            self._by_client_id.put(client_id, login)

    def _on_message(self, http: HttpExchange, credential: str, *, is_new: bool) -> None:
        """End the login of a client whose message the endpoint has accepted, if it is one and has been.

        With a new credential, it is the login that has obtained it. Others that got no further than metadata meanwhile
        were attempts of the same client. With no credential or a known one, only a login without a challenge ends.
        """
        if not http.client_messages or http.status is None or not 200 <= http.status < 300:
            return
        if self._open_logins:
            started_ns = _started_ns(http)
            logins = [
                login
                for login in self._of_client(_client_of(http))
                if not login.kinds <= _AFTER_LOGIN
                and started_ns >= login.ended_ns
                and not (credential and credential in login.refused_credentials)
            ]
            served = next((login for login in logins if login.issued is not None), None) if is_new else None
            served = served or (logins[0] if is_new and logins else None)
            for login in logins:
                is_attempt = login.kinds <= (_BEGINNING if served is not None else _DISCOVERY)
                if login is served or is_attempt:
                    login.accepted = http
                    self._end(login)
        if is_new:
            self._accepted_credentials.put(credential, None)

    # ---- the login of a leg

    def _login_for(self, leg: Leg) -> tuple[Login | None, bool]:
        """Returns the login to which a leg belongs, and whether that is a guess; None if it begins one."""
        if not self._open_logins:
            return None, False
        if leg.kind in _BROWSER_LEGS:
            return self._login_of_page(leg)
        own, is_guess = self._of_client(leg.client), False
        if not own and leg.kind != "challenge":
            own, is_guess = self._latest_of_program(leg), True
        own = [login for login in own if (login.kinds <= _AFTER_LOGIN) == (leg.kind in _AFTER_LOGIN)]
        if leg.kind == "challenge":
            found = next((login for login in own if self._can_continue_with_challenge(leg, login)), None)
        elif leg.kind in _DISCOVERY:
            found = next((login for login in own if login.is_beginning), own[0] if own else None)
        elif leg.kind in _AFTER_LOGIN:
            found = own[0] if own else None
        elif leg.kind == "token":
            return self._login_of_token(leg, own, is_guess=is_guess)
        else:
            failed = (login for login in own if login.issued is None and login.failed_leg is not None)
            found = next((login for login in own if login.is_beginning), None) or next(failed, None)
        return found, is_guess and found is not None

    def _paused_login_for(self, leg: Leg, guessed: Login | None) -> Login | None:
        """Returns the paused login that a leg continues, or None.

        Args:
            leg: the leg.
            guessed: the open login to which it would belong by a guess, if there is one. If it is of the same client,
                the client has begun anew.
        """
        client_id = leg.facts.get("client_id", "")
        if leg.kind not in {*_BROWSER_LEGS, "token"} or leg.facts.get("grant_type") in _GRANTS_WITHOUT_PAGE:
            return None
        logins = self._paused_by_client_id.latest(client_id)
        if len(logins) != 1 or "://" in client_id or self._by_client_id.latest(client_id):
            return None
        has_begun_anew = guessed is not None and bool(guessed.clients & logins[0].clients)
        return None if has_begun_anew else logins[0]

    def _login_of_page(self, leg: Leg) -> tuple[Login | None, bool]:
        """Returns the login to which a leg of a browser belongs, and whether that is a guess."""
        client_id = leg.facts.get("client_id", "")
        same_id = [login for login in self._of_client_id(client_id) if login.can_have_page(leg)]
        if same_id:
            # The page of another login may have led to a code already, or have failed.
            return _first_with_least(
                same_id, lambda login: (not login.awaits_page(leg), leg.client not in login.clients)
            )
        same_browser = [
            login
            for login in self._of_client(leg.client)
            if _may_have_id(login, client_id) and login.can_have_page(leg)
        ]
        if same_browser:
            is_callback = leg.kind == "callback"
            return _first_with_least(same_browser, lambda login: (is_callback and not login.awaits_page(leg), False))
        # The client has an id already, or its metadata, which is only fetched to go on.
        waiting = [
            login
            for login in islice(reversed(self._open_logins), MAX_CANDIDATES)
            if login.browser is None and login.issued is None and _may_have_id(login, client_id)
        ]
        waiting = [login for login in waiting if login.kinds - _AFTER_LOGIN - {"challenge"}] or [
            login for login in waiting if login.is_challenged
        ]
        return (waiting[0], True) if waiting else (None, False)

    def _login_of_token(self, leg: Leg, own: list[Login], *, is_guess: bool) -> tuple[Login | None, bool]:
        """Returns the login to which a request for a token belongs, and whether that is a guess.

        Args:
            leg: the request.
            own: the open logins of its client.
            is_guess: whether these are guessed.
        """
        client_id = leg.facts.get("client_id", "")
        same_id = [login for login in self._of_client_id(client_id) if not login.kinds <= _AFTER_LOGIN]
        candidates = same_id or [login for login in own if _may_have_id(login, client_id)]
        needs_code = leg.facts.get("grant_type") == "authorization_code"
        if leg.facts.get("grant_type") == "refresh_token" and not same_id:
            # A client that was challenged without a token has none to renew.
            candidates = [login for login in candidates if login.refused_credentials != {""}]
        if not candidates:
            return None, False
        # Several users of a service may have a code at once.
        found, is_ambiguous = _first_with_least(
            candidates, lambda login: (needs_code and not login.has_code, not login.has_client(leg.client))
        )
        return found, is_ambiguous or (is_guess and not same_id)

    def _can_continue_with_challenge(self, leg: Leg, login: Login) -> bool:
        """Whether a login can continue with a challenge.

        It can if its credential was refused before or is the new one, or if the client has none and has not gone beyond
        metadata, or has got its token. Otherwise, another attempt begins, or another user's.
        """
        credential = credential_of(leg.http)
        if credential:
            return credential in login.refused_credentials or self._is_rejection(leg, login)
        return login.is_beginning or login.issued is not None

    def _is_rejection(self, leg: Leg, login: Login) -> bool:
        """Whether a challenge refuses the token that a login has obtained."""
        credential = credential_of(leg.http)
        if not credential or credential in login.refused_credentials or credential in self._accepted_credentials:
            return False
        if login.issued is not None:
            return leg.started_ns >= login.issued.ended_ns
        return login.is_challenged and login.is_beginning and leg.started_ns >= login.ended_ns

    def _of_client(self, client: Client) -> list[Login]:
        """Returns the latest open logins of a client, the latest first."""
        return [login for login in self._by_address.latest(client[0]) if login.has_client(client)]

    def _of_client_id(self, client_id: str) -> list[Login]:
        """Returns the latest open logins with a client id, the latest first."""
        return self._by_client_id.latest(client_id)

    def _latest_of_program(self, leg: Leg) -> list[Login]:
        """Returns the only open login with a recent leg of the same program from another address, if there is one."""
        program = leg.client[1]
        if not program:
            return []
        logins = [
            login
            for login in islice(reversed(self._open_logins), MAX_CANDIDATES)
            if leg.started_ns - login.ended_ns < MAX_HOP_NS and any(program == other for _, other in login.clients)
        ]
        return logins if len(logins) == 1 else []

    def _begin(self) -> Login:
        self.count += 1
        login = Login(self.count)
        forgotten = self._logins.put(login.number, login)
        if forgotten is not None and not forgotten.is_over:
            self.forgotten_open_count += forgotten in self._open_logins
            self._end(forgotten)
        return login


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


def _is_plain_refusal(leg: Leg) -> bool:
    """Whether the endpoint refused a request for a reason that has nothing to do with tokens, as far as is known."""
    return leg.kind == "challenge" and leg.http.status == _FORBIDDEN and not leg.http.challenges and not leg.error


def _may_have_id(login: Login, client_id: str) -> bool:
    return not client_id or not login.client_ids or client_id in login.client_ids


def _add_bounded(values: set[T], value: T) -> None:
    if len(values) < MAX_LEGS:
        values.add(value)


def _put_last(logins: dict[Login, None], login: Login) -> None:
    logins.pop(login, None)
    logins[login] = None


def _client_of(http: HttpExchange) -> Client:
    return http.peer_host, http.fields.get("user-agent", "")


def _started_ns(http: HttpExchange) -> int:
    start = http.started_ref or http.answered_ref
    return 0 if start is None else start.t_ns


def _origin(url: str) -> str:
    """Returns scheme, host and port of a URL, or an empty string if it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""
