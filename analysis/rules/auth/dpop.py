"""Tokens that only their client can use, because it proves with each request that it has a key (DPoP, RFC 9449).

The recorder keeps the scheme of a credential and the names of all header fields, but nothing of a proof. So a rule can
see that a proof is missing, but not which method, address or nonce it is for.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.login import Login
from analysis.conversation.session import Session
from analysis.protocol.revisions import ALL, Span
from analysis.rules.auth.challenges import document_of
from analysis.rules.base import WARNING
from analysis.rules.finding import Finding
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.support.auth_exchanges import EndpointRule, asks_for_nonce, scheme_of
from analysis.rules.support.eras import AllEras, member
from analysis.rules.support.exchanges import ALL_METHODS, HttpRule
from analysis.rules.support.login_rules import LoginRule, is_certain, legs_of

_SCHEME: Final = "dpop"
_PROOF_FIELD: Final = "dpop"
_NONCE_FIELD: Final = "dpop-nonce"
_NONCE_STATUSES: Final = frozenset({400, 401})


class ProofMissing(EndpointRule):
    """A token is sent with the scheme DPoP, but without a proof.

    **Why it matters.** Such a token is valid only with a proof, so the server must refuse the request. A server that
    accepts it also accepts a stolen token.

    **On the wire.** `> Authorization: DPoP …` without a header `DPoP`

    **Instead.** Send a new proof in the header `DPoP` with each request.
    """

    id = "auth/dpop-proof-missing"
    who = "client"
    versions: ClassVar[Span] = AllEras(*ALL)
    once = True
    exchanges = ExchangeOddity.HEADERS
    source = "RFC 9449 §7.1"

    def check_exchange(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if scheme_of(http) != _SCHEME or _PROOF_FIELD in http.fields:
            return ()
        return self.findings_in_request(http, session, "a token with the scheme DPoP is sent without a proof")


class NonceMissing(HttpRule):
    """A server asks for a proof with a nonce, but sends no nonce.

    **Why it matters.** The client cannot know the nonce, so it can neither log in nor use its token.

    **On the wire.** `< HTTP/1.1 401 Unauthorized`, `WWW-Authenticate: DPoP error="use_dpop_nonce"` without `DPoP-Nonce`

    **Instead.** Send the nonce in the header `DPoP-Nonce` of the same response. The token endpoint does so with
    status 400 and `{"error":"use_dpop_nonce"}`.
    """

    id = "auth/dpop-nonce-missing"
    who = "server"
    versions: ClassVar[Span] = AllEras(*ALL)
    level = WARNING
    once = True
    http_methods: ClassVar[frozenset[str]] = ALL_METHODS
    statuses = _NONCE_STATUSES
    source = "RFC 9449 §8; RFC 9449 §9"

    def on_exchange_end(self, http: HttpExchange, session: Session | None) -> Iterable[Finding]:
        if http.is_from_recorder or _NONCE_FIELD in http.answer_fields or http.status not in _NONCE_STATUSES:
            return ()
        if not http.asks_for_nonce and not asks_for_nonce(http):
            return ()
        return self.findings_at_leg(http, session, "the server asks for a nonce, but sends no DPoP-Nonce", self.level)


class SentAsBearer(LoginRule):
    """A client sends a token that requires DPoP as a Bearer token.

    **Why it matters.** The server must refuse it: without a proof, anyone who has read the token could use it.

    **On the wire.** `> POST /token`, answered `{"token_type":"DPoP",…}`, and then `> Authorization: Bearer …`; or that
    header to a server whose metadata has `"dpop_bound_access_tokens_required":true`

    **Instead.** `Authorization: DPoP …`, and a proof in the header `DPoP`.
    """

    id = "auth/dpop-sent-as-bearer"
    who = "client"
    level = WARNING
    once = True
    source = "RFC 9449 §7.1; RFC 9728 §2"

    def check_login(self, login: Login) -> Iterable[Finding]:
        last = login.accepted if login.rejection is None else login.rejection.http
        if last is None or scheme_of(last) != "bearer" or not is_certain(login):
            return ()
        issued_type = "" if login.issued is None else login.issued.facts.get("token_type", "")
        documents = [document_of(leg.http) for leg in legs_of(login, "resource-metadata")]
        if issued_type.lower() == _SCHEME:
            text = "a token of the type DPoP is sent as Bearer"
        elif any(member(document, "dpop_bound_access_tokens_required") is True for document in documents):
            text = "a token is sent as Bearer to a server that requires DPoP"
        else:
            return ()
        return self.findings_at_leg(last, self.fold.routing.session_of_exchange(last), text, self.level)
