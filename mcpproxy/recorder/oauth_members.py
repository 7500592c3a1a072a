"""Makes the member `oauth` of a record: named facts about a leg of an authorization, without any secret."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from captures.addresses import KEPT_VALUES
from mcpproxy.recorder.header_redaction import MAX_DOCUMENT_DEPTH, CleanAddress, HashSecret, challenge_parameters
from mcpproxy.recorder.oauth_legs import Leg
from mcpproxy.recorder.response_text import MAX_OAUTH_MEMBER_CHARS, OAUTH_MEMBERS, TextCleaner, is_trivial, value_hash
from mcpproxy.wire.response import ResponseHead

MAX_EXPIRES_IN_S: Final = 1 << 53
"""The longest lifetime that is kept: the largest integer that every JSON parser reads exactly."""
_TEXTS: Final = (
    "grant_type",
    "response_type",
    "error",
    "error_description",
    "scope",
    "code_challenge_method",
    "token_type",
)
_KNOWN: Final = {name.decode(): {value.decode() for value in values} for name, values in KEPT_VALUES.items()}
"""The values that are kept even if it is not known what is secret in their exchange."""
_ADDRESSES: Final = ("resource", "iss", "as_server")
_ORDER: Final = (*_TEXTS, "error_uri", *_ADDRESSES, "client_id", "redirect_uri", "expires_in", "has_code")
_REFUSALS: Final = frozenset({401, 403})
_IN_CHALLENGES: Final = frozenset({*OAUTH_MEMBERS, "scope"})
SECRET_MEMBERS: Final = frozenset(
    {"access_token", "refresh_token", "id_token", "token", "subject_token", "actor_token"}
    | {"registration_access_token", "registration_client_uri", "client_secret", "client_assertion", "assertion"}
    | {"code", "code_verifier", "device_code", "user_code", "state", "nonce", "password", "username", "email"}
)
"""Parameters, and members of documents, that belong to one client or user, and are stored nowhere."""
_SECRETS_OF_DOCUMENTS: Final = SECRET_MEMBERS | frozenset(
    ["api_key", "apikey", "private_key", "secret", "passwd", "password", "credential", "credentials", "jwt", "bearer"]
)
_PRIVATE_KEY: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""The members of a key in a JWKS that are not public (RFC 7518)."""
_LOOPBACK: Final = frozenset({"localhost", "::1"})


def oauth_member(
    leg: Leg | None,
    facts: Mapping[str, Any],
    cleaner: TextCleaner | None,
    hashed: HashSecret | None,
    clean: CleanAddress,
) -> dict[str, Any] | None:
    """Returns the member `oauth`, or None if nothing is known.

    Args:
        leg: the leg; None for an error elsewhere.
        facts: the values by the names of the members, as sent; values of other types than FORMAT.md names are left out.
        cleaner: removes credentials from texts; None to leave out all texts but known values.
        hashed: returns the keyed hash of a client id; None to keep it as it is.
        clean: returns an address without secrets.
    """
    sent = {name: value for name, value in facts.items() if isinstance(value, str) and value}
    kept: dict[str, Any] = {name: clean(_shortened(sent[name])) for name in _ADDRESSES if name in sent}
    kept |= {name: sent[name] for name, known in _KNOWN.items() if sent.get(name) in known}
    if cleaner is not None:
        kept |= cleaner.cleaned_texts({name: sent[name] for name in (*_TEXTS, "error_uri") if name in sent})
    if client := sent.get("client_id"):
        tagged = clean if hashed is None or client.startswith("https://") else hashed
        kept["client_id"] = tagged(_shortened(client))
    if "redirect_uri" in sent and (origin := _origin(sent["redirect_uri"])):
        kept["redirect_uri"] = clean(_shortened(origin))
    lifetime = facts.get("expires_in")
    if type(lifetime) is int and 0 <= lifetime <= MAX_EXPIRES_IN_S:
        kept["expires_in"] = lifetime
    if facts.get("has_code") is True:
        kept["has_code"] = True
    members: dict[str, Any] = {name: kept[name] for name in _ORDER if name in kept}
    return {"leg": leg, **members} if leg is not None else members or None


def challenge_member(
    response: ResponseHead, cleaner: TextCleaner | None, hashed: HashSecret | None, clean: CleanAddress
) -> dict[str, Any] | None:
    """Returns the member `oauth` where messages are expected: what a 401 or 403 asks for; None for other statuses.

    Args:
        response: the head of the response.
        cleaner: removes credentials from texts; None to leave out all texts.
        hashed: returns the keyed hash of a client id; None to keep it as it is.
        clean: returns an address without secrets.
    """
    if response.status not in _REFUSALS:
        return None
    facts: dict[str, str] = {}
    for value in response.headers.values_of(b"www-authenticate"):
        for name, text in challenge_parameters(value):
            if name in _IN_CHALLENGES:
                facts.setdefault(name, text)
    return oauth_member("challenge", facts, cleaner, hashed, clean)


def without_secret_members(
    value: Any, hashed: HashSecret, depth: int = 0, names: frozenset[str] = _SECRETS_OF_DOCUMENTS
) -> Any:
    """Returns a JSON document with keyed hashes in place of members that belong to one client or user.

    Args:
        value: the document, or a part of it.
        hashed: returns the keyed hash of a secret.
        depth: how deep in the document the part is.
        names: the names of these members, in lower case.
    """
    if depth > MAX_DOCUMENT_DEPTH:
        return None
    if isinstance(value, list):
        return [without_secret_members(item, hashed, depth + 1, names) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: value_hash(item, hashed)
        if name.lower() in names and not is_trivial(item)
        else without_secret_members(item, hashed, depth + 1, names | _PRIVATE_KEY if name == "keys" else names)
        for name, item in value.items()
    }


def _shortened(text: str) -> bytes:
    return text[:MAX_OAUTH_MEMBER_CHARS].encode("utf-8", "replace")


def _origin(address: str) -> str | None:
    """Returns scheme and host of an address, and its port if the host is this machine; None if it has no scheme."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    is_loopback = host in _LOOPBACK or host.startswith("127.")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port and is_loopback else ''}" if parts.scheme else None
