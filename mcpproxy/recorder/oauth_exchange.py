"""Decides whether an HTTP exchange where no message is expected is a leg of an authorization, and what to keep of it.

Codes, tokens, passwords and the like pass in the bodies of these exchanges, in their queries and in redirects. So only
the member `oauth` is kept of them. From its texts, each value is removed that the same exchange contains under another
name, and whatever else `mcpproxy.recorder.response_text` recognises as a credential.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from mcpproxy.recorder.header_redaction import CleanAddress, HashSecret
from mcpproxy.recorder.oauth_legs import Leg, is_proven, metadata_leg, path_of, usual_leg
from mcpproxy.recorder.oauth_members import SECRET_MEMBERS, oauth_member
from mcpproxy.recorder.oauth_parameters import (
    FORM,
    MAX_CONTENT_BYTES,
    MAX_PARAMETERS,
    TooManyParameters,
    basic_client,
    document_of,
    is_ambiguous,
    pairs_of,
    split_redirect,
    texts_of,
)
from mcpproxy.recorder.response_text import OAUTH_MEMBERS, TextCleaner
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead

MAX_SECRET_CHARS: Final = 32 << 10
"""The most characters of values that are searched for in texts; finding all spellings takes 0.5 µs per character."""
_METHODS: Final = frozenset({b"GET", b"POST"})
_METADATA: Final = frozenset[Leg]({"resource-metadata", "server-metadata"})
_FAILURE: Final = 400
_REDIRECTS: Final = range(300, 400)
_REQUESTED: Final[Mapping[Leg, tuple[str, ...]]] = {
    "authorize": ("response_type", "scope", "resource", "client_id", "redirect_uri", "code_challenge_method"),
    "callback": (*OAUTH_MEMBERS, "iss"),
    "token": ("grant_type", "scope", "resource", "client_id", "redirect_uri"),
    "registration": ("grant_types", "response_types", "scope", "redirect_uris"),
    "revocation": ("client_id",),
    "introspection": ("client_id",),
    "device": ("scope", "resource", "client_id"),
}
"""The parameters of the query, form or JSON object of a request that are kept."""
_ANSWERED: Final[Mapping[Leg, tuple[str, ...]]] = {
    "resource-metadata": ("resource", "authorization_servers"),
    "server-metadata": ("issuer",),
    "registration": ("client_id", "scope"),
    "token": ("token_type", "expires_in", "scope"),
    "introspection": ("token_type", "scope", "iss"),
    "device": ("expires_in",),
}
"""The members of the JSON object of a response that are kept, unless that is an error."""
_MEMBER_NAMES: Final = {
    "grant_types": "grant_type",
    "response_types": "response_type",
    "redirect_uris": "redirect_uri",
    "authorization_servers": "as_server",
    "issuer": "iss",
}
"""The members of `oauth` that contain the parameters, by the names of these, if the names differ."""
_IN_TEXTS: Final = frozenset({*OAUTH_MEMBERS, "grant_type", "response_type", "scope", "resource", "iss", "issuer"}) | {
    "code_challenge_method",
    "token_type",
    "grant_types",
    "response_types",
}
"""The parameters whose values may occur in texts."""
_KNOWN_NAMES: Final = _IN_TEXTS.union(SECRET_MEMBERS, *_REQUESTED.values(), *_ANSWERED.values()) | {
    "user",
    "pass",
    "login",
    "id_token_hint",
    "login_hint",
    "code_challenge",
    "prompt",
    "display",
    "max_age",
    "request",
    "request_uri",
    "response_mode",
    "token_type_hint",
    "requested_token_type",
    "subject_token_type",
    "actor_token_type",
    "audience",
    "client_assertion_type",
    "client_name",
    "client_uri",
    "logo_uri",
    "contacts",
    "tos_uri",
    "policy_uri",
    "jwks_uri",
    "jwks",
    "software_id",
    "software_version",
    "software_statement",
    "token_endpoint_auth_method",
    "application_type",
    "otp",
    "passwd",
    "message",
    "detail",
    "status",
    "status_code",
    "timestamp",
    "error_code",
}
"""Names of parameters that are not secret themselves, so texts may repeat them."""
_BROWSER_LEGS: Final = frozenset({"authorize", "callback"})


class OauthExchange:
    """What an exchange in which no message is expected has to do with an authorization."""

    def __init__(self, request: RequestHead, announced: Leg | None) -> None:
        """Read the head of a request; `announced` is the leg for which the server's metadata announced its path."""
        self._request = request
        path = path_of(request.target)
        self._leg = metadata_leg(path) or announced
        self._usual = usual_leg(path) if self._leg is None else None
        """The leg for which the path is usual, until the content proves that the exchange is that leg."""
        self._sent: dict[str, Any] = {}
        self._status = 0
        self._response_fields: list[tuple[bytes, bytes]] = []
        """The header of the response, without addresses that are read as redirects."""
        self._redirect: dict[str, str] = {}
        """The parameters of the address to which the response redirects."""
        self._redirected_to = ""
        """That address, without parameters."""
        self._received: dict[str, Any] = {}
        self._secrets: list[tuple[str, str]] = []
        """Names and values that texts must not repeat."""
        self._has_unknown_secrets = False
        """Whether texts may repeat values that are not among these."""
        try:
            self._take_request(request.target.partition(b"?")[2])
        except TooManyParameters:
            self._has_unknown_secrets = True

    @property
    def is_for_metadata(self) -> bool:
        """Whether the exchange requests metadata of an authorization, which is public."""
        return self._leg in _METADATA and self._request.method == b"GET"

    @property
    def is_of_browser(self) -> bool:
        """Whether the exchange is a step of a login in a browser, which may lead through pages on other hosts."""
        return self._leg in _BROWSER_LEGS

    def is_private(self, *, is_request_open: bool) -> bool:
        """Returns whether the bodies must not be stored; at a usual path, also while the request is not understood."""
        is_leg = self._leg is not None and not self.is_for_metadata
        return is_leg or (self._usual is not None and (is_request_open or self._has_unknown_secrets))

    def read_extras(self) -> None:
        """Note that the request has trailers or chunk extensions, which may hold values, too."""
        self._has_unknown_secrets = True

    def read_request(self, body: bytes | None, media_type: bytes) -> None:
        """Read the body of the request, decoded; None if it is incomplete or cannot be decoded."""
        is_known = body is not None and len(body) <= MAX_CONTENT_BYTES and self._is_understood(body, media_type)
        self._has_unknown_secrets = self._has_unknown_secrets or not is_known

    def _is_understood(self, body: bytes, media_type: bytes) -> bool:
        """Read the parameters of a request body if it is a form or JSON; returns whether it is."""
        try:
            document = document_of(body)
            if document is not None:
                self._take_parameters(document if isinstance(document, dict) else {})
                self._note_secrets(texts_of(body))
            elif media_type in (FORM, b""):
                self._take_request(body)
            else:
                return False
        except TooManyParameters:
            return False
        return True

    def read_response_head(self, head: ResponseHead) -> None:
        """Read the head of the response."""
        self._status = head.status
        locations = head.headers.values_of(b"location") if head.status in _REDIRECTS else []
        self._response_fields = [field for field in head.headers if not locations or field[0].lower() != b"location"]
        try:
            for location in reversed(locations):  # the first one counts
                self._redirected_to, pairs = split_redirect(location)
                self._note_secrets(pairs)
                self._has_unknown_secrets = self._has_unknown_secrets or is_ambiguous(location)
                self._redirect = dict(reversed(pairs))
        except TooManyParameters:
            self._has_unknown_secrets = True

    @property
    def is_sent_back(self) -> bool:
        """Whether the response sends the browser back to the client, with a code or an error."""
        return "state" in self._redirect and ("code" in self._redirect or "error" in self._redirect)

    def read_response(self, body: bytes) -> None:
        """Read the body of the response, decoded and complete."""
        document = document_of(body) if len(body) <= MAX_CONTENT_BYTES else None
        if not isinstance(document, dict):
            return
        self._received = document
        try:
            self._note_secrets(texts_of(body))
        except TooManyParameters:
            self._has_unknown_secrets = True

    def _take_request(self, query_or_form: bytes) -> None:
        pairs = pairs_of(query_or_form)
        self._has_unknown_secrets = self._has_unknown_secrets or is_ambiguous(query_or_form)
        self._take_parameters(dict(reversed(pairs)))  # the first of several counts
        self._note_secrets(pairs)

    def _take_parameters(self, parameters: Mapping[str, Any]) -> None:
        self._sent = {**parameters, **self._sent}
        if self._usual is not None and is_proven(self._usual, self._sent):
            self._leg, self._usual = self._usual, None

    def _note_secrets(self, pairs: list[tuple[str, str]]) -> None:
        self._secrets += _secrets_among(pairs)
        _check_amount(self._secrets)

    @property
    def leg(self) -> Leg | None:
        """The leg that the exchange is, as far as has been read; None if it has nothing to do with an authorization."""
        if self._request.method not in _METHODS:
            return None
        # A page of a login, which sends the browser back to the client, is a part of `authorize`.
        return self._leg or ("authorize" if self.is_sent_back else None)

    def member(self, hashed: HashSecret | None, clean: CleanAddress) -> dict[str, Any] | None:
        """Returns the member `oauth`, or None if the exchange has nothing to do with an authorization.

        Args:
            hashed: returns the keyed hash of a secret; None to keep texts and ids as they are.
            clean: returns an address without secrets.
        """
        if self._request.method not in _METHODS:
            return None
        leg = self.leg
        facts = _facts(self._sent, _REQUESTED.get(leg, ())) if leg else {}
        if leg in ("authorize", "callback"):
            facts |= _facts(self._redirect, (*OAUTH_MEMBERS, "iss"))
            facts["has_code"] = "code" in self._redirect or (leg == "callback" and "code" in self._sent)
            if self.is_sent_back:
                facts.setdefault("redirect_uri", self._redirected_to)
        if self._status >= _FAILURE:
            facts |= _facts(self._received, OAUTH_MEMBERS)
        elif leg is not None:
            facts |= _facts(self._received, _ANSWERED.get(leg, ()))
        if leg in _REQUESTED and "client_id" not in facts:
            facts["client_id"] = basic_client(self._request.headers)
        if leg is None and not isinstance(facts.get("error"), str):
            return None
        return oauth_member(leg, facts, self._cleaner(hashed, clean), hashed, clean)

    def _cleaner(self, hashed: HashSecret | None, clean: CleanAddress) -> TextCleaner | None:
        """Returns a cleaner that removes what the exchange contains elsewhere, or None if that is not fully known."""
        if self._has_unknown_secrets:
            return None
        # As parameters of a target, they are found in all their spellings.
        target = with_secrets(self._request.target.partition(b"?")[0], self._secrets)
        # Every value that a head does not show is secret here, whichever of the two heads it is in.
        heads = Fields((*self._request.headers, *self._response_fields))
        return TextCleaner(target, heads, Fields(), hashed, clean)


def secrets_of_form(body: bytes) -> list[tuple[str, str]] | None:
    """Returns the names and values that texts must not repeat of a form; None if it is not understood."""
    try:
        secrets = _secrets_among(pairs_of(body)) if len(body) <= MAX_CONTENT_BYTES and not is_ambiguous(body) else None
        _check_amount(secrets or [])
    except TooManyParameters:
        return None
    return secrets


def with_secrets(target: bytes, secrets: list[tuple[str, str]]) -> bytes:
    """Returns a target with more parameters, in which a `TextCleaner` finds all their spellings."""
    if not secrets:
        return target
    return target + (b"&" if b"?" in target else b"?") + urlencode(secrets, quote_via=quote).encode()


def _secrets_among(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    secrets = list[tuple[str, str]]()
    for name, value in pairs:
        if name in SECRET_MEMBERS:
            secrets.append(("secret", value))  # the name tells the cleaner to look for short ones, too
        elif name not in _IN_TEXTS:
            secrets.append((name, value))
    # A name may be a secret itself.
    return secrets + [("", name) for name in dict.fromkeys(name for name, _ in pairs) if name not in _KNOWN_NAMES]


def _check_amount(secrets: list[tuple[str, str]]) -> None:
    """Raise `TooManyParameters` if searching texts for these values would take too long."""
    if len(secrets) > MAX_PARAMETERS or sum(len(value) for _, value in secrets) > MAX_SECRET_CHARS:
        raise TooManyParameters


def _facts(parameters: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the named parameters by the names of their members: of a list of addresses the first, of words all."""
    facts: dict[str, Any] = {}
    for name in names:
        value = parameters.get(name)
        if isinstance(value, list):
            texts = [text for text in value if isinstance(text, str)]
            value = " ".join(texts if name in ("grant_types", "response_types") else texts[:1])
        if value is not None:
            facts[_MEMBER_NAMES.get(name, name)] = value
    return facts
