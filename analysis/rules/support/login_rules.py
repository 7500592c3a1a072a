"""Base classes of rules about logins and their legs, and what these rules share.

Legs are known since the recorder keeps `oauth`, see FORMAT.md, so these rules report nothing about older captures. What
is known of a leg is complete when its exchange ends. Addresses and ids are cleaned, equal ones to equal texts.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.login import DISCOVERY, Leg, Login, leg_of
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.auth.challenges import document_of
from analysis.rules.base import CaptureEnd
from analysis.rules.finding import Finding, Level
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.eras import AllEras
from analysis.rules.support.exchanges import SUCCESS_STATUSES, HttpRule
from analysis.rules.support.origins import is_own, may_be_public

MAX_REMEMBERED_ADDRESSES: Final = 100
"""The most addresses that a rule remembers from metadata and challenges."""
MAX_READ_BODY_BYTES: Final = 64 << 10
"""The largest body of a leg in which the recorder looks for facts, and the largest document that it keeps."""
_ACCEPTED: Final = 202


class LegRule(HttpRule):
    """A rule about single legs of logins, applied when they end."""

    versions: ClassVar[Span] = AllEras(*features.AUTHORIZATION)
    http_methods: ClassVar[frozenset[str]] = frozenset({"POST", "GET"})
    exchanges = ExchangeOddity.SENT
    kinds: ClassVar[frozenset[str]]
    """The kinds of the legs that the rule checks."""

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        # Most exchanges without a request of the client are notifications.
        return super().concerns_exchange(hook, like) and like.status != _ACCEPTED

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        leg = leg_of(http) if http.oauth is not None else None
        if leg is None or leg.kind not in self.kinds:
            return ()
        rank = http.revision_and_era(session)[0]
        return () if rank is not None and rank < self.versions.first else self.check_leg(leg, session)

    def check_leg(self, leg: Leg, session: Session | None) -> Iterable[Finding]:
        """Returns the findings about a leg."""
        raise NotImplementedError


class LoginRule(HttpRule):
    """A rule about whole logins: about those that are over, if it has `check_login`."""

    versions: ClassVar[Span] = AllEras(*features.AUTHORIZATION)

    def on_login(self, login: Login, ending: CaptureEnd | None) -> Iterable[Finding]:  # noqa: ARG002 - the same for all
        rank = self.rank_of(login)
        return () if rank is not None and rank < self.versions.first else self.check_login(login)

    def check_login(self, login: Login) -> Iterable[Finding]:  # noqa: ARG002 - for rules that have findings here
        """Returns the findings about a login that is over."""
        return ()

    def rank_of(self, login: Login) -> int | None:
        """Returns the rank of the oldest revision that a login uses, or None if it uses none that is known."""
        exchanges = [leg.http for leg in login.legs]
        if login.accepted is not None:
            exchanges.append(login.accepted)
        ranks = [http.revision_and_era(self.fold.routing.session_of_exchange(http))[0] for http in exchanges]
        return min((rank for rank in ranks if rank is not None), default=None)

    def findings_at(self, leg: Leg, text: str, level: Level | None = None) -> list[Finding]:
        """Returns a finding at the record that `show`, the report and the terminal UI show for a leg."""
        return self.findings_at_leg(leg.http, self.fold.routing.session_of_exchange(leg.http), text, level)


def legs_of(login: Login, *kinds: str) -> list[Leg]:
    """Returns the legs of these kinds that succeeded."""
    legs = (leg for leg in login.legs if leg.kind in kinds)
    return [leg for leg in legs if not leg.has_failed and not leg.is_pending and not leg.asks_for_nonce]


def is_certain(login: Login) -> bool:
    """Whether all legs of a login are known and certainly belong to one client, so that they can be compared."""
    if login.skipped_count or len(login.client_ids) > 1 or not login.first.http.is_whole:
        return False
    # The page that a browser opened without any other tie has the client's own id if the client later requests a token.
    is_confirmed = any(leg.kind == "token" and leg.client == login.first.client for leg in login.legs)
    has_own_id = not any(client_id.startswith("https://") for client_id in login.client_ids)
    return not login.guessed_count or (is_confirmed and has_own_id)


def has_old_discovery(login: Login) -> bool:
    """Whether the client found no resource metadata, and went on as 2025-03-26 says, which has no resources."""
    return not legs_of(login, "resource-metadata") and any(leg.kind in DISCOVERY for leg in login.legs)


def metadata_of(login: Login) -> dict[str, Any]:
    """Returns the document about the authorization server that the client read last, or an empty one."""
    documents = [document_of(leg.http) for leg in legs_of(login, "server-metadata")]
    return next((document for document in reversed(documents) if document is not None), {})


def is_server_elsewhere(login: Login) -> bool:
    """Whether the client went to an authorization server that is certainly another one than the recorded server."""
    server = login.server_elsewhere
    resources = {leg.facts.get("resource", "") for leg in legs_of(login, "resource-metadata")}
    hosts = {_host_of(resource) for resource in resources}
    return bool(server) and not is_own(server, login.last.http) and _host_of(server) not in hosts


def is_here(address: object, http: HttpExchange) -> bool:
    """Whether an address may be at the recorded server, by any of its names."""
    return isinstance(address, str) and (is_own(address, http) or may_be_public(address, http))


def path_of(address: str) -> str | None:
    """Returns the path of an absolute URL without slashes at its end, or None if it is not one."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return parts.path.rstrip("/") if parts.netloc else None


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).netloc
    except ValueError:
        return ""


def is_same_address(address: str, other: str) -> bool:
    """Whether two URLs are equal, apart from slashes at their ends."""
    return address.rstrip("/") == other.rstrip("/")


def is_response_read(http: HttpExchange) -> bool:
    """Whether the recorder has read the body of the response completely."""
    return (
        "response" not in http.unread_bodies
        and 0 < http.response_size <= MAX_READ_BODY_BYTES
        and http.ended_by == "complete"
    )


def is_success(http: HttpExchange) -> bool:
    """Whether the response has a status of success."""
    return http.status in SUCCESS_STATUSES
