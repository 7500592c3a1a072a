"""Logins: assigns the legs of authorizations to logins, and ends these.

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

from collections.abc import Callable
from itertools import islice
from typing import Final

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import MAX_HTTP_EXCHANGES, HttpExchange
from analysis.conversation.login import (
    AFTER_LOGIN,
    BEGINNING,
    BROWSER_LEGS,
    DISCOVERY,
    MAX_PAUSE_NS,
    Client,
    Leg,
    Login,
    client_of,
    credential_of,
    leg_of,
    start_ns_of,
)

MAX_LOGINS: Final = 500
"""The most logins that are kept; the oldest are forgotten first."""
MAX_HOP_NS: Final = 60 * 1_000_000_000
"""How long after its last leg a login may continue from another address, because a service has several."""
MAX_CANDIDATES: Final = 50
"""The most logins that are looked at for a leg, the latest first."""
MAX_CREDENTIALS: Final = 10_000
"""The most accepted credentials that are remembered."""
_GRANTS_WITHOUT_PAGE: Final = frozenset({"client_credentials", "refresh_token"})
"""Grants for which no person is asked."""
_FORBIDDEN: Final = 403


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
            if _is_plain_refusal(leg) or (leg.kind == "challenge" and leg.asks_for_nonce):
                return
            login = self._begin()
        is_rejection = leg.kind == "challenge" and not leg.asks_for_nonce and self._is_rejection(leg, login)
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
        now_ns = start_ns_of(http)
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
            started_ns = start_ns_of(http)
            logins = [
                login
                for login in self._of_client(client_of(http))
                if not login.kinds <= AFTER_LOGIN
                and started_ns >= login.ended_ns
                and not (credential and credential in login.refused_credentials)
            ]
            served = next((login for login in logins if login.issued is not None), None) if is_new else None
            served = served or (logins[0] if is_new and logins else None)
            for login in logins:
                is_attempt = login.kinds <= (BEGINNING if served is not None else DISCOVERY)
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
        if leg.kind in BROWSER_LEGS:
            return self._login_of_page(leg)
        own, is_guess = self._of_client(leg.client), False
        if not own and leg.kind != "challenge":
            own, is_guess = self._latest_of_program(leg), True
        own = [login for login in own if (login.kinds <= AFTER_LOGIN) == (leg.kind in AFTER_LOGIN)]
        if leg.kind == "challenge":
            found = next((login for login in own if self._can_continue_with_challenge(leg, login)), None)
        elif leg.kind in DISCOVERY:
            found = next((login for login in own if login.is_beginning), own[0] if own else None)
        elif leg.kind in AFTER_LOGIN:
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
        if leg.kind not in {*BROWSER_LEGS, "token"} or leg.facts.get("grant_type") in _GRANTS_WITHOUT_PAGE:
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
        waiting = [login for login in waiting if login.kinds - AFTER_LOGIN - {"challenge"}] or [
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
        same_id = [login for login in self._of_client_id(client_id) if not login.kinds <= AFTER_LOGIN]
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


def _is_plain_refusal(leg: Leg) -> bool:
    """Whether the endpoint refused a request for a reason that has nothing to do with tokens, as far as is known."""
    return leg.kind == "challenge" and leg.http.status == _FORBIDDEN and not leg.http.challenges and not leg.error


def _may_have_id(login: Login, client_id: str) -> bool:
    return not client_id or not login.client_ids or client_id in login.client_ids


def _put_last(logins: dict[Login, None], login: Login) -> None:
    logins.pop(login, None)
    logins[login] = None
