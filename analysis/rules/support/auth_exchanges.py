"""Facts about an exchange for rules about credentials: whether it is with the endpoint, its challenges, its revision.

The recorder keeps the scheme of a credential and a hash of the rest, challenges unchanged, and the names in a query.
Captures made by earlier versions have no scheme. The rules report nothing about values that are hashed as a whole.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.http_exchange import VERSION_FIELD, HttpExchange
from analysis.conversation.session import Session
from analysis.protocol.challenges import NONCE_ERROR, Challenge, parse_challenges
from analysis.protocol.revisions import ALL, NEWEST_RANK, Span
from analysis.rules.finding import Finding
from analysis.rules.support.eras import AllEras
from analysis.rules.support.exchanges import ALL_METHODS, HttpRule
from captures.metadata_paths import WELL_KNOWN

PAGE: Final = "basic/authorization"
RANK_2025_06_18: Final = 2
RANK_2025_11_25: Final = 3

_HASH_PREFIX: Final = "hmac:"


class EndpointRule(HttpRule):
    """A rule about exchanges with the endpoint of either HTTP transport, applied when they are answered."""

    http_methods: ClassVar[frozenset[str]] = ALL_METHODS

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self.check_exchange(http, session) if not http.is_from_recorder and is_endpoint(http) else ()


class RevisionLearningRule(HttpRule):
    """A rule about exchanges that may not name a revision: it assumes the oldest revision in use."""

    versions: ClassVar[Span] = AllEras(*ALL)
    http_methods: ClassVar[frozenset[str]] = frozenset({"POST", "GET"})

    def __init__(self) -> None:
        super().__init__()
        self.ranks: set[int] = set()
        """The ranks of all revisions in use."""

    def rank_for(self, http: HttpExchange, session: Session | None) -> int | None:
        """Returns the rank of an exchange's revision, or of the oldest revision in use, or None if none is known."""
        if http.client_messages or VERSION_FIELD in http.fields:
            rank = http.revision_and_era(session)[0]
            if rank is not None:
                self.ranks.add(rank)
                return rank
        return min(self.ranks, default=None)


def is_endpoint(http: HttpExchange) -> bool:
    """Whether an exchange is certainly with the endpoint."""
    if http.client_messages or http.is_streamable:
        return True
    if http.method != "GET" or http.path.startswith(WELL_KNOWN):
        return False
    return http.accepts_stream or (http.uri_key is not None and http.status == 200)


def challenges_of(http: HttpExchange) -> list[Challenge] | None:
    """Returns the challenges of a response, or None if one of them is hidden."""
    if any(value.startswith(_HASH_PREFIX) for value in http.challenges):
        return None
    return parse_challenges(http.challenges)


def bearer_challenge(http: HttpExchange) -> Challenge | None:
    """Returns the first Bearer challenge of a response, or None if it has none."""
    return next((challenge for challenge in challenges_of(http) or () if challenge.scheme == "bearer"), None)


def asks_for_nonce(http: HttpExchange) -> bool:
    """Whether a response asks the client to repeat the request with a nonce in its proof, so it refuses no token."""
    return any(challenge.parameters.get("error") == NONCE_ERROR for challenge in challenges_of(http) or ())


def scheme_of(http: HttpExchange) -> str:
    """Returns the scheme of a credential, in lower case, or an empty string if there is none or it is hidden."""
    value = http.fields.get("authorization", "")
    return "" if value.startswith(_HASH_PREFIX) else value.partition(" ")[0].lower()


def default_rank(http: HttpExchange, session: Session | None) -> int:
    """Returns the rank of an exchange's revision, or the newest rank if the revision is unknown."""
    rank = http.revision_and_era(session)[0]
    return NEWEST_RANK if rank is None else rank
