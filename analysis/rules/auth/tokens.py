"""Tokens that clients send, or should send."""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Id, Request
from analysis.conversation.multi_round import target_of
from analysis.conversation.session import CLIENT_INFO, Session
from analysis.protocol import features
from analysis.rules.base import NOTE, WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.auth_exchanges import EndpointRule, scheme_of
from analysis.rules.support.eras import member
from analysis.rules.support.exchanges import SUCCESS_STATUSES
from analysis.rules.support.origins import is_local

MAX_TRACKED_CLIENTS: Final = 1_000
"""The most clients, and the most refused requests, that are remembered."""
MIN_REPORTED_REFUSALS: Final = 4
"""The number of consecutive refusals that cause a finding, which points to the last of them."""

_AUTHORIZATION: Final = "authorization"
_PAGE: Final = "2025-03-26 basic/authorization"
_TOKEN_PARAMETERS: Final = frozenset({"access_token", "token", "bearer"})
_MAX_PARAMETERS: Final = 100
_MAX_ADDRESS_CHARS: Final = 2_000
"""The most characters of an address that are checked."""


class TokenInQuery(EndpointRule):
    """A token is in the URL.

    **Why it matters.** URLs end up in logs, histories and `Referer` headers, and anyone who can read those gets the
    token.

    **On the wire.** `> POST /mcp?access_token=… HTTP/1.1`

    **Instead.** `Authorization: Bearer …`
    """

    id = "auth/token-in-query"
    who = "client"
    versions = features.AUTHORIZATION
    impact = Impact.SECURITY
    exchanges = ExchangeOddity.HEADERS
    source = _PAGE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        query = http.target.partition("?")[2]
        if not query:
            return ()
        names = {pair.partition("=")[0].lower() for pair in query.split("&", _MAX_PARAMETERS)[:_MAX_PARAMETERS]}
        parameters = sorted(names & _TOKEN_PARAMETERS)
        if not parameters:
            return ()
        level = None if "access_token" in parameters else WARNING
        return self.findings_in_request(http, session, f"the URL has the parameter {parameters[0]}", level)


class NotBearer(EndpointRule):
    """A credential uses a scheme other than Bearer or DPoP.

    **Why it matters.** This works only if client and server have agreed on it. Servers that follow the protocol accept
    only Bearer.

    **On the wire.** `> Authorization: Basic …`

    **Instead.** `Authorization: Bearer …`
    """

    id = "auth/not-bearer"
    who = "client"
    versions = features.AUTHORIZATION
    level = NOTE
    once = True
    exchanges = ExchangeOddity.HEADERS
    source = _PAGE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if _AUTHORIZATION not in http.fields or scheme_of(http) in ("", "bearer", "dpop"):
            return ()
        return self.findings_in_request(http, session, "the scheme of Authorization is not Bearer")


class Dropped(EndpointRule):
    """A client that has used a token sends a request without one.

    **Why it matters.** Every request needs the token, including later requests of a session. The server refuses this
    request, or admits a client that knows only a session id.

    **On the wire.** `> POST /mcp`, `Authorization: Bearer …`, answered 200, and later `> POST /mcp` without it

    **Instead.** Send the token with each request, including GET and DELETE.
    """

    id = "auth/dropped"
    needs_session = True
    who = "client"
    versions = features.AUTHORIZATION
    impact = Impact.MESSAGE
    source = _PAGE

    def __init__(self) -> None:
        super().__init__()
        self._last_uses: OrderedDict[object, tuple[int, int]] = OrderedDict()
        """For each client that has used a token successfully: the number of the last record that shows this, and the
        count of lost records up to there."""

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        has_token = _AUTHORIZATION in http.fields
        key = _client_key(http, session) if has_token or self._last_uses else None
        if key is None or http.answered_ref is None:
            return ()
        if not has_token:
            last_use_seq, losses = self._last_uses.get(key, (http.answered_ref.seq, 0))
            # The client may have sent this request before its first success.
            is_later = (
                http.started_ref is not None and http.started_ref.seq > last_use_seq and losses == http.loss_count
            )
            text = "the request has no Authorization, unlike earlier requests of this client"
            return self.findings_in_request(http, session, text) if is_later else ()
        if http.status in (401, 403):
            self._last_uses.pop(key, None)  # the client may start over without the token that was refused
        elif http.status in SUCCESS_STATUSES:
            self._last_uses[key] = http.answered_ref.seq, http.loss_count
            if len(self._last_uses) > MAX_TRACKED_CLIENTS:
                self._last_uses.popitem(last=False)
        return ()


class _RefusalStreak(NamedTuple):
    """Consecutive refusals of one request."""

    refusals: int
    tokens: frozenset[str]
    losses: int
    """The count of lost records before the first refusal."""
    last_seq: int
    """The number of the record of the last refusal."""


class RetryLoop(EndpointRule):
    """A client keeps repeating a request that is refused because of its credentials.

    **Why it matters.** Repeating the request does not help, whether with the same token, with a new one or without one.
    Each repetition costs the server time, and may prompt the user for consent again.

    **On the wire.** Four times `> POST /mcp` with the same call, each answered 401 or 403

    **Instead.** Try again once with a new token or more scopes, then tell the user.
    """

    id = "auth/retry-loop"
    who = "client"
    versions = features.AUTHORIZATION
    level = WARNING
    impact = Impact.COST
    source = "2025-11-25 basic/authorization"

    def __init__(self) -> None:
        super().__init__()
        self._streaks: OrderedDict[tuple[str, str, str, str, Id | None], _RefusalStreak] = OrderedDict()

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        is_refused = http.status in (401, 403)
        if not is_refused and not self._streaks:
            return ()
        key = _request_key(http)
        if not is_refused:
            if http.status in SUCCESS_STATUSES:
                self._streaks.pop(key, None)
            return ()
        token = http.fields.get(_AUTHORIZATION, "")
        streak = self._streaks.pop(key, None)
        if streak is None or streak.losses != http.loss_count:
            streak = _RefusalStreak(0, frozenset(), http.loss_count, -1)
        if http.started_ref is None or http.started_ref.seq < streak.last_seq:
            # It does not react to the last refusal: there are several clients, or the client does not wait.
            self._streaks[key] = streak
            return ()
        tokens = streak.tokens | {token} if token and len(streak.tokens) < MIN_REPORTED_REFUSALS else streak.tokens
        answered_seq = http.answered_ref.seq if http.answered_ref is not None else -1
        streak = self._streaks[key] = _RefusalStreak(streak.refusals + 1, tokens, streak.losses, answered_seq)
        if len(self._streaks) > MAX_TRACKED_CLIENTS:
            self._streaks.popitem(last=False)
        # If a few tokens alternate, the server is refusing several clients.
        if streak.refusals != MIN_REPORTED_REFUSALS or len(streak.tokens) not in (0, 1, MIN_REPORTED_REFUSALS):
            return ()
        token_text = {0: "without a token", 1: "with the same token"}.get(len(streak.tokens), "with another token")
        count_text = f"{MIN_REPORTED_REFUSALS} times in a row"
        text = f"the same request was refused {count_text} with status {http.status}, each time {token_text}"
        return self.findings_in_request(http, session, text)


class PlainHttp(EndpointRule):
    """A token is sent to another machine over plain http.

    **Why it matters.** Every machine along the way can read the token and use it.

    **On the wire.** `> POST /mcp`, `Authorization: Bearer …` to `http://example.com`

    **Instead.** Use https; plain http is only for connections within one machine.
    """

    id = "auth/plain-http"
    versions = features.AUTHORIZATION
    level = WARNING
    impact = Impact.SECURITY
    once = True
    exchanges = ExchangeOddity.HEADERS
    source = _PAGE

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if _AUTHORIZATION not in http.fields or scheme_of(http) not in ("", "bearer"):
            return ()
        if not _is_exposed(http.upstream or http.target[:_MAX_ADDRESS_CHARS]):
            return ()
        return self.findings_in_request(http, session, "a token is sent to another machine over plain http")


# ---- shared by the rules


@lru_cache(100)
def _is_exposed(address: str) -> bool:
    """Whether other machines on the network can read what is sent to an address."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "http" and not is_local(parts.hostname or "")
    except ValueError:
        return False


def _client_key(http: HttpExchange, session: Session | None) -> object:
    """Returns a key that identifies the client of an exchange, or None if nothing identifies it."""
    if http.is_modern:
        request = http.client_messages[0].request
        info = request.meta.get(CLIENT_INFO) if request is not None else None
        name, version = member(info, "name"), member(info, "version")
        is_known = http.conn and isinstance(name, str) and isinstance(version, str)
        return (http.conn, name[:MAX_TRACKED_CLIENTS], version[:MAX_TRACKED_CLIENTS]) if is_known else None
    if http.session_id is not None:
        return http.session_id
    return http.uri_key if session is not None and session.is_legacy else None


def _request_key(http: HttpExchange) -> tuple[str, str, str, str, Id | None]:
    """Returns a key for equal requests: the likely client, and what it requests."""
    message = http.client_messages[0].message if http.client_messages else None
    method, target = (message.method, target_of(message)) if isinstance(message, Request) else ("", None)
    client = "\n".join((http.peer.rpartition(":")[0], http.fields.get("user-agent", "")))
    return client, http.method, http.path, method, target
