"""Challenges: responses that refuse a request because its credentials are missing or insufficient."""

from collections.abc import Iterable, Mapping
from json import JSONDecodeError
from typing import Any, ClassVar, Final

from orjson import loads

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.session import Session
from analysis.protocol import features
from analysis.protocol.revisions import Span
from analysis.rules.base import ERROR, NOTE, RACE_NS, WARNING
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.auth_exchanges import (
    RANK_2025_06_18,
    RANK_2025_11_25,
    RevisionLearningRule,
    asks_for_nonce,
    bearer_challenge,
    challenges_of,
    default_rank,
    is_endpoint,
)
from analysis.rules.support.eras import AllEras, member
from analysis.rules.support.exchanges import ALL_METHODS, HttpRule
from captures.metadata_paths import RESOURCE_METADATA_PATH

_UNAUTHORIZED_STATUSES: Final = frozenset({401})
_MAX_METADATA_CHARS: Final = 64 << 10


class ChallengeRule(HttpRule):
    """A rule about responses that refuse a request; without a message, its findings are at the end of the exchange."""

    http_methods: ClassVar[frozenset[str]] = ALL_METHODS

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        return self._check_endpoint(http, session) if http.client_messages else ()

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        is_refused = http.status in (401, 403) and not http.client_messages
        return self._check_endpoint(http, session) if is_refused else ()

    def _check_endpoint(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.is_from_recorder or not is_endpoint(http) or asks_for_nonce(http):
            return ()
        return self.check_exchange(http, session)


class ChallengeMissing(ChallengeRule):
    """A 401 does not say how to get a token.

    **Why it matters.** The client learns neither that it needs a token nor where to get one. Since 2025-11-25 it may
    look for a document at a well-known location instead; if that is missing as well, the client is stuck.

    **On the wire.** `< HTTP/1.1 401 Unauthorized` without `WWW-Authenticate`

    **Instead.** `WWW-Authenticate: Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`
    """

    id = "auth/challenge-missing"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    levels: ClassVar[Mapping[Span, Level]] = {features.WELL_KNOWN_RESOURCE_METADATA: NOTE}
    source = "2025-06-18 basic/authorization; 2025-11-25 basic/authorization"

    def __init__(self) -> None:
        super().__init__()
        self._needs_document = False
        """Whether a client had to look at the well-known location."""
        self._document_count = 0
        """The number of documents that the server has returned."""

    def concerns_exchange(self, _hook: str, like: HttpExchange) -> bool:
        # A kind of exchange does not include the path, so only method and status can preselect requests for documents.
        return like.status == 401 or (like.method == "GET" and like.status in (200, 404))

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.status != 401:
            return self._check_document(http, session) if http.path.startswith(RESOURCE_METADATA_PATH) else ()
        return super().on_response_start(http, session)

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank = default_rank(http, session)
        if http.challenges or rank < RANK_2025_06_18:
            return ()
        self._needs_document = self._needs_document or rank >= RANK_2025_11_25
        level = self.level_at(rank)
        return self.findings_at_leg(http, session, "a 401 without WWW-Authenticate", level)

    def _check_document(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.status == 200:
            self._document_count += 1
        elif self._needs_document and http.answered_ref is not None and http.is_whole:
            self._needs_document, documents = False, self._document_count
            text = "a 401 had no WWW-Authenticate, and the well-known location has no document either"
            # Clients look for the document in two places.
            self.check_later(
                http.answered_ref.t_ns + RACE_NS,
                lambda: (
                    self.findings_at_leg(http, session, text, ERROR)
                    if documents == self._document_count and http.is_whole
                    else ()
                ),
            )
        return ()


class ResourceMetadataMissing(ChallengeRule):
    """The challenge of a 401 does not say where the metadata of the protected resource is.

    **Why it matters.** The client does not learn which authorization server to ask.

    **On the wire.** `WWW-Authenticate: Bearer realm="mcp"`

    **Instead.** `WWW-Authenticate: Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`
    """

    id = "auth/resource-metadata-missing"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.RESOURCE_METADATA)
    levels: ClassVar[Mapping[Span, Level]] = {features.WELL_KNOWN_RESOURCE_METADATA: NOTE}
    statuses = _UNAUTHORIZED_STATUSES
    source = "2025-06-18 basic/authorization"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        challenges, rank = challenges_of(http), default_rank(http, session)
        if (
            not challenges
            or rank < RANK_2025_06_18
            or any(challenge.parameters.get("resource_metadata") for challenge in challenges)
        ):
            return ()
        level = self.level_at(rank)
        return self.findings_at_leg(http, session, "the challenge of a 401 has no resource_metadata", level)


class ScopeMissing(ChallengeRule):
    """The challenge of a 401 does not say which scopes are needed.

    **Why it matters.** The client asks the user for every scope, or for too few.

    **On the wire.** `WWW-Authenticate: Bearer resource_metadata="…"`

    **Instead.** `WWW-Authenticate: Bearer resource_metadata="…", scope="files:read"`
    """

    id = "auth/scope-missing"
    who = "server"
    versions = features.SCOPE_CHALLENGES
    level = WARNING
    impact = Impact.WRONG
    once = True
    statuses = _UNAUTHORIZED_STATUSES
    source = "2025-11-25 basic/authorization"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        challenges = challenges_of(http)
        if not challenges or any(challenge.parameters.get("scope") for challenge in challenges):
            return ()
        return self.findings_at_leg(http, session, "the challenge of a 401 has no scope")


class OfflineAccess(RevisionLearningRule):
    """A server asks for the scope `offline_access`.

    **Why it matters.** The client decides whether to use refresh tokens. No resource needs that scope.

    **On the wire.** `WWW-Authenticate: Bearer …, scope="files:read offline_access"`

    **Instead.** Name only the scopes of the resource, in challenges and in `scopes_supported`.
    """

    id = "auth/offline-access"
    who = "server"
    versions: ClassVar[Span] = AllEras(*features.OFFLINE_ACCESS)
    level = WARNING
    impact = Impact.WRONG
    source = "2026-07-28 basic/authorization"

    def concerns_exchange(self, hook: str, like: HttpExchange) -> bool:
        return hook == "response_start" or like.method == "GET"

    def on_response_start(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        rank = self.rank_for(http, session)
        if http.status not in (401, 403) or not features.OFFLINE_ACCESS.includes(rank) or http.is_from_recorder:
            return ()
        bearer = bearer_challenge(http)
        if bearer is None or not _has_offline_access(bearer.parameters.get("scope")):
            return ()
        return self.findings_at_leg(http, session, "a challenge asks for the scope offline_access", self.level)

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.metadata is None or not http.path.startswith(RESOURCE_METADATA_PATH):
            return ()
        rank, scopes = self.rank_for(http, session), member(document_of(http), "scopes_supported")
        if not features.OFFLINE_ACCESS.includes(rank) or not isinstance(scopes, list) or "offline_access" not in scopes:
            return ()
        return self.findings_at_leg(http, session, "scopes_supported has offline_access", self.level)


class InsufficientScopeShape(ChallengeRule):
    """A 403 has a challenge that does not say what is missing.

    **Why it matters.** The client should request more scopes and try again, but needs all three parts for that.

    **On the wire.** `< HTTP/1.1 403 Forbidden`, `WWW-Authenticate: Bearer error="invalid_token"`

    **Instead.** `WWW-Authenticate: Bearer error="insufficient_scope", scope="files:write", resource_metadata="…"`
    """

    id = "auth/insufficient-scope-shape"
    who = "server"
    versions = features.SCOPE_CHALLENGES
    level = WARNING
    impact = Impact.MESSAGE
    statuses = frozenset({403})
    source = "2025-11-25 basic/authorization"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        bearer = bearer_challenge(http)
        if bearer is None:
            return ()
        if bearer.parameters.get("error") != "insufficient_scope":
            return self.findings_at_leg(http, session, "the challenge of a 403 does not say insufficient_scope")
        missing_names = [name for name in ("scope", "resource_metadata") if not bearer.parameters.get(name)]
        if not missing_names:
            return ()
        return self.findings_at_leg(http, session, f"the challenge of a 403 has no {' and no '.join(missing_names)}")


# ---- shared by the rules


def document_of(http: HttpExchange) -> dict[str, Any] | None:
    """Returns the `.well-known` document of an exchange, or None if it is not an object or was truncated."""
    text = http.metadata
    if text is None or len(text) >= _MAX_METADATA_CHARS or http.status != 200:
        return None
    try:
        document = loads(text)
    except JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _has_offline_access(scope: str | None) -> bool:
    return scope is not None and "offline_access" in scope.split()
