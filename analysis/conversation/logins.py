"""Login: the HTTP exchanges in which one client was asked for a token, and what became of it.

A login is the run of legs (see `oauth` in FORMAT.md) of one client, from the first challenge or request for metadata
to the first message that the server accepts, or to nothing. Its legs may come from several programs: a service
registers and requests the token, and the user's browser opens the page. So a leg belongs to the login with the same
client id; otherwise to a login with a leg of the same address and program; otherwise, as a guess, to the only one that
can continue with it. Memory is bounded.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.http_exchange import MAX_HTTP_EXCHANGES, HttpExchange

MAX_LOGINS: Final = 500
"""The most logins that are kept; the oldest are forgotten first."""
MAX_LEGS: Final = 32
"""The most legs of a login that are kept: the first ones and the last one."""
MAX_PAUSE_NS: Final = 30 * 60 * 1_000_000_000
"""How long a login may pause, because a person may be asked; after that, its client has given up."""

Outcome: TypeAlias = Literal["granted", "rejected", "failed", "unfinished", "unneeded", "revoked"]
"""What became of a login.

- `granted`: a token was issued, here or elsewhere, and the endpoint did not refuse it.
- `rejected`: the endpoint refused the token that had been obtained.
- `failed`: the last leg of its kind failed, see `Login.failed_leg`.
- `unfinished`: every leg succeeded, but the client did not go on.
- `unneeded`: the client asked for metadata, and was never challenged.
- `revoked`: a token was only examined or revoked.
"""

_PENDING_ERRORS: Final = frozenset({"authorization_pending", "slow_down"})
"""Errors that ask a device to wait (RFC 8628 §3.5)."""
_DISCOVERY: Final = frozenset({"resource-metadata", "server-metadata"})
_AFTER_LOGIN: Final = frozenset({"revocation", "introspection"})
"""Legs that concern a token which was issued earlier."""
_BROWSER_LEGS: Final = frozenset({"authorize", "callback"})
_KINDS: Final = frozenset({"challenge", *_DISCOVERY, "registration", "device", *_BROWSER_LEGS, "token", *_AFTER_LOGIN})


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
        return bool(self.error) or self.http.status is None or self.http.status >= 400

    @property
    def client(self) -> tuple[str, str]:
        """The address and the program of its client."""
        return _client_of(self.http)


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
        self.client_ids: set[str] = set()
        """The client ids of its legs, as keyed hashes or URLs."""
        self.clients: set[tuple[str, str]] = set()
        """The addresses and programs of its clients."""
        self.rejection: Leg | None = None
        """The challenge that refused the token that was obtained."""
        self.accepted: HttpExchange | None = None
        """The first exchange with the endpoint that was accepted after its legs."""
        self.is_over = False
        """Whether no leg can follow, other than the revocation of its token."""

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
        http = self.first.http
        start = http.started_ref or http.answered_ref
        return 0 if start is None else start.t_ns

    @property
    def ended_ns(self) -> int:
        """When its last leg ended."""
        end = self.last.http.end_ref
        return self.started_ns if end is None else end.t_ns

    @property
    def issued(self) -> Leg | None:
        """The last leg that issued a token."""
        return next((leg for leg in reversed(self.legs) if leg.kind == "token" and _is_success(leg)), None)

    @property
    def is_renewal(self) -> bool:
        """Whether a token was only renewed with a refresh token, without asking the user."""
        kinds = {leg.kind for leg in self.legs}
        grants = {leg.facts.get("grant_type") for leg in self.legs if leg.kind == "token"}
        return grants == {"refresh_token"} and not kinds & _BROWSER_LEGS

    @property
    def server_elsewhere(self) -> str:
        """The authorization server that the metadata names if no leg went to one here; otherwise an empty string."""
        if any(leg.kind not in {"challenge", "resource-metadata"} and not leg.has_failed for leg in self.legs):
            return ""
        named_servers = [leg.facts.get("as_server", "") for leg in self.legs if leg.kind == "resource-metadata"]
        return next(filter(None, reversed(named_servers)), "")

    @property
    def failed_leg(self) -> Leg | None:
        """The last leg that failed, unless a later leg shows that the client went on without it.

        Clients ask for metadata in several places, so a missing document counts only if none of its kind was found.
        """
        for leg in reversed(self.legs):
            if leg.kind == "challenge" or leg.is_pending:
                continue
            if not leg.has_failed:
                return None
            if leg.kind not in _DISCOVERY or not any(
                other.kind == leg.kind and not other.has_failed for other in self.legs
            ):
                return leg
        return None

    @property
    def outcome(self) -> Outcome:
        """What became of it, as far as is known."""
        kinds = {leg.kind for leg in self.legs}
        if kinds <= _AFTER_LOGIN:
            return "revoked"
        if self.rejection is not None:
            return "rejected"
        if self.accepted is not None and "challenge" not in kinds and kinds <= _DISCOVERY:
            return "unneeded"
        if self.issued is not None or self.accepted is not None:
            return "granted"
        if "challenge" not in kinds and kinds <= _DISCOVERY:
            return "unneeded"
        return "unfinished" if self.failed_leg is None else "failed"

    def add(self, leg: Leg, *, is_guess: bool = False) -> None:
        """Add the next leg."""
        if len(self.legs) == MAX_LEGS:
            self.legs.pop()
            self.skipped_count += 1
        self.legs.append(leg)
        self.guessed_count += is_guess
        self.clients.add(leg.client)
        client_id = leg.facts.get("client_id")
        if client_id and len(self.client_ids) < MAX_LEGS:
            self.client_ids.add(client_id)

    def is_new_credential(self, http: HttpExchange) -> bool:
        """Whether an exchange carries a credential that no challenge of the login has refused."""
        credential = http.fields.get("authorization", "")
        return bool(credential) and all(
            leg.http is http or leg.http.fields.get("authorization") != credential
            for leg in self.legs
            if leg.kind == "challenge"
        )


class Logins:
    """The logins of a capture."""

    def __init__(self) -> None:
        self.count = 0
        """How many logins have begun."""
        self.changed: dict[Login, None] = {}
        """The logins that the last item changed."""
        self._logins: BoundedDict[int, Login] = BoundedDict(MAX_LOGINS)
        self._open_logins: dict[Login, None] = {}
        """The logins that are not over, in the order in which they began."""
        self._by_exchange: BoundedDict[int, Login] = BoundedDict(MAX_HTTP_EXCHANGES)

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
        leg = leg_of(http) if http.number not in self._by_exchange else None
        if leg is None and not self._open_logins:
            return
        self._end_paused(http)
        if leg is None:
            if http.client_messages and http.status is not None and 200 <= http.status < 300:
                self._on_accepted(http)
            return
        login, is_guess = self._login_for(leg)
        self._by_exchange.put(http.number, login)
        login.add(leg, is_guess=is_guess)
        self.changed[login] = None
        if leg.kind == "challenge" and login.count > 1 and login.is_new_credential(http):
            login.rejection = leg
            self._end(login)

    def finish(self) -> None:
        """End all logins, because the capture has ended."""
        for login in [*self._open_logins]:
            self._end(login)

    def _end(self, login: Login) -> None:
        if login in self._open_logins:
            del self._open_logins[login]
            login.is_over = True
            self.changed[login] = None

    def _end_paused(self, http: HttpExchange) -> None:
        now_ns = 0 if http.end_ref is None else http.end_ref.t_ns
        for login in [*self._open_logins]:
            if now_ns - login.ended_ns > MAX_PAUSE_NS:
                self._end(login)

    def _on_accepted(self, http: HttpExchange) -> None:
        """End the login of a client whose message the endpoint has accepted."""
        client = _client_of(http)
        for login in [*reversed(self._open_logins)]:
            if client not in login.clients:
                continue
            was_challenged = any(leg.kind == "challenge" for leg in login.legs)
            if not was_challenged or login.is_new_credential(http):
                login.accepted = http
                self._end(login)
                return

    def _login_for(self, leg: Leg) -> tuple[Login, bool]:
        """Returns the login to which a leg belongs, and whether that is a guess; a new login if there is none."""
        client_id, client = leg.facts.get("client_id"), leg.client
        if leg.kind in _AFTER_LOGIN:
            later = [login for login in reversed(self._logins.values()) if client_id in login.client_ids]
            return (later[0], False) if later else (self._begin(), False)
        open_logins = [*reversed(self._open_logins)]
        same_id = [login for login in open_logins if client_id in login.client_ids]
        if same_id:
            # Several clients may share an id that is a URL.
            return next((login for login in same_id if client in login.clients), same_id[0]), len(same_id) > 1
        same_client = [
            login
            for login in open_logins
            if client in login.clients and not (client_id and login.client_ids and leg.kind != "registration")
        ]
        if same_client:
            return same_client[0], False
        if leg.kind in _BROWSER_LEGS or leg.kind == "token":
            waiting = [login for login in open_logins if login.issued is None and not login.client_ids]
            if leg.kind == "callback":
                waiting = [login for login in open_logins if any(other.kind == "authorize" for other in login.legs)]
            if len(waiting) == 1:
                return waiting[0], True
        return self._begin(), False

    def _begin(self) -> Login:
        self.count += 1
        login = Login(self.count)
        forgotten = self._logins.put(login.number, login)
        if forgotten is not None:
            self._open_logins.pop(forgotten, None)
        self._open_logins[login] = None
        return login


def leg_of(http: HttpExchange) -> Leg | None:
    """Returns the leg of a login that an exchange is, or None."""
    facts = http.oauth
    if facts is None or http.is_from_recorder:
        return None
    kind = facts.get("leg")
    return Leg(kind, http, facts) if kind in _KINDS else None


def _is_success(leg: Leg) -> bool:
    return not leg.has_failed and not leg.is_pending and leg.http.status is not None and leg.http.status < 300


def _client_of(http: HttpExchange) -> tuple[str, str]:
    return http.peer_host, http.fields.get("user-agent", "")
