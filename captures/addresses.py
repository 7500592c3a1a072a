"""Removes secrets from URLs: keeps the host and harmless parts in plain text, and hashes all that could grant access.

Many hosted servers authenticate by a token in the path or the query. So a path segment is kept only if it is on a short
list of common words; every other segment becomes a keyed hash. In a query, parameter names that look ordinary are kept,
and so are the values of the few OAuth parameters (RFC 6749, RFC 8707) that contain no secret; addresses inside these
values are cleaned in the same way. Equal segments get equal hashes, so addresses can still be compared.

An MCP client waits for its server while this module loads, so it uses neither `re` nor `urllib`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Hash = Callable[[bytes], str]
    """Returns the replacement for a secret."""

KEPT_SEGMENTS: Final = frozenset(
    # transports
    b"mcp sse message messages api rpc jsonrpc json-rpc stream streamable http stdio events ws rest public "
    b"server servers "
    # OAuth, OpenID Connect, and documents that describe a server (RFC 8414, RFC 8615, RFC 9728)
    b".well-known oauth-protected-resource oauth-authorization-server openid-configuration oauth oauth2 oidc auth "
    b"authorize authorization token register registration revoke revocation introspect userinfo logout login "
    b"callback redirect "
    b"consent device device_authorization jwks jwks.json cb connect openid-connect protocol realms default".split()
)
"""Path segments that name the kind of endpoint and are too common to be secret."""

KEPT_VALUES: Final = {
    b"response_type": frozenset({b"code", b"token", b"id_token", b"none"}),
    b"code_challenge_method": frozenset({b"S256", b"plain"}),
    b"grant_type": frozenset(
        {
            b"authorization_code",
            b"refresh_token",
            b"client_credentials",
            b"password",
            b"urn:ietf:params:oauth:grant-type:device_code",
            b"urn:ietf:params:oauth:grant-type:jwt-bearer",
            b"urn:ietf:params:oauth:grant-type:token-exchange",
        }
    ),
}
_ADDRESS_PARAMETERS: Final = frozenset({b"resource", b"redirect_uri"})
_SCOPE_PARAMETERS: Final = frozenset({b"scope"})
_MAX_NESTED_ADDRESSES: Final = 2
"""The most levels of addresses within addresses that are examined."""
_MAX_WORD_BYTES: Final = 40
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS: Final = b"0123456789"
_HOST_NAME_BYTES: Final = frozenset(_LETTERS + _DIGITS + b".-_")
_IPV6_BYTES: Final = frozenset(b"0123456789abcdefABCDEF:.")
_WEB_SCHEMES: Final = frozenset({b"http", b"https", b"ws", b"wss"})
_BYTE_BY_HEX: Final = {b"%02x" % value: bytes([value]) for value in range(256)}


def is_segment(text: str) -> bool:
    """Whether a text can be a segment of a path; a leading hyphen suggests that the value of an option is missing."""
    return bool(text) and not text.startswith("-") and set(text).isdisjoint("/?#")


def clean_address(text: bytes, hash_secret: Hash, kept_segments: frozenset[bytes] = frozenset(), depth: int = 0) -> str:
    """Returns an absolute or relative URL, with hashes in place of anything that could be secret.

    Args:
        text: the URL, or a request's target (RFC 9112 §3.2), as sent.
        hash_secret: returns the hash of a secret.
        kept_segments: segments that the user wants to keep in addition to `KEPT_SEGMENTS`.
        depth: how many addresses this address is nested in.
    """
    remainder, hash_sign, fragment = text.partition(b"#")
    remainder, question_mark, query = remainder.partition(b"?")
    scheme, separator, path = remainder.partition(b"://")
    if separator and _is_plain(scheme, b"+.-"):
        authority, slash, path = path.partition(b"/")
        is_web = scheme.lower() in _WEB_SCHEMES
        prefix = f"{scheme.decode()}://{_clean_authority(authority, hash_secret, is_web=is_web)}{'/' if slash else ''}"
    else:
        prefix, path = "", remainder
    segments = [_clean_segment(segment, hash_secret, kept_segments) for segment in path.split(b"/")]
    if not prefix and segments[0].partition(":")[2]:
        prefix = (
            "./"  # a relative reference with a colon in its first segment would begin with a scheme (RFC 3986 §4.2)
        )
    result = prefix + "/".join(segments) + ("?" if question_mark else "")
    result += "&".join([_clean_parameter(word, hash_secret, kept_segments, depth) for word in query.split(b"&")])
    return result + (f"#{hash_secret(fragment) if fragment else ''}" if hash_sign else "")


def is_web_address(word: bytes) -> bool:
    """Whether a word is exactly one HTTP or WebSocket URL."""
    scheme, separator, remainder = word.partition(b"://")
    return bool(separator and remainder) and scheme.lower() in _WEB_SCHEMES and not remainder[:1].isspace()


def escaped_text(raw: bytes) -> str:
    r"""Returns an address, a header or a word of a command as text; bytes that are not UTF-8 become `\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def parameter_name(word: bytes) -> bytes | None:
    """Returns the name in `name=value`, or None if the name itself, or the word as a whole, may be a secret."""
    name, equals_sign, value = word.partition(b"=")
    # A word without a name may itself be a secret, and the padding of base64 looks like an empty value.
    if not equals_sign or not _is_plain(name, b"_.-") or (not value.strip(b"=") and (value or not name.islower())):
        return None
    return name


def _clean_authority(authority: bytes, hash_secret: Hash, *, is_web: bool) -> str:
    """Returns user, host and port, with hashes. Under an application's own scheme, the host part can be anything."""
    user, at_sign, host = authority.rpartition(b"@")
    host_text = host.decode() if not host or (is_web and _is_host(host)) else hash_secret(host)
    return (hash_secret(user) + "@" if at_sign else "") + host_text


def _is_host(host: bytes) -> bool:
    """Whether a text is a host name or an address, perhaps with a port (RFC 3986 §3.2.2)."""
    if host.startswith(b"["):
        name, _, port = host[1:].partition(b"]")
        is_name = b":" in name and _IPV6_BYTES.issuperset(name)
        port = port.removeprefix(b":") or b"0"
    else:
        name, _, port = host.partition(b":")
        is_name, port = _HOST_NAME_BYTES.issuperset(name), port or b"0"
    return is_name and len(name) <= 255 and port.isdigit() and len(port) <= 5


def _clean_segment(segment: bytes, hash_secret: Hash, kept_segments: frozenset[bytes]) -> str:
    if (
        segment in (b"", b".", b"..", b"*")
        or segment.lower() in KEPT_SEGMENTS
        or segment in kept_segments
        or _is_version(segment)
    ):
        return escaped_text(segment)
    return hash_secret(segment)


def _is_version(segment: bytes) -> bool:
    """Whether a segment is `v1`, `v2.1` or the like, or a revision of the protocol such as `2025-11-25`."""
    if segment[:1] in (b"v", b"V"):
        return 2 <= len(segment) <= 6 and not segment[1:].strip(b".0123456789")
    return (
        len(segment) == 10
        and segment[:2] == b"20"
        and segment[4:5] == segment[7:8] == b"-"
        and (segment.replace(b"-", b"").isdigit())
    )


def _clean_parameter(word: bytes, hash_secret: Hash, kept_segments: frozenset[bytes], depth: int) -> str:
    if not word:
        return ""
    name = parameter_name(word)
    if name is None:
        return hash_secret(word)
    value = word[len(name) + 1 :]
    return f"{escaped_text(name)}={_clean_value(name, value, hash_secret, kept_segments, depth) if value else ''}"


def _clean_value(name: bytes, value: bytes, hash_secret: Hash, kept_segments: frozenset[bytes], depth: int) -> str:
    unquoted = _unquote(value)
    if name in KEPT_VALUES:
        words = unquoted.replace(b"+", b" ").split(b" ")
        return escaped_text(value) if all(word in KEPT_VALUES[name] for word in words) else hash_secret(value)
    if name in _ADDRESS_PARAMETERS and b"://" in unquoted and depth < _MAX_NESTED_ADDRESSES:
        return _quote(clean_address(unquoted, hash_secret, kept_segments, depth + 1))
    if name in _SCOPE_PARAMETERS:
        words = unquoted.replace(b"+", b" ").split(b" ")
        return "+".join([_quote(_clean_scope(word, hash_secret, kept_segments, depth)) for word in words])
    return hash_secret(value)


def _clean_scope(word: bytes, hash_secret: Hash, kept_segments: frozenset[bytes], depth: int) -> str:
    if b"://" in word:
        return (
            clean_address(word, hash_secret, kept_segments, depth + 1)
            if depth < _MAX_NESTED_ADDRESSES
            else hash_secret(word)
        )
    return escaped_text(word) if not word or _is_plain(word, b"_.-:/*") else hash_secret(word)


def _is_plain(word: bytes, marks: bytes) -> bool:
    """Whether a word looks like a name: short, of letters and these marks, with at most two digits at its end."""
    stem = word.rstrip(_DIGITS)
    return (
        bool(stem)
        and len(word) <= _MAX_WORD_BYTES
        and len(word) - len(stem) <= 2
        and stem[:1].isalpha()
        and not stem.translate(None, _LETTERS + marks)
    )


def _unquote(text: bytes) -> bytes:
    first, *escapes = text.split(b"%")
    return first + b"".join([_BYTE_BY_HEX.get(part[:2].lower(), b"%" + part[:2]) + part[2:] for part in escapes])


def _quote(text: str) -> str:
    """Returns a text quoted as a single query value."""
    for sign in "%&#+ ":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text
